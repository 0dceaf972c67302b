"""Raw text, file by file and document by document, in flat memory.

A document is what stands between blank lines, or one line. Text is UTF-8 whatever the locale; a bad
byte is a `CorpusError` that names file and line.
"""

from __future__ import annotations

import glob
import gzip
import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

STANDARD_INPUT = "-"
SEPARATORS = ("blank_line", "line")

# The marks that end a sentence, in English with a space and a capital, figure or quote behind them.
_ENGLISH_END = re.compile(r"""([.!?]["'”’)]?)\s+(?=["'“‘(]?[A-Z0-9])""")
_ABBREVIATION = re.compile(r"\b(?:[A-Z]|Mr|Mrs|Dr|St)\.$")
_CHINESE_END = re.compile(r"(?<=[。！？!?])(?![。！？!?”’」』）])|(?<=[。！？!?][”’」』）])")


def _split_english(line: str) -> list[str]:
    found, start = [], 0
    for match in _ENGLISH_END.finditer(line):
        end = match.end(1)
        if match[1] != "." or not _ABBREVIATION.search(line, max(start, end - 5), end):
            found.append(line[start:end])
            start = match.end()
    return [*found, line[start:]]


SPLITTERS: dict[str, Callable[[str], list[str]]] = {
    "none": lambda line: [line],
    "en": _split_english,
    "zh": lambda line: _CHINESE_END.split(line),
}


class CorpusError(ValueError):
    """Text that cannot be read; the message names file and line."""


def find_inputs(patterns: Sequence[str]) -> list[str]:
    """Files that names and globs mean, in order, each once. Raises `CorpusError` for none."""
    found: dict[str, None] = {}
    for pattern in patterns:
        if pattern == STANDARD_INPUT or Path(pattern).is_file():
            found[pattern] = None
            continue
        matches = [name for name in sorted(glob.glob(pattern, recursive=True))
                   if Path(name).is_file()]
        if not matches:
            raise CorpusError(f"--input {pattern}: no such file, and no file matches it")
        found.update(dict.fromkeys(matches))
    return list(found)


def open_input(name: str) -> BinaryIO:
    """The bytes of a file, unpacked if its name ends in .gz or .zst; "-" is standard input."""
    if name == STANDARD_INPUT:
        return sys.stdin.buffer
    if name.endswith(".gz"):
        return gzip.open(name, "rb")
    if name.endswith(".zst"):
        try:
            import zstandard
        except ImportError:
            raise CorpusError(f"{name}: .zst needs the package zstandard: pip install zstandard"
                              ) from None
        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(open(name, "rb")))
    return open(name, "rb")


def read_documents(name: str, separator: str = "blank_line", json_field: str | None = None,
                   ) -> Iterator[tuple[list[str], int]]:
    """(lines of a document, bytes read for it) of one file, in order.

    separator: "blank_line", or "line" for a document a line. json_field: every line is a JSON
    object whose field holds a document. Raises `CorpusError`.
    """
    lines: list[str] = []
    size = 0
    with open_input(name) as file:
        for number, raw in enumerate(file, 1):
            size += len(raw)
            try:
                line = raw.decode("utf-8").lstrip("\ufeff" if number == 1 else "").strip()
            except UnicodeDecodeError as error:
                raise CorpusError(f"{name}, line {number}: not UTF-8 (byte {error.start + 1} of "
                                  f"the line is {raw[error.start]:#04x}); convert the file, for "
                                  "example with iconv") from None
            if json_field is not None and line:
                document = _from_json(name, number, line, json_field)
                yield document, size
                size = 0
            elif json_field is None and separator == "line" and line:
                yield [line], size
                size = 0
            elif json_field is None and line:
                lines.append(line)
            elif lines:
                yield lines, size
                lines, size = [], 0
    if lines or size:
        yield lines, size


def _from_json(name: str, number: int, line: str, field: str) -> list[str]:
    try:
        value = json.loads(line)
        text = value[field]
    except (json.JSONDecodeError, KeyError, TypeError):
        raise CorpusError(f"{name}, line {number}: expected a JSON object with the field "
                          f"{field!r}, found {line[:60]!r}") from None
    if not isinstance(text, str):
        raise CorpusError(f"{name}, line {number}: {field!r} is a {type(text).__name__}, expected "
                          "text")
    return [part.strip() for part in text.splitlines() if part.strip()]


def sentences(lines: Sequence[str], split: str = "none") -> list[str]:
    """The sentences of a document's lines."""
    found = [s.strip() for line in lines for s in SPLITTERS[split](line)]
    return [s for s in found if s]
