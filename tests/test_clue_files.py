"""CLUE's rows on its files: the layouts they are published in, FewCLUE's files, broken ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from processors import clue
from processors.base import find_file, find_splits
from processors.loading import load_split
from processors.readers import DataError
from processors.tasks import get_task

# Of each row: a training file as published, and what its first example is.
LAYOUTS = {
    "afqmc": ("train.json", '{"sentence1": "甲", "sentence2": "乙", "label": "0"}',
              ("甲", "乙", "0")),
    "bustm": ("train_0.json", '{"id": 0, "sentence1": "甲", "sentence2": "乙", "label": "1"}',
              ("甲", "乙", "1")),
    "cmnli": ("train.json", '{"sentence1": "甲", "sentence2": "乙", "label": "neutral"}',
              ("甲", "乙", "neutral")),
    "ocnli": ("train.50k.json", '{"level": "easy", "sentence1": "甲", "sentence2": "乙", "label": '
              '"entailment", "genre": "tv", "prem_id": "1", "id": 0}', ("甲", "乙", "entailment")),
    "csl": ("train.json", '{"id": 1, "abst": "乙", "keyword": ["甲", "丙"], "label": "0"}',
            ("甲 丙", "乙", "0")),
    "tnews": ("train.json", '{"label": "102", "label_desc": "news_x", "sentence": "甲", '
              '"keywords": "丙"}', ("甲", None, "102")),
    "iflytek": ("train.json", '{"label": "11", "label_des": "薅羊毛", "sentence": "甲"}',
                ("甲", None, "11")),
    "eprstmt": ("train_few_all.json", '{"id": 0, "sentence": "甲", "label": "Positive"}',
                ("甲", None, "Positive")),
    "cluewsc": ("train.json", '{"target": {"span2_index": 3, "span1_index": 0, "span1_text": '
                '"甲乙", "span2_text": "它"}, "idx": 5, "label": "true", "text": "甲乙，它在"}',
                ("_甲乙_，[它]在", None, "true")),
    "lcqmc": ("train.txt", "甲\t乙\t1", ("甲", "乙", "1")),
    "bq": ("train.tsv", "text_a\ttext_b\tlabel\n甲\t乙\t0", ("甲", "乙", "0")),
    "paws-x": ("translated_train.tsv", "id\tsentence1\tsentence2\tlabel\n1\t甲\t乙\t1",
               ("甲", "乙", "1")),
    "xnli": ("multinli.train.zh.tsv", "premise\thypo\tlabel\n甲\t乙\tcontradictory",
             ("甲", "乙", "contradiction")),
    "chnsenticorp": ("train.tsv", "label\ttext_a\n1\t甲", ("甲", None, "1")),
}
TESTS = {  # of each kind of file, a test file without labels
    "afqmc": ("test.json", '{"id": 7, "sentence1": "甲", "sentence2": "乙"}'),
    "tnews": ("test1.1.json", '{"id": 7, "sentence": "甲", "keywords": ""}'),
    "xnli": ("xnli.test.tsv", "language\tpairID\tsentence1\tsentence2\nen\t1\ta\tb\nzh\t1\t甲\t乙"),
    "chnsenticorp": ("test.tsv", "qid\ttext_a\n7\t甲"),
    "lcqmc": ("test.txt", "甲\t乙\t-1"),
}


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_every_row_has_a_layout_here():
    ours = {name for name, task in clue.TASKS.items() if task.head == "classification"}
    assert ours == set(LAYOUTS)


@pytest.mark.parametrize("name", LAYOUTS)
def test_published_layouts(name, tmp_path):
    file, content, (text_a, text_b, label) = LAYOUTS[name]
    write(tmp_path / file, content + "\n")
    task = get_task(name)
    [example] = load_split(task, find_file(tmp_path, task.train, "train")).examples
    assert (example.text_a, example.text_b) == (text_a, text_b)
    assert task.labels[example.label] == label


@pytest.mark.parametrize("name", TESTS)
def test_test_files_without_labels(name, tmp_path):
    file, content = TESTS[name]
    write(tmp_path / file, content + "\n")
    [(result, path)] = find_splits(tmp_path, get_task(name).test, "test").items()
    split = load_split(get_task(name), path, result, labels="optional")
    assert [example.text_a for example in split.examples] == ["甲"] and not split.labelled
    with pytest.raises(DataError, match="label"):
        load_split(get_task(name), path)


def test_names_that_go_round():
    assert get_task("paws-x-zh") is get_task("PAWSX") is clue.TASKS["paws-x"]
    assert get_task("XNLI_zh") is clue.TASKS["xnli"] and get_task("bq_corpus") is clue.TASKS["bq"]


# ---- broken files: one of each kind of reader ----------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
def test_an_unknown_label_names_file_line_and_labels(name, tmp_path):
    file, content, (*_, label) = LAYOUTS[name]
    written = "contradictory" if name == "xnli" else label
    path = write(tmp_path / file, content + "\n" + content.splitlines()[-1].replace(
        written, "vielleicht") + "\n")
    with pytest.raises(DataError, match="unknown label 'vielleicht', expected one of") as caught:
        load_split(get_task(name), path)
    line = len(content.splitlines()) + 1
    assert str(path) in str(caught.value) and f"line {line}:" in str(caught.value)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_broken_line_names_file_and_line(name, tmp_path):
    file, content, _ = LAYOUTS[name]
    last = content.splitlines()[-1]
    broken = last[:-5] if last.startswith("{") else last + "\ttoo\tmany"
    path = write(tmp_path / file, content + "\n" + broken + "\n")
    wanted = "broken JSON" if last.startswith("{") else "columns, expected"
    with pytest.raises(DataError, match=wanted) as caught:
        load_split(get_task(name), path)
    assert f"{path}, line {len(content.splitlines()) + 1}" in str(caught.value)


@pytest.mark.parametrize(("name", "lost"), [("afqmc", "sentence2"), ("csl", "abst"),
                                            ("tnews", "sentence"), ("ocnli", "label")])
def test_a_later_object_without_a_key_names_file_and_line(name, lost, tmp_path):
    file, content, _ = LAYOUTS[name]
    less = {key: value for key, value in json.loads(content).items() if key != lost}
    path = write(tmp_path / file, f"{content}\n{json.dumps(less)}\n")
    with pytest.raises(DataError, match=f"line 2: no value for '{lost}', found the keys"):
        load_split(get_task(name), path)


# ---- FewCLUE's real files ------------------------------------------------------------------------

FILES = {  # examples of every file; lines without a label that counts are left out
    "bustm": {"train_0": 32, "train_few_all": 160, "dev_0": 32, "dev_few_all": 160,
              "test_public": 1772},
    "csl": {"train_0": 32, "train_few_all": 160, "dev_0": 32, "dev_few_all": 160,
            "test_public": 2838},
    "eprstmt": {"train_few_all": 160, "dev_few_all": 160, "test_public": 610},
    "iflytek": {"train_few_all": 3024, "dev_few_all": 1373, "test_public": 1749},
    "cluewsc": {"train_0": 32, "train_few_all": 160, "dev_0": 32, "dev_few_all": 159,
                "test_public": 976},
    "ocnli": {"train_few_all": 160, "dev_few_all": 160, "test_public": 2520},
    "tnews": {"train_few_all": 1185, "dev_few_all": 1098, "test_public": 2010},
}


@pytest.mark.parametrize(("name", "file", "count"), [
    (name, file, count) for name, files in FILES.items() for file, count in files.items()])
def test_real_files(name, file, count, shared):
    path = shared(f"data/fewclue/{name}/{file}.json")
    task = get_task(name)
    split = load_split(task, path)
    assert len(split) == count == sum(1 for line in path.read_text("utf-8").split("\n") if line)
    if name == "cluewsc":
        assert_marked(split.examples, path)
        return
    assert all(example.text_a.strip() for example in split.examples)
    assert {example.text_b is None for example in split.examples} == {"text_b" not in task.columns}
    objects = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    assert [task.labels[example.label] for example in split.examples] == [
        str(item["label"]).strip() for item in objects]
    assert [example.guid for example in split.examples] == [str(item["id"]) for item in objects]


def assert_marked(examples: list, path: Path) -> None:
    for example, line in zip(examples, path.read_text("utf-8").split("\n"), strict=False):
        target = json.loads(line)["target"]
        assert f"_{target['span1_text']}_" in example.text_a
        assert f"[{target['span2_text']}]" in example.text_a
