"""Fine-tune, score and predict: a passage, a question and choices -> which choice is right.

    python run_race.py --task_name race --data_dir dataset/RACE \\
        --model_name_or_path prev_trained_model/albert_base_v2 \\
        --do_train --do_eval --do_predict --output_dir outputs/race

Tasks are rows of processors/race.py: RACE, DREAM, C3, SWAG and CHID. A question has as many
sequences as choices, so --per_gpu_train_batch_size 8 of RACE puts 32 sequences into memory; for a
step of 32 questions give --gradient_accumulation_steps 4.
On several GPUs: torchrun --nproc_per_node N run_race.py …
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from finetuning import Splits, front_door
from finetuning_settings import TASK, FinetuningSettings
from model.configuration_albert import AlbertConfig
from processors.choices import ChoiceData
from processors.race import (
    TASKS,
    ChoiceTask,
    find_sources,
    find_split_sources,
    get_task,
    load_choices,
)
from processors.readers import DataError
from tools.arguments import flag, parse


@dataclass
class TaskFlags:
    """Which data to read, and how."""

    task_name: str = flag(f"{', '.join(sorted(TASKS))}; capitals and hyphens do not matter",
                          group=TASK)
    data_dir: Path | None = flag("folder of the task's files under their published names", None,
                                 group=TASK)
    train_file: Path | None = flag("training file, or folder of RACE, instead of the one in "
                                   "data_dir", None, group=TASK)
    dev_file: Path | None = flag("dev file or folder, instead of that in data_dir", None,
                                 group=TASK)
    test_file: Path | None = flag("file or folder to predict, instead of that in data_dir", None,
                                  group=TASK)
    max_qa_length: int = flag("tokens of question and choice together; of longer ones the end is "
                              "kept", 128, group=TASK)
    each_choice_once: bool = flag("chid: the blanks that share their candidates get different ones",
                                  False, group=TASK)


@dataclass
class RaceSettings(FinetuningSettings, TaskFlags):
    """All flags of this front door."""

    def problems(self) -> list[str]:
        found = super().problems()
        if self.task_name is None:
            return found  # told as a missing flag
        if self.max_qa_length < 1:
            found.append(f"--max_qa_length {self.max_qa_length}: expected at least 1")
        try:
            task = get_task(self.task_name)
        except DataError as error:
            return [*found, str(error)]
        if self.each_choice_once and task.name != "chid":
            found.append(f"--each_choice_once: questions of {task.name} do not share their "
                         "choices, only those of chid do")
        needed = ((self.do_train, self.train_file), (self.do_eval, self.dev_file),
                  (self.do_predict, self.test_file))
        if self.data_dir is None and any(part and file is None for part, file in needed):
            found.append("--data_dir is missing: the folder of the task's files")
        return found


def read(settings: RaceSettings, config: AlbertConfig) -> tuple[ChoiceTask, Splits]:
    """The task and those of its splits that the run needs."""
    task, folder, splits = get_task(settings.task_name), settings.data_dir or Path(), Splits()
    if settings.do_train:
        splits.train = load_choices(task, _given(settings, settings.train_file)
                                    or find_sources(folder, task.train, "train"))
    if settings.do_eval:
        dev = _given(settings, settings.dev_file)
        found = {task.name: dev} if dev else find_split_sources(folder, task.dev, "dev")
        splits.dev = {name: load_choices(task, paths, name) for name, paths in found.items()}
    if settings.do_predict:
        test = _given(settings, settings.test_file)
        found = {task.name: test} if test else find_split_sources(folder, task.test, "test")
        splits.test = {name: load_choices(task, paths, name, labels="optional")
                       for name, paths in found.items()}
    return task, splits


def _given(settings: RaceSettings, path: Path | None) -> tuple[Path, ...]:
    """A file as given, else below data_dir."""
    if path is None:
        return ()
    below = (settings.data_dir or Path()) / path
    return (path if path.exists() or not below.exists() else below,)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 after one message that says what is wrong."""
    settings = parse(RaceSettings, __doc__, arguments)
    return front_door(settings, lambda config: read(settings, config),
                      partial(ChoiceData, max_qa_length=settings.max_qa_length,
                              once=settings.each_choice_once))


if __name__ == "__main__":
    sys.exit(main())
