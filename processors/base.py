"""A data set as a row of a table.

`Task` says which files hold a data set and what their columns mean. There is no class a task:
`processors/glue.py` and `processors/clue.py` are tables of rows, and `custom_task` makes a row from
command-line flags; `processors/loading.py` reads the files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processors.readers import DataError

logger = logging.getLogger(__name__)

Files = tuple[str, ...]  # alternatives: the first that exists is read
Column = str | int  # a name in the header or JSON object, or a position where there is no header


@dataclass(frozen=True)
class Task:
    """One data set. The fields without a default are what every row has to say."""

    name: str
    columns: Mapping[str, Sequence[Column]]  # role (text_a, text_b, label, guid) -> alternatives
    labels: tuple[str, ...] | None  # in the order of their ids; None: the label is a number
    metric: str  # of metrics/
    train: Files = ()
    dev: Mapping[str, Files] = field(default_factory=dict)  # name of the result -> files
    test: Mapping[str, Files] = field(default_factory=dict)
    head: str = "classification"
    head_config: Mapping[str, str | int] = field(default_factory=dict)  # config settings of it
    submission: Mapping[str, str] = field(default_factory=dict)  # name of the test -> file name
    submission_style: str = "table"  # of processors/submission.py
    label_range: tuple[float, float] | None = None  # predicted numbers are cut off here
    label_aliases: Mapping[str, str] = field(default_factory=dict)  # other spellings of a label
    ignored_labels: tuple[str, ...] = ()  # rows without a gold label, left out and counted
    only: tuple[str, str] | None = None  # column, value: a file of several languages
    skip_bad_lines: bool = False  # published files with a few broken lines, left out and counted
    file_format: str | None = None
    delimiter: str | None = None
    infer_labels: bool = False  # labels are what the training file has
    # A JSON object and its place in the file -> the object whose keys `columns` names.
    prepare: Callable[[Mapping[str, Any], str], Mapping[str, Any]] | None = None

    @property
    def is_regression(self) -> bool:
        return self.labels is None


@dataclass(slots=True)
class Example:
    """One example. label is a class id, a number for regression, or None where there is none."""

    guid: str
    text_a: str
    text_b: str | None = None
    label: int | float | None = None


@dataclass
class LoadedSplit:
    """What one file gave."""

    name: str
    path: Path
    examples: list[Example]
    notes: list[str] = field(default_factory=list)  # what was left out, for people to read

    @property
    def labelled(self) -> bool:
        return all(example.label is not None for example in self.examples)

    def __len__(self) -> int:
        return len(self.examples)


# ---- finding files -----------------------------------------------------------------------------


def find_file(data_dir: Path, files: Files, what: str) -> Path:
    """The first of `files` that exists. Raises `DataError` that lists what lies there instead."""
    for name in files:
        if (data_dir / name).is_file():
            return data_dir / name
    if not data_dir.is_dir():
        parent = data_dir.parent
        near = sorted(p.name for p in parent.iterdir() if p.is_dir()) if parent.is_dir() else []
        raise DataError(f"--data_dir {data_dir}: no such folder, expected one that holds "
                        f"{' or '.join(files)}; in {parent} there are: {_listing(near)}")
    there = _listing(sorted(p.name for p in data_dir.iterdir()))
    raise DataError(f"{data_dir}: no {what} file, expected {' or '.join(files)}; found: {there}")


def find_splits(data_dir: Path, splits: Mapping[str, Files], what: str) -> dict[str, Path]:
    """Paths of those splits that exist, by name; at least one has to.

    MNLI has two of each: where one is missing, that is said and the other is used.
    """
    found, missing = {}, []
    for name, files in splits.items():
        existing = [data_dir / file for file in files if (data_dir / file).is_file()]
        if existing:
            found[name] = existing[0]
        else:
            missing.append(f"{name} ({' or '.join(files)})")
    if not found:
        find_file(data_dir, tuple(file for files in splits.values() for file in files), what)
    if missing:
        logger.info("%s: no %s file for %s; going on without", data_dir, what, ", ".join(missing))
    return found


def _listing(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (" …" if len(names) > 20 else "") if names else "nothing"


# ---- a row from flags --------------------------------------------------------------------------


def custom_task(train_file: str | None, dev_file: str | None, test_file: str | None,
                text_a_column: str, text_b_column: str | None = None, label_column: str = "label",
                guid_column: str | None = None, labels: Sequence[str] | None = None,
                regression: bool = False, metric: str | None = None,
                file_format: str | None = None, delimiter: str | None = None,
                skip_bad_lines: bool = False, name: str = "custom") -> Task:
    """A row for a data set of one's own. Columns are names, or positions counted from 0.

    Without `labels` they are what the training file has (`infer_labels`).
    """
    if regression and labels:
        raise DataError(f"--regression predicts a number, found --labels {' '.join(labels)}; "
                        "give one of the two")
    roles = {"text_a": text_a_column, "text_b": text_b_column, "label": label_column,
             "guid": guid_column}
    columns = {role: (int(column) if column.isdecimal() else column,)
               for role, column in roles.items() if column is not None}
    default_metric = "pearson_and_spearman" if regression else "accuracy"
    return Task(
        name=name, columns=columns, labels=None if regression else tuple(labels or ()),
        metric=metric or default_metric, train=(train_file,) if train_file else (),
        dev={name: (dev_file,)} if dev_file else {},
        test={name: (test_file,)} if test_file else {}, submission={name: "predictions.tsv"},
        file_format=file_format, delimiter=unescape(delimiter), skip_bad_lines=skip_bad_lines,
        infer_labels=not regression and not labels)


def unescape(delimiter: str | None) -> str | None:
    """What a person means who types \\t in a shell."""
    return None if delimiter is None else delimiter.replace("\\t", "\t")
