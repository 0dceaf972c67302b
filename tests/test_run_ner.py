"""Entities end to end on tiny models and files: what comes out, what is refused, the scripts."""

from __future__ import annotations

import json
import logging
import subprocess
from pathlib import Path

import pytest
import torch
from test_scripts import called_with

from metrics.ner import entities
from model.configuration_albert import AlbertConfig
from model.modeling_albert import AlbertForPreTraining, AlbertForTokenClassification
from model.tokenization_albert import AlbertTokenizer, WordPieceTokenizer
from processors.ner import TASKS
from processors.ner_files import load_entities
from processors.ner_prediction import find_entities
from run_ner import NerSettings, main, task_of
from tools.arguments import read as read_flags

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted(ROOT.glob("scripts/run_ner_*.sh"))
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "anna", "bob", "smith", "##s", "in", "york",
         "rome", "is", ".", *"叶老桂在北京上海"]
TRAIN = ["Anna B-PER", "Smiths I-PER", "is O", "in O", "York B-LOC", ". O", "",
         "Rome B-LOC", "is O", "in O", "York B-LOC", "",
         "Bob B-PER", "is O", "Anna B-PER", "Smith I-PER", ". O", ""]
DEV = ["Bob B-PER", "Smith I-PER", "is O", "in O", "Rome B-LOC", ""]


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Runs in this process leave handlers on the root logger: take them off. No curves."""
    before = list(logging.getLogger().handlers)
    monkeypatch.setattr("callback.trainingmonitor.draw_curves", lambda lines, path: None)
    yield
    for handler in [h for h in logging.getLogger().handlers if h not in before]:
        logging.getLogger().removeHandler(handler)
        handler.close()


@pytest.fixture
def model(tmp_path) -> Path:
    """A model directory without a head, which learns within a few steps."""
    folder = tmp_path / "model"
    write(folder / "vocab.txt", WORDS)
    torch.manual_seed(0)
    AlbertForPreTraining(AlbertConfig(
        vocab_size=len(WORDS), embedding_size=8, hidden_size=12, num_hidden_layers=1,
        num_attention_heads=3, intermediate_size=20, max_position_embeddings=32,
        initializer_range=0.2)).save_pretrained(folder, WordPieceTokenizer(folder / "vocab.txt"))
    return folder


def write(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path) -> list[str]:
    """Flags of a data set of one's own."""
    return ["--task_name", "custom",
            "--train_file", str(write(tmp_path / "d" / "train.conll", TRAIN * 8)),
            "--dev_file", str(write(tmp_path / "d" / "dev.conll", DEV)),
            "--test_file", str(write(tmp_path / "d" / "test.conll", TRAIN))]


def flags(model: Path, out: Path, *more: str) -> list[str]:
    return ["--model_name_or_path", str(model), "--output_dir", str(out), "--no_cuda",
            "--per_gpu_train_batch_size", "4", "--learning_rate", "2e-2", "--num_train_epochs",
            "5", *more]


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


def test_entities_are_learnt_scored_predicted_and_found_in_text(model, files, tmp_path, capsys):
    out = tmp_path / "out"
    results = run(*flags(model, out, *files, "--do_train", "--do_eval", "--do_predict"))
    for part, examples in (("dev", 1), ("test", 3)):
        scores = results[part]["custom"]
        assert scores["main"] == "f1" and scores["f1"] == scores["token_accuracy"] == 1
        assert scores["examples"] == examples and scores["baseline"]["f1"] == 0
    shown = capsys.readouterr()
    assert 'the guess is always "O"' in shown.out and "3 predictions in" in shown.out
    log = (out / "run.log").read_text(encoding="utf-8")
    assert "custom dev: LOC  precision 1.0000" in log
    labels = AlbertConfig.from_pretrained(out).id2label
    assert labels == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]  # from the training file
    predicted = load_entities(out / "predictions" / "predictions.conll", "p")
    gold = load_entities(tmp_path / "d" / "test.conll", "t")
    assert [s.spans for s in predicted.sentences] == [s.spans for s in gold.sentences]

    # The folder predicts words without tags, and plain text.
    words = write(tmp_path / "words.txt", ["Anna", "in", "Rome", "", "Bob"])
    again = tmp_path / "again"
    run("--task_name", "custom", "--test_file", str(words), "--model_name_or_path", str(out),
        "--output_dir", str(again), "--do_predict", "--no_cuda")
    assert (again / "predictions" / "predictions.conll").read_text() == (
        "Anna\tB-PER\nin\tO\nRome\tB-LOC\n\nBob\tB-PER\n")
    [found] = find_entities(AlbertForTokenClassification.from_pretrained(out),
                            AlbertTokenizer.from_pretrained(out), ["Anna Smiths is in York."],
                            split="words")
    assert [(e["type"], e["start"], e["end"]) for e in found] == [("PER", 0, 11), ("LOC", 18, 22)]
    assert all(0.2 < e["probability"] <= 1 for e in found)


