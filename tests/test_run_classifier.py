"""Fine-tuning end to end on tiny models and data sets: what comes out, and what is refused."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import finetuning
from callback import distributed
from convert_albert_tf_checkpoint_to_pytorch import main as convert
from finetuning_settings import rate_advice, table
from metrics.classification import score
from model.configuration_albert import AlbertConfig
from model.modeling_albert import AlbertForPreTraining, AlbertForSequenceClassification
from model.tokenization_albert import WordPieceTokenizer
from run_classifier import ClassifierSettings, main, read

ROOT = Path(__file__).resolve().parent.parent
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "the", "a", "very",
         "rain", "wet", "dry", "is", "it", "."]
GOOD, BAD = "the film is very good .", "the film is very bad ."


def write(path: Path, rows: list[str]) -> Path:
    """Rows with | for a tab."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(row.replace("|", "\t") + "\n" for row in rows), encoding="utf-8")
    return path


def tiny_config(**changes) -> AlbertConfig:
    return AlbertConfig(**{
        "vocab_size": len(WORDS), "embedding_size": 8, "hidden_size": 12, "num_hidden_layers": 2,
        "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 32,
    } | changes)


@pytest.fixture(autouse=True)
def quiet(request, monkeypatch):
    """Runs in this process leave handlers on the root logger: take them off. One test draws."""
    before = list(logging.getLogger().handlers)
    if request.function is not test_one_step_leaves_a_model_scores_and_predictions:
        monkeypatch.setattr("callback.trainingmonitor.draw_curves", lambda lines, path: None)
    yield
    for handler in [h for h in logging.getLogger().handlers if h not in before]:
        logging.getLogger().removeHandler(handler)
        handler.close()


def pretrained(folder: Path, **changes) -> Path:
    """A model directory without a classifier."""
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    torch.manual_seed(0)
    AlbertForPreTraining(tiny_config(**changes)).save_pretrained(
        folder, WordPieceTokenizer(folder / "vocab.txt"))
    return folder


@pytest.fixture
def model(tmp_path) -> Path:
    return pretrained(tmp_path / "model", initializer_range=0.2)  # learns within a few steps


@pytest.fixture
def sst2(tmp_path) -> Path:
    folder = tmp_path / "SST-2"
    write(folder / "train.tsv", ["sentence|label", *[f"{GOOD}|1", f"{BAD}|0"] * 10])
    write(folder / "dev.tsv", ["sentence|label", f"{GOOD}|1", f"{BAD}|0", f"a {GOOD}|1"])
    write(folder / "test.tsv", ["index|sentence", f"0|{GOOD}", f"1|{BAD}"])
    return folder


def flags(task: str, data: Path, model: Path | None, out: Path, *more: str) -> list[str]:
    start = ["--model_name_or_path", str(model)] if model else []
    return ["--task_name", task, "--data_dir", str(data), "--output_dir", str(out), *start,
            "--no_cuda", "--per_gpu_train_batch_size", "4", "--learning_rate", "1e-3", *more]


def run(*arguments: str) -> dict:
    assert main(arguments) == 0
    out = Path(arguments[arguments.index("--output_dir") + 1])
    return json.loads((out / "eval_results.json").read_text(encoding="utf-8"))


def refused(capsys, *arguments: str) -> str:
    """The one message of a run that does not start."""
    capsys.readouterr()
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = stopped.code
    message = capsys.readouterr().err
    assert code in (1, 2) and "error: " in message and "Traceback" not in message
    return message[message.index("error: "):]


# ---- what comes out ----------------------------------------------------------------------------


