"""run_pretraining.py from shards to a model: what it writes, resumes, refuses and warns of."""

from __future__ import annotations

import json
import logging
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from toy import ENVIRONMENT

import prepare_lm_data
import run_pretraining
from callback.trainingmonitor import read_metrics
from model.modeling_albert import AlbertForPreTraining
from model.tokenization_albert import AlbertTokenizer
from pretraining_settings import PretrainingSettings
from processors.pretraining import PretrainingDataset
from processors.shards import Corpus
from tools.arguments import ArgumentError, read

ROOT = Path(__file__).resolve().parent.parent
NANO = {"embedding_size": 16, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 48, "max_position_embeddings": 48, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0, "initializer_range": 0.1}
TEXTS = {"tiny_en": "english/persuasion.txt", "tiny_zh": "chinese/tang_regulated_verse.txt"}


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the shards of a bit of prose and of poems, and the config of a tiny model."""
    folder = tmp_path_factory.mktemp("material")
    for kind, text in TEXTS.items():
        whole = (ROOT / "dataset" / text).read_text(encoding="utf-8")
        part = folder / f"{kind}.txt"
        lines = [line for line in whole[:60_000].splitlines()[:-1] if line]
        part.write_text("\n\n".join("\n".join(lines[at:at + 8])  # many documents to hold out from
                                    for at in range(0, len(lines), 8)) + "\n", encoding="utf-8")
        assert prepare_lm_data.main(
            ["--input", str(part), "--output_dir", str(folder / kind), "--tokenizer_dir",
             str(ROOT / "dataset" / kind), "--num_workers", "1", "--heldout_fraction", "0.1"]) == 0
    (folder / "nano.json").write_text(json.dumps(
        {"dialect": "albert_pytorch", "vocab_size": 4000, **NANO}))
    return folder


def flags(material: Path, output: Path, *more: str, kind: str = "tiny_en") -> list[str]:
    start = [] if "--model_path" in more else ["--config_name", str(material / "nano.json")]
    return ["--data_dir", str(material / kind), "--output_dir", str(output), *start,
            "--max_seq_length", "32", "--train_batch_size", "8", "--per_gpu_train_batch_size", "8",
            "--max_steps", "12", "--learning_rate", "2e-3", "--logging_steps", "4",
            "--num_eval_steps", "6", "--eval_instances", "30", "--save_steps", "6", "--no_cuda",
            *more]


def pretrained(material: Path, output: Path, *more: str, kind: str = "tiny_en",
               ) -> dict[str, torch.Tensor]:
    """The weights after a run."""
    assert run_pretraining.main(flags(material, output, *more, kind=kind)) == 0
    return load_file(output / "model.safetensors")


@pytest.fixture(scope="module")
def whole(material: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    pretrained(material, folder)
    return folder


def difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


# ---- what a run leaves behind --------------------------------------------------------------------


def test_a_run_leaves_a_model_curves_and_a_report(whole: Path) -> None:
    assert AlbertForPreTraining.from_pretrained(whole).load_report.new == []
    assert AlbertTokenizer.from_pretrained(whole).vocab_size == 4000
    assert [p.name for p in sorted(whole.glob("checkpoint-*"))] == ["checkpoint-12",
                                                                    "checkpoint-6"]
    assert (whole / "curves.png").stat().st_size > 5_000 and any((whole / "tensorboard").iterdir())
    report = (whole / "training_report.md").read_text(encoding="utf-8")
    last = json.loads((whole / "eval_results.json").read_text(encoding="utf-8"))
    for text in ("12, of these 0 skipped", "fingerprint", "tokens a second", "MFU", "most memory",
                 '"learning_rate": "2e-3"', f"| mlm_accuracy | {last['mlm_accuracy']:.4f} |"):
        assert text in report, text
    assert last["perplexity"] == pytest.approx(math.exp(last["mlm_loss"]))


def test_row_27_logs_and_evaluates_once_a_step_under_accumulation(material, tmp_path) -> None:
    pretrained(material, tmp_path, "--gradient_accumulation_steps", "4", "--logging_steps", "5")
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert [line["step"] for line in lines if line["kind"] == "train"] == [5, 10, 12]
    assert [line["step"] for line in lines if line["kind"] == "eval"] == [6, 12]


def test_parts_of_a_batch_sum_to_the_batch(material, whole, tmp_path) -> None:
    parts = pretrained(material, tmp_path, "--gradient_accumulation_steps", "4")
    assert difference(parts, load_file(whole / "model.safetensors")) < 1e-5


@pytest.mark.parametrize("kind", list(TEXTS))
def test_row_23_english_and_chinese_learn(material: Path, tmp_path: Path, kind: str) -> None:
    pretrained(material, tmp_path, "--max_steps", "60", "--optimizer", "adamw_torch", "--no_sop",
               "--learning_rate", "1e-2", kind=kind)
    first, *_, last = [line["mlm_loss"] for line in read_metrics(tmp_path / "metrics.jsonl")
                       if line["kind"] == "eval"]
    assert last < first - 0.5


def test_row_24_order_can_be_left_out_or_weighed(material, whole, tmp_path) -> None:
    pretrained(material, tmp_path / "off", "--no_sop")
    evaluated = [line for line in read_metrics(tmp_path / "off" / "metrics.jsonl")
                 if line["kind"] == "eval"]
    assert evaluated and not any("sop_accuracy" in line for line in evaluated)
    light = pretrained(material, tmp_path / "light", "--sop_weight", "0.0",
                       "--weight_decay", "0.0")
    head = "cls.seq_relationship.weight"
    start = pretrained(material, tmp_path / "one", "--max_steps", "1", "--sop_weight", "0.0",
                       "--weight_decay", "0.0", "--learning_rate", "1e-9")[head]
    assert float((load_file(whole / "model.safetensors")[head] - start).abs().max()) > 3e-4
    assert float((light[head] - start).abs().max()) < 1e-4


# ---- stops and restarts --------------------------------------------------------------------------


def wait_for(path: Path, process: subprocess.Popen, seconds: float = 300.0) -> None:
    until = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < until
        time.sleep(0.02)


def test_row_25_a_killed_run_goes_on_to_the_same_bits_and_to_two_ranks(material, tmp_path) -> None:
    longer = ("--max_steps", "160", "--save_steps", "10", "--num_eval_steps", "160",
              "--logging_steps", "5")
    killed = subprocess.Popen(
        [sys.executable, ROOT / "run_pretraining.py", *flags(material, tmp_path / "a", *longer)],
        cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE)
    try:
        wait_for(tmp_path / "a" / "checkpoint-20", killed)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    unbroken = pretrained(material, tmp_path / "whole", *longer)
    (tmp_path / "b").mkdir()
    saved = sorted(tmp_path.glob("a/checkpoint-*"), key=lambda p: int(p.name.split("-")[1]))[0]
    subprocess.run(["cp", "-r", saved, tmp_path / "b"], check=True)
    assert difference(pretrained(material, tmp_path / "a", *longer, "--resume"), unbroken) == 0.0

    if not torch.distributed.is_gloo_available():
        pytest.skip("this build of torch has no gloo")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2",
               ROOT / "run_pretraining.py", *flags(material, tmp_path / "b", *longer, "--resume")]
    ended = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert f"resuming {tmp_path}/b/{saved.name}" in ended.stderr
    curves = [[line["loss"] for line in read_metrics(tmp_path / name / "metrics.jsonl")
               if line["kind"] == "train" and line["step"] > int(saved.name.split("-")[1])]
              for name in ("b", "whole")]
    assert len(curves[0]) == len(curves[1]) > 10
    assert max(abs(a - b) for a, b in zip(*curves, strict=True)) < 1e-5


def test_row_25_resume_without_a_checkpoint_or_its_optimizer_starts_clean(
        material, whole, tmp_path, caplog) -> None:
    caplog.set_level(logging.INFO)
    fresh = pretrained(material, tmp_path / "fresh", "--resume")
    assert "no checkpoint" in caplog.text and "step 0" in caplog.text
    assert difference(fresh, load_file(whole / "model.safetensors")) == 0.0
    converted = tmp_path / "converted" / "checkpoint-6"
    AlbertForPreTraining.from_pretrained(whole).save_pretrained(
        converted, AlbertTokenizer.from_pretrained(whole))
    pretrained(material, tmp_path / "converted", "--resume")
    assert "holds no training state" in caplog.text
    assert read_metrics(tmp_path / "converted" / "metrics.jsonl")[0]["step"] == 4


def test_a_run_with_other_settings_is_not_gone_on_with(material, whole, tmp_path, capsys) -> None:
    subprocess.run(["cp", "-r", whole, tmp_path / "run"], check=True)
    capsys.readouterr()
    assert run_pretraining.main(flags(material, tmp_path / "run", "--resume", "--learning_rate",
                                      "1e-3")) == 1
    told = capsys.readouterr().err
    assert "learning_rate: checkpoint 0.002, this run 0.001" in told


# ---- what is said and refused --------------------------------------------------------------------


def test_row_22_shards_of_another_tokenizer_or_a_longer_length(material, tmp_path, capsys) -> None:
    mixed = tmp_path / "mixed"
    subprocess.run(["cp", "-r", material / "tiny_en", mixed], check=True)
    (mixed / "spiece.model").write_bytes(
        (ROOT / "tests/fixtures/tokenizer_english/spiece.model").read_bytes())
    for wrong, told in ((["--data_dir", str(mixed)], "fingerprint"),
                        (["--max_seq_length", "64"], "positions for 48")):
        assert run_pretraining.main(flags(material, tmp_path / "out", *wrong)) == 1
        message = capsys.readouterr().err
        assert message.count("error:") == 1 and told in message
    assert not (tmp_path / "out").exists()


def test_row_26_a_step_that_is_not_finite_is_skipped_and_counted(material, tmp_path, monkeypatch,
                                                                 caplog) -> None:
    forward, calls = AlbertForPreTraining.forward, []

    def broken_once(self, *args, **kwargs):
        output = forward(self, *args, **kwargs)
        if self.training:
            calls.append(None)
            if len(calls) == 4:
                output.loss = output.loss * math.nan
        return output

    monkeypatch.setattr(AlbertForPreTraining, "forward", broken_once)
    weights = pretrained(material, tmp_path)
    assert all(bool(value.isfinite().all()) for value in weights.values())
    assert "1 in a row, 1 in all" in caplog.text
    assert "12, of these 1 skipped" in (tmp_path / "training_report.md").read_text()


def test_row_28_going_on_from_a_model_is_gentle(material, whole, tmp_path) -> None:
    settings = read(PretrainingSettings, "", [
        "--data_dir", "x", "--output_dir", str(tmp_path), "--model_path", str(whole),
        "--max_steps", "1000"])
    assert settings.rate == 5e-5 and settings.warmup_steps(1000) == 100
    fresh = read(PretrainingSettings, "", ["--data_dir", "x", "--output_dir", str(tmp_path),
                                           "--config_name", "base_v2"])
    assert fresh.rate == 0.00176 and fresh.warmup_steps(125_000) == 3125
    assert read(PretrainingSettings, "", [
        "--data_dir", "x", "--output_dir", str(tmp_path), "--config_name", "base_v2",
        "--train_batch_size", "1024"]).rate == 0.00088
    before = load_file(whole / "model.safetensors")
    after = pretrained(material, tmp_path / "on", "--model_path", str(whole),
                       "--learning_rate", "auto", "--optimizer", "adamw_torch")
    assert 0 < difference(before, after) < 12 * 5e-5 * 3
    last = read_metrics(tmp_path / "on" / "metrics.jsonl")[-1]
    assert {"mlm_loss", "mlm_accuracy", "sop_accuracy"} <= last.keys()


def test_row_29_a_run_that_does_not_learn_is_told(material, tmp_path, caplog) -> None:
    pretrained(material, tmp_path, "--learning_rate", "1e-9", "--not_learning_steps", "6")
    [warning] = [r.message for r in caplog.records if "not learning" in r.message]
    assert "after 6 steps: mlm_accuracy" in warning and "Check the learning rate" in warning


def test_row_31_the_longest_batch_is_tried_first(material, tmp_path, monkeypatch, caplog) -> None:
    caplog.set_level(logging.INFO)
    pretrained(material, tmp_path / "a")
    assert "the longest micro-batch, 8 x 32 tokens, fits" in caplog.text

    def too_large(self, *args, **kwargs):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(AlbertForPreTraining, "forward", too_large)
    assert run_pretraining.main(flags(material, tmp_path / "b")) == 1
    assert not list((tmp_path / "b").glob("checkpoint-*"))


def test_row_32_activation_checkpointing_changes_no_number(material, whole, tmp_path) -> None:
    weights = pretrained(material, tmp_path, "--activation_checkpointing")
    assert difference(weights, load_file(whole / "model.safetensors")) < 1e-6


def test_epochs_and_the_predecessors_flags(material, tmp_path) -> None:
    pretrained(material, tmp_path, "--epochs", "0.5")
    corpus = Corpus(material / "tiny_en")
    data = PretrainingDataset(corpus, AlbertTokenizer.from_pretrained(material / "tiny_en"), 32)
    steps = math.ceil(0.5 * math.ceil(len(data) / 8))
    assert f"| steps | {steps}, of these" in (tmp_path / "training_report.md").read_text()
    old = ["--config_path", "base_v1", "--epochs", "4", "--train_batch_size", "64",
           "--gradient_accumulation_steps", "2", "--num_eval_steps", "2000", "--num_save_steps",
           "2000", "--max_len", "128", "--do_lower_case", "--reduce_memory", "--file_num", "10",
           "--data_name", "albert", "--loss_scale", "0", "--fp16_opt_level", "O2", "--fp16",
           "--local_rank", "-1", "--warmup_proportion", "0.1", "--adam_epsilon", "1e-6",
           "--max_grad_norm", "1.0", "--learning_rate", "0.000176", "--seed", "42", "--no_cuda"]
    settings = read(PretrainingSettings, "", ["--data_dir", "x", "--output_dir", "y", *old])
    assert settings.micro_batch_size(1) == 32 and settings.micro_batch_size(2) == 16
    assert settings.autocast == "fp16" and settings.max_seq_length == 128


@pytest.mark.parametrize("wrong", [
    ["--learning_rate", "-1"], ["--max_steps", "0"], ["--warmup_proportion", "1.5"],
    ["--masked_lm_prob", "0"], ["--model_path", "x", "--config_name", "base_v2"],
    ["--local_rank", "0"], ["--resume", "--overwrite_output_dir"], ["--dupe_factor", "3"]])
def test_wrong_flags_are_told_before_any_work(material, tmp_path, wrong) -> None:
    with pytest.raises(ArgumentError, match=wrong[0] if wrong[0] != "--model_path" else "one of"):
        read(PretrainingSettings, "", flags(material, tmp_path, *wrong))