def test_a_scheme_of_ones_own_and_long_sentences(model, files, tmp_path):
    out = tmp_path / "out"
    results = run(*flags(model, out, *files, "--do_train", "--do_eval", "--do_predict",
                         "--markup", "bioes", "--max_seq_length", "6", "--max_steps", "2"))
    assert AlbertConfig.from_pretrained(out).id2label[1:5] == ["B-LOC", "I-LOC", "E-LOC", "S-LOC"]
    assert results["test"]["custom"]["examples"] == 3
    lines = (out / "predictions" / "predictions.conll").read_text().splitlines()
    assert len(lines) == len(TRAIN) - 1  # every word is predicted, none is cut off
    assert lines[4].split("\t")[:2] == ["York", "S-LOC"]


def test_cluener_gives_the_file_that_clue_wants(model, tmp_path):
    data = tmp_path / "cluener"
    label = {"name": {"叶老桂": [[0, 2]]}, "address": {"北京": [[4, 5]]}}
    row = json.dumps({"text": "叶老桂在北京", "label": label})
    other = json.dumps({"text": "上海在北京", "label": {"address": {"上海": [[0, 1]],
                                                               "北京": [[3, 4]]}}})
    write(data / "train.json", [row, other] * 15)
    write(data / "dev.json", [row])
    write(data / "test.json", [json.dumps({"id": 5, "text": "叶老桂在北京"})])
    out = tmp_path / "out"
    results = run("--task_name", "CLUENER", "--data_dir", str(data),
                  *flags(model, out, "--do_train", "--do_eval", "--do_predict"))
    assert results["dev"]["cluener"]["f1"] == 1 and "test" not in results
    assert len(AlbertConfig.from_pretrained(out).id2label) == 1 + 2 * 10
    written = (out / "predictions" / "cluener_predict.json").read_text(encoding="utf-8")
    assert json.loads(written) == {"id": 5, "label": label}