def test_one_step_leaves_a_model_scores_and_predictions(model, sst2, tmp_path, capsys):
    out = tmp_path / "out"
    results = run(*flags("SST-2", sst2, model, out, "--do_train", "--do_eval", "--do_predict",
                         "--max_steps", "1"))
    assert results["task"] == "sst-2" and results["steps"] == 1
    assert results["dev"]["sst-2"]["baseline"] == {"accuracy": pytest.approx(2 / 3)}
    lines = (out / "predictions" / "SST-2.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction" and [line[:2] for line in lines[1:]] == ["0\t", "1\t"]
    config = AlbertConfig.from_pretrained(out)
    assert config.id2label == ["0", "1"] and config.problem_type == "classification"
    assert (out / "vocab.txt").is_file() and (out / "curves.png").is_file()
    text = (out / "eval_results.txt").read_text()
    assert text.startswith("sst-2 dev accuracy = ")
    shown = capsys.readouterr().out
    assert 'the guess is always "1"' in shown and "2 predictions in" in shown


def test_row_39_sts_b_is_a_number_end_to_end(model, tmp_path):
    header = "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2"
    row = f"0|g|f|2012|1|x|y|{GOOD}|{GOOD}"
    data = tmp_path / "STS-B"
    write(data / "train.tsv", [f"{header}|score", f"{row}|3.8", f"{row}|1.2"])
    write(data / "dev.tsv", [f"{header}|score", f"{row}|3.8", f"{row}|1.25", f"{row}|0"])
    write(data / "test.tsv", [header, row])
    out = tmp_path / "out"
    results = run(*flags("stsb", data, model, out, "--do_train", "--do_eval", "--do_predict",
                         "--max_steps", "2"))
    scores = results["dev"]["sts-b"]
    assert scores["main"] == "pearson_and_spearman"
    assert scores["baseline_guess"] == "always 1.68"
    assert AlbertConfig.from_pretrained(out).is_regression
    guid, value = (out / "predictions" / "STS-B.tsv").read_text().splitlines()[1].split("\t")
    assert guid == "0" and 0 <= float(value) <= 5 and len(value.split(".")[1]) == 3


NLI = ("index|promptID|pairID|genre|sentence1_binary_parse|sentence2_binary_parse|sentence1_parse|"
       "sentence2_parse|sentence1|sentence2")


def mnli(folder: Path) -> Path:
    row = "0|1|2|g|a|b|c|d|it is rain|it is wet"
    labelled = [f"{NLI}|label1|gold_label", f"{row}|x|entailment", f"{row}|x|neutral",
                f"{row}|x|contradiction", f"{row}|x|neutral"]
    write(folder / "train.tsv", labelled)
    write(folder / "dev_matched.tsv", labelled)
    write(folder / "dev_mismatched.tsv", labelled[:3])
    write(folder / "test_matched.tsv", [NLI, row])
    write(folder / "test_mismatched.tsv", [NLI, row, row])
    write(folder / "diagnostic.tsv", ["index|sentence1|sentence2", "7|it is rain|it is wet"])
    return folder


def test_row_38_mnli_has_two_results_under_two_names(model, tmp_path):
    out = tmp_path / "out"
    results = run(*flags("mnli", mnli(tmp_path / "MNLI"), model, out, "--do_train", "--do_eval",
                         "--do_predict", "--max_steps", "2"))
    counts = {name: scores["examples"] for name, scores in results["dev"].items()}
    assert counts == {"mnli-m": 4, "mnli-mm": 2}
    logged = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert {"mnli-m/accuracy", "mnli-mm/accuracy", "mnli-mm/loss"} <= set(logged[-1])
    sizes = {p.name: len(p.read_text().splitlines()) for p in (out / "predictions").iterdir()}
    assert sizes == {"MNLI-m.tsv": 2, "MNLI-mm.tsv": 3, "AX.tsv": 2}
    assert AlbertConfig.from_pretrained(out).id2label == ["contradiction", "entailment", "neutral"]
    again = run(*flags("ax", tmp_path / "MNLI", out, tmp_path / "ax", "--do_predict"))
    assert again["task"] == "ax" and "dev" not in again
    assert (tmp_path / "ax" / "predictions" / "AX.tsv").read_bytes() == (
        out / "predictions" / "AX.tsv").read_bytes()


def test_row_40_a_later_prediction_agrees_and_adds_to_the_results(model, sst2, tmp_path):
    out = tmp_path / "out"
    trained = run(*flags("sst-2", sst2, model, out, "--do_train", "--do_eval", "--max_steps", "6"))
    assert not (out / "predictions").exists()
    results = run(*flags("sst-2", sst2, out, out, "--do_predict"))
    assert (out / "predictions" / "SST-2.tsv").is_file()
    assert results["dev"] == trained["dev"]
    elsewhere = run(*flags("sst-2", sst2, out, tmp_path / "b", "--do_eval"))
    assert elsewhere["dev"] == trained["dev"]


def test_a_labelled_test_file_is_scored_too(model, tmp_path):
    rows = [json.dumps({"id": i, "sentence1": "it is wet", "sentence2": "rain",
                        "label": str(i % 2)}) for i in range(6)]
    data = tmp_path / "bustm"
    for name in ("train_few_all.json", "dev_few_all.json", "test_public.json"):
        write(data / name, rows)
    out = tmp_path / "out"
    results = run(*flags("bustm", data, model, out, "--do_train", "--do_eval", "--do_predict",
                         "--max_steps", "1"))
    assert results["test"]["bustm-public"]["examples"] == 6
    lines = (out / "predictions" / "bustm_public.json").read_text().splitlines()
    assert json.loads(lines[5])["id"] == 5


def test_it_learns_and_the_best_checkpoint_is_kept(model, sst2, tmp_path):
    out = tmp_path / "out"
    results = run(*flags("sst-2", sst2, model, out, "--do_train", "--do_eval", "--max_steps", "60",
                         "--learning_rate", "1e-2", "--eval_steps", "10", "--optimizer",
                         "adamw_torch", "--save_steps", "20", "--eval_all_checkpoints"))
    assert results["dev"]["sst-2"]["accuracy"] == 1.0 and not results["dev"]["sst-2"]["collapsed"]
    best = out / f"checkpoint-{results['best_step']}"
    assert (best / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
    assert not (out / "training_state.pt").exists()
    assert {"checkpoint-20", "checkpoint-40", best.name} <= set(results["checkpoints"])
    assert results["checkpoints"][best.name]["sst-2"]["accuracy"] == 1.0
    assert f"{best.name} sst-2 accuracy = 1.0" in (out / "checkpoint_eval_results.txt").read_text()


def test_the_best_checkpoint_and_the_newest_are_kept(model, sst2, tmp_path):
    arguments = ("--do_train", "--do_eval", "--max_steps", "24", "--eval_steps", "2",
                 "--save_steps", "4", "--learning_rate", "1e-2", "--optimizer", "adamw_torch")
    results = run(*flags("sst-2", sst2, model, tmp_path / "a", *arguments))
    kept = {path.name for path in (tmp_path / "a").glob("checkpoint-*")}
    assert kept == {f"checkpoint-{results['best_step']}", "checkpoint-24"} and len(kept) == 2
    run(*flags("sst-2", sst2, model, tmp_path / "b", *arguments, "--save_total_limit", "2"))
    kept = {path.name for path in (tmp_path / "b").glob("checkpoint-*")}
    assert kept == {f"checkpoint-{results['best_step']}", "checkpoint-20", "checkpoint-24"}
    run(*flags("sst-2", sst2, model, tmp_path / "c", *arguments, "--save_total_limit", "0"))
    assert len(list((tmp_path / "c").glob("checkpoint-*"))) >= 6


def test_row_33_a_config_without_dropout_keeps_the_heads_own(model, sst2, tmp_path):
    out = tmp_path / "out"
    run(*flags("sst-2", sst2, model, out, "--do_train", "--max_steps", "1",
               "--attention_probs_dropout_prob", "0.3"))
    config = AlbertConfig.from_pretrained(out)
    assert (config.hidden_dropout_prob, config.classifier_dropout_prob) == (0.0, 0.1)
    assert config.attention_probs_dropout_prob == 0.3
    assert AlbertForSequenceClassification(config).dropout.p == 0.1


def test_row_36_long_texts_are_cut_and_counted(model, sst2, tmp_path, caplog):
    write(sst2 / "dev.tsv", ["sentence|label", "film " * 600 + "|1", f"{BAD}|0"])
    run(*flags("sst-2", sst2, model, tmp_path / "out", "--do_train", "--do_eval", "--max_steps",
               "1"))
    assert "1 of 2 examples are longer than 32 tokens and were cut" in caplog.text


def test_a_task_from_flags(model, tmp_path):
    train = tmp_path / "mine.csv"
    train.write_text("text,kind\n" + f'"{GOOD}",nice\n"{BAD}",nasty\n' * 4, encoding="utf-8")
    custom = ["--task_name", "custom", "--text_a_column", "text", "--label_column", "kind"]
    out = tmp_path / "out"
    results = run(*custom, "--output_dir", str(out), "--model_name_or_path", str(model),
                  "--no_cuda", "--train_file", str(train), "--dev_file", str(train), "--do_train",
                  "--do_eval", "--max_steps", "1", "--metric", "f1")
    assert results["dev"]["custom"]["main"] == "f1"
    assert AlbertConfig.from_pretrained(out).id2label == ["nasty", "nice"]
    test = tmp_path / "new.csv"
    test.write_text(f'text\n"{GOOD}"\n', encoding="utf-8")
    run(*custom, "--output_dir", str(out), "--model_name_or_path", str(out), "--no_cuda",
        "--test_file", str(test), "--do_predict")
    header, line = (out / "predictions" / "predictions.tsv").read_text().splitlines()
    assert header == "index\tprediction\tprobability" and line.split("\t")[1] in ("nasty", "nice")


def test_from_scratch_with_a_json_config(sst2, model, tmp_path):
    config = tmp_path / "small.json"
    config.write_text(json.dumps({"dialect": "albert_pytorch", "vocab_size": len(WORDS),
                                  "hidden_size": 8, "num_attention_heads": 2,
                                  "num_hidden_layers": 1, "intermediate_size": 8}))
    out = tmp_path / "out"
    run(*flags("sst-2", sst2, None, out, "--from_scratch", "--config_name", str(config),
               "--vocab_file", str(model / "vocab.txt"), "--do_train", "--max_steps", "1"))
    assert AlbertConfig.from_pretrained(out).hidden_size == 8


def test_conversion_to_prediction(sst2, tmp_path):
    """TensorFlow checkpoint -> model directory -> one step -> prediction file."""
    source = tmp_path / "tensorflow"
    shutil.copytree(ROOT / "tests" / "fixtures" / "reference" / "google_g1", source)
    size = json.loads((source / "albert_config.json").read_text())["vocab_size"]
    words = [*WORDS, *(f"[unused{i}]" for i in range(size - len(WORDS)))]
    (source / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    target, out = tmp_path / "converted", tmp_path / "out"
    assert convert(["--tf_checkpoint_path", str(source), "--pytorch_dump_path", str(target)]) == 0
    run(*flags("sst-2", sst2, target, out, "--do_train", "--do_predict", "--max_steps", "1"))
    assert len((out / "predictions" / "SST-2.tsv").read_text().splitlines()) == 3
    direct = tmp_path / "direct"  # and without converting: any checkpoint is taken as it is
    run(*flags("sst-2", sst2, source, direct, "--do_train", "--do_predict", "--max_steps", "1"))
    weights, same = load_file(out / "model.safetensors"), load_file(direct / "model.safetensors")
    assert all(torch.equal(weights[name], same[name]) for name in weights)


def test_a_resumed_run_ends_where_a_straight_one_does(model, sst2, tmp_path, monkeypatch, capsys):
    common = ("--do_train", "--do_eval", "--max_steps", "8", "--save_steps", "4",
              "--hidden_dropout_prob", "0.1")
    run(*flags("sst-2", sst2, model, tmp_path / "straight", *common))
    out = tmp_path / "out"
    advance = finetuning.Trainer._after_step

    def killed(self, result):
        advance(self, result)
        if self.state.step == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(finetuning.Trainer, "_after_step", killed)
    with pytest.raises(KeyboardInterrupt):
        main(flags("sst-2", sst2, model, out, *common))
    monkeypatch.setattr(finetuning.Trainer, "_after_step", advance)
    message = refused(capsys, *flags("sst-2", sst2, model, out, *common, "--resume", "--seed", "1"))
    assert "seed: checkpoint 42, this run 1" in message
    run(*flags("sst-2", sst2, model, out, *common, "--resume"))
    for name in ("checkpoint-8/model.safetensors", "model.safetensors"):
        assert (out / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


# ---- runs that fail to learn --------------------------------------------------------------------


def test_row_34_a_collapse_is_told_and_other_seeds_are_tried(sst2, tmp_path, caplog):
    model, out = pretrained(tmp_path / "flat", initializer_range=1e-3), tmp_path / "out"
    results = run(*flags("sst-2", sst2, model, out, "--do_train", "--do_eval", "--max_steps", "1",
                         "--learning_rate", "1e-9", "--retry_seeds", "2"))
    assert results["collapsed_seeds"] == [42, 43, 44] and results["seed"] == 44
    assert "seed 43: the model gives the same answer to everything" in caplog.text
    assert results["dev"]["sst-2"]["collapsed"]
    assert "collapsed: all 3 predictions are" in results["dev"]["sst-2"]["notes"][0]


def test_row_34_a_run_that_learns_is_not_tried_again(model, sst2, tmp_path):
    results = run(*flags("sst-2", sst2, model, tmp_path / "out", "--do_train", "--do_eval",
                         "--max_steps", "40", "--learning_rate", "1e-2", "--optimizer",
                         "adamw_torch", "--retry_seeds", "2"))
    assert results["collapsed_seeds"] == [] and results["seed"] == 42


def test_row_34_advice_on_the_rate_goes_by_the_size():
    def advice(hidden, **changes):
        settings = ClassifierSettings(task_name="rte", output_dir=Path("x"),
                                      per_gpu_train_batch_size=32, **changes)
        return rate_advice(settings, tiny_config(hidden_size=hidden, num_attention_heads=4))

    assert advice(768, learning_rate=5e-5) is None
    assert "--learning_rate 2e-05 is high (try 1e-05)" in advice(2048, learning_rate=2e-5)
    assert "--learning_rate 5e-05 is high (try 3e-05)" in advice(1024, learning_rate=5e-5)
    assert advice(4096, learning_rate=1e-5) is None
    assert "there is no warm-up" in advice(4096, learning_rate=1e-5, warmup_steps=0)
    assert advice(4096, learning_rate=3e-5, gradient_accumulation_steps=4) is None


# ---- what is refused, before any work -----------------------------------------------------------


def test_row_35_no_weights_where_they_were_meant(model, sst2, tmp_path, capsys):
    (model / "model.safetensors").unlink()
    out = tmp_path / "out"
    message = refused(capsys, *flags("sst-2", sst2, model, out, "--do_train"))
    assert "no weights in this folder, found config.json" in message and "--from_scratch" in message
    assert not out.exists()
    run(*flags("sst-2", sst2, model, out, "--do_train", "--max_steps", "1", "--from_scratch"))


def test_row_37_labels_in_another_order_or_of_another_task(model, tmp_path, capsys):
    data, out = mnli(tmp_path / "MNLI"), tmp_path / "out"
    other = AlbertForSequenceClassification(
        tiny_config(id2label=["entailment", "neutral", "contradiction"]))
    other.save_pretrained(tmp_path / "other", WordPieceTokenizer(model / "vocab.txt"))
    message = refused(capsys, *flags("mnli", data, tmp_path / "other", out, "--do_eval"))
    assert "['entailment', 'neutral', 'contradiction']" in message
    assert "['contradiction', 'entailment', 'neutral']" in message and not out.exists()
    assert "--new_head" in message
    run(*flags("mnli", data, tmp_path / "other", out, "--do_train", "--max_steps", "1",
               "--new_head"))
    assert AlbertConfig.from_pretrained(out).id2label == ["contradiction", "entailment", "neutral"]


def test_row_37_a_head_of_another_width(model, sst2, tmp_path, capsys):
    other = AlbertForSequenceClassification(tiny_config(num_labels=3))
    other.save_pretrained(tmp_path / "other", WordPieceTokenizer(model / "vocab.txt"))
    message = refused(capsys, *flags("sst-2", sst2, tmp_path / "other", tmp_path / "out",
                                     "--do_train"))
    assert "its head has 3 outputs, task sst-2 has the labels ['0', '1']" in message


def test_row_37_a_head_of_the_right_width_without_names_is_taken(model, sst2, tmp_path, caplog):
    other = AlbertForSequenceClassification(tiny_config(num_labels=2))
    other.save_pretrained(tmp_path / "other", WordPieceTokenizer(model / "vocab.txt"))
    run(*flags("sst-2", sst2, tmp_path / "other", tmp_path / "out", "--do_eval"))
    assert "does not name its labels; taken in the order of the task: 0, 1" in caplog.text


def test_a_model_without_a_head_predicts_nothing(model, sst2, tmp_path, capsys):
    message = refused(capsys, *flags("sst-2", sst2, model, tmp_path / "out", "--do_predict"))
    assert "no head for sst-2 in it" in message and "--do_train" in message


def test_row_41_no_score_without_labels(model, sst2, tmp_path, capsys):
    out = tmp_path / "out"
    message = refused(capsys, *flags("sst-2", sst2, model, out, "--do_train", "--do_eval",
                                     "--dev_file", str(sst2 / "test.tsv")))
    assert "no label column" in message and "can only be predicted" in message
    assert not out.exists()


def test_row_41_the_table_shows_the_guess_beside_each_score():
    lines = table([("rte", "dev", score("accuracy", [0, 1, 1, 1], [0, 0, 1, 0], ["yes", "no"]))])
    assert lines[0].split() == ["task", "split", "metric", "score", "guess", "examples"]
    assert lines[2].split() == ["rte", "dev", "accuracy", "0.5000", "0.7500", "4"]
    assert lines[3] == 'rte dev: the guess is always "yes"'


def test_row_47_a_folder_that_holds_files(model, sst2, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "run.log").write_text("our own log does not count")
    run(*flags("sst-2", sst2, model, out, "--do_train", "--max_steps", "1"))
    again = flags("sst-2", sst2, model, out, "--do_train", "--max_steps", "2")
    message = refused(capsys, *again)
    assert "holds files" in message and "--overwrite_output_dir" in message
    before = (out / "model.safetensors").read_bytes()
    (out / "notes.txt").write_text("mine")
    for stale in ("checkpoint_eval_results.txt", "predictions/SST-2.tsv", "checkpoint-9/x"):
        write(out / stale, ["of the earlier run"])
    assert run(*again, "--overwrite_output_dir")["steps"] == 2
    assert (out / "model.safetensors").read_bytes() != before
    assert (out / "notes.txt").read_text() == "mine"  # only what a run writes is replaced
    assert not {"checkpoint_eval_results.txt", "predictions", "checkpoint-9"} & {
        path.name for path in out.iterdir()}


def test_row_47_a_broken_run_leaves_no_folder_and_replaces_nothing(model, sst2, tmp_path, capsys):
    out = tmp_path / "out"
    run(*flags("sst-2", sst2, model, out, "--do_train", "--max_steps", "1"))
    before = sorted(p.name for p in out.iterdir())
    write(sst2 / "train.tsv", ["sentence|label", f"{GOOD}|2"])
    refused(capsys, *flags("sst-2", sst2, model, out, "--do_train", "--overwrite_output_dir"))
    assert sorted(p.name for p in out.iterdir()) == before
    refused(capsys, *flags("sst-2", sst2, model, tmp_path / "new", "--do_train"))
    assert not (tmp_path / "new").exists()


def test_row_47_the_model_to_start_from_is_never_overwritten(model, sst2, capsys):
    message = refused(capsys, *flags("sst-2", sst2, model, model, "--do_train",
                                     "--overwrite_output_dir"))
    assert "which training would overwrite" in message
    assert (model / "model.safetensors").is_file()


def test_row_48_no_cuda_means_the_cpu_whatever_cards_there_are(model, sst2, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    devices = []
    initialize = distributed.initialize
    monkeypatch.setattr(distributed, "initialize",
                        lambda no_cuda: devices.append(initialize(no_cuda)) or devices[-1])
    run(*flags("sst-2", sst2, model, tmp_path / "out", "--do_train", "--max_steps", "1"))
    assert devices == [torch.device("cpu")]


def test_row_49_a_name_instead_of_a_folder(sst2, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prev_trained_model" / "albert_base_v2").mkdir(parents=True)
    message = refused(capsys, *flags("sst-2", sst2, Path("albert-base"), tmp_path / "out",
                                     "--do_train"))
    assert "albert-base: no such folder or file" in message
    assert "prev_trained_model/ holds: albert_base_v2" in message
    assert "github.com/google-research/albert" in message
    message = refused(capsys, *flags("sst-2", sst2, Path("albert_base_v2"), tmp_path / "out",
                                     "--do_train"))
    assert "did you mean prev_trained_model/albert_base_v2?" in message


def test_all_problems_with_the_flags_are_told_at_once(capsys):
    message = refused(capsys, "--task_name", "ssst", "--do_trian", "--learning_rate", "0",
                      "--fp16", "--precision", "bf16", "--labels", "a", "--local_rank", "0")
    for part in ("--output_dir is missing", "--do_trian: no such flag; did you mean --do_train?",
                 "nothing to do", "--learning_rate 0.0: expected more than 0",
                 "--fp16 and --precision bf16", "--model_name_or_path is missing",
                 "no such task (did you mean sst-2?)", "--data_dir is missing",
                 "--labels: only for --task_name custom", "start several processes with torchrun"):
        assert part in message or part == "--data_dir is missing", part


@pytest.mark.parametrize(("more", "part"), [
    (["--do_train", "--max_seq_length", "64"], "--max_seq_length 64: the model has 32 positions"),
    (["--do_train", "--tokenizer_name", "nowhere"], "there is no folder nowhere"),
    (["--do_train", "--config_name", "base_v7"], "neither a file or folder nor one of the presets"),
    (["--do_train", "--resume"], "--resume: no checkpoint-"),
    (["--do_train", "--warmup_steps", "9", "--max_steps", "5"], "--warmup_steps 9: the run has 5"),
    (["--do_predict", "--from_scratch"], "--from_scratch without --do_train"),
    (["--do_train", "--early_stopping", "2"], "go by dev scores"),
    (["--do_train", "--model_type", "bert"], "--model_type bert: expected albert"),
    (["--do_train", "--do_lower_case", "--keep_case"], "--do_lower_case and --keep_case"),
    (["--do_train", "--train_file", "gone.tsv"], "no train file"),
])
def test_other_runs_that_do_not_start(more, part, model, sst2, tmp_path, capsys):
    out = tmp_path / "out"
    assert part in refused(capsys, *flags("sst-2", sst2, model, out, *more))
    assert not out.exists()


def test_a_vocabulary_of_another_model(model, sst2, tmp_path, capsys):
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS[:-1]), encoding="utf-8")
    message = refused(capsys, *flags("sst-2", sst2, model, tmp_path / "out", "--do_train",
                                     "--vocab_file", str(tmp_path / "vocab.txt")))
    assert f"vocab_size {len(WORDS)}" in message and f"{len(WORDS) - 1} tokens" in message


def test_row_13_case_is_saved_with_the_model_and_read_back(model, sst2, tmp_path):
    out = tmp_path / "out"
    run(*flags("sst-2", sst2, model, out, "--do_train", "--max_steps", "1", "--keep_case"))
    assert json.loads((out / "tokenizer_config.json").read_text())["do_lower_case"] is False
    run(*flags("sst-2", sst2, out, tmp_path / "b", "--do_train", "--max_steps", "1"))
    saved = json.loads((tmp_path / "b" / "tokenizer_config.json").read_text())
    assert saved["do_lower_case"] is False


def test_ax_is_not_trained_on_and_labels_have_to_come_from_somewhere(model, sst2, tmp_path, capsys):
    message = refused(capsys, *flags("ax", sst2, model, tmp_path / "out", "--do_train"))
    assert "ax has no training data" in message
    settings = ClassifierSettings(task_name="custom", text_a_column="text", do_predict=True,
                                  test_file=Path("x"), output_dir=tmp_path)
    with pytest.raises(finetuning.FinetuningError, match="--labels is missing"):
        read(settings, tiny_config())


# ---- several processes --------------------------------------------------------------------------


def test_row_50_two_processes_score_each_example_once_and_train_alike(model, sst2, tmp_path):
    """Three dev examples on two ranks: no filling up; the global batch is what counts."""
    common = ("--do_train", "--do_eval", "--do_predict", "--max_steps", "4", "--eval_steps", "2",
              "--save_steps", "0", "--learning_rate", "1e-2", "--classifier_dropout_prob", "0")
    one = run(*flags("sst-2", sst2, model, tmp_path / "one", *common))
    two = [*flags("sst-2", sst2, model, tmp_path / "two", *common), "--per_gpu_train_batch_size",
           "2"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = [subprocess.Popen(  # with the environment that torchrun makes
        [sys.executable, "run_classifier.py", *two], cwd=ROOT, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={
            **os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port), "WORLD_SIZE": "2", "RANK": str(rank),
            "LOCAL_RANK": str(rank)}) for rank in range(2)]
    outputs = [process.communicate(timeout=120) for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0], outputs
    assert ["predictions in" in out for out, _ in outputs] == [True, False]
    results = json.loads((tmp_path / "two" / "eval_results.json").read_text())
    assert results["dev"]["sst-2"]["examples"] == 3 and results["dev"] == one["dev"]
    predictions = [(tmp_path / name / "predictions" / "SST-2.tsv").read_text()
                   for name in ("one", "two")]
    assert predictions[0] == predictions[1]
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("one", "two")]
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, rtol=1e-3, atol=1e-4)


# ---- real data ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "folder", "vocabulary"), [
    ("rte", "glue/RTE", "spiece.model"), ("cola", "glue/CoLA", "spiece.model"),
    ("wnli", "glue/WNLI", "spiece.model"), ("bustm", "fewclue/bustm", "zh_vocab_21128.txt"),
])
@pytest.mark.slow
def test_real_tasks_run_and_write_results_and_predictions(task, folder, vocabulary, shared,
                                                          tmp_path):
    language = "en" if vocabulary == "spiece.model" else "zh"
    tokenizer = "--spm_model_file" if language == "en" else "--vocab_file"
    out = tmp_path / "out"
    results = run(*flags(task, shared(f"data/{folder}"), None, out, "--from_scratch",
                         "--config_name", str(ROOT / f"scripts/configs/small_{language}.json"),
                         tokenizer, str(shared(f"data/vocab/{vocabulary}")), "--do_train",
                         "--do_eval", "--do_predict", "--max_steps", "20", "--max_seq_length",
                         "64", "--per_gpu_eval_batch_size", "64"))
    assert results["dev"][task]["examples"] > 50
    assert list((out / "predictions").iterdir())


@pytest.mark.slow
def test_sst_2_from_scratch_reaches_80_percent(shared, tmp_path):
    results = run("--task_name", "sst-2", "--data_dir", str(shared("data/glue/SST-2")),
                  "--output_dir", str(tmp_path / "out"), "--from_scratch", "--no_cuda",
                  "--config_name", str(ROOT / "scripts/configs/small_en.json"),
                  "--spm_model_file", str(shared("data/vocab/spiece.model")), "--do_train",
                  "--do_eval", "--num_train_epochs", "1", "--max_seq_length", "64",
                  "--per_gpu_train_batch_size", "64", "--per_gpu_eval_batch_size", "128",
                  "--learning_rate", "5e-4", "--weight_decay", "0.01", "--eval_steps", "250",
                  "--save_steps", "0")
    assert results["dev"]["sst-2"]["accuracy"] >= 0.8
