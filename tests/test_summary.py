"""The table of the quick start: several runs side by side."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.summarize_results import aligned, read_runs, table

ROOT = Path(__file__).resolve().parent.parent


def make_run(folder: Path, dev: float, test: float | None = None, metric: str = "accuracy") -> None:
    def scores(value: float) -> dict:
        return {"any": {metric: value, "main": metric, "examples": 1_076,
                        "baseline": {metric: 0.25}, "baseline_guess": 'always "a"'}}

    folder.mkdir(parents=True)
    results = {"task": "any", "dev": scores(dev)} | ({"test": scores(test)} if test else {})
    (folder / "eval_results.json").write_text(json.dumps(results))
    lines = [{"step": 1, "kind": "train", "loss": 2.0}, {"step": 2, "kind": "eval", metric: dev}]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    make_run(tmp_path / "poems" / "pretrained", 0.875, 0.8)
    make_run(tmp_path / "poems" / "from_scratch", 0.75, 0.7)
    make_run(tmp_path / "novels" / "from_scratch", 0.5, metric="macro_f1")
    return tmp_path


def test_a_row_a_task_and_split_and_a_column_a_start(runs: Path) -> None:
    header, *rows = table(read_runs(runs))
    assert header[-3:] == ("always one answer", "from scratch", "pretrained")
    assert rows == [("novels", "dev", "1,076", "macro f1", "25.0%", "50.0%", "–"),
                    ("poems", "dev", "1,076", "accuracy", "25.0%", "75.0%", "87.5%"),
                    ("poems", "test", "1,076", "accuracy", "25.0%", "70.0%", "80.0%")]


def test_columns_line_up(runs: Path) -> None:
    lines = aligned(table(read_runs(runs)))
    bars = [[i for i, c in enumerate(line) if c == "|"] for line in lines]
    assert len(lines) == 5 and all(place == bars[0] for place in bars)


def test_the_script_writes_table_and_picture(runs: Path) -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / "summarize_results.py", runs],
                          capture_output=True, text=True, encoding="utf-8", check=True)
    assert done.stdout == (runs / "results.md").read_text(encoding="utf-8")
    assert (runs / "results.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_no_run_is_an_error_that_says_what_was_expected(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / "summarize_results.py", tmp_path],
                          capture_output=True, text=True)
    assert done.returncode == 1
    assert "eval_results.json" in done.stderr and str(tmp_path) in done.stderr
    assert not list(tmp_path.iterdir())
