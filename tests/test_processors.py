"""Readers, task rows, features and submission files, on small files of GLUE's and CLUE's shape."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from metrics.classification import METRICS, MetricError
from model.tokenization_albert import WordPieceTokenizer
from processors import clue, glue
from processors.base import custom_task, find_file, find_splits
from processors.classification import ClassificationData
from processors.loading import infer_labels, load_split
from processors.readers import DataError, read_rows
from processors.submission import STYLES, Prediction, write_predictions
from processors.tasks import TASKS, get_task

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "dog", "ran", "."]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def table(*rows: str) -> str:
    """Rows with | for a tab."""
    return "".join(row.replace("|", "\t") + "\n" for row in rows)


@pytest.fixture
def tokenizer(tmp_path):
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    return WordPieceTokenizer(write(folder / "vocab.txt", "\n".join(VOCABULARY)))


# ---- the rows themselves ----------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_every_row_is_complete(task):
    assert task.metric in METRICS and task.submission_style in STYLES
    assert {"text_a", "label"} <= set(task.columns)
    assert METRICS[task.metric].kind == ("regression" if task.is_regression else "classification")
    assert task.is_regression or len(set(task.labels)) == len(task.labels) >= 2
    assert set(task.test) <= set(task.submission)
    assert task.dev and task.name == task.name.lower()


def test_names_with_other_capitals_and_hyphens():
    for name, found in [("SST-2", "sst-2"), ("sst2", "sst-2"), ("STSB", "sts-b"),
                        ("sts_b", "sts-b"), ("MNLI", "mnli"), ("mnli-mm", "mnli"),
                        ("CoLA", "cola"), ("AX", "ax"),
                        ("diagnostic", "ax"), ("pawsx", "paws-x"), ("LCQMC", "lcqmc")]:
        assert get_task(name).name == found


def test_an_unknown_task_lists_those_there_are():
    with pytest.raises(DataError, match=r"sst3: no such task \(did you mean sst-2\?\).*wnli"):
        get_task("sst3")


def test_label_sets_of_clue():
    assert len(clue.TASKS["tnews"].labels) == 15
    assert len(clue.TASKS["iflytek"].labels) == 119
    assert glue.TASKS["mnli"].labels == ("contradiction", "entailment", "neutral")


# ---- GLUE's layouts ---------------------------------------------------------------------------

HEADERS = {  # header, one row, of train or dev files as they are published
    "sst-2": ("sentence|label", "a fine film |1", ("a fine film ", None, 1)),
    "mrpc": ("Quality|#1 ID|#2 ID|#1 String|#2 String", '1|7|8|He said "so|She said',
             ('He said "so', "She said", 1)),
    "sts-b": ("index|genre|filename|year|old_index|source1|source2|sentence1|sentence2|score",
              "0|news|f|2012|1|x|y|A man|A boy|3.800", ("A man", "A boy", 3.8)),
    "qqp": ("id|qid1|qid2|question1|question2|is_duplicate", "9|1|2|Why?|How?|0",
            ("Why?", "How?", 0)),
    "mnli": ("index|promptID|pairID|genre|sentence1_binary_parse|sentence2_binary_parse|"
             "sentence1_parse|sentence2_parse|sentence1|sentence2|label1|gold_label",
             "0|1|2|fiction|( a )|( b )|(a)|(b)|It rains.|It is wet.|entailment|neutral",
             ("It rains.", "It is wet.", 2)),
    "qnli": ("index|question|sentence|label", "5|Who?|He.|not_entailment", ("Who?", "He.", 1)),
    "rte": ("index|sentence1|sentence2|label", "5|Rain.|Wet.|entailment", ("Rain.", "Wet.", 0)),
    "wnli": ("index|sentence1|sentence2|label", "5|Rain.|Wet.|1", ("Rain.", "Wet.", 1)),
}


@pytest.mark.parametrize("name", HEADERS)
def test_glue_rows_read_their_published_layout(name, tmp_path):
    header, row, (text_a, text_b, label) = HEADERS[name]
    split = load_split(get_task(name), write(tmp_path / "train.tsv", table(header, row)))
    [example] = split.examples
    assert (example.text_a, example.text_b, example.label) == (text_a, text_b, label)


def test_row_39_sts_b_labels_stay_floats(tmp_path):
    header, row, _ = HEADERS["sts-b"]
    task = get_task("sts-b")
    split = load_split(task, write(tmp_path / "dev.tsv", table(header, row)))
    assert split.examples[0].label == 3.8 and isinstance(split.examples[0].label, float)
    assert task.metric == "pearson_and_spearman" and task.labels is None


def test_row_42_cola_without_header_and_its_test_file_with_one(tmp_path):
    task = get_task("cola")
    train = write(tmp_path / "train.tsv", table("gj04|1||He ran.", "gj04|0|*|Ran he."))
    split = load_split(task, train)
    assert [(e.text_a, e.label) for e in split.examples] == [("He ran.", 1), ("Ran he.", 0)]
    test = load_split(task, write(tmp_path / "test.tsv", table("index|sentence", "7|He sat.")),
                      labels="optional")
    assert [(e.guid, e.text_a, e.label) for e in test.examples] == [("7", "He sat.", None)]


@pytest.mark.parametrize("rows", [
    ("index|question|sentence|label", "5|Who?|He.|entailment"),
    ("index|sentence1|sentence2|label", "5|Who?|He.|entailment"),
    ("5|Who?|He.|entailment",),
])
def test_row_42_old_and_new_qnli_with_and_without_header(rows, tmp_path):
    split = load_split(get_task("qnli"), write(tmp_path / "train.tsv", table(*rows)))
    [example] = split.examples
    assert (example.guid, example.text_a, example.text_b, example.label) == ("5", "Who?", "He.", 0)


@pytest.mark.parametrize(("file", "content"), [
    ("train.txt", table("喜欢|爱|1")),
    ("train.tsv", table("text_a|text_b|label", "喜欢|爱|1")),
    ("train.tsv", table("question1|question2|label", "喜欢|爱|1")),
    ("train.tsv", "\ufeff" + table("sentence1|sentence2|label", "喜欢|爱|1")),
    ("train.csv", 'sentence1,sentence2,label\n"喜欢",爱,1\n'),
    ("train.json", '{"sentence1": "喜欢", "sentence2": "爱", "label": "1"}\n'),
    ("train.json", '[{"sentence1": "喜欢", "sentence2": "爱", "label": 1}]'),
])
def test_row_42_lcqmc_in_every_form_it_goes_round_in(file, content, tmp_path):
    write(tmp_path / file, content)
    task = get_task("lcqmc")
    split = load_split(task, find_file(tmp_path, task.train, "train"))
    assert [(e.text_a, e.text_b, e.label) for e in split.examples] == [("喜欢", "爱", 1)]


def test_row_43_clue_keys_with_stray_spaces(tmp_path):
    content = '{"id": 3, " sentence": "好", "label ": " Positive "}\n'
    split = load_split(get_task("eprstmt"), write(tmp_path / "train.json", content))
    [example] = split.examples
    assert (example.guid, example.text_a, example.label) == ("3", "好", 1)


def test_row_38_mnli_has_two_dev_files_under_two_names(tmp_path):
    for part in ("matched", "mismatched"):
        write(tmp_path / f"dev_{part}.tsv", table(*HEADERS["mnli"][:2]))
    found = find_splits(tmp_path, get_task("mnli").dev, "dev")
    assert {name: path.name for name, path in found.items()} == {
        "mnli-m": "dev_matched.tsv", "mnli-mm": "dev_mismatched.tsv"}


def test_one_of_two_dev_files_missing_is_said(tmp_path, caplog):
    write(tmp_path / "dev_matched.tsv", table(*HEADERS["mnli"][:2]))
    with caplog.at_level(logging.INFO):
        assert list(find_splits(tmp_path, get_task("mnli").dev, "dev")) == ["mnli-m"]
    assert "no dev file for mnli-mm (dev_mismatched.tsv)" in caplog.text


def test_csl_joins_its_keywords_and_cmnli_leaves_out_disputed_examples(tmp_path):
    line = {"id": 1, "abst": "摘要", "keyword": ["水", "火"], "label": "1"}
    split = load_split(get_task("csl"), write(tmp_path / "a.json", json.dumps(line)))
    assert (split.examples[0].text_a, split.examples[0].text_b) == ("水 火", "摘要")
    lines = [{"sentence1": "a", "sentence2": "b", "label": label} for label in ("-", "neutral")]
    path = write(tmp_path / "b.json", "\n".join(map(json.dumps, lines)))
    split = load_split(get_task("cmnli"), path)
    assert [e.label for e in split.examples] == [2]
    assert "left out 1 examples whose label is '-'" in split.notes[0]


def test_xnli_takes_one_language_and_its_other_spelling_of_a_label(tmp_path):
    dev = write(tmp_path / "xnli.dev.tsv", table(
        "language|gold_label|sentence1|sentence2", "en|neutral|a|b", "zh|entailment|雨|湿"))
    train = write(tmp_path / "multinli.train.zh.tsv", table("premise|hypo|label",
                                                            "雨|湿|contradictory"))
    task = get_task("xnli")
    assert [(e.text_a, e.label) for e in load_split(task, dev).examples] == [("雨", 1)]
    assert [e.label for e in load_split(task, train).examples] == [0]


# ---- files that are not right -------------------------------------------------------------------


def refused(name: str, path: Path, message: str, **load) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load_split(get_task(name) if isinstance(name, str) else name, path, **load)
    assert str(path) in str(caught.value)


def test_a_ragged_line_names_file_line_and_columns(tmp_path):
    path = write(tmp_path / "dev.tsv", table("sentence|label", "a film|1", "no label here"))
    refused("sst-2", path, r"line 3: found 1 columns, expected 2 as in the header 'sentence' or "
                           r"'label' \(1 such lines\); mend the file, or leave them out")


def test_qqp_leaves_out_its_few_broken_lines_and_says_so(tmp_path, caplog):
    rows = [HEADERS["qqp"][0], *[HEADERS["qqp"][1]] * 199, "9|1|2|Why"]
    split = load_split(get_task("qqp"), write(tmp_path / "train.tsv", table(*rows)))
    assert len(split) == 199
    assert "line 201: found 4 columns, expected 6" in caplog.text
    assert "left out 1 such lines of 201" in caplog.text


def test_more_than_a_few_broken_lines_are_refused_even_there(tmp_path):
    rows = [HEADERS["qqp"][0], *[HEADERS["qqp"][1]] * 90, *["9|1|2|Why"] * 10]
    refused("qqp", write(tmp_path / "train.tsv", table(*rows)),
            "10 of 101 lines are like this, too many to leave out: is the delimiter right")


def test_an_unknown_label_names_file_line_and_the_labels(tmp_path):
    path = write(tmp_path / "dev.tsv", table(*HEADERS["rte"][:2], "6|a|b|maybe"))
    refused("rte", path, "line 3: unknown label 'maybe', expected one of 'entailment' or "
                         "'not_entailment'")
    path = write(tmp_path / "dev.json", '{"sentence": "x", "label": "100"}\n\n'
                                        '{"sentence": "x", "label": "105"}')
    refused("tnews", path, "line 3: unknown label '105'")


def test_an_unknown_header_is_guessed_at_in_the_message(tmp_path):
    path = write(tmp_path / "train.tsv", table("句子一|句子二|标签", "a|b|1"))
    refused("lcqmc", path, "line 1: unknown label '标签'.*if this line is a header")


def test_a_missing_column_lists_what_is_there(tmp_path):
    path = write(tmp_path / "dev.tsv", table("index|sentence1|label", "0|a|1"))
    refused("wnli", path, "line 1: no column for text_b of task wnli, expected 'sentence2' or "
                          "column 2, found the header 'index' or 'sentence1' or 'label'")
    path = write(tmp_path / "dev.json", '{"sentence1": "a", "label": "1"}')
    refused("lcqmc", path, "no column for text_b.*found the keys 'sentence1' or 'label'")
    path = write(tmp_path / "two.json", '{"sentence": "a", "label": "100"}\n{"label": "100"}')
    refused("tnews", path, "line 2: no value for 'sentence'")


def test_a_number_that_is_none(tmp_path):
    header, row, _ = HEADERS["sts-b"]
    for wrong in ("high", "nan", "inf", ""):
        path = write(tmp_path / "dev.tsv", table(header, row, row.replace("3.800", wrong)))
        refused("sts-b", path, f"line 3: the label is '{wrong}', expected a number")


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.json"])
def test_an_empty_file_says_the_minimum(name, content, tmp_path):
    path = write(tmp_path / name, content)
    refused("sst-2", path, "the file is empty, expected at least one example")


def test_a_header_alone_says_the_minimum(tmp_path):
    refused("sst-2", write(tmp_path / "a.tsv", "sentence\tlabel\n"),
            "a header and nothing below it, expected at least one example")
    refused("xnli", write(tmp_path / "b.tsv", table("language|gold_label|sentence1|sentence2",
                                                    "en|neutral|a|b")),
            "no example, expected at least one where language is 'zh'")


def test_a_bad_byte_names_file_and_line(tmp_path):
    path = write(tmp_path / "a.tsv", "sentence\tlabel\n好\t1\n".encode() + "差\t0\n".encode("gbk"))
    refused("sst-2", path, "line 3: byte 0xb2 is not UTF-8")


def test_text_is_utf_8_whatever_the_locale(tmp_path):
    path = write(tmp_path / "a.tsv", "sentence\tlabel\n很好\t1\n")
    code = (f"from pathlib import Path; from processors.loading import load_split; "
            f"from processors.tasks import get_task; "
            f"e = load_split(get_task('sst-2'), Path({str(path)!r})).examples[0]; "
            f"assert e.text_a == '\\u5f88\\u597d', ascii(e.text_a)")
    subprocess.run([sys.executable, "-X", "utf8=0", "-c", code], check=True,
                   cwd=Path(__file__).parent.parent, env={"LC_ALL": "C", "PATH": "/usr/bin",
                                                          "PYTHONCOERCECLOCALE": "0"})


@pytest.mark.parametrize(("name", "content", "message"), [
    ("a.json", '{"sentence": "a", "label": "1"}\n{"sentence": ', "line 2: broken JSON"),
    ("a.json", '[{"sentence": "a",\n "label": "1"},\n oops]', "line 3: broken JSON"),
    ("a.json", '{"sentence": "a", "label": "1"}\n"text"', "line 2: found a JSON str, expected an"),
    ("a.json", '[{"sentence": "a", "label": "1"}, 7]', "item 2: found a JSON int"),
    ("a.csv", 'sentence,label\na,1\n"b" c,0\n', "line 3: broken CSV"),
    ("a.csv", 'sentence,label\na,1\n"b,0\n', "line 3: broken CSV"),
    ("a.parquet", "PAR1", "cannot tell the format from the suffix '.parquet'"),
])
def test_broken_files_name_file_and_line(name, content, message, tmp_path):
    refused("sst-2", write(tmp_path / name, content), message)


def test_a_missing_file_and_folder_list_what_is_there(tmp_path):
    write(tmp_path / "training.tsv", "x")
    task = get_task("rte")
    with pytest.raises(DataError, match="no train file, expected train.tsv.*found: training.tsv"):
        find_file(tmp_path, task.train, "train")
    with pytest.raises(DataError, match="no dev file"):
        find_splits(tmp_path, task.dev, "dev")
    (tmp_path / "SST-2").mkdir()
    with pytest.raises(DataError, match=r"--data_dir .*sst2: no such folder.*there are: SST-2"):
        find_file(tmp_path / "sst2", task.train, "train")
    with pytest.raises(DataError, match="no such file"):
        load_split(task, tmp_path / "none.tsv")


def test_row_41_a_file_without_labels_is_refused_where_labels_are_needed(tmp_path):
    path = write(tmp_path / "test.tsv", table("index|sentence", "0|a film"))
    refused("sst-2", path, "no label column.*can only be predicted")
    assert not load_split(get_task("sst-2"), path, labels="optional").labelled


def test_placeholders_in_a_test_file_are_no_labels(tmp_path):
    path = write(tmp_path / "test.tsv", table("sentence|label", "a|-1", "b|-1"))
    assert not load_split(get_task("sst-2"), path, labels="optional").labelled
    path = write(tmp_path / "test.json", '{"sentence": "a", "label": ""}\n{"sentence": "b"}')
    assert not load_split(get_task("tnews"), path, labels="optional").labelled


# ---- CSV and delimiters ------------------------------------------------------------------------


def test_csv_cells_may_hold_commas_quotes_and_line_ends(tmp_path):
    path = write(tmp_path / "a.csv", 'sentence,label\r\n"one, ""two""\nthree",1\r\n\r\nfour,0\r\n')
    rows = read_rows(path)
    assert rows.cells == [["sentence", "label"], ['one, "two"\nthree', "1"], ["four", "0"]]
    assert rows.places == [1, 2, 5]


def test_tsv_keeps_quotes_and_rare_line_breaks_inside_a_cell(tmp_path):
    path = write(tmp_path / "a.tsv", 'a "b\tc\u2028d\x0be\r\n\r\nf\tg\n')
    rows = read_rows(path)
    assert rows.cells == [['a "b', "c\u2028d\x0be"], ["f", "g"]]
    assert rows.places == [1, 3]


def test_an_own_delimiter(tmp_path):
    path = write(tmp_path / "a.txt", "今天_!_明天_!_0\n")
    task = custom_task(None, str(path), None, "0", "1", "2", labels=["0", "1"], delimiter="_!_")
    assert load_split(task, path).examples[0].text_b == "明天"
    path = write(tmp_path / "b.csv", "a;b\n")
    assert read_rows(path, delimiter=";").cells == [["a", "b"]]
    with pytest.raises(DataError, match="separated by one character"):
        read_rows(path, delimiter=";;")
    assert custom_task(None, None, None, "0", delimiter="\\t").delimiter == "\t"


# ---- a task from flags -------------------------------------------------------------------------


def test_a_custom_task_infers_its_labels(tmp_path):
    path = write(tmp_path / "mine.csv", "text,kind\n" + "a,10\nb,9\nc,x\n" * 3)
    task = custom_task(str(path), None, None, "text", label_column="kind")
    assert task.infer_labels and infer_labels(task, path) == ("9", "10", "x")


def test_a_header_taken_for_a_label_is_noticed(tmp_path):
    path = write(tmp_path / "mine.tsv", table("text|label", "a|0", "b|1", "c|0"))
    task = custom_task(str(path), None, None, "0", label_column="1")
    with pytest.raises(DataError, match="'label' occurs on this line alone, so this looks like"):
        infer_labels(task, path)


def test_labels_that_are_no_classes_are_noticed(tmp_path):
    path = write(tmp_path / "mine.csv", "text,label\n" + "".join(f"a,{i}.5\n" for i in range(50)))
    with pytest.raises(DataError, match="50 different labels in 50 examples.*--regression"):
        infer_labels(custom_task(str(path), None, None, "text"), path)
    path = write(tmp_path / "same.csv", "text,label\na,1\nb,1\n")
    with pytest.raises(DataError, match="all 2 labels are '1', expected at least two kinds"):
        infer_labels(custom_task(str(path), None, None, "text"), path)
    with pytest.raises(DataError, match="--regression predicts a number, found --labels a b"):
        custom_task("x", None, None, "text", labels=["a", "b"], regression=True)


def test_a_custom_regression(tmp_path):
    path = write(tmp_path / "mine.jsonl", '{"s": "a", "label": 3.8}\n')
    task = custom_task(str(path), None, None, "s", regression=True)
    assert load_split(task, path).examples[0].label == 3.8
    assert task.metric == "pearson_and_spearman"


# ---- features ----------------------------------------------------------------------------------


def data(name, rows, tokenizer, tmp_path, max_length=8, **load):
    task = get_task(name) if isinstance(name, str) else name
    split = load_split(task, write(tmp_path / "some.tsv", table(*rows)), **load)
    return ClassificationData(task, split, tokenizer, max_length)


def test_features_and_batches(tokenizer, tmp_path):
    split = data("rte", [HEADERS["rte"][0], "0|the cat|the dog ran .|entailment",
                         "1|cat|dog|not_entailment"], tokenizer, tmp_path, max_length=16)
    assert split.lengths.tolist() == [9, 5]
    assert split[(4, 1)] == split[1] == {"input_ids": [2, 6, 3, 8, 3],
                                         "token_type_ids": [0, 0, 0, 1, 1], "labels": 1}
    batch = split.collate([split[0], split[1]])
    assert batch["input_ids"].shape == (2, 9)
    assert batch["attention_mask"].sum(1).tolist() == [9, 5]
    assert batch["input_ids"][1, 5:].tolist() == [tokenizer.pad_token_id] * 4
    assert batch["labels"].tolist() == [0, 1] and batch["labels"].dtype == torch.int64


def test_row_36_a_text_that_is_too_long_is_cut_and_the_count_told(tokenizer, tmp_path, caplog):
    split = data("sst-2", ["sentence|label", "the cat sat|1", "cat " * 600 + "|0"], tokenizer,
                 tmp_path, max_length=512)
    assert split.truncated == 1 and split.lengths.tolist() == [5, 512]
    assert "1 of 2 examples are longer than 512 tokens and were cut" in caplog.text


def test_row_39_regression_batches_are_floats(tokenizer, tmp_path):
    split = data("sts-b", HEADERS["sts-b"][:2], tokenizer, tmp_path)
    assert split.collate([split[0]])["labels"].tolist() == pytest.approx([3.8])
    assert split.collate([split[0]])["labels"].dtype == torch.float32


def test_scores_and_predictions_of_classes(tokenizer, tmp_path):
    split = data("rte", [HEADERS["rte"][0], "10|a|b|entailment", "12|c|d|not_entailment",
                         "13|e|f|not_entailment"], tokenizer, tmp_path)
    logits = np.array([[2.0, 0.0], [1.0, 0.0], [-1.0, 1.0]])
    scores = split.score(logits)
    assert scores.value == scores.baseline["accuracy"] == pytest.approx(2 / 3)
    assert scores.baseline_guess == 'always "not_entailment"'
    predictions = split.predict(logits)
    assert [(p.guid, p.value) for p in predictions] == [
        ("10", "entailment"), ("12", "entailment"), ("13", "not_entailment")]
    assert predictions[2].probability == pytest.approx(1 / (1 + np.exp(-2)))


def test_row_41_no_score_without_labels(tokenizer, tmp_path):
    split = data("sst-2", ["index|sentence", "0|cat"], tokenizer, tmp_path, labels="optional")
    assert "labels" not in split[0] and "labels" not in split.collate([split[0]])
    with pytest.raises(MetricError, match="1 of 1 examples have no label"):
        split.score(np.zeros((1, 2)))


def test_row_40_submission_files(tokenizer, tmp_path):
    split = data("sts-b", HEADERS["sts-b"][:2], tokenizer, tmp_path)
    out = tmp_path / "new" / "STS-B.tsv"
    write_predictions(out, split.predict(np.array([[5.4321]])), "glue")
    assert out.read_text() == "index\tprediction\n0\t5.000\n"  # cut off where the scale ends
    write_predictions(out, [Prediction("3", "neutral", 0.5)], "glue")
    assert out.read_text() == "index\tprediction\n3\tneutral\n"
    write_predictions(out, [Prediction("3", "好", 0.51234)], "table")
    assert out.read_text("utf-8") == "index\tprediction\tprobability\n3\t好\t0.5123\n"
    write_predictions(out, [Prediction("3", "102", 0.5), Prediction("x", "103", 0.5)], "clue")
    assert out.read_text() == '{"id": 3, "label": "102"}\n{"id": "x", "label": "103"}\n'


# ---- real files --------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "folder", "train", "dev"), [
    ("cola", "glue/CoLA", 8551, 1043), ("rte", "glue/RTE", 2490, 277),
    ("wnli", "glue/WNLI", 635, 71), ("sst-2", "glue/SST-2", 67349, 872),
    ("bustm", "fewclue/bustm", 160, 160), ("ocnli", "fewclue/ocnli", 160, 160),
    ("tnews", "fewclue/tnews", 1185, 1098), ("eprstmt", "fewclue/eprstmt", 160, 160),
    ("csl", "fewclue/csl", 160, 160), ("iflytek", "fewclue/iflytek", 3024, 1373),
])
def test_real_files(name, folder, train, dev, shared):
    folder = shared(f"data/{folder}")
    task = get_task(name)
    assert len(load_split(task, find_file(folder, task.train, "train"))) == train
    splits = [load_split(task, path, result)
              for result, path in find_splits(folder, task.dev, "dev").items()]
    assert [len(split) for split in splits] == [dev]
    for result, path in find_splits(folder, task.test, "test").items():
        split = load_split(task, path, result, labels="optional")
        assert split.labelled == result.endswith("-public")
