"""Multiple choice: a passage, a question and its choices, one row a data set.

Readers bring every format to one form, `ChoiceExample`; `processors/choices.py` makes features of
it. RACE lies in folders with one file a passage or in one JSON list, DREAM and C3 are JSON lists of
dialogues, SWAG is a CSV file, CHID has JSON lines with blanks to fill and its answers in a second
file.
"""

from __future__ import annotations

import json
import logging
import re
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from processors.base import Files, LoadedSplit, Task
from processors.readers import DataError, read_rows, read_text

logger = logging.getLogger(__name__)

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


Reader = Callable[[Path], Iterator[ChoiceExample]]


@dataclass(frozen=True)
class ChoiceTask(Task):
    """A row. Of a file alternative such as "a.json + b.json" all files are read, as one split."""

    reader: Reader | None = None
    cloze: bool = False  # an option takes the place of _ in a question that has one
    part: str | None = None  # only examples of this part
    labels_file: str = ""  # where the answers lie, told to a person who misses them


# ---- finding and loading -------------------------------------------------------------------------


def find_sources(data_dir: Path, files: Files, what: str) -> tuple[Path, ...]:
    """The first alternative of which all files or folders exist. Raises `DataError`."""
    for alternative in files:
        paths = tuple(data_dir / name for name in alternative.split(" + "))
        if all(path.exists() for path in paths):
            return paths
    there = sorted(p.name for p in data_dir.iterdir()) if data_dir.is_dir() else None
    found = "no such folder" if there is None else f"found {', '.join(there[:20]) or 'nothing'}"
    raise DataError(f"--data_dir {data_dir}: {found}; expected for {what} " + " or ".join(files))


def load_choices(task: ChoiceTask, sources: tuple[Path, ...], name: str = "",
                 labels: str = "required") -> LoadedSplit:
    """Read the files (or folders) of one split.

    labels: "required" (train, dev), or "optional" for test files, where they are read if every
    question has one. Raises `DataError` that names file and item, what was found and expected.
    """
    split = LoadedSplit(name or task.name, Path(" + ".join(map(str, sources))), [])
    left_out = 0
    for source in sources:
        for example in task.reader(source):
            where = f"{source}, question {example.guid}"
            if not 2 <= len(example.choices) <= len(task.labels):
                raise DataError(f"{where}: found {len(example.choices)} choices, expected 2 to "
                                f"{len(task.labels)}")
            if example.label is None and labels == "required":
                raise DataError(f"{where}: found no answer, expected one{task.labels_file}. Without "
                                "answers there is no training and no score; a file without them "
                                "can only be predicted (--test_file with --do_predict)")
            if task.part is not None and example.part is None:
                raise DataError(f"{where}: the id does not tell {' from '.join(LEVELS)}, expected "
                                f"one such as {task.part}123.txt; --task_name race takes all")
            if task.part in (None, example.part):
                split.examples.append(example)
            else:
                left_out += 1
    if not split.examples:
        raise DataError(f"{split.path}: no question, expected at least one"
                        + (f" of the {task.part} part; found {left_out} of others" if left_out
                           else ""))
    if left_out:
        split.notes.append(f"{split.path}: left out {left_out} questions that are not of the "
                           f"{task.part} part")
        logger.info(split.notes[-1])
    return split


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
    for where, item in _parse(path):
        if not isinstance(item, list) or len(item) < 2:
            raise DataError(f"{where}: found {json.dumps(item, ensure_ascii=False)[:60]}, expected "
                            "a list of turns, questions and id")
        turns = _texts(_of_kind(item[0], list, f"{where}: the first part"), f"{where}: a turn")
        questions = _of_kind(item[1], list, f"{where}: the second part")
        for i, entry in enumerate(questions):
            place = f"{where}, question {i + 1}"
            question = _get(entry, "question", str, place)
            choices = _texts(_get(entry, "choice", list, place), f"{place}: a choice")
            guid = entry.get("id", f"{item[2] if len(item) > 2 else where}-{i}")
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


# ---- rows ----------------------------------------------------------------------------------------


def _row(name: str, choices: int, reader: Reader, train: Files, dev: Files, test: Files,
         file: str, style: str, **row: Any) -> ChoiceTask:
    return ChoiceTask(
        name=name, columns={}, labels=tuple(string.ascii_uppercase[:choices]), metric="accuracy",
        head="multiple_choice", reader=reader, train=train, dev={name: dev}, test={name: test},
        submission={name: file}, submission_style=style, **row)


def _race(name: str, part: str | None = None) -> ChoiceTask:
    return _row(name, 4, read_race, *((split, f"RACE/{split}", f"{split}.json", f"{split}.jsonl")
                                      for split in ("train", "dev", "test")),
                f"{name}.json", "letters", cloze=True, part=part)


def _c3(name: str, *parts: str) -> ChoiceTask:
    def files(split: str, *more: str) -> Files:
        return (" + ".join(f"c3-{part}-{split}.json" for part in parts),
                " + ".join(f"{part}-{split}.json" for part in parts), *more)
    whole = len(parts) > 1
    return _row(name, 4, read_dialogues, files("train"), files("dev"),
                files("test", *(("test1.1.json", "test1.0.json") if whole else ())),
                "c3_predict.json", "clue")


TASKS: dict[str, ChoiceTask] = {task.name: task for task in (
    _race("race"), _race("race-middle", "middle"), _race("race-high", "high"),
    _row("dream", 3, read_dialogues, ("train.json",), ("dev.json",), ("test.json",),
         "dream.json", "letters"),
    _c3("c3", "d", "m"), _c3("c3-d", "d"), _c3("c3-m", "m"),
    _row("swag", 4, read_swag, ("train.csv",), ("val.csv", "dev.csv"), ("test.csv",),
         "swag.json", "numbers"),
    _row("chid", 10, read_chid, ("train.json",), ("dev.json",),
         ("test1.1.json", "test1.0.json", "test.json", "out.json"), "chid_predict.json", "numbers",
         labels_file=" in a file beside it, such as train_answer.json"),
)}


def get_task(name: str) -> ChoiceTask:
    """The row of a task; capitals, hyphens and underscores do not matter."""
    plain = {"".join(filter(str.isalnum, known)): known for known in TASKS}
    asked = "".join(filter(str.isalnum, name.lower()))
    if asked not in plain:
        near = get_close_matches(asked, plain, 1)
        hint = f" (did you mean {plain[near[0]]}?)" if near else ""
        raise DataError(f"--task_name {name}: no such task{hint}; there are: "
                        f"{', '.join(sorted(TASKS))}")
    return TASKS[plain[asked]]
