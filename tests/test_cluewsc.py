"""Winograd schemas of CLUE: how the noun and the pronoun are marked."""

from __future__ import annotations

import json

import pytest

from processors.loading import load_split
from processors.readers import DataError
from processors.tasks import get_task

TEXT = "小明看见它飞走"
NOUN = {"span1_text": "小明", "span1_index": 0, "span2_text": "它", "span2_index": 4}


def item(**changes) -> dict:
    return {"text": TEXT, "target": NOUN | changes, "label": "true", "idx": 5}


def read(folder, *items):
    path = folder / "train.json"
    path.write_text("".join(json.dumps(i) + "\n" for i in items), encoding="utf-8")
    return load_split(get_task("CLUEWSC2020"), path)


def test_the_spans_are_marked_in_either_order(tmp_path):
    before = {"span1_text": "飞走", "span1_index": 5}
    split = read(tmp_path, item(), item(**before) | {"label": "false"}, item() | {"label": False})
    assert [(e.text_a, e.label, e.guid) for e in split.examples] == [
        ("_小明_看见[它]飞走", 0, "5"), ("小明看见[它]_飞走_", 1, "5"),
        ("_小明_看见[它]飞走", 1, "5")]


@pytest.mark.parametrize(("broken", "message"), [
    (item(span2_index=3), "the span '它' at index 3"),
    (item(span1_index=-7), "the span '小明' at index -7"),
    (item(span1_text=None), "the span None at index 0"),
    (item(span2_text="明看", span2_index=1), "the spans '小明' and '明看' overlap at index 1"),
    ({"text": TEXT, "label": "true"}, "found the keys text, label, expected text and target"),
])
def test_spans_that_do_not_fit_are_refused(broken, message, tmp_path):
    with pytest.raises(DataError) as refused:
        read(tmp_path, item(), broken)
    assert message in str(refused.value) and f"{tmp_path / 'train.json'}, line 2" in str(
        refused.value)


@pytest.mark.parametrize(("file", "count"), [("train_0.json", 32), ("dev_few_all.json", 159),
                                             ("test_public.json", 976)])
def test_real_files(shared, file, count):
    split = load_split(get_task("cluewsc"), shared(f"data/fewclue/cluewsc/{file}"))
    assert len(split) == count and split.labelled
    for example in split.examples:
        assert example.text_a.count("_") >= 2 and "[" in example.text_a and "]" in example.text_a
