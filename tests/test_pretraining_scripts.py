"""Every `scripts/run_pretraining_*.sh`, with a stand-in for Python and the real parsers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_scripts import ROOT, called_with

from prepare_lm_data import PreparationSettings
from pretraining_settings import PretrainingSettings
from tools.arguments import read

SCRIPTS = sorted(ROOT.glob("scripts/run_pretraining_*.sh"))


def calls(script: Path, folder: Path, *arguments: str) -> dict[str, list[str]]:
    """Flags that a script passes, by the program that gets them."""
    found: dict[str, list[str]] = {}
    program = None
    for word in called_with(script, folder, *arguments):
        if word in ("prepare_lm_data.py", "run_pretraining.py"):
            program = found.setdefault(word, [])
        elif word == "-m":  # the launcher, with flags of its own
            program = None
        elif program is not None:
            program.append(word)
    return found


@pytest.fixture(autouse=True)
def no_shards_yet(tmp_path, monkeypatch):
    monkeypatch.setenv("SHARDS", str(tmp_path / "shards"))


def test_there_is_a_script_for_every_way_to_pretrain():
    assert {path.stem.removeprefix("run_pretraining_") for path in SCRIPTS} == {
        "base_english", "tiny_chinese", "domain", "two_processes", "several_nodes"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_real_parsers_take_the_flags(script, tmp_path):
    found = calls(script, tmp_path, "--seed", "7", "--max_steps", "10")
    settings = read(PretrainingSettings, "", found["run_pretraining.py"])
    assert settings.seed == 7 and settings.max_steps == 10 and settings.resume
    if "several_nodes" in script.stem:
        assert "prepare_lm_data.py" not in found
        return
    prepared = read(PreparationSettings, "", found["prepare_lm_data.py"])
    assert prepared.output_dir == settings.data_dir == tmp_path / "shards"
    assert any(ROOT.glob(prepared.input[0]))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_stops_at_the_first_error_and_runs_from_anywhere(script, tmp_path):
    text = script.read_text(encoding="utf-8")
    assert "set -euo pipefail" in text and 'cd "$(dirname "${BASH_SOURCE[0]}")/.."' in text


def settings_of(name: str, folder: Path) -> PretrainingSettings:
    flags = calls(ROOT / "scripts" / f"run_pretraining_{name}.sh", folder)["run_pretraining.py"]
    return read(PretrainingSettings, "", flags)


@pytest.mark.parametrize("name", ["base_english", "several_nodes"])
def test_english_settings_are_those_of_the_paper(name, tmp_path):
    settings = settings_of(name, tmp_path)
    assert settings.train_batch_size == 4096 and settings.max_seq_length == 512
    assert settings.rate == 0.00176 and settings.optimizer == "lamb"
    assert settings.steps(10**9) == 125_000 and settings.warmup_steps(125_000) == 3125
    assert settings.ngram == 3 and settings.weight_decay == 0.01 and settings.max_grad_norm == 1.0


def test_a_domain_is_learnt_at_a_low_rate_by_the_models_own_tokenizer(tmp_path, monkeypatch):
    monkeypatch.setenv("MODEL_DIR", "some/model")
    script = ROOT / "scripts" / "run_pretraining_domain.sh"
    found = calls(script, tmp_path)
    settings = read(PretrainingSettings, "", found["run_pretraining.py"])
    assert settings.rate == 5e-5 and settings.warmup_steps(1000) == 100
    assert str(settings.model_path) == "some/model"
    assert str(read(PreparationSettings, "", found["prepare_lm_data.py"]).tokenizer_dir) == (
        "some/model")


@pytest.mark.slow
def test_two_processes_run_on_the_bundled_text(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTPUT_DIR", str(tmp_path / "out"))
    monkeypatch.setenv("PYTHON", sys.executable)
    script = ROOT / "scripts" / "run_pretraining_two_processes.sh"
    ended = subprocess.run(["bash", str(script), "--max_steps", "20", "--num_eval_steps", "10"],
                           capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "2 × cpu" in (tmp_path / "out" / "training_report.md").read_text(encoding="utf-8")
