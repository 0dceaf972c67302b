"""Files of multiple-choice data sets, brought to one form.

RACE lies in folders with one file a passage or in one JSON list, DREAM and C3 are JSON lists of
dialogues, SWAG is a CSV file, CHID has JSON lines with blanks to fill and its answers in a second
file. What is not as expected is a `DataError` that names file and item.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processors.readers import DataError, read_rows, read_text

BLANK = re.compile(r"#idiom\d+#")  # CHID's blanks; each has a number of its own
LEVELS = ("middle", "high")


@dataclass(slots=True)
class ChoiceExample:
    """One question. label counts the choices from 0, or is None where it is kept secret."""

    guid: str
    passage: str
    question: str
    choices: tuple[str, ...]
    label: int | None = None
    part: str | None = None  # scored separately too: RACE's middle and high, C3's m and d
    group: str | None = None  # CHID: questions that share their choices
    blank: str | None = None  # CHID: the blank of the passage that this question is about


# ---- what every reader needs ---------------------------------------------------------------------


def _parse(path: Path) -> list[tuple[str, Any]]:
    """The items of a JSON file with their places: of a list, of one object, or of lines."""
    text = read_text(path)
    try:
        whole = json.loads(text)
    except json.JSONDecodeError as error:
        if not (error.msg == "Extra data" and text.lstrip().startswith("{")):
            raise DataError(f"{path}, line {error.lineno}: broken JSON ({error.msg} at column "
                            f"{error.colno}), expected a JSON list or one object a line") from None
        return [(f"{path}, line {number}", _parse_line(path, number, line))
                for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if isinstance(whole, list):
        return [(f"{path}, item {number}", item) for number, item in enumerate(whole, start=1)]
    return [(f"{path}", whole)]


def _parse_line(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {number}: broken JSON ({error.msg} at column "
                        f"{error.colno}), expected one object a line") from None


def _get(item: Any, key: str, kind: type, where: str) -> Any:
    """A value of an object, of the kind that it has to be."""
    if not isinstance(item, dict):
        raise DataError(f"{where}: found a JSON {type(item).__name__}, expected an object with "
                        f"{key!r}")
    if key not in item:
        raise DataError(f"{where}: no {key!r}, found the keys {', '.join(map(repr, item))}")
    return _of_kind(item[key], kind, f"{where}: {key!r}")


def _of_kind(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind):
        shown = json.dumps(value, ensure_ascii=False)
        raise DataError(f"{what} is the JSON {type(value).__name__} "
                        f"{shown[:60] + ('…' if len(shown) > 60 else '')}, expected a "
                        f"{kind.__name__}")
    return value


def _texts(values: list, what: str) -> tuple[str, ...]:
    return tuple(_of_kind(value, str, what) for value in values)


# ---- RACE ----------------------------------------------------------------------------------------


def read_race(path: Path) -> Iterator[ChoiceExample]:
    """A folder with a .txt file a passage, at any depth, or one JSON file of passages."""
    if not path.is_dir():
        files = [path]
    else:
        files = sorted(path.rglob("*.txt"))
        if not files:
            raise DataError(f"{path}: no .txt file in this folder or below it, expected one a "
                            "passage")
    number = 0
    for file in files:
        for where, item in _parse(file):
            article = _get(item, "article", str, where)
            questions = _texts(_get(item, "questions", list, where), f"{where}: a question")
            options = _get(item, "options", list, where)
            answers = _get(item, "answers", list, where) if "answers" in item else (
                [None] * len(questions))
            if not len(questions) == len(options) == len(answers):
                raise DataError(f"{where}: found {len(questions)} questions, {len(options)} lists "
                                f"of options and {len(answers)} answers, expected as many of each")
            number += 1
            guid = str(item.get("id") or f"{file.name if path.is_dir() else number}")
            for i, (question, choices, answer) in enumerate(
                    zip(questions, options, answers, strict=True)):
                place = f"{where}, question {i + 1}"
                texts = _texts(_of_kind(choices, list, f"{place}: its options"),
                               f"{place}: an option")
                yield ChoiceExample(f"{guid}-{i}", article, question, texts,
                                    _letter(answer, len(texts), place), _level(guid, file))


def _letter(answer: Any, choices: int, where: str) -> int | None:
    letters = string.ascii_uppercase[:choices]
    if answer is None:
        return None
    if not isinstance(answer, str) or len(answer) != 1 or answer not in letters:
        raise DataError(f"{where}: the answer is {answer!r}, expected one of "
                        f"{', '.join(letters)}")
    return letters.index(answer)


def _level(guid: str, file: Path) -> str | None:
    """middle or high, which the id says, or the folder of the file."""
    for level in LEVELS:
        if guid.lower().startswith(level) or file.parent.name.lower() == level:
            return level
    return None


# ---- DREAM and C3 --------------------------------------------------------------------------------


def read_dialogues(path: Path) -> Iterator[ChoiceExample]:
    """A JSON list of [turns, [{question, choice, answer}, …], id]; the answer is a choice's text.

    A question's own id, which CLUE's test files have, comes before the passage's.
    """
    name = re.match(r"(?:c3-)?([dm])-", path.name)
    for number, (where, item) in enumerate(_parse(path), start=1):
        if not isinstance(item, list) or len(item) < 2:
            raise DataError(f"{where}: found {json.dumps(item, ensure_ascii=False)[:60]}, expected "
                            "a list of turns, questions and id")
        turns = _texts(_of_kind(item[0], list, f"{where}: the first part"), f"{where}: a turn")
        questions = _of_kind(item[1], list, f"{where}: the second part")
        for i, entry in enumerate(questions):
            place = f"{where}, question {i + 1}"
            question = _get(entry, "question", str, place)
            choices = _texts(_get(entry, "choice", list, place), f"{place}: a choice")
            guid = entry.get("id", f"{item[2] if len(item) > 2 else number}-{i}")
            yield ChoiceExample(str(guid), "\n".join(turns), question, choices,
                                _place_of(entry.get("answer"), choices, place),
                                name.group(1) if name else None)


def _place_of(answer: Any, choices: tuple[str, ...], where: str) -> int | None:
    """Which choice is the answer, to the letter or but for capitals."""
    if answer is None or answer == "":
        return None
    for plain in (str, lambda text: text.strip().lower()):
        known = [plain(choice) for choice in choices]
        if plain(str(answer)) in known:
            return known.index(plain(str(answer)))
    raise DataError(f"{where}: the answer is {answer!r}, expected one of its choices: "
                    f"{', '.join(map(repr, choices))}")


# ---- SWAG ----------------------------------------------------------------------------------------


def read_swag(path: Path) -> Iterator[ChoiceExample]:
    """A CSV file: sent1 is the passage, sent2 the beginning of the sentence that is to be ended."""
    rows = read_rows(path, "csv")
    header = rows.cells[0]
    wanted = ("sent1", "sent2", "ending0", "ending1", "ending2", "ending3")
    missing = [name for name in wanted if name not in header]
    if missing:
        raise DataError(f"{path}: no column {', '.join(missing)}, found {', '.join(header)}")
    for i, cells in enumerate(rows.cells[1:], start=1):
        if len(cells) != len(header):
            raise DataError(f"{rows.at(i)}: found {len(cells)} columns, expected {len(header)} as "
                            "in the header")
        row = dict(zip(header, cells, strict=True))
        label = row.get("label", "")
        if label not in ("", "0", "1", "2", "3"):
            raise DataError(f"{rows.at(i)}: the label is {label!r}, expected 0, 1, 2 or 3")
        yield ChoiceExample(str(i - 1), row["sent1"], row["sent2"],
                            tuple(row[name] for name in wanted[2:]), int(label) if label else None)


# ---- CHID ----------------------------------------------------------------------------------------


def read_chid(path: Path) -> Iterator[ChoiceExample]:
    """JSON lines {candidates, content}; answers in a file beside it: train.json, train_answer.json.

    A line's passages share its candidates, so its blanks are one group.
    """
    answers_path = path.with_name(f"{path.stem}_answer{path.suffix}")
    answers = _chid_answers(answers_path) if answers_path.is_file() else None
    for number, (where, item) in enumerate(_parse(path)):
        choices = _texts(_get(item, "candidates", list, where), f"{where}: a candidate")
        for content in _texts(_get(item, "content", list, where), f"{where}: a passage"):
            blanks = BLANK.findall(content)
            if not blanks:
                raise DataError(f"{where}: a passage without a blank such as #idiom000001#: "
                                f"{content[:60]!r}")
            for blank in blanks:
                label = None
                if answers is not None:
                    label = answers.get(blank)
                    if type(label) is not int or not 0 <= label < len(choices):
                        raise DataError(f"{where}: the answer of {blank} in {answers_path} is "
                                        f"{label!r}, expected a number from 0 to "
                                        f"{len(choices) - 1}")
                yield ChoiceExample(blank, content, "", choices, label, group=str(number),
                                    blank=blank)


def _chid_answers(path: Path) -> Mapping[str, Any]:
    items = _parse(path)
    if len(items) != 1 or not isinstance(items[0][1], dict):
        raise DataError(f"{path}: found {len(items)} items, expected one JSON object such as "
                        '{"#idiom000001#": 3, …}')
    return items[0][1]
