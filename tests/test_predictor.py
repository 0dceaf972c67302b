"""Predicting with a fine-tuned folder: as a library, from a file and through a pipe."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from callback.evaluator import predict
from model.configuration_albert import AlbertConfig
from model.modeling_albert import (
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForSequenceClassification,
)
from model.modeling_utils import WeightsError
from model.tokenization_albert import WordPieceTokenizer
from predictor import Prediction, Predictor
from processors.base import Example, LoadedSplit
from processors.classification import ClassificationData
from processors.lines import read_lines
from processors.readers import DataError
from processors.tasks import get_task
from run_classifier import main

ROOT = Path(__file__).resolve().parent.parent
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "the", "very", "."]
TEXTS = [" ".join(WORDS[5 + (i + j) % 6] for j in range(i % 7 + 1)) for i in range(23)]


def save(folder: Path, kind: type, **changes) -> Path:
    """A model with large random weights, so that texts get different answers."""
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    torch.manual_seed(3)
    kind(AlbertConfig(**{
        "vocab_size": len(WORDS), "embedding_size": 8, "hidden_size": 12, "num_hidden_layers": 2,
        "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 32,
        "initializer_range": 0.5} | changes,
    )).save_pretrained(folder, WordPieceTokenizer(folder / "vocab.txt"))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return save(tmp_path_factory.mktemp("models") / "classifier", AlbertForSequenceClassification,
                id2label=["不好", "好", "so so"])


@pytest.fixture(autouse=True)
def quiet():
    before = list(logging.getLogger().handlers)
    yield
    for handler in [h for h in logging.getLogger().handlers if h not in before]:
        logging.getLogger().removeHandler(handler)


# ---- the library -------------------------------------------------------------------------------


@pytest.mark.parametrize("pairs", [False, True])
def test_scores_are_those_of_the_evaluation(folder, pairs):
    predictor = Predictor.from_pretrained(folder, "cpu", batch_size=4)
    examples = [Example(str(i), text, TEXTS[-1 - i] if pairs else None)
                for i, text in enumerate(TEXTS)]
    task = get_task("cmnli" if pairs else "tnews")
    data = ClassificationData(task, LoadedSplit("x", Path("x"), examples), predictor.tokenizer, 32)
    wanted = predict(predictor.model, data, data.collate, data.keep, 4, data.lengths)
    texts = [(e.text_a, e.text_b) if pairs else e.text_a for e in examples]
    np.testing.assert_allclose(predictor.logits(texts), wanted, atol=1e-5)
    answers = predictor(texts)
    assert [a.label for a in answers] == [["不好", "好", "so so"][i] for i in wanted.argmax(1)]
    shares = torch.from_numpy(wanted).softmax(-1)
    for answer, row in zip(answers, shares.tolist(), strict=True):
        assert list(answer.probabilities.values()) == pytest.approx(row, abs=1e-5)
        assert answer.probability == pytest.approx(max(row), abs=1e-5)
        assert answer.probabilities[answer.label] == answer.probability
    assert len({a.label for a in answers}) > 1  # otherwise order would not show


def test_one_text_one_pair_and_a_mixture_are_understood(folder):
    predictor = Predictor.from_pretrained(folder, "cpu", batch_size=2)
    [one], [two] = predictor("good film"), predictor(("good film", "bad"))
    mixed = predictor(["good film", ("good film", "bad"), "good film"])
    for answer, wanted in zip(mixed, [one, two, one], strict=True):
        assert answer.label == wanted.label
        assert answer.probability == pytest.approx(wanted.probability, abs=1e-6)
    assert one.probability != pytest.approx(two.probability, abs=1e-6)
    assert predictor([]) == []
    for wrong in (3, ("a", "b", "c"), ["a", "b"]):
        with pytest.raises(TypeError, match="expected a text"):
            predictor(["good", wrong])


def test_a_stream_keeps_the_order_and_never_reads_more_than_a_window_ahead(folder):
    predictor = Predictor.from_pretrained(folder, "cpu", batch_size=2)
    texts = TEXTS * 9
    read = answered = 0

    def reading() -> Iterator[str]:
        nonlocal read
        for text in texts:
            read += 1
            assert read - answered <= predictor.window
            yield text

    got = []
    for prediction in predictor.stream(reading()):
        got.append(prediction)
        answered += 1
    assert read == answered == len(texts) > 2 * predictor.window
    alone = {text: predictor(text)[0] for text in TEXTS}
    assert [p.label for p in got] == [alone[text].label for text in texts]
    assert Predictor.from_pretrained(folder, "cpu", batch_size=1).window == 1


def test_what_comes_before_a_broken_line_is_answered(folder):
    predictor = Predictor.from_pretrained(folder, "cpu", batch_size=2)

    def reading() -> Iterator[str]:
        yield from TEXTS[:5]
        raise DataError("line 6")

    stream = predictor.stream(reading())
    assert len([next(stream) for _ in range(5)]) == 5
    with pytest.raises(DataError, match="line 6"):
        next(stream)


def test_memory_stays_flat_over_a_hundred_thousand_lines(folder):
    predictor = Predictor.from_pretrained(folder, "cpu", batch_size=64)
    predictor.logits = lambda texts: np.zeros((len(texts), 3), np.float32)  # the model takes longer

    def peak(lines: int) -> int:
        tracemalloc.start()
        assert sum(1 for _ in predictor.stream(f"good film {i}" for i in range(lines))) == lines
        value = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return value

    small = peak(2_000)
    assert peak(100_000) < 1.5 * small


def test_long_texts_are_cut_and_counted(folder):
    predictor = Predictor.from_pretrained(folder, "cpu", max_length=8)
    predictor(["good " * 50, "bad"])
    assert predictor.truncated == 1
    with pytest.raises(ValueError, match="max_length is 33, expected 4 to 32"):
        Predictor.from_pretrained(folder, "cpu", max_length=33)
    with pytest.raises(ValueError, match="batch_size is 0"):
        Predictor.from_pretrained(folder, "cpu", batch_size=0)


def test_numbers_have_no_probability(tmp_path):
    folder = save(tmp_path / "m", AlbertForSequenceClassification, num_labels=1,
                  problem_type="regression")
    predictor = Predictor.from_pretrained(folder, "cpu")
    [answer] = predictor([("good film", "bad film")])
    assert answer == Prediction(float(predictor.logits([("good film", "bad film")])[0, 0]))
    assert isinstance(answer.label, float)


def test_a_model_without_names_gets_numbers_and_a_note(tmp_path, caplog):
    folder = save(tmp_path / "m", AlbertForSequenceClassification, num_labels=4)
    [answer] = Predictor.from_pretrained(folder, "cpu")("good")
    assert list(answer.probabilities) == ["LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3"]
    assert "does not name its labels" in caplog.text


def test_models_that_cannot_answer_are_refused(tmp_path):
    bare = save(tmp_path / "bare", AlbertForPreTraining)
    with pytest.raises(WeightsError, match="no classifier in it.*pretraining.*--do_train"):
        Predictor.from_pretrained(bare)
    entities = save(tmp_path / "ner", AlbertForSequenceClassification, id2label=["O", "B-X", "I-X"])
    with pytest.raises(WeightsError, match="those of entities"):
        Predictor.from_pretrained(entities)
    choice = save(tmp_path / "race", AlbertForMultipleChoice, problem_type="classification")
    with pytest.raises(WeightsError, match="multiple choice"):
        Predictor.from_pretrained(choice)
    with pytest.raises(FileNotFoundError):
        Predictor.from_pretrained(tmp_path / "nothing")


# ---- lines -------------------------------------------------------------------------------------


def lines(*rows: str | bytes) -> list[bytes]:
    return [(row.encode() if isinstance(row, str) else row) + b"\n" for row in rows]


def test_lines_are_texts_pairs_or_objects():
    assert list(read_lines(lines("\ufeffa b", "", "c\r"), "f")) == ["a b", None, "c"]
    assert list(read_lines(lines("a\tb", "c\td"), "f")) == [("a", "b"), ("c", "d")]
    objects = lines('{"sentence": "a"}', ' {"label ": 1, "Sentence": "b"}')
    assert list(read_lines(objects, "f")) == ["a", "b"]
    assert list(read_lines(lines('{"sentence1": "a", "sentence2": "b"}'), "f")) == [("a", "b")]
    qnli = get_task("qnli").columns
    assert list(read_lines(lines('{"question": "a", "sentence": "b"}'), "f", qnli)) == [("a", "b")]
    csl = get_task("csl").columns
    assert list(read_lines(lines('{"abst": "b", "keyword": ["x", "y"]}'), "f", csl)) == [
        ("x y", "b")]


def test_a_task_that_prepares_its_objects_does_so_here():
    task = get_task("cluewsc")
    item = {"target": {"span1_index": 0, "span1_text": "甲", "span2_index": 2, "span2_text": "它"},
            "text": "甲，它在"}
    rows = lines(json.dumps(item), json.dumps(item | {"target": None}))
    texts = read_lines(rows, "f", task.columns, task.prepare)
    assert next(texts) == "_甲_，[它]在"
    with pytest.raises(DataError, match="f, line 2: .*expected text and target"):
        next(texts)


@pytest.mark.parametrize(("rows", "columns", "wanted"), [
    (["a", "b\tc"], None, "f, line 2: found 2 texts .*expected 1 as in the lines above"),
    (["a\tb", "c"], None, "f, line 2: found 1 texts .*expected 2, a pair as in the lines above"),
    (["a\tb\tc"], None, "f, line 1: found 3 texts .*expected 1"),
    (["a", b"b\xff"], None, "f, line 2: byte 0xff is not UTF-8"),
    (['{"text": "a"}', "b"], None, "f, line 2: broken JSON"),
    (['{"text": "a"}', "[1]"], None, "f, line 2: found a JSON list"),
    (['{"text": "a"}', '{"x": 1}'], None, "f, line 2: no text under 'text_a' or .*found .*'x'"),
    (['{"text": "a"}'], {"text_a": ("body",)}, "f, line 1: no text under 'body'"),
    (["a"], {"text_a": ("x", 0), "text_b": ("y", 1)}, "f, line 1: found 1 texts .*2, a pair$"),
    (['{"text": "a", "hypothesis": "b"}', '{"text": "a"}'], None, "line 2: no text under .*'hyp"),
])
def test_broken_lines_name_file_and_line(rows, columns, wanted):
    with pytest.raises(DataError, match=wanted):
        list(read_lines(lines(*rows), "f", columns))


# ---- the command -------------------------------------------------------------------------------


def test_a_file_of_texts_gets_a_line_for_each(folder, tmp_path, capsys):
    file = tmp_path / "texts.txt"
    file.write_text("good film\n\nbad\n" + "very good . \n" * 20, encoding="utf-8")
    call = ["--model_name_or_path", str(folder), "--predict_file", str(file), "--no_cuda"]
    assert main(call) == 0
    shown = capsys.readouterr()
    assert "good" not in shown.err  # only what a person should know
    rows = shown.out.split("\n")
    assert len(rows) == 24 and rows[1] == rows[-1] == "" and len(set(rows[3:-1])) == 1
    answers = Predictor.from_pretrained(folder, "cpu")(["good film", "bad"])
    assert [rows[0], rows[2]] == [f"{a.label}\t{a.probability:.4f}" for a in answers]
    assert main([*call, "--predict_output", str(tmp_path / "new" / "out.tsv")]) == 0
    assert (tmp_path / "new" / "out.tsv").read_text("utf-8") == shown.out
    assert capsys.readouterr().out == "" and sorted(p.name for p in folder.iterdir()) == [
        "config.json", "model.safetensors", "tokenizer_config.json", "vocab.txt"]


def test_a_pipe_is_answered_while_it_is_open(folder):
    """UTF-8 whatever the locale; batches of one answer every line at once."""
    program = subprocess.Popen(
        [sys.executable, ROOT / "run_classifier.py", "--model_name_or_path", folder, "--no_cuda",
         "--predict_file", "-", "--per_gpu_eval_batch_size", "1"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"LC_ALL": "C"})
    [wanted] = Predictor.from_pretrained(folder, "cpu")("good film")
    line = f"{wanted.label}\t{wanted.probability:.4f}\n".encode()
    for _ in range(2):
        program.stdin.write(b"good film\n")
        program.stdin.flush()
        assert program.stdout.readline() == line
    out, messages = program.communicate(b"good film\nbad\tfilm\n")
    assert out == line and program.returncode == 1
    assert messages.decode().splitlines()[-1].startswith("error: standard input, line 4: found 2")


def test_a_reader_that_goes_away_is_no_error(folder, tmp_path):
    file = tmp_path / "many.txt"
    file.write_text("good film\n" * 20_000)
    shell = (f"{sys.executable} {ROOT / 'run_classifier.py'} --model_name_or_path {folder} "
             f"--no_cuda --predict_file {file} --per_gpu_eval_batch_size 64 | head -n 1")
    done = subprocess.run(["bash", "-o", "pipefail", "-c", shell], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.count("\n") == 1


def test_objects_by_the_columns_of_a_task_and_by_flags(folder, tmp_path, capsys):
    file = tmp_path / "x.jsonl"
    file.write_text(json.dumps({"question": "good", "sentence": "film"}) + "\n")
    call = ["--model_name_or_path", str(folder), "--predict_file", str(file), "--no_cuda"]
    shown = []
    for more in (["--task_name", "qnli"],
                 ["--text_a_column", "question", "--text_b_column", "sentence"]):
        assert main([*call, *more]) == 0
        shown.append(capsys.readouterr().out)
    [answer] = Predictor.from_pretrained(folder, "cpu")([("good", "film")])
    assert shown == [f"{answer.label}\t{answer.probability:.4f}\n"] * 2


def test_the_command_prepares_them_too(folder, tmp_path, capsys):
    item = {"target": {"span1_index": 0, "span1_text": "good", "span2_index": 5,
                       "span2_text": "film"}, "text": "good film"}
    file = tmp_path / "x.json"
    file.write_text(json.dumps(item) + "\n")
    assert main(["--model_name_or_path", str(folder), "--predict_file", str(file), "--no_cuda",
                 "--task_name", "cluewsc"]) == 0
    [answer] = Predictor.from_pretrained(folder, "cpu")("_good_ [film]")
    assert capsys.readouterr().out == f"{answer.label}\t{answer.probability:.4f}\n"


@pytest.mark.parametrize(("more", "wanted"), [
    (["--predict_file", "nowhere.txt"], "--predict_file nowhere.txt: no such file"),
    (["--predict_file", "."], "found a folder, expected a file"),
    (["--predict_file", "-", "--do_train", "--output_dir", "x"],
     "leave out --do_train, --output_dir"),
    (["--predict_file", "-", "--per_gpu_eval_batch_size", "0"], "expected at least 1"),
    (["--predict_file", "-", "--task_name", "nonsense"], "no such task"),
    (["--predict_output", "x"], "the answers to --predict_file go"),
])
def test_flags_that_make_no_sense_are_refused(folder, capsys, more, wanted):
    with pytest.raises(SystemExit):
        main(["--model_name_or_path", str(folder), *more])
    assert wanted in capsys.readouterr().err


def test_the_output_may_not_be_the_input_and_a_model_is_needed(folder, tmp_path, capsys):
    file = tmp_path / "texts.txt"
    file.write_text("good\n")
    with pytest.raises(SystemExit):
        main(["--predict_file", str(file), "--predict_output", str(file)])
    message = capsys.readouterr().err
    assert "is --predict_file itself" in message and "--model_name_or_path is missing" in message
    assert main(["--predict_file", str(file), "--model_name_or_path", str(tmp_path)]) == 1
    assert "no weights in this folder" in capsys.readouterr().err
