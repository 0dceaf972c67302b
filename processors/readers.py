"""From a file to rows of text. UTF-8 always, whatever the machine's locale.

Three kinds: TSV without quoting (a quotation mark is a character, as in GLUE's files), CSV with it,
and JSON (one object a line, or one list). What cannot be read is a `DataError` that names file and
line.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMATS = ("tsv", "csv", "json")
_FORMAT_OF_SUFFIX = {".tsv": "tsv", ".txt": "tsv", ".csv": "csv", ".json": "json",
                     ".jsonl": "json"}


class DataError(ValueError):
    """A data file that is not what its reader expects; says where, what, and what to do."""


@dataclass(frozen=True)
class Rows:
    """The content of one file. Exactly one of cells and objects is filled."""

    path: Path
    places: list[int]  # the line of each row, or the number of each item of a JSON list
    cells: list[list[str]] | None = None
    objects: list[dict[str, Any]] | None = None
    unit: str = "line"  # "item" for a JSON list

    def at(self, index: int) -> str:
        """Where row `index` stands, for error messages."""
        return f"{self.path}, {self.unit} {self.places[index]}"

    def __len__(self) -> int:
        return len(self.places)


def read_rows(path: Path, file_format: str | None = None, delimiter: str | None = None) -> Rows:
    """Read a file whole. Blank lines are passed over.

    file_format: one of `FORMATS`; told from the suffix where it is not given.
    delimiter: what separates cells, "\\t" for tsv and "," for csv where it is not given; in a tsv
    it may be longer than one character.
    Raises `DataError` for a missing or empty file, an unknown suffix, bytes that are not UTF-8,
    broken CSV quoting and broken JSON.
    """
    if file_format is None:
        file_format = _FORMAT_OF_SUFFIX.get(path.suffix.lower())
    if file_format not in FORMATS:
        raise DataError(f"{path}: cannot tell the format from the suffix {path.suffix!r}; expected "
                        f"one of {', '.join(_FORMAT_OF_SUFFIX)}, or --format with one of "
                        f"{', '.join(FORMATS)}")
    text = read_text(path)
    rows = {"tsv": _read_tsv, "csv": _read_csv, "json": _read_json}[file_format](
        path, text, delimiter)
    if not len(rows):
        raise DataError(f"{path}: the file is empty, expected at least one example")
    return rows


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, without the byte-order mark that some editors put first."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: found a folder, expected a file") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8 "
                        f"({error.reason}); convert the file, for example with "
                        f"iconv -f GB18030 -t UTF-8") from None


def _read_tsv(path: Path, text: str, delimiter: str | None) -> Rows:
    places, cells = [], []
    # Only "\n" ends a line: str.splitlines would also cut at characters that text contains.
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if line.strip():
            places.append(number)
            cells.append(line.split(delimiter or "\t"))
    return Rows(path, places, cells=cells)


def _read_csv(path: Path, text: str, delimiter: str | None) -> Rows:
    if len(delimiter or ",") != 1:
        raise DataError(f"{path}: a CSV file is separated by one character, found {delimiter!r}; "
                        "--format tsv takes longer ones")
    places, cells = [], []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter or ",", strict=True)
    start = 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                places.append(start)
                cells.append(row)
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {start}: broken CSV ({error}); a quotation mark inside a "
                        "quoted cell is written twice, and a file without quoting is --format tsv "
                        "--delimiter ,") from None
    return Rows(path, places, cells=cells)


def _read_json(path: Path, text: str, delimiter: str | None) -> Rows:
    if delimiter is not None:
        raise DataError(f"{path}: JSON has no delimiter, found --delimiter {delimiter!r}")
    if text.lstrip()[:1] == "[":
        items = _parse_json(text, f"{path}", path, text)
        numbered = enumerate(items, start=1)
        unit = "item"
    else:
        numbered = ((number, _parse_json(line, f"{path}, line {number}", path, line))
                    for number, line in enumerate(text.split("\n"), start=1) if line.strip())
        unit = "line"
    places, objects = [], []
    for number, item in numbered:
        if not isinstance(item, dict):
            raise DataError(f"{path}, {unit} {number}: found a JSON {type(item).__name__}, "
                            "expected an object such as {\"sentence1\": …, \"label\": …}")
        places.append(number)
        objects.append({key.strip(): value for key, value in item.items()})  # CLUE has "label "
    return Rows(path, places, objects=objects, unit=unit)


def _parse_json(text: str, where: str, path: Path, whole: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if text is whole and error.lineno > 1:
            where = f"{path}, line {error.lineno}"
        raise DataError(f"{where}: broken JSON ({error.msg} at column {error.colno}); expected one "
                        "object a line, or one list of objects") from None
