"""GLUE and CLUE whole: what every run is called with, the table, the zip. No model is trained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from run_classifier import ClassifierSettings, task_of
from scripts.summarize_results import aligned, read_runs, seed_table
from scripts.task_suite import SUITES, main
from tools.arguments import read

ROOT = Path(__file__).resolve().parent.parent
# A stand-in for Python: it notes its arguments, and leaves what a run leaves.
STAND_IN = '''#!{python}
import json, os, pathlib, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps(words) + "\\n")
flags = [w for word in words for w in word.split("=", 1)]
value = lambda name: flags[len(flags) - 1 - flags[::-1].index(name) + 1]
out, task = pathlib.Path(value("--output_dir")), value("--task_name")
if {fail!r} and out.as_posix().endswith({fail!r}):
    out.mkdir(parents=True)
    (out / "checkpoint-3").mkdir()
    sys.exit(75)
names = {names!r}[task]
(out / "predictions").mkdir(parents=True)
for name in names:
    (out / "predictions" / name).write_text(str(out))
if "--do_train" in words:
    (out / "checkpoint-9").mkdir()
    score = {scores!r}[int(value("--seed"))]
    dev = {{"metric": score, "other": score / 2, "main": "metric", "examples": 1234,
           "baseline": {{"metric": 0.25, "other": 0.125}}}}
    second = dev | {{"metric": score - 0.125, "other": (score - 0.125) / 2}}
    (out / "eval_results.json").write_text(json.dumps({{"dev": {{"first": dev, "second": second}}
        if task == "mnli" else {{"only": dev}}}}))
else:
    (out / "eval_results.json").write_text("{{}}")
'''
SCORES = {1: 0.5, 2: 0.8125, 3: 0.75, 4: 0.7}
NAMES = {row.task: row.submitted for rows in SUITES.values() for row in rows}


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """Run a suite on the stand-in; returns its status and the arguments of every call since."""
    log = tmp_path / "log"

    def run(name: str, folders: list[str], *flags: str, fail: str = "", **environment: str):
        for folder in folders:
            (tmp_path / "data" / folder).mkdir(parents=True, exist_ok=True)
        stand_in = tmp_path / "python"
        stand_in.write_text(STAND_IN.format(python=sys.executable, log=str(log), fail=fail,
                                            names=NAMES, scores=SCORES))
        stand_in.chmod(0o755)
        monkeypatch.setenv("PYTHON", str(stand_in))
        for key in ("SEEDS", "TASKS", "SKIP_MISSING"):
            monkeypatch.setenv(key, environment.get(key, ""))
        log.write_text("")
        status = main([name, str(tmp_path / "model"), str(tmp_path / "data"),
                       str(tmp_path / "out"), *flags])
        return status, [json.loads(line) for line in log.read_text().splitlines()]

    return run


def parsed(call: list[str]) -> ClassifierSettings:
    assert call[0] == "run_classifier.py"
    return read(ClassifierSettings, "", call[1:])


GLUE = ["MNLI", "CoLA", "SST-2", "QQP", "QNLIv2", "MRPC", "STS-B", "RTE", "WNLI", "diagnostic"]


def test_glue_whole(suite, tmp_path, capsys):
    (tmp_path / "data" / "diagnostic").mkdir(parents=True)
    (tmp_path / "data" / "diagnostic" / "diagnostic.tsv").touch()
    status, calls = suite("glue", GLUE, "--max_seq_length", "64", SEEDS="1 2 3")
    assert status == 0
    runs = [parsed(call) for call in calls]
    counts = {}
    for run in runs:
        counts[task_of(run).name] = counts.get(task_of(run).name, 0) + 1
    assert counts == {"mnli": 3, "ax": 1, "cola": 3, "sst-2": 3, "qqp": 3, "qnli": 3, "mrpc": 3,
                      "sts-b": 3, "rte": 3, "wnli": 3}
    best_mnli = tmp_path / "out" / "mnli" / "seed-2"
    for run in runs:
        name = task_of(run).name
        from_mnli = name in ("rte", "mrpc", "sts-b", "ax")
        assert Path(run.model_name_or_path) == (best_mnli if from_mnli else tmp_path / "model")
        assert run.new_head == (name in ("rte", "mrpc", "sts-b"))
        assert run.do_predict and run.do_train == run.do_eval == (name != "ax")
        assert run.max_seq_length == 64  # flags for every run win over the script's
    by_task = {task_of(run).name: run for run in runs}
    assert by_task["rte"].learning_rate == 3e-5 and by_task["rte"].warmup_steps == 200
    assert by_task["qqp"].batch_size == 128 and by_task["qqp"].hidden_dropout_prob == 0.1
    assert by_task["qnli"].data_dir.name == "QNLIv2"
    assert {run.seed for run in runs if run.do_train} == {1, 2, 3}
    with zipfile.ZipFile(tmp_path / "out" / "submission.zip") as archive:
        content = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(content) == {"CoLA.tsv", "SST-2.tsv", "QQP.tsv", "QNLI.tsv", "MRPC.tsv",
                            "STS-B.tsv", "RTE.tsv", "WNLI.tsv", "MNLI-m.tsv", "MNLI-mm.tsv",
                            "AX.tsv"}
    assert all(place.endswith("seed-2") for place in content.values())  # the best on dev
    assert content["AX.tsv"] == str(tmp_path / "out" / "ax" / "seed-2")
    assert "not in it" not in capsys.readouterr().err
    assert not list((tmp_path / "out").rglob("checkpoint-*"))
    again = suite("glue", GLUE, "--max_seq_length", "64", SEEDS="1 2 3")
    assert again == (0, [])


def test_missing_folders_stop_it_or_are_passed_over(suite, tmp_path, capsys):
    assert suite("glue", ["cola", "RTE"]) == (1, [])
    message = capsys.readouterr().err
    assert "no folder for mnli" in message and "SST-2" in message and "RTE, cola" in message
    status, calls = suite("glue", [], SKIP_MISSING="1", SEEDS="3")
    assert status == 0 and {task_of(parsed(call)).name for call in calls} == {"cola", "rte"}
    message = capsys.readouterr().err
    assert "passed over" in message and "rte: no mnli run" in message
    assert "not in it: MNLI-m.tsv" in message
    assert Path(parsed(calls[-1]).model_name_or_path) == tmp_path / "model"
    assert suite("glue", [], TASKS="nonsense")[0] == 1
    assert "no nonsense in glue" in capsys.readouterr().err


def test_it_goes_on_where_it_was(suite, tmp_path, capsys):
    status, calls = suite("glue", ["CoLA", "WNLI"], TASKS="CoLA wnli", SEEDS="1 2",
                          fail="cola/seed-2")
    assert status == 1 and len(calls) == 2
    assert "cola, seed-2 ended with status 75" in capsys.readouterr().err
    (tmp_path / "out" / "cola" / "seed-2").rename(tmp_path / "out" / "cola" / "x")
    (tmp_path / "out" / "cola" / "seed-2" / "checkpoint-3").mkdir(parents=True)
    status, calls = suite("glue", [], TASKS="cola wnli", SEEDS="1 2")
    assert status == 0 and [parsed(call).resume for call in calls] == [True, False, False]
    assert [parsed(call).overwrite_output_dir for call in calls] == [False, True, True]
    status, calls = suite("glue", [], TASKS="cola wnli", SEEDS="1 2 4")
    assert [parsed(call).seed for call in calls] == [4, 4]
    assert suite("glue", [], "--learning_rate", "1", TASKS="wnli")[0] == 1
    assert "runs of other settings" in capsys.readouterr().err


def test_clue_whole(suite, tmp_path, capsys):
    folders = [row.folders[0] for row in SUITES["clue"]]
    status, calls = suite("clue", [*folders[1:], "AFQMC_public"], "--learning_rate", "1e-4",
                          SEEDS="2 1")
    assert status == 0
    runs = [parsed(call) for call in calls]
    assert {task_of(run).name for run in runs} == {row.task for row in SUITES["clue"]}
    assert {run.learning_rate for run in runs} == {1e-4}
    assert all(run.data_dir.is_dir() and run.do_train and run.do_eval for run in runs)
    assert {run.max_seq_length for run in runs} == {128, 256}
    with zipfile.ZipFile(tmp_path / "out" / "submission.zip") as archive:
        assert {"afqmc_predict.json", "tnews_predict.json", "iflytek_predict.json",
                "cmnli_predict.json", "ocnli_50k_predict.json", "csl_predict.json",
                } <= set(archive.namelist())


def test_without_test_files_there_is_no_zip(suite, tmp_path, capsys):
    assert suite("clue", ["eprstmt"], TASKS="eprstmt", SEEDS="1")[0] == 0
    assert "nothing to submit" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "eprstmt", "results.md", "suite.json"]


def test_names_in_the_zip_are_those_that_tasks_write():
    for rows in SUITES.values():
        for row in rows:
            task = task_of(read(ClassifierSettings, "", [
                "--task_name", row.task, "--data_dir", ".", "--output_dir", "x", "--do_predict",
                "--model_name_or_path", "."]))
            assert set(row.submitted) <= set(task.submission.values()), row.task


def test_the_table_has_numpys_numbers(suite, tmp_path):
    suite("glue", ["MNLI", "CoLA"], TASKS="mnli cola", SEEDS="1 2 3 4")
    header, *rows = seed_table(read_runs(tmp_path / "out"))
    values = np.array([SCORES[seed] for seed in (1, 2, 3, 4)])
    assert header[4:9] == ("seeds", "mean", "median", "best", "deviation")
    assert [row[:3] for row in rows] == [
        ("cola", "only", "metric"), ("cola", "only", "other"), ("mnli", "first", "metric"),
        ("mnli", "first", "other"), ("mnli", "second", "metric"), ("mnli", "second", "other"),
        ("mean of 2 tasks", "", "")]
    for row in rows[:-1]:
        own = (values - 0.125 * (row[1] == "second")) / (2 if row[2] == "other" else 1)
        wanted = own.mean(), np.median(own), own.max(), own.std(ddof=1)
        assert row[4:9] == ("4", *(f"{number:.4f}" for number in wanted))
        assert row[3] == "1,234"
    # A task counts once, however many dev sets it has.
    means = np.array([values.mean(), np.median(values), values.max()]) - 0.125 / 4
    assert rows[-1][5:8] == tuple(f"{number:.4f}" for number in means)
    assert (tmp_path / "out" / "results.md").read_text().splitlines() == aligned(
        [header, *rows], left=(0, 1, 2))


@pytest.mark.parametrize("name", ["glue", "clue"])
def test_the_script_passes_everything_on(name, tmp_path):
    stand_in = tmp_path / "python"
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$PYTHONPATH" "$@"\n')
    stand_in.chmod(0o755)
    done = subprocess.run(
        ["bash", ROOT / "scripts" / f"run_{name}.sh", "a b", "c", "d", "--seed", "7"], text=True,
        cwd=tmp_path, env=os.environ | {"PYTHON": str(stand_in), "PYTHONPATH": ""},
        capture_output=True, check=True)
    assert done.stdout.splitlines() == [str(ROOT), "-m", "scripts.task_suite", name, "a b", "c",
                                        "d", "--seed", "7"]


@pytest.mark.parametrize("words", [[], ["glue", "m", "d"], ["blue", "m", "d", "o"],
                                   ["glue", "m", "d", "--seed"]])
def test_a_command_line_without_the_three_folders_is_refused(words, capsys):
    assert main(words) == 2
    assert "MODEL_DIR DATA_DIR OUTPUT_DIR" in capsys.readouterr().err
