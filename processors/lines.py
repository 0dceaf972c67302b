"""Texts to predict, line by line, from a file or a pipe: nothing is read before it is needed.

A line is a text, a pair with a tab between, or a JSON object. Blank lines are given as None, so
that line i of the answers belongs to line i of the texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from processors.readers import DataError

Text = str | tuple[str, str]
Prepare = Callable[[Mapping[str, Any], str], Mapping[str, Any]]  # of a task's row
# Keys of JSON objects where no task and no flag names them. A task's own columns are in its row.
COLUMNS: Mapping[str, Sequence[str]] = {
    "text_a": ("text_a", "sentence1", "text", "premise", "question1", "query1", "sentence",
               "review"),
    "text_b": ("text_b", "sentence2", "hypothesis", "question2", "query2", "hypo"),
}


def read_lines(lines: Iterable[bytes], name: str, columns: Mapping[str, Sequence] | None = None,
               prepare: Prepare | None = None) -> Iterator[Text | None]:
    """Texts or pairs of the lines of a file; None for a blank line.

    lines: as a file in binary mode gives them. name: of the file, for errors. columns: role
    (text_a, text_b) -> keys of JSON objects, the first of which that is there counts; they also
    tell whether lines are pairs, which the first line decides where they are not given. prepare:
    what a task does to an object before its texts are taken; it gets the object and its place.
    Raises `DataError` that names file and line for bytes that are not UTF-8, broken JSON, keys that
    are missing, and a line of more or fewer texts than the first.
    """
    objects: bool | None = None  # the first line tells
    pair = None if columns is None else "text_b" in columns
    for number, data in enumerate(lines, start=1):
        where = f"{name}, line {number}"
        line = _decoded(data, where, first=number == 1).rstrip("\r\n")
        if not line.strip():
            yield None
            continue
        if objects is None:
            objects = _is_object(line)
        texts = line.split("\t") if not objects else _of_object(
            line, where, columns or COLUMNS, pair, prepare)
        if pair is None:
            pair = len(texts) == 2
        if len(texts) != 1 + pair:
            raise DataError(f"{where}: found {len(texts)} texts (tabs part them), "
                            f"expected {'2, a pair' if pair else '1'}"
                            + ("" if number == 1 or len(texts) > 2 else " as in the lines above"))
        yield (texts[0], texts[1]) if pair else texts[0]


def _decoded(data: bytes, where: str, first: bool) -> str:
    try:
        return data.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: byte 0x{data[error.start]:02x} is not UTF-8 ({error.reason}); "
                        "convert the file, for example with iconv -f GB18030 -t UTF-8") from None


def _is_object(line: str) -> bool:
    """A first line that begins like an object is meant as one, though it may be broken."""
    return re.match(r'\s*\{\s*"', line) is not None


def _of_object(line: str, where: str, columns: Mapping[str, Sequence], pair: bool | None,
               prepare: Prepare | None) -> list[str]:
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: broken JSON ({error.msg} at column {error.colno}); the first "
                        "line is a JSON object, so every line has to be one") from None
    if not isinstance(found, dict):
        raise DataError(f"{where}: found a JSON {type(found).__name__}, expected an object")
    if prepare is not None:
        found = prepare(found, where)
    keys: dict[str, Any] = {key.strip().lower(): value for key, value in found.items()}
    texts = []
    for role in ("text_a",) if pair is False else ("text_a", "text_b"):
        names = [name for name in columns[role] if isinstance(name, str)]
        there = next((keys[n.lower()] for n in names if keys.get(n.lower()) is not None), None)
        if there is None:
            if role == "text_b" and pair is None:
                break
            raise DataError(f"{where}: no text under {' or '.join(map(repr, names))}, found the "
                            f"keys {', '.join(map(repr, found)) or 'of nothing'}")
        texts.append(" ".join(map(str, there)) if isinstance(there, list) else str(there))
    return texts
