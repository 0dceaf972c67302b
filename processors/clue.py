"""Chinese tasks of classification, one row each: CLUE, FewCLUE and the sets that go with them.

Files are alternatives: CLUE's own names, those of FewCLUE (`*_few_all.json` holds all splits,
`*_0.json` the first one), and the tab-separated files that LCQMC, BQ and others are passed round
as, with and without header. Submissions are CLUE's: a JSON object a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from processors.base import Task
from processors.readers import DataError

_PAIR = {
    "text_a": ("sentence1", "text_a", "question1", "query1", "premise", "premise_sentence", 0),
    "text_b": ("sentence2", "text_b", "question2", "query2", "hypothesis", "hypo", 1),
    "label": ("label", 2),
    "guid": ("id", "qid"),
}
_SINGLE = {"text_a": ("sentence", "text_a", "text", "review", 1), "label": ("label", 0),
           "guid": ("id", "qid")}
_BINARY = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")  # the order of the official CLUE baselines

# Category numbers of the news set; 105 and 111 were dropped by its makers.
_TNEWS = tuple(str(number) for number in range(100, 117) if number not in (105, 111))


def _files(split: str, *more: str) -> tuple[str, ...]:
    names = [f"{split}{suffix}" for suffix in (".tsv", ".txt", ".json", ".jsonl", ".csv")]
    few = [] if split == "test" else [f"{split}_few_all.json", f"{split}_0.json"]
    return (*names, *more, *few)


def _clue(name: str, columns: dict, labels: tuple[str, ...], **row: object) -> Task:
    """A task of one train, one dev and one test file; FewCLUE's labelled test is a second one."""
    defaults = {
        "metric": "accuracy", "train": _files("train"), "dev": {name: _files("dev")},
        "test": {name: _files("test"), f"{name}-public": ("test_public.json",)},
        "submission": {name: f"{name}_predict.json", f"{name}-public": f"{name}_public.json"},
        "submission_style": "clue",
    }
    return Task(name=name, columns=columns, labels=labels, **defaults | row)


def mark_spans(item: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Winograd schemas: the text with its noun between _ _ and its pronoun between [ ].

    The marks are those of CLUE's baseline. Raises `DataError` where a span is not at its index.
    """
    text, marked, end = item.get("text"), "", 0
    target = item.get("target")
    if not isinstance(text, str) or not isinstance(target, Mapping):
        raise DataError(f"{where}: found the keys {', '.join(item)}, expected text and target, "
                        "which has span1_text, span1_index, span2_text and span2_index")
    spans = [(target.get(f"span{i}_index"), target.get(f"span{i}_text"), *marks)
             for i, marks in ((1, "__"), (2, "[]"))]
    for start, span, _, _ in spans:
        if not isinstance(start, int) or not isinstance(span, str) or start < 0 or not span or (
                not text.startswith(span, start)):
            raise DataError(f"{where}: the span {span!r} at index {start!r}, expected where the "
                            f"text has it: {text[:60]!r}")
    for start, span, left, right in sorted(spans):
        if start < end:
            raise DataError(f"{where}: the spans {spans[0][1]!r} and {spans[1][1]!r} overlap at "
                            f"index {start}, expected them apart")
        marked += text[end:start] + left + span + right
        end = start + len(span)
    return {**item, "text": marked + text[end:]}


TASKS: dict[str, Task] = {task.name: task for task in (
    # Pairs of questions: the same intent or not.
    _clue("lcqmc", _PAIR, _BINARY),
    _clue("bq", _PAIR, _BINARY),
    _clue("afqmc", _PAIR, _BINARY),
    _clue("bustm", _PAIR, _BINARY),
    _clue("paws-x", _PAIR, _BINARY, train=_files("train", "translated_train.tsv"),
          dev={"paws-x": _files("dev", "dev_2k.tsv")},
          test={"paws-x": _files("test", "test_2k.tsv")}),
    # Pairs of sentences: inference. "-" marks examples on which the annotators disagreed.
    _clue("cmnli", _PAIR, _NLI, ignored_labels=("-",)),
    _clue("ocnli", _PAIR, _NLI, ignored_labels=("-",), train=_files("train", "train.50k.json"),
          submission={"ocnli": "ocnli_50k_predict.json", "ocnli-public": "ocnli_public.json"}),
    _clue("xnli", _PAIR | {"label": ("gold_label", "label", 2)}, _NLI,
          train=_files("train", "multinli.train.zh.tsv"), only=("language", "zh"),
          dev={"xnli": _files("dev", "xnli.dev.tsv")},
          test={"xnli": _files("test", "xnli.test.tsv")},
          label_aliases={"contradictory": "contradiction"}),
    # An abstract, and whether all of the keywords are its own.
    _clue("csl", {"text_a": ("keyword",), "text_b": ("abst",), "label": ("label",),
                  "guid": ("id",)}, _BINARY),
    # Winograd schemas: does a pronoun mean the noun that is marked.
    _clue("cluewsc", {"text_a": ("text",), "label": ("label",), "guid": ("id", "idx")},
          ("true", "false"), label_aliases={"True": "true", "False": "false"}, prepare=mark_spans,
          test={"cluewsc": _files("test", "test1.1.json", "test1.0.json"),
                "cluewsc-public": ("test_public.json",)},
          submission={"cluewsc": "cluewsc11_predict.json",
                      "cluewsc-public": "cluewsc_public.json"}),
    # One text and its category.
    _clue("tnews", _SINGLE, _TNEWS,
          test={"tnews": _files("test", "test1.1.json", "test1.0.json"),
                "tnews-public": ("test_public.json",)}),
    _clue("iflytek", _SINGLE, tuple(str(number) for number in range(119))),
    _clue("chnsenticorp", _SINGLE, _BINARY),
    _clue("eprstmt", _SINGLE, ("Negative", "Positive")),
)}

ALIASES = {"cluewsc2020": "cluewsc", "paws-x-zh": "paws-x", "xnli-zh": "xnli", "bq-corpus": "bq"}
