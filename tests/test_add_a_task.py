"""docs/add_a_task.md, done."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

import run_classifier
from model import modeling_albert, multitask
from processors import tasks
from processors.base import Task

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "add_a_task.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """What stands for DATA, MODEL and OUTPUT on the page."""
    data = tmp_path / "data"
    data.mkdir()
    for split, count in (("train", 24), ("dev", 8), ("test", 8)):
        lines = [f"{'a good law' if i % 2 else 'a bad tax'} number {i}\t"
                 f"{'for' if i % 2 else 'against'}" for i in range(count)]
        (data / f"{split}.tsv").write_text("\n".join(["text\tverdict", *lines]) + "\n")
    return {"DATA": str(data), "MODEL": str(ROOT / "dataset" / "tiny_en"),
            "OUTPUT": str(tmp_path / "out")}


def run(command: str, places: dict[str, str]) -> dict:
    """A command of the page, from random weights and for a few steps; its results."""
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:2] == ["python", "run_classifier.py"]
    flags = [places.get(word, word) for word in words[2:]]
    assert run_classifier.main([*flags, "--from_scratch", "--max_steps", "4", "--save_steps", "0",
                                "--max_seq_length", "16", "--no_cuda"]) == 0
    return json.loads((Path(places["OUTPUT"]) / "eval_results.json").read_text())


def row() -> Task:
    return eval(PYTHON[0], {"Task": Task})


def test_a_data_set_without_code(places):
    assert 0 <= run(COMMANDS[0], places)["dev"]["custom"]["accuracy"] <= 1


def test_a_data_set_is_one_row(places, monkeypatch):
    task = row()
    monkeypatch.setitem(tasks.TASKS, task.name, task)
    monkeypatch.setitem(tasks._BY_PLAIN_NAME, task.name, task.name)
    results = run(COMMANDS[1], places)
    assert results["task"] == "verdicts" and "verdicts" in results["dev"]
    lines = (Path(places["OUTPUT"]) / "predictions" / "verdicts.tsv").read_text().splitlines()
    assert len(lines) == 9 and {line.split("\t")[1] for line in lines[1:]} <= {"for", "against"}


def test_a_head_is_one_class(places, monkeypatch):
    names = dict(vars(modeling_albert))
    exec(PYTHON[1], names)
    monkeypatch.setitem(modeling_albert.HEADS, "mean_classification", None)
    exec(PYTHON[2], names)
    head = modeling_albert.HEADS["mean_classification"]
    monkeypatch.setitem(multitask.ALL_HEADS, "mean_classification", head)
    task = replace(row(), head="mean_classification")
    monkeypatch.setitem(tasks.TASKS, task.name, task)
    monkeypatch.setitem(tasks._BY_PLAIN_NAME, task.name, task.name)
    results = run(COMMANDS[1], places)
    assert 0 <= results["dev"]["verdicts"]["accuracy"] <= 1
    again = head.from_pretrained(places["OUTPUT"])
    assert again.config.id2label == ["for", "against"] and not again.load_report.new
