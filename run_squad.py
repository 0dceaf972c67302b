"""Fine-tune, score and predict span reading: a question and a passage -> a part of the passage.

    python run_squad.py --task_name squad --data_dir dataset/squad \\
        --model_name_or_path prev_trained_model/albert_base_v2 \\
        --do_train --do_eval --do_predict --output_dir outputs/squad

Tasks are rows of processors/squad.py: squad and squad-v2 (English), cmrc2018 and drcd (Chinese). A
data set of your own, in the form of SQuAD, is given by its files: --task_name squad --train_file
mine.json --predict_file mine-dev.json. With --version_2_with_negative questions may have no answer
(SQuAD 2.0), and the model gets the official head that can tell.
On several GPUs: torchrun --nproc_per_node N run_squad.py …
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from finetuning import Splits, front_door
from finetuning_settings import RESULTS, TASK, FinetuningSettings
from model.configuration_albert import AlbertConfig
from model.tokenization_albert import AlbertTokenizer
from processors.base import Task, find_file, find_splits
from processors.span_decoding import NullThreshold, SpanOptions
from processors.spans import SpanData
from processors.squad import TASKS, SpanSplit, load_squad
from tools.arguments import flag, parse

logger = logging.getLogger(__name__)

MAX_ANSWER = {"cmrc2018": 100, "drcd": 50}  # tokens; Chinese characters are one each
SPANS = "windows and answers"


@dataclass
class SpanFlags:
    """Which data to read, and how."""

    task_name: str = flag(f"{', '.join(TASKS)}; capitals do not matter", "squad", group=TASK)
    data_dir: Path | None = flag("folder of the task's files under their published names", None,
                                 group=TASK)
    train_file: Path | None = flag("training file, instead of the one in data_dir", None,
                                   group=TASK)
    predict_file: Path | None = flag("dev file, instead of the one in data_dir; --do_predict "
                                     "predicts it too, if there is no --test_file", None,
                                     aliases=("dev_file",), group=TASK)
    test_file: Path | None = flag("file to predict; it needs no answers", None, group=TASK)
    version_2_with_negative: bool = flag(
        "questions may have no answer; on with --task_name squad-v2", False, group=TASK)

    doc_stride: int = flag("tokens from the beginning of a window on a long passage to that of the "
                           "next", 128, group=SPANS)
    max_query_length: int = flag("tokens of a question; longer ones are cut and counted", 64,
                                 group=SPANS)
    max_answer_length: int | None = flag(
        "tokens of an answer (default: 30; for cmrc2018 100 and for drcd 50)", None, group=SPANS)
    n_best_size: int = flag("answers in nbest_predictions.json", 20, group=SPANS)
    null_score_diff_threshold: float | None = flag(
        "a question whose null odds are above this one has no answer; left out: tuned on the dev "
        "file, else as it was for the model, else 0", None, group=SPANS)
    start_n_top: int | None = flag("v2 head: starts it looks at (default: the model's, else 5)",
                                   None, group=SPANS)
    end_n_top: int | None = flag("v2 head: ends it looks at for each (default: the model's, else "
                                 "5)", None, group=SPANS)


@dataclass
class SquadSettings(FinetuningSettings, SpanFlags):
    """All flags of this front door."""

    def problems(self) -> list[str]:
        found = super().problems()
        for name in ("doc_stride", "max_query_length", "max_answer_length", "n_best_size",
                     "start_n_top", "end_n_top"):
            value = getattr(self, name)
            if value is not None and value < 1:
                found.append(f"--{name} {value}: expected at least 1")
        if self.task_name.lower() not in TASKS:
            found.append(f"--task_name {self.task_name}: no such task; there are: "
                         f"{', '.join(TASKS)}")
            return found
        if self.version_2 and self.task_name.lower() not in ("squad", "squad-v2"):
            found.append(f"--version_2_with_negative: {self.task_name} has an answer to every "
                         "question; files of your own go with --task_name squad-v2")
        if not self.version_2:
            v2_only = [f"--{name}" for name in ("null_score_diff_threshold", "start_n_top",
                                                "end_n_top") if getattr(self, name) is not None]
            if v2_only:
                found.append(f"{', '.join(v2_only)}: only with --version_2_with_negative")
        files = {"train_file": self.do_train, "predict_file": self.do_eval}
        if self.test_file is None:
            files["predict_file"] |= self.do_predict
        missing = [f"--{name}" for name, needed in files.items()
                   if needed and getattr(self, name) is None]
        if missing and self.data_dir is None:
            found.append(f"--data_dir is missing: the folder of the task's files (or "
                         f"{' and '.join(missing)})")
        return found

    @property
    def version_2(self) -> bool:
        return self.version_2_with_negative or self.task_name.lower() == "squad-v2"


def task_of(settings: SquadSettings) -> Task:
    """The row of the task, with the files that the flags name."""
    name = settings.task_name.lower()
    task = TASKS["squad-v2" if settings.version_2 else name]
    if settings.train_file:
        task = replace(task, train=(_resolved(settings.train_file, settings.data_dir),))
    if settings.predict_file:
        files = (_resolved(settings.predict_file, settings.data_dir),)
        task = replace(task, dev={task.name: files}, test={task.name: files})
    if settings.test_file:
        files = (_resolved(settings.test_file, settings.data_dir),)
        task = replace(task, test={task.name: files})
    return task


def _resolved(path: Path, data_dir: Path | None) -> str:
    """A file as given, else below data_dir; absolute, so that joining a folder leaves it alone."""
    if not path.exists() and data_dir is not None and (data_dir / path).exists():
        path = data_dir / path
    return str(path.absolute())


def options_of(settings: SquadSettings, task: Task, config: AlbertConfig) -> SpanOptions:
    """How passages are cut and answers are chosen; the beam is the model's unless a flag says."""
    return SpanOptions(
        doc_stride=settings.doc_stride, max_query_length=settings.max_query_length,
        n_best_size=settings.n_best_size,
        max_answer_length=settings.max_answer_length or MAX_ANSWER.get(task.name, 30),
        version_2=settings.version_2,
        start_n_top=settings.start_n_top or config.start_n_top,
        end_n_top=settings.end_n_top or config.end_n_top, threshold=threshold_of(settings))


