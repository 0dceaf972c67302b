"""Fine-tune, score and predict named entities: words -> a tag for each.

    python run_ner.py --task_name wnut17 --data_dir dataset/wnut17 \\
        --model_name_or_path prev_trained_model/albert_base_v2 \\
        --do_train --do_eval --do_predict --output_dir outputs/wnut17

Data sets are rows of processors/ner.py. One of your own is given by its files, in CoNLL columns
(the word first, its tag last, blank lines between sentences) or CLUENER's JSON lines:
--task_name custom --train_file my.conll --dev_file my-dev.conll. Tags may be BIO, IOB1, BIOES,
BMES or BILOU; --markup says which scheme the model learns, whatever the files have.
On several GPUs: torchrun --nproc_per_node N run_ner.py …
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from finetuning import Splits, front_door
from finetuning_settings import TASK, FinetuningError, FinetuningSettings
from model.configuration_albert import AlbertConfig
from processors.base import Task, find_file, find_splits
from processors.ner import TASKS, EntityData, entity_task
from processors.ner_files import CLUENER, CONLL, FORMATS, EntitySplit, load_entities
from processors.ner_tags import MARKUPS, labels_from_flag, labels_of_types, markup_of_labels
from processors.readers import DataError
from tools.arguments import flag, parse

logger = logging.getLogger(__name__)

CUSTOM = "custom"
SUBMISSIONS = {CONLL: "predictions.conll", CLUENER: "cluener_predict.json"}


@dataclass
class TaskFlags:
    """Which data to read, and how."""

    task_name: str = flag(f"{', '.join(TASKS)}, or {CUSTOM} (your own files); capitals do not "
                          "matter", group=TASK)
    data_dir: Path | None = flag("folder of the task's files under their published names", None,
                                 group=TASK)
    train_file: Path | None = flag("training file, instead of the one in data_dir", None,
                                   group=TASK)
    dev_file: Path | None = flag("dev file, instead of the one in data_dir", None, group=TASK)
    test_file: Path | None = flag("file to predict, instead of the one in data_dir; it needs no "
                                  "tags", None, group=TASK)
    labels: list[str] | None = flag(
        "types of entities (PER LOC), or all tags in the order of their ids (O B-PER I-PER …); "
        "left out: those of the task, of the training file or of the model", None, group=TASK)
    markup: str | None = flag("the scheme of tags that the model learns; left out: that of the "
                              "model, else bio", None, choices=tuple(MARKUPS), group=TASK)
    file_format: str | None = flag("format of the files, if the suffix does not tell: .json and "
                                   ".jsonl are cluener, the rest is conll", None,
                                   aliases=("format",), choices=FORMATS, group=TASK)
    skip_bad_lines: bool = flag("leave out sentences that cannot be read, up to 1%, instead of "
                                "refusing the file", False, group=TASK)


@dataclass
class NerSettings(FinetuningSettings, TaskFlags):
    """All flags of this front door."""

    def problems(self) -> list[str]:
        found = super().problems()
        if self.task_name is None:
            return found  # told as a missing flag
        files = {"train_file": self.do_train, "dev_file": self.do_eval,
                 "test_file": self.do_predict}
        missing = [name for name, needed in files.items()
                   if needed and getattr(self, name) is None]
        if self.task_name.lower() == CUSTOM:
            found += [f"--{name} is missing: --task_name custom has no files of its own"
                      for name in missing]
        elif self.task_name.lower() not in TASKS:
            found.append(f"--task_name {self.task_name}: no such task; there are: "
                         f"{', '.join(TASKS)}, and {CUSTOM} for files of your own (--train_file, "
                         "…)")
        elif missing and self.data_dir is None:
            found.append("--data_dir is missing: the folder of the task's files")
        repeated = sorted({label for label in self.labels or () if self.labels.count(label) > 1})
        if repeated:
            found.append(f"--labels: found {', '.join(repeated)} more than once")
        return found


def task_of(settings: NerSettings) -> Task:
    """The row of the task, with the files that the flags name; its labels are types still."""
    files = {name: str(_resolved(path, settings.data_dir)) if path else None
             for name, path in (("train", settings.train_file), ("dev", settings.dev_file),
                                ("test", settings.test_file))}
    name = settings.task_name.lower()
    task = entity_task(CUSTOM, (), (), (), ()) if name == CUSTOM else TASKS[name]
    given = {"train": (files["train"],) if files["train"] else task.train,
             "dev": {name: (files["dev"],)} if files["dev"] else task.dev,
             "test": {name: (files["test"],)} if files["test"] else task.test}
    return replace(task, **given, skip_bad_lines=settings.skip_bad_lines,
                   file_format=settings.file_format)


def _resolved(path: Path, data_dir: Path | None) -> Path:
    """A file as given, else below data_dir; absolute, so that joining a folder leaves it alone."""
    if not path.exists() and data_dir is not None and (data_dir / path).exists():
        path = data_dir / path
    return path.absolute()


def read(settings: NerSettings, config: AlbertConfig) -> tuple[Task, Splits]:
    """The task, its labels being the tags of the model, and those splits that the run needs."""
    task, folder, splits = task_of(settings), settings.data_dir or Path(), Splits()

    def load(path: Path, name: str, labels: str = "required") -> EntitySplit:
        return load_entities(path, name, task.file_format, labels, task.skip_bad_lines)

    if settings.do_train:
        splits.train = load(find_file(folder, task.train, "train"), "train")
    task = replace(task, labels=labels_of(settings, config, task, splits.train))
    if settings.do_eval:
        splits.dev = {name: load(path, f"{name} dev")
                      for name, path in find_splits(folder, task.dev, "dev").items()}
    if settings.do_predict:
        splits.test = {name: load(path, f"{name} test", "optional")
                       for name, path in find_splits(folder, task.test, "test").items()}
        task = replace(task, submission={name: SUBMISSIONS[split.file_format]
                                         for name, split in splits.test.items()})
    return task, splits


def labels_of(settings: NerSettings, config: AlbertConfig, task: Task, train: EntitySplit | None,
              ) -> tuple[str, ...]:
    """The tags that the model learns or has learnt, in the order of their ids.

    From --labels, else from the model where there is no training, else from the task's row, else
    from the training file. Raises `FinetuningError` where none of them tells, and where --markup
    is not that of the model.
    """
    known = config.id2label if train is None and not settings.labels else None
    if known is not None:
        there = markup_of_labels(known, f"{settings.model_name_or_path}, which gives no --labels")
        if settings.markup not in (None, there):
            raise FinetuningError(f"--markup {settings.markup}: the model has learnt {there}, its "
                                  f"labels are {', '.join(known[:6])} …; leave the flag out")
        return tuple(known)
    markup = settings.markup or "bio"
    if settings.labels:
        labels = labels_from_flag(settings.labels, markup)
    elif task.labels:
        labels = labels_of_types(task.labels, markup)
    elif train is None:
        raise FinetuningError("--labels is missing: the model does not name its labels, and there "
                              "is no --do_train to learn them from a file")
    elif not train.types:
        raise DataError(f"{train.path}: all words have the tag O, expected some entity; is the tag "
                        "in the last column?")
    else:
        labels = labels_of_types(train.types, markup)
        logger.info("types of entities in %s: %s", train.path, ", ".join(train.types))
    if config.id2label is not None and set(config.id2label) == set(labels):
        return tuple(config.id2label)  # a model that is trained further keeps its order
    return labels


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 after one message that says what is wrong."""
    settings = parse(NerSettings, __doc__, arguments)
    return front_door(settings, lambda config: read(settings, config), EntityData)


if __name__ == "__main__":
    sys.exit(main())
