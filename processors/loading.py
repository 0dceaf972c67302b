"""From the rows of a file to the examples of a task."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from processors.base import Column, Example, LoadedSplit, Task
from processors.readers import DataError, Rows, read_rows

logger = logging.getLogger(__name__)

NO_LABEL = ("", "-1")  # how test files write that they keep the label to themselves
MAX_SKIPPED = 0.01  # of the lines; above it the file is something else, not damaged


def load_split(task: Task, path: Path, name: str = "", labels: str = "required") -> LoadedSplit:
    """Read one file of a task.

    labels: "required" (train, dev), or "optional" for test files, where they are read if every
    line has one.
    Raises `DataError` for what `read_rows` refuses, for missing columns, a line with more or fewer
    cells than the header or first line, and an unknown label; each names file, line, what was
    found and what was expected.
    """
    rows = _rows(task, path)
    table = _Table(task, rows)
    split = LoadedSplit(name or task.name, path, [], notes=table.notes)
    if "label" not in table.columns and labels == "required":
        raise DataError(
            f"{path}: no label column, expected {_names(task.columns['label'])}, found "
            f"{table.described}. Without labels there is no training and no score; a file "
            "without labels can only be predicted (--do_predict)")
    with_labels = "label" in table.columns and (
        labels == "required" or not table.only_placeholders())
    label_ids = {label: i for i, label in enumerate(task.labels or ())}
    ignored = 0
    for index in table.indices:
        label = None
        if with_labels:
            word = task.label_aliases.get(table.label(index), table.label(index))
            if word in task.ignored_labels:
                ignored += 1
                continue
            label = _label_value(task, label_ids, word, rows, index, table)
        split.examples.append(Example(
            guid=table.guid(index, len(split.examples)), text_a=table.text("text_a", index),
            text_b=table.text("text_b", index) if "text_b" in task.columns else None, label=label))
    if ignored:
        split.notes.append(f"{path}: left out {ignored} examples whose label is "
                           f"{_names(task.ignored_labels)}, which means that people disagreed")
    if not split.examples:
        raise DataError(f"{path}: no example, expected at least one"
                        + (f" where {task.only[0]} is {task.only[1]!r}" if task.only else ""))
    for note in split.notes:
        logger.warning(note)
    return split


def _rows(task: Task, path: Path) -> Rows:
    rows = read_rows(path, task.file_format, task.delimiter)
    if task.prepare is None or rows.objects is None:
        return rows
    return replace(rows, objects=[dict(task.prepare(item, rows.at(i)))
                                  for i, item in enumerate(rows.objects)])


def infer_labels(task: Task, path: Path) -> tuple[str, ...]:
    """The labels that occur in a file, numbers in the order of numbers, else by alphabet."""
    rows = _rows(task, path)
    table = _Table(task, rows)
    if "label" not in table.columns:
        raise DataError(f"{path}: no label column, expected {_names(task.columns['label'])}, "
                        f"found {table.described}")
    words = [table.label(index) for index in table.indices]
    words = [word for word in words if word not in task.ignored_labels]
    labels = sorted(set(words), key=_number_then_alphabet)
    if not table.has_header and len(words) > 2 and words.count(words[0]) == 1:
        raise DataError(f"{rows.at(0)}: the label {words[0]!r} occurs on this line alone, so this "
                        "looks like a header; give columns by name (--label_column label) "
                        "rather than by position, or give --labels")
    if len(labels) < 2:
        raise DataError(f"{path}: all {len(words)} labels are {words[0]!r}, expected at least two "
                        "kinds; give --labels where others exist")
    if len(labels) > max(20, len(words) // 2):
        raise DataError(f"{path}: {len(labels)} different labels in {len(words)} examples; is "
                        "--label_column right? For numbers give --regression, otherwise --labels")
    return tuple(labels)


def _number_then_alphabet(word: str) -> tuple[bool, float, str]:
    try:
        return False, float(word), word
    except ValueError:
        return True, 0.0, word


def _label_value(task: Task, label_ids: Mapping[str, int], word: str, rows: Rows, index: int,
                 table: _Table) -> int | float:
    if task.is_regression:
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise DataError(f"{rows.at(index)}: the label is {word!r}, expected a number")
        return value
    if word in label_ids:
        return label_ids[word]
    hint = ""
    if rows.cells is not None and not table.has_header and index == 0:
        hint = ("; if this line is a header, its names are unknown here, expected for example "
                + ", ".join(_names(names) for names in task.columns.values()
                            if any(isinstance(name, str) for name in names)))
    raise DataError(f"{rows.at(index)}: unknown label {word!r}, expected one of "
                    f"{_names(task.labels or (), limit=20)}{hint}")


def _names(names: Sequence[Column], limit: int = 6) -> str:
    shown = [f"column {name}" if isinstance(name, int) else repr(name) for name in names]
    return " or ".join(shown[:limit]) + (" or …" if len(shown) > limit else "")


class _Table:
    """Rows of a file with the columns of a task found in them."""

    def __init__(self, task: Task, rows: Rows) -> None:
        self.task, self.rows = task, rows
        self.notes: list[str] = []
        if rows.objects is not None:
            self.has_header = True
            self.indices = list(range(len(rows)))
            self._find_keys(rows.objects[0])
        else:
            self._find_columns(rows.cells)
            self._leave_out_ragged(rows.cells)
        if task.only is not None:
            self.indices = [i for i in self.indices if self._matches(i)]

    def _find_keys(self, first: Mapping[str, Any]) -> None:
        self.columns: dict[str, Column] = {}
        keys = {key.lower(): key for key in first}
        for role, names in self.task.columns.items():
            known = [keys[n.lower()] for n in names if isinstance(n, str) and n.lower() in keys]
            if known:
                self.columns[role] = known[0]
        self.described = "the keys " + _names(list(first), limit=20)
        self._need_texts(self.rows.at(0))

    def _find_columns(self, cells: list[list[str]]) -> None:
        first = [cell.strip().lower() for cell in cells[0]]
        place_of = {name: place for place, name in reversed(list(enumerate(first)))}
        named = {role: [place_of[n.lower()] for n in names
                        if isinstance(n, str) and n.lower() in place_of]
                 for role, names in self.task.columns.items() if role != "guid"}
        self.has_header = any(named.values())
        self.width = len(cells[0])
        self.indices = list(range(self.has_header, len(cells)))
        self.described = (f"the header {_names(cells[0], limit=20)}" if self.has_header else
                          f"{self.width} columns without a known header, the first line being "
                          f"{_names([cell[:30] for cell in cells[0]], limit=20)}")
        self.columns = {}
        for role, names in self.task.columns.items():
            if self.has_header:
                places = [place_of[n.lower()] for n in names
                          if isinstance(n, str) and n.lower() in place_of]
            else:
                places = [n for n in names if isinstance(n, int) and n < self.width]
            if places:
                self.columns[role] = places[0]
        self._need_texts(self.rows.at(0))
        if not self.indices:
            raise DataError(f"{self.rows.path}: a header and nothing below it, expected at least "
                            "one example")

    def _need_texts(self, where: str) -> None:
        for role in ("text_a", "text_b"):
            if role in self.task.columns and role not in self.columns:
                raise DataError(f"{where}: no column for {role} of task {self.task.name}, expected "
                                f"{_names(self.task.columns[role])}, found {self.described}")

    def _leave_out_ragged(self, cells: list[list[str]]) -> None:
        bad = [i for i in self.indices if len(cells[i]) != self.width]
        if not bad:
            return
        first = (f"{self.rows.at(bad[0])}: found {len(cells[bad[0]])} columns, expected "
                 f"{self.width} as in {self.described}")
        if not self.task.skip_bad_lines:
            raise DataError(f"{first} ({len(bad)} such lines); mend the file, or leave them out "
                            "with --skip_bad_lines")
        if len(bad) > max(1, MAX_SKIPPED * len(cells)):
            raise DataError(f"{first}; {len(bad)} of {len(cells)} lines are like this, too many "
                            "to leave out: is the delimiter right?")
        self.notes.append(f"{first}; left out {len(bad)} such lines of {len(cells)}")
        unusable = set(bad)
        self.indices = [i for i in self.indices if i not in unusable]

    def _value(self, column: Column, index: int) -> Any:
        if self.rows.objects is None:
            return self.rows.cells[index][column]
        value = self.rows.objects[index].get(column)
        if value is None:
            raise DataError(f"{self.rows.at(index)}: no value for {column!r}, found the keys "
                            f"{_names(list(self.rows.objects[index]), limit=20)}")
        return " ".join(map(str, value)) if isinstance(value, list) else str(value)

    def _matches(self, index: int) -> bool:
        name, wanted = self.task.only
        if self.rows.objects is not None:
            return str(self.rows.objects[index].get(name, wanted)) == wanted
        header = [cell.strip().lower() for cell in self.rows.cells[0]]
        if not self.has_header or name.lower() not in header:
            return True  # a file of this language alone does not say which
        return self.rows.cells[index][header.index(name.lower())].strip() == wanted

    def text(self, role: str, index: int) -> str:
        return self._value(self.columns[role], index)

    def label(self, index: int) -> str:
        return self._value(self.columns["label"], index).strip()

    def guid(self, index: int, position: int) -> str:
        if "guid" in self.columns:
            return self._value(self.columns["guid"], index).strip()
        return str(position)

    def only_placeholders(self) -> bool:
        if self.rows.objects is not None:
            column = self.columns["label"]
            return all(str(self.rows.objects[i].get(column) or "").strip() in NO_LABEL
                       for i in self.indices)
        return all(self.label(i) in NO_LABEL for i in self.indices)