def test_a_model_is_trained_further_with_its_own_order_of_labels(model, files, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    order = ["I-PER", "B-PER", "O", "I-LOC", "B-LOC"]
    run(*flags(model, first, *files, "--do_train", "--max_steps", "1", "--labels", *order))
    assert AlbertConfig.from_pretrained(first).id2label == order
    run(*flags(first, second, *files, "--do_train", "--max_steps", "1"))
    assert AlbertConfig.from_pretrained(second).id2label == order


def test_the_real_files_of_wnut17_give_entities(shared, tmp_path):
    """One step of a tiny model with the published vocabulary: every word has a prediction."""
    config = tmp_path / "config.json"
    AlbertConfig(vocab_size=30000, embedding_size=4, hidden_size=8, num_hidden_layers=1,
                 num_attention_heads=2, intermediate_size=8, max_position_embeddings=64,
                 ).save_pretrained(tmp_path)
    out = tmp_path / "out"
    folder = shared("data/wnut17")
    results = run("--task_name", "wnut17", "--data_dir", str(folder), "--from_scratch",
                  "--config_name", str(config), "--spm_model_file",
                  str(shared("data/vocab/spiece.model")), "--output_dir", str(out), "--do_train",
                  "--do_predict", "--max_steps", "1", "--no_cuda", "--per_gpu_eval_batch_size",
                  "64")
    assert results["test"]["wnut17"]["examples"] == 1287
    assert AlbertConfig.from_pretrained(out).num_labels == 13
    blocks = (out / "predictions" / "predictions.conll").read_text(encoding="utf-8").split("\n\n")
    gold = load_entities(folder / "emerging.test.annotated", "t")
    rows = [[line.split("\t") for line in block.splitlines() if line] for block in blocks]
    assert [[row[0] for row in block] for block in rows] == [s.words for s in gold.sentences]
    assert [entities([row[1] for row in block]) for block in rows] == [s.spans for s in
                                                                       gold.sentences]


# ---- what is refused ---------------------------------------------------------------------------


def test_a_malformed_file_is_refused_before_anything_is_written(model, files, tmp_path, capsys):
    bad = write(tmp_path / "bad.conll", [*TRAIN, "Rome LOC"])
    out = tmp_path / "out"
    message = refused(capsys, *flags(model, out, *files, "--train_file", str(bad), "--do_train"))
    assert f"{bad}, line 19: found 'LOC' in the last column" in message and not out.exists()


def test_flags_that_cannot_go_together_are_told(model, tmp_path, capsys):
    out = tmp_path / "out"
    message = refused(capsys, *flags(model, out, "--task_name", "custom", "--do_train",
                                     "--do_eval", "--labels", "PER", "PER"))
    assert "--train_file is missing" in message and "--dev_file is missing" in message
    assert "--labels: found PER more than once" in message
    message = refused(capsys, *flags(model, out, "--task_name", "wnut", "--do_train"))
    assert "no such task; there are: wnut17, conll2003, cluener, msra, and custom" in message
    message = refused(capsys, *flags(model, out, "--task_name", "wnut17", "--do_train"))
    assert "--data_dir is missing" in message
    message = refused(capsys, *flags(model, out, "--task_name", "wnut17", "--do_train",
                                     "--data_dir", str(tmp_path)))
    assert "no train file, expected wnut17train.conll or" in message


def test_labels_that_do_not_fit_are_told(model, files, tmp_path, capsys):
    out = tmp_path / "out"
    message = refused(capsys, *flags(model, out, *files, "--do_train", "--labels", "PER", "ORG"))
    assert "train.conll, line 1: an entity in this sentence needs the tag B-LOC" in message
    only_o = str(write(tmp_path / "o.conll", ["in O", "Rome O"]))
    message = refused(capsys, *flags(model, out, *files, "--train_file", only_o, "--do_train"))
    assert "all words have the tag O" in message
    message = refused(capsys, *flags(model, out, *files, "--do_predict"))
    assert "--labels is missing" in message
    message = refused(capsys, *flags(model, out, *files, "--do_predict", "--labels", "PER", "LOC"))
    assert "no head for custom in it" in message


def test_a_model_keeps_the_scheme_that_it_has_learnt(model, files, tmp_path, capsys):
    out = tmp_path / "out"
    run(*flags(model, out, *files, "--do_train", "--max_steps", "1", "--markup", "bios"))
    message = refused(capsys, *flags(out, tmp_path / "b", *files, "--do_eval", "--markup", "bio"))
    assert "--markup bio: the model has learnt bios" in message
    assert run(*flags(out, tmp_path / "c", *files, "--do_eval"))["dev"]["custom"]["examples"] == 1


# ---- scripts -----------------------------------------------------------------------------------


def settings_of(script: Path, folder: Path, *arguments: str) -> NerSettings:
    door, *given = called_with(script, folder, *arguments)
    assert door == "run_ner.py"
    return read_flags(NerSettings, "", given)


def test_there_is_a_script_for_every_data_set():
    assert {path.stem.removeprefix("run_ner_") for path in SCRIPTS} == set(TASKS)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_real_parser_takes_the_flags_of_a_script(script, tmp_path):
    settings = settings_of(script, tmp_path, "--seed", "7", "--markup", "bioes")
    task = task_of(settings)
    assert script.stem == f"run_ner_{task.name}" and task.head == "token_classification"
    assert settings.do_train and settings.do_eval and settings.do_predict
    assert settings.seed == 7 and settings.markup == "bioes"  # further flags are passed on
    paths = (settings.output_dir, settings.data_dir, settings.model_name_or_path)
    assert not any(Path(path).is_absolute() for path in paths)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_stops_at_the_first_error_and_runs_from_anywhere(script, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHON", "false")
    assert "set -euo pipefail" in script.read_text(encoding="utf-8")
    assert subprocess.run(["bash", str(script)], cwd=tmp_path, check=False).returncode == 1