def threshold_of(settings: SquadSettings) -> NullThreshold:
    """The flag's threshold; else one that dev scores will tune, from the model's own on."""
    if settings.null_score_diff_threshold is not None:
        return NullThreshold(settings.null_score_diff_threshold, tune=False)
    path = Path(settings.model_name_or_path or "") / RESULTS
    if settings.version_2 and not settings.do_train and path.is_file():
        results = json.loads(path.read_text(encoding="utf-8"))
        for scores in results.get("dev", {}).values():
            if "threshold" in scores:
                logger.info("null threshold %g, from %s", scores["threshold"], path)
                return NullThreshold(scores["threshold"])
    if settings.version_2 and settings.do_predict and not settings.do_eval:
        logger.warning("the null threshold is 0, as there is no dev score to tune it: --do_eval "
                       "tunes it, --null_score_diff_threshold sets it")
    return NullThreshold()


def read(settings: SquadSettings, options: SpanOptions, task: Task) -> tuple[Task, Splits]:
    """The task with the settings of its head, and those of its splits that the run needs."""
    folder, splits = settings.data_dir or Path(), Splits()
    head = {"squad_head": "v2" if options.version_2 else "v1"}
    if options.version_2:
        head |= {"start_n_top": options.start_n_top, "end_n_top": options.end_n_top}
    task = replace(task, head_config=head)
    load = partial(load_squad, unanswerable=options.version_2)
    if settings.do_train:
        splits.train = load(find_file(folder, task.train, "train"), "train", "train")
    if settings.do_eval:
        splits.dev = {name: load(path, f"{name} dev", "dev")
                      for name, path in find_splits(folder, task.dev, "dev").items()}
    if settings.do_predict:
        splits.test = {name: load(path, f"{name} test", "test")
                       for name, path in find_splits(folder, task.test, "test").items()}
    return task, splits


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 after one message that says what is wrong."""
    settings = parse(SquadSettings, __doc__, arguments)
    task = task_of(settings)
    options: list[SpanOptions] = []  # one for all splits, known when the config is

    def read_splits(config: AlbertConfig) -> tuple[Task, Splits]:
        options.append(options_of(settings, task, config))
        return read(settings, options[0], task)

    def make_data(task: Task, split: SpanSplit, tokenizer: AlbertTokenizer,
                  max_length: int) -> SpanData:
        return SpanData(task, split, tokenizer, max_length, options[0])

    return front_door(settings, read_splits, make_data)


if __name__ == "__main__":
    sys.exit(main())
