"""Multiple choice: a passage, a question and its choices; one row a data set.

`processors/choice_readers.py` reads the files, `processors/choices.py` makes features of them.
"""

from __future__ import annotations

import logging
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from processors.base import Files, LoadedSplit, Task
from processors.choice_readers import (
    LEVELS,
    ChoiceExample,
    read_chid,
    read_dialogues,
    read_race,
    read_swag,
)
from processors.readers import DataError

logger = logging.getLogger(__name__)

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
    found = _existing(data_dir, files)
    if found:
        return found
    there = sorted(p.name for p in data_dir.iterdir()) if data_dir.is_dir() else None
    listed = "no such folder" if there is None else f"found {', '.join(there[:20]) or 'nothing'}"
    raise DataError(f"--data_dir {data_dir}: {listed}; expected for {what} " + " or ".join(files))


def find_split_sources(data_dir: Path, splits: Mapping[str, Files], what: str,
                       ) -> dict[str, tuple[Path, ...]]:
    """Those of the splits that exist, by name; at least one has to. Raises `DataError`."""
    found = {name: _existing(data_dir, files) for name, files in splits.items()}
    if not any(found.values()):
        find_sources(data_dir, tuple(file for files in splits.values() for file in files), what)
    return {name: paths for name, paths in found.items() if paths}


def _existing(data_dir: Path, files: Files) -> tuple[Path, ...]:
    for alternative in files:
        paths = tuple(data_dir / name for name in alternative.split(" + "))
        if all(path.exists() for path in paths):
            return paths
    return ()


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
                raise DataError(f"{where}: found no answer, expected one{task.labels_file}. "
                                "Without answers there is no training and no score; such a file "
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
    ids = Counter(example.guid for example in split.examples)
    if labels == "optional" and len(ids) < len(split):
        guid, times = ids.most_common(1)[0]
        raise DataError(f"{split.path}: {times} questions have the id {guid}, expected an id of "
                        "its own for each, since predictions go by it")
    if left_out:
        split.notes.append(f"{split.path}: left out {left_out} questions that are not of the "
                           f"{task.part} part")
        logger.info(split.notes[-1])
    return split


# ---- rows ----------------------------------------------------------------------------------------


def _row(name: str, choices: int, reader: Reader, files: Mapping[str, Files], submission: str,
         style: str, clue_tests: bool = False, **row: Any) -> ChoiceTask:
    """clue_tests: CLUE has two test files, without answers, beside those of the data set itself."""
    test, submissions = {name: files["test"]}, {name: submission}
    if clue_tests:
        for version in ("1.0", "1.1"):
            test[f"{name}-{version}"] = (f"test{version}.json",)
            submissions[f"{name}-{version}"] = f"{name}{version.replace('.', '')}_predict.json"
    return ChoiceTask(
        name=name, columns={}, labels=tuple(string.ascii_uppercase[:choices]), metric="accuracy",
        head="multiple_choice", head_config={"num_labels": 1}, reader=reader,
        train=files["train"], dev={name: files["dev"]}, test=test, submission=submissions,
        submission_style=style, **row)


def _files(*patterns: str) -> dict[str, Files]:
    return {split: tuple(pattern.format(split) for pattern in patterns)
            for split in ("train", "dev", "test")}


_RACE = _files("{}", "RACE/{}", "{}.json", "{}.jsonl")
_SWAG = {"train": ("train.csv",), "dev": ("val.csv", "dev.csv"), "test": ("test.csv",)}

TASKS: dict[str, ChoiceTask] = {task.name: task for task in (
    _row("race", 4, read_race, _RACE, "race.json", "letters", cloze=True),
    _row("race-middle", 4, read_race, _RACE, "race-middle.json", "letters", cloze=True,
         part="middle"),
    _row("race-high", 4, read_race, _RACE, "race-high.json", "letters", cloze=True, part="high"),
    _row("dream", 3, read_dialogues, _files("{}.json"), "dream.json", "letters"),
    # Dialogues (d) and other texts (m), which CLUE joins.
    _row("c3", 4, read_dialogues,
         _files("c3-d-{0}.json + c3-m-{0}.json", "d-{0}.json + m-{0}.json", "{0}.json"),
         "c3_predict.json", "clue", clue_tests=True),
    _row("c3-d", 4, read_dialogues, _files("c3-d-{}.json", "d-{}.json"), "c3-d_predict.json",
         "clue"),
    _row("c3-m", 4, read_dialogues, _files("c3-m-{}.json", "m-{}.json"), "c3-m_predict.json",
         "clue"),
    _row("swag", 4, read_swag, _SWAG, "swag.json", "numbers"),
    _row("chid", 10, read_chid, _files("{}.json"), "chid_predict.json", "numbers",
         clue_tests=True,
         labels_file=" in a file beside it, such as train_answer.json for train.json"),
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
