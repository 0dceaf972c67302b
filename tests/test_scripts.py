"""Every `scripts/run_*.sh` is run with a stand-in for Python; its flags go to the real parser."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from finetuning_settings import FinetuningSettings
from run_classifier import ClassifierSettings, task_of
from tools.arguments import read

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted(ROOT.glob("scripts/run_classifier_*.sh"))

# Learning rate, examples a step, encoder dropout, steps, warm-up: the paper's table.
PAPER = {
    "cola": (1e-5, 16, 0.0, 5336, 320),
    "sts-b": (2e-5, 16, 0.0, 3598, 214),
    "sst-2": (1e-5, 32, 0.0, 20935, 1256),
    "mnli": (3e-5, 128, 0.0, 10000, 1000),
    "qnli": (1e-5, 32, 0.0, 33112, 1986),
    "qqp": (5e-5, 128, 0.1, 14000, 1000),
    "rte": (3e-5, 32, 0.1, 800, 200),
    "mrpc": (2e-5, 32, 0.0, 800, 200),
    "wnli": (2e-5, 16, 0.1, 2000, 250),
}


def called_with(script: Path, folder: Path, *arguments: str) -> list[str]:
    """What a script passes to Python, one argument a line of the stand-in's output."""
    stand_in = folder / "python"
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stand_in.chmod(0o755)
    run = subprocess.run(["bash", str(script), *arguments], check=True, text=True, cwd=folder,
                         capture_output=True, env={**os.environ, "PYTHON": str(stand_in)})
    return run.stdout.splitlines()


def settings_of(script: Path, folder: Path, *arguments: str) -> ClassifierSettings:
    door, *flags = called_with(script, folder, *arguments)
    assert door == "run_classifier.py"
    return read(ClassifierSettings, "", flags)


def test_there_is_a_script_for_every_task_of_the_paper_and_for_lcqmc():
    names = {path.stem.removeprefix("run_classifier_") for path in SCRIPTS}
    assert names == {name.replace("-", "") for name in PAPER} | {"lcqmc"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_real_parser_takes_the_flags_of_a_script(script, tmp_path):
    settings = settings_of(script, tmp_path)
    task = task_of(settings)
    assert script.stem == f"run_classifier_{task.name.replace('-', '')}"
    assert settings.do_train and settings.do_eval and settings.do_predict
    paths = (settings.output_dir, settings.data_dir, settings.model_name_or_path)
    assert not any(Path(path).is_absolute() for path in paths)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_further_flags_are_passed_on_and_win(script, tmp_path):
    settings = settings_of(script, tmp_path, "--seed", "7", "--learning_rate", "3e-3")
    assert settings.seed == 7 and settings.learning_rate == 3e-3


@pytest.mark.parametrize("script", [s for s in SCRIPTS if "lcqmc" not in s.stem],
                         ids=lambda path: path.stem)
def test_settings_are_those_of_the_paper(script, tmp_path):
    settings = settings_of(script, tmp_path)
    rate, batch, dropout, steps, warmup = PAPER[task_of(settings).name]
    assert settings.learning_rate == rate and settings.batch_size == batch
    assert settings.hidden_dropout_prob == settings.attention_probs_dropout_prob == dropout
    assert (settings.max_steps, settings.warmup_steps) == (steps, warmup)
    assert settings.classifier_dropout_prob == 0.1 and settings.max_seq_length == 512


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_stops_at_the_first_error_and_runs_from_anywhere(script, tmp_path):
    text = script.read_text(encoding="utf-8")
    assert "set -euo pipefail" in text and 'cd "$(dirname "${BASH_SOURCE[0]}")/.."' in text
    failing = subprocess.run(["bash", str(script)], cwd=tmp_path, capture_output=True,
                             env={**os.environ, "PYTHON": "false"})
    assert failing.returncode == 1


def test_scripts_of_the_predecessor_keep_their_meaning(tmp_path):
    """The flags of its English and Chinese scripts, with values of ours."""
    flags = ["--model_type=albert", f"--model_name_or_path={tmp_path}", "--task_name=sts-b",
             "--do_train", "--do_eval", "--do_lower_case", f"--data_dir={tmp_path}/sts-b/",
             "--max_seq_length=128", "--per_gpu_train_batch_size=16",
             "--per_gpu_eval_batch_size=16", f"--spm_model_file={tmp_path}/30k-clean.model",
             f"--vocab_file={tmp_path}/30k-clean.vocab", "--learning_rate=1e-5",
             "--num_train_epochs=3.0", "--logging_steps=360", "--save_steps=360",
             f"--output_dir={tmp_path}/out/", "--overwrite_output_dir", "--seed=42", "--fp16",
             "--fp16_opt_level=O1", "--eval_all_checkpoints", "--no_cuda", "--overwrite_cache",
             "--gradient_accumulation_steps=2", "--max_steps=-1", "--warmup_proportion=0.1",
             "--weight_decay=0.0", "--adam_epsilon=1e-6", "--max_grad_norm=1.0",
             "--local_rank=-1"]
    settings = read(ClassifierSettings, "", flags)
    assert task_of(settings).name == "sts-b"
    assert settings.autocast == "fp16" and settings.do_lower_case is True
    assert settings.batch_size == 32 and settings.learning_rate == 1e-5


def test_defaults_are_the_predecessors():
    wanted = {"max_seq_length": None, "per_gpu_train_batch_size": 8, "per_gpu_eval_batch_size": 8,
              "gradient_accumulation_steps": 1, "learning_rate": 5e-5, "weight_decay": 0.0,
              "adam_epsilon": 1e-6, "max_grad_norm": 1.0, "num_train_epochs": 3.0, "max_steps": -1,
              "warmup_proportion": 0.1, "logging_steps": 10, "save_steps": 1000, "seed": 42}
    settings = FinetuningSettings(output_dir=Path("x"))
    assert {name: getattr(settings, name) for name in wanted} == wanted
