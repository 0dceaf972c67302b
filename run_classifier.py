"""Fine-tune, score and predict: one text or a pair of texts -> a class or a number.

    python run_classifier.py --task_name sst-2 --data_dir dataset/glue/SST-2 \\
        --model_name_or_path prev_trained_model/albert_base_v2 \\
        --do_train --do_eval --do_predict --output_dir outputs/sst-2

Tasks are rows of processors/glue.py and processors/clue.py. A data set of your own is described by
flags: --task_name custom --train_file my.tsv --text_a_column text --label_column label.

Texts of your own go through a fine-tuned model line by line, from a file or a pipe:

    python run_classifier.py --model_name_or_path outputs/sst-2 --predict_file texts.txt

Several tasks share one encoder: --task_name sst-2,cola,rte --data_dir dataset/glue

On several GPUs: torchrun --nproc_per_node N run_classifier.py …
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from callback.mixed_plan import SAMPLINGS
from finetuning import Splits, front_door
from finetuning_settings import RUN, TASK, FinetuningError, FinetuningSettings
from metrics.classification import METRICS
from model.configuration_albert import AlbertConfig
from prediction import PIPE, label_lines
from processors.base import Task, custom_task, find_file, find_splits
from processors.loading import infer_labels, load_split
from processors.multitask import MixedSplit, TaskSplit, combined, make_data, task_folders
from processors.readers import FORMATS, DataError
from processors.tasks import TASKS, get_task
from tools.arguments import flag, parse

CUSTOM = "custom"
CUSTOM_FLAGS = ("text_a_column", "text_b_column", "label_column", "guid_column", "labels",
                "regression", "metric", "file_format", "delimiter")


@dataclass
class TaskFlags:
    """Which data to read, and how."""

    task_name: str | None = flag(
        f"{', '.join(sorted(TASKS))}, or {CUSTOM} (flags below); capitals and hyphens do not "
        "matter; several with commas between share one model", None, group=TASK)
    task_sampling: str = flag(
        "several tasks: the share of each among the steps; by size, alike, or from the first to "
        "nearly the second", "proportional", choices=SAMPLINGS, group=TASK)
    data_dir: Path | None = flag(
        "folder of the task's files under their published names; of several tasks the folder that "
        "holds theirs, or theirs with commas between", None, group=TASK)
    train_file: Path | None = flag("training file, instead of the one in data_dir", None,
                                   group=TASK)
    dev_file: Path | None = flag("dev file, instead of those in data_dir", None, group=TASK)
    test_file: Path | None = flag("file to predict, instead of those in data_dir", None, group=TASK)
    text_a_column: str | None = flag("custom: column of the text, a name or a position counted "
                                     "from 0 where there is no header", None, group=TASK)
    text_b_column: str | None = flag("custom: column of the second text of a pair", None,
                                     group=TASK)
    label_column: str | None = flag("custom: column of the label (default: label)", None,
                                    group=TASK)
    guid_column: str | None = flag("custom: column of an id for the prediction file (default: "
                                   "lines are counted from 0)", None, group=TASK)
    labels: list[str] | None = flag("custom: the labels in the order of their ids (default: those "
                                    "of the training file)", None, group=TASK)
    regression: bool = flag("custom: the label is a number", False, group=TASK)
    metric: str | None = flag("custom: what decides which model is best", None,
                              choices=tuple(METRICS), group=TASK)
    file_format: str | None = flag("custom: format of the files, if the suffix does not tell", None,
                                   aliases=("format",), choices=FORMATS, group=TASK)
    delimiter: str | None = flag("custom: what separates the columns (default: a tab in tsv, a "
                                 "comma in csv)", None, group=TASK)
    skip_bad_lines: bool = flag("leave out lines with too many or too few columns, up to 1%, "
                                "instead of refusing the file", False, group=TASK)


@dataclass
class ClassifierSettings(FinetuningSettings, TaskFlags):
    """All flags of this front door."""

    output_dir: Path | None = flag("folder for the model, its scores and predictions", None,
                                   group=RUN)
    predict_file: str | None = flag(
        "texts to label with a fine-tuned model, - for standard input: one a line, a pair with a "
        "tab between, or JSON objects; it needs --model_name_or_path and nothing else", None,
        group=RUN)
    predict_output: Path | None = flag(
        "where the labels go, one line for each line of predict_file: label, tab, probability "
        "(default: standard output)", None, group=RUN)

    def problems(self) -> list[str]:
        if self.predict_file is not None:
            return self._prediction_problems()
        found = super().problems()
        if self.predict_output is not None:
            found.append("--predict_output is where the answers to --predict_file go, which is "
                         "missing")
        found += [f"--{name} is missing: {text}" for name, text in (
            ("output_dir", "folder for the model, its scores and predictions"),
            ("task_name", f"one of {', '.join(sorted(TASKS))}, or {CUSTOM}"))
            if getattr(self, name) is None]
        if self.task_name is None:
            return found
        files = {"train_file": self.do_train, "dev_file": self.do_eval,
                 "test_file": self.do_predict}
        missing = [name for name, needed in files.items()
                   if needed and getattr(self, name) is None]
        if self.several:
            return found + self._problems_of_several()
        if self.task_name.lower() == CUSTOM:
            found += [f"--{name} is missing: --task_name custom has no files of its own"
                      for name in missing]
            if self.text_a_column is None:
                found.append("--text_a_column is missing: --task_name custom needs to know where "
                             "the text is")
            if self.metric and (METRICS[self.metric].kind == "regression") != self.regression:
                found.append(f"--metric {self.metric} scores "
                             f"{'classes' if self.regression else 'numbers'}, "
                             f"--regression is {'given' if self.regression else 'not given'}")
            if self.regression and self.labels:
                found.append("--regression predicts a number, and --labels gives classes: give "
                             "one of them")
            return found
        try:
            get_task(self.task_name)
        except DataError as error:
            found.append(str(error))
        if missing and self.data_dir is None:
            found.append("--data_dir is missing: the folder of the task's files")
        return found + self._foreign(CUSTOM_FLAGS)

    @property
    def several(self) -> list[str]:
        """The names of several tasks; empty for one."""
        names = [name.strip() for name in (self.task_name or "").split(",")]
        return names if len(names) > 1 else []

    def _problems_of_several(self) -> list[str]:
        found, known = [], []
        for name in self.several:
            try:
                known.append(get_task(name).name)
            except DataError as error:
                found.append(str(error))
        twice = sorted({name for name in known if known.count(name) > 1})
        if twice:
            found.append(f"--task_name {self.task_name}: {', '.join(twice)} stands there twice")
        if self.data_dir is None:
            found.append("--data_dir is missing: the folder that holds those of the tasks")
        return found + self._foreign((*CUSTOM_FLAGS, "train_file", "dev_file", "test_file"))

    def _foreign(self, names: Sequence[str]) -> list[str]:
        given = [f"--{name}" for name in names if getattr(self, name)]
        return given and [f"{', '.join(given)}: only for --task_name custom; the files, columns, "
                          f"labels and metric of {self.task_name} are known"]

    @property
    def is_custom(self) -> bool:
        """Whether no row of a table describes the task."""
        return self.task_name is None or self.task_name.lower() == CUSTOM

    @property
    def own_columns(self) -> dict[str, tuple[str, ...]] | None:
        """The columns of texts that the flags name."""
        names = {"text_a": self.text_a_column, "text_b": self.text_b_column}
        return {role: (name,) for role, name in names.items() if name} or None

    def _prediction_problems(self) -> list[str]:
        found = []
        foreign = [f"--{name}" for name in ("do_train", "do_eval", "do_predict", "output_dir",
                                            "data_dir", "train_file", "dev_file", "test_file")
                   if getattr(self, name)]
        if foreign:
            found.append(f"--predict_file labels texts and does nothing else: leave out "
                         f"{', '.join(foreign)}, or give --do_predict with a task's own test file")
        if self.model_name_or_path is None:
            found.append("--model_name_or_path is missing: the folder of a fine-tuned model")
        if self.predict_file != PIPE:
            path = Path(self.predict_file)
            if not path.exists() or path.is_dir():
                found.append(f"--predict_file {path}: " + (
                    "found a folder, expected a file" if path.is_dir() else "no such file"))
            elif self.predict_output is not None and self.predict_output.exists() and (
                    self.predict_output.samefile(path)):
                found.append(f"--predict_output {path} is --predict_file itself, which would be "
                             "overwritten while it is read")
        if self.per_gpu_eval_batch_size < 1:
            found.append(f"--per_gpu_eval_batch_size {self.per_gpu_eval_batch_size}: expected at "
                         "least 1")
        if self.text_b_column and not self.text_a_column:
            found.append("--text_a_column is missing: the key of the first text")
        if not self.is_custom:
            try:
                get_task(self.task_name)
            except DataError as error:
                found.append(str(error))
        return found


def task_of(settings: ClassifierSettings) -> Task:
    """The row of the task, with the files that the flags name."""
    files = {name: str(_resolved(path, settings.data_dir)) if path else None
             for name, path in (("train", settings.train_file), ("dev", settings.dev_file),
                                ("test", settings.test_file))}
    if settings.task_name.lower() == CUSTOM:
        return custom_task(
            files["train"], files["dev"], files["test"], settings.text_a_column,
            settings.text_b_column, settings.label_column or "label", settings.guid_column,
            settings.labels, settings.regression, settings.metric, settings.file_format,
            settings.delimiter, settings.skip_bad_lines)
    task = get_task(settings.task_name)
    if files["train"]:
        task = replace(task, train=(files["train"],))
    if files["dev"]:
        task = replace(task, dev={task.name: (files["dev"],)})
    if files["test"]:
        name = next(iter(task.test))
        task = replace(task, test={name: (files["test"],)})
    return replace(task, skip_bad_lines=True) if settings.skip_bad_lines else task


def _resolved(path: Path, data_dir: Path | None) -> Path:
    """A file as given, else below data_dir; absolute, so that joining a folder leaves it alone."""
    if not path.exists() and data_dir is not None and (data_dir / path).exists():
        path = data_dir / path
    return path.absolute()


def read(settings: ClassifierSettings, config: AlbertConfig) -> tuple[Task, Splits]:
    """The task and those of its splits that the run needs."""
    task, folder, splits = task_of(settings), settings.data_dir or Path(), Splits()
    train = None
    if settings.do_train:
        if not task.train:
            raise FinetuningError(f"--do_train: {task.name} has no training data; predict it with "
                                  "a model that was fine-tuned on mnli")
        train = find_file(folder, task.train, "train")
    if task.infer_labels:
        if train is None and config.id2label is None:
            raise FinetuningError("--labels is missing: the model does not name its labels, and "
                                  "there is no --do_train to learn them from a file")
        labels = config.id2label if train is None else infer_labels(task, train)
        task = replace(task, labels=tuple(labels))
    if train is not None:
        splits.train = load_split(task, train)
    if settings.do_eval:
        splits.dev = {name: load_split(task, path, name)
                      for name, path in find_splits(folder, task.dev, "dev").items()}
    if settings.do_predict:
        splits.test = {name: load_split(task, path, name, labels="optional")
                       for name, path in find_splits(folder, task.test, "test").items()}
    return task, splits


def read_any(settings: ClassifierSettings, config: AlbertConfig) -> tuple[Task, Splits]:
    """One task or several; a model of several is asked for one of them, too."""
    names = settings.several
    if config.tasks is not None and not settings.do_train and not settings.is_custom:
        names = names or [settings.task_name]
    return read_several(settings, names, config) if names else read(settings, config)


def read_several(settings: ClassifierSettings, names: Sequence[str], config: AlbertConfig,
                 ) -> tuple[Task, Splits]:
    """The tasks as one, and their splits. Raises `FinetuningError` where a model has others."""
    tasks = [get_task(name) for name in names]
    labels = {task.name: None if task.labels is None else list(task.labels) for task in tasks}
    heads = labels
    if config.tasks is not None and not settings.new_head:
        heads = config.tasks
        fits = list(heads.items()) == list(labels.items()) if settings.do_train else all(
            name in heads and heads[name] == own for name, own in labels.items())
        if not fits:
            raise FinetuningError(
                f"{settings.model_name_or_path}: it has heads for {', '.join(heads)} with the "
                f"labels {list(heads.values())}; found the tasks {', '.join(labels)} with "
                f"{list(labels.values())}. Give the tasks that it has"
                + (", in this order, or --new_head to start the heads anew"
                   if settings.do_train else ""))
    folders = task_folders(tasks, settings.data_dir or Path())
    parts, splits = [], Splits()
    for task in tasks:
        alone = replace(settings, task_name=task.name, data_dir=folders[task.name])
        _, own = read(alone, replace(config, tasks=None))
        if own.train is not None:
            parts.append(TaskSplit.of(task, own.train))
        splits.dev |= {name: TaskSplit.of(task, split) for name, split in own.dev.items()}
        splits.test |= {name: TaskSplit.of(task, split) for name, split in own.test.items()}
    if parts:
        splits.train = MixedSplit(parts, settings.task_sampling)
    return combined(tasks, heads), splits


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 after one message that says what is wrong."""
    settings = parse(ClassifierSettings, __doc__, arguments)
    if settings.predict_file is not None:
        task = None if settings.is_custom else get_task(settings.task_name)
        return label_lines(settings, settings.predict_file, settings.predict_output,
                           settings.own_columns, task)
    return front_door(settings, lambda config: read_any(settings, config), make_data)


if __name__ == "__main__":
    sys.exit(main())
