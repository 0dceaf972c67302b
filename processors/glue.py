"""The GLUE tasks (gluebenchmark.com), one row each: files, columns, labels, metric, submission.

Columns are header names first, then positions for files without a header. Label orders are those of
the official ALBERT code, so that models fine-tuned there keep their meaning.
"""

from __future__ import annotations

from processors.base import Task

_PAIR = {"text_a": ("sentence1", 1), "text_b": ("sentence2", 2), "label": ("label", 3),
         "guid": ("index", "id", 0)}
_ENTAILMENT = ("entailment", "not_entailment")
_NLI = ("contradiction", "entailment", "neutral")
_NLI_COLUMNS = {"text_a": ("sentence1", "premise"), "text_b": ("sentence2", "hypothesis"),
                "label": ("gold_label", "label"), "guid": ("index",)}


def _files(split: str) -> tuple[str, ...]:
    return f"{split}.tsv", f"{split}.csv", f"{split}.jsonl", f"{split}.json"


def _glue(name: str, submitted_as: str, **row: object) -> Task:
    """A task of one train, one dev and one test file."""
    defaults = {"train": _files("train"), "dev": {name: _files("dev")},
                "test": {name: _files("test")}, "submission": {name: submitted_as},
                "submission_style": "glue"}
    return Task(name=name, **defaults | row)


TASKS: dict[str, Task] = {task.name: task for task in (
    _glue("cola", "CoLA.tsv",  # train and dev have no header, test has one
          columns={"text_a": ("sentence", 3), "label": ("label", 1), "guid": ("index",)},
          labels=("0", "1"), metric="matthews"),
    _glue("sst-2", "SST-2.tsv",
          columns={"text_a": ("sentence", 0), "label": ("label", 1), "guid": ("index",)},
          labels=("0", "1"), metric="accuracy"),
    _glue("mrpc", "MRPC.tsv",
          columns={"text_a": ("#1 String", "sentence1", 3), "text_b": ("#2 String", "sentence2", 4),
                   "label": ("Quality", "label", 0), "guid": ("index",)},
          labels=("0", "1"), metric="accuracy_and_f1",
          train=(*_files("train"), "msr_paraphrase_train.txt"),
          test={"mrpc": (*_files("test"), "msr_paraphrase_test.txt")}),
    _glue("sts-b", "STS-B.tsv",
          columns={"text_a": ("sentence1", 7), "text_b": ("sentence2", 8), "label": ("score", 9),
                   "guid": ("index", 0)},
          labels=None, metric="pearson_and_spearman", label_range=(0.0, 5.0)),
    _glue("qqp", "QQP.tsv",  # the published files have some lines that break off in the middle
          columns={"text_a": ("question1", 3), "text_b": ("question2", 4),
                   "label": ("is_duplicate", "label", 5), "guid": ("id", "index")},
          labels=("0", "1"), metric="accuracy_and_f1", skip_bad_lines=True),
    _glue("mnli", "MNLI-m.tsv", columns=_NLI_COLUMNS, labels=_NLI, metric="accuracy",
          dev={"mnli-m": ("dev_matched.tsv",), "mnli-mm": ("dev_mismatched.tsv",)},
          test={"mnli-m": ("test_matched.tsv",), "mnli-mm": ("test_mismatched.tsv",),
                "ax": ("diagnostic.tsv",)},
          submission={"mnli-m": "MNLI-m.tsv", "mnli-mm": "MNLI-mm.tsv", "ax": "AX.tsv"}),
    _glue("qnli", "QNLI.tsv",  # the same columns in the first release and in the second (QNLIv2)
          columns={"text_a": ("question", "sentence1", 1), "text_b": ("sentence", "sentence2", 2),
                   "label": ("label", 3), "guid": ("index", "id", 0)},
          labels=_ENTAILMENT, metric="accuracy"),
    _glue("rte", "RTE.tsv", columns=_PAIR, labels=_ENTAILMENT, metric="accuracy"),
    _glue("wnli", "WNLI.tsv", columns=_PAIR, labels=("0", "1"), metric="accuracy"),
    # Predictions of a model that was fine-tuned on MNLI; the labels are in the full file only.
    _glue("ax", "AX.tsv", columns=_NLI_COLUMNS, labels=_NLI, metric="matthews", train=(),
          dev={"ax": ("diagnostic-full.tsv",)}, test={"ax": ("diagnostic.tsv",)}),
)}

ALIASES = {"mnli-m": "mnli", "mnli-mm": "mnli", "diagnostic": "ax", "qnli-v2": "qnli",
           "quora": "qqp", "sts": "sts-b"}
