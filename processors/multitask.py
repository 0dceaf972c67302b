"""Several tasks of sequence classification for one model: `--task_name sst-2,cola,rte`.

Each keeps its files, labels and metric. Batches hold one task, under whose name their labels stand
(model/multitask.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.tokenization_albert import AlbertTokenizer
from processors.base import LoadedSplit, Task
from processors.classification import ClassificationData
from processors.readers import DataError
from processors.tasks import task_named

HEAD = "multitask"


@dataclass
class TaskSplit(LoadedSplit):
    """A split that knows its task."""

    task: Task | None = None

    @classmethod
    def of(cls, task: Task, split: LoadedSplit) -> TaskSplit:
        return cls(split.name, split.path, split.examples, split.notes, task)


@dataclass
class MixedSplit:
    """The training splits of all tasks."""

    parts: list[TaskSplit]
    sampling: str = "proportional"  # of callback/mixed_plan.py
    labelled: bool = field(default=True, init=False)

    @property
    def path(self) -> str:
        return ", ".join(str(part.path) for part in self.parts)

    def __len__(self) -> int:
        return sum(map(len, self.parts))


class TaskData(ClassificationData):
    """One split of one of the tasks."""

    def collate(self, features: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """As of one task alone, but labels stand under its name; (0,) where there are none."""
        batch = super().collate(features)
        batch[self.task.name] = batch.pop("labels", torch.empty(0))
        return batch


class MixedData:
    """The training examples of all tasks, one after the other.

    `lengths` (N,) as of each. `sizes`: examples of each task, in their order. sampling: how often
    each gets its turn.
    """

    def __init__(self, parts: Sequence[TaskData], sampling: str = "proportional") -> None:
        self.parts, self.sampling = list(parts), sampling
        self.sizes = [len(part) for part in parts]
        self.starts = np.cumsum([0, *self.sizes])
        self.lengths = np.concatenate([part.lengths for part in parts])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, key: int | tuple[int, int]) -> dict[str, Any]:
        index = key[1] if isinstance(key, tuple) else key
        number = int(np.searchsorted(self.starts, index, side="right")) - 1
        return self.parts[number][index - int(self.starts[number])] | {"part": number}

    def collate(self, features: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Features of one task -> its batch. Raises `ValueError` for more than one."""
        numbers = {f["part"] for f in features}
        if len(numbers) != 1:
            raise ValueError(f"a batch of the tasks {sorted(numbers)}, expected one")
        return self.parts[numbers.pop()].collate(features)

    def longest(self, count: int) -> np.ndarray:
        """Indices of the longest examples of the task that has the longest one."""
        number = int(np.argmax([part.lengths.max() for part in self.parts]))
        order = np.argsort(self.parts[number].lengths, kind="stable")[::-1][:count]
        return order + self.starts[number]


def make_data(task: Task, split: LoadedSplit | MixedSplit, tokenizer: AlbertTokenizer,
              max_length: int) -> ClassificationData | MixedData:
    """A split as a data set: of one task alone, of one of several, or of all of them."""
    if isinstance(split, MixedSplit):
        return MixedData([make_data(task, part, tokenizer, max_length) for part in split.parts],
                         split.sampling)
    if isinstance(split, TaskSplit):
        return TaskData(split.task, split, tokenizer, max_length)
    return ClassificationData(task, split, tokenizer, max_length)


def combined(tasks: Sequence[Task], heads: Mapping[str, Sequence[str] | None]) -> Task:
    """A row that stands for all tasks. heads: those of the model, which may have more."""
    return Task(name="+".join(task.name for task in tasks), columns={}, labels=None,
                metric="accuracy", head=HEAD,
                head_config={"tasks": {name: None if labels is None else list(labels)
                                       for name, labels in heads.items()},
                             "id2label": None, "problem_type": None},
                submission={name: file for task in tasks
                            for name, file in task.submission.items()})


def task_folders(tasks: Sequence[Task], data_dir: Path) -> dict[str, Path]:
    """The folder of each task: below data_dir, by any spelling of its name, or from a list.

    data_dir: the parent folder, or as many folders as there are tasks with commas between; of one
    task alone its own folder, too.
    Raises `DataError` that says what is missing and what lies there.
    """
    listed = [Path(part) for part in str(data_dir).split(",")]
    if len(listed) > 1:
        if len(listed) != len(tasks):
            raise DataError(f"--data_dir {data_dir}: found {len(listed)} folders for {len(tasks)} "
                            "tasks, expected one for each, or the folder that holds them all")
        return {task.name: folder for task, folder in zip(tasks, listed, strict=True)}
    if not data_dir.is_dir() and len(tasks) > 1:
        raise DataError(f"--data_dir {data_dir}: no such folder, expected one with a folder for "
                        "each task")
    names = sorted(path.name for path in data_dir.glob("*") if path.is_dir())
    found = {found: data_dir / name for name in names for found in [task_named(name)] if found}
    missing = [task.name for task in tasks if task.name not in found]
    if missing and len(tasks) == 1:
        return {tasks[0].name: data_dir}
    if missing:
        raise DataError(f"--data_dir {data_dir}: no folder for {', '.join(missing)}; found the "
                        f"folders {', '.join(names) or '(none)'}. Several tasks need a folder "
                        "each, or a list of folders with commas between")
    return {task.name: found[task.name] for task in tasks}
