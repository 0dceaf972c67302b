"""The one fine-tuning recipe, which every `run_*` front door calls.

    task row -> tokenizer, model -> features -> train -> best checkpoint -> scores, predictions

The recipe wires the rooms together: what a data set is lies in `processors/`, how a model is
trained in `callback/`, how predictions are scored in `metrics/`. A front door adds the flags of its
kind of task and says how its splits are read.
"""

from __future__ import annotations

import logging
import math
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from callback import distributed
from callback.base import Callback
from callback.checkpoint import STATE_NAME, checkpoints
from callback.earlystopping import EarlyStopping
from callback.evaluator import predict
from callback.health import LossSpike
from callback.lr_scheduler import Schedule
from callback.mixed_plan import MixedPlan
from callback.modelcheckpoint import ModelCheckpoint
from callback.optimization import build_optimizer
from callback.plan import LengthGroupedPlan, Plan, longest_batch
from callback.progressbar import ProgressBar
from callback.trainer import Trainer, TrainerConfig, TrainingStopped
from callback.trainingmonitor import TrainingMonitor
from finetuning_settings import (
    PREDICTIONS,
    FinetuningError,
    FinetuningSettings,
    as_plain,
    check_output_dir,
    prepare_output_dir,
    table,
    tell,
    write_results,
)
from metrics.classification import MetricError, Scores
from model.configuration_albert import PRESETS, AlbertConfig, ConfigError
from model.conversion import CheckpointError, WeightSource, infer_architecture, open_checkpoint
from model.modeling_albert import AlbertForSequenceClassification, AlbertForTokenClassification
from model.modeling_utils import AlbertPreTrainedModel, WeightsError, config_beside
from model.multitask import ALL_HEADS
from model.tokenization_albert import AlbertTokenizer, TokenizerError
from processors.base import LoadedSplit, Task
from processors.multitask import HEAD, MixedData, MixedSplit
from processors.readers import DataError
from tools.logging import start_logging

logger = logging.getLogger(__name__)

EXPECTED_ERRORS = (CheckpointError, ConfigError, DataError, FileNotFoundError, FinetuningError,
                   MetricError, TokenizerError, TrainingStopped, WeightsError)
# Heads with a row for each label; a subclass of one is told its labels, too.
LABELLED = (AlbertForSequenceClassification, AlbertForTokenClassification)
CHECKPOINTS = Path("prev_trained_model")
MEAN = "mean"  # of several tasks, what decides
WHERE_TO_GET = ("Download a checkpoint (English: github.com/google-research/albert, Chinese: "
                "github.com/brightmart/albert_zh), unpack it there and give its folder")


@dataclass
class Splits:
    """What a front door has read: the training split, and dev and test splits by result name."""

    train: LoadedSplit | MixedSplit | None = None
    dev: dict[str, LoadedSplit] = field(default_factory=dict)
    test: dict[str, LoadedSplit] = field(default_factory=dict)


@dataclass
class Start:
    """What a run starts from. Without a source the weights are random."""

    config: AlbertConfig
    source: WeightSource | None
    head_labels: int | None  # rows of the classifier that the checkpoint has, if it has one
    proven: dict[str, Any] = field(default_factory=dict)  # what its weights say of the model


Read = Callable[[AlbertConfig], tuple[Task, Splits]]
MakeData = Callable[[Task, LoadedSplit, AlbertTokenizer, int], Any]


def finetune(settings: FinetuningSettings, read: Read, make_data: MakeData) -> dict[str, Any]:
    """Run the recipe; returns what `eval_results.json` holds.

    read: gives the task and its splits; it gets the config of the checkpoint, whose label names
    stand in where the task has none. make_data: gives a split as a data set with `lengths`,
    `collate`, `keep`, `score`, `loss` and `write` (see processors/classification.py).

    Everything that can be wrong with flags, files, labels and weights is an error before the
    output folder is touched: `FinetuningError`, `DataError`, `ConfigError`, `CheckpointError`,
    `TokenizerError`. Every rank of a torchrun calls this and gets the same result.
    """
    device = distributed.initialize(settings.no_cuda)
    check_output_dir(settings)
    start = open_start(settings)
    task, splits = read(start.config)
    tokenizer = load_tokenizer(settings, start)
    changes, new_head = settle_head(settings, start, task)
    length = _max_length(settings, start.config)
    parts = {"train": {task.name: splits.train} if splits.train else {}, "dev": splits.dev,
             "test": splits.test}
    data = {part: {name: make_data(task, split, tokenizer, length) for name, split in found.items()}
            for part, found in parts.items()}
    run = _Run(settings, task, start, tokenizer, changes, new_head, data, device)
    if settings.do_train:
        run.schedule()
    model = run.model() if not settings.do_train else None
    prepare_output_dir(settings)
    tell(settings, start.config)
    results = run.train() if settings.do_train else {"model": settings.model_name_or_path}
    return run.finish(results, model)


def front_door(settings: FinetuningSettings, read: Read, make_data: MakeData) -> int:
    """`finetune` as a command: returns 0, or 1 after one message that says what is wrong."""
    start_logging()
    try:
        finetune(settings, read, make_data)
    except EXPECTED_ERRORS as error:
        if distributed.is_main():
            print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        distributed.shutdown()
    return 0


# ---- before the work -----------------------------------------------------------------------------


def open_start(settings: FinetuningSettings) -> Start:
    """The config and weights that the flags name. Raises `FinetuningError` where there are none."""
    path = settings.model_name_or_path
    source = None
    if path is not None:
        try:
            source = open_checkpoint(path)
        except FileNotFoundError:
            if not settings.from_scratch or not Path(path).is_dir():
                raise FinetuningError(_no_weights(path)) from None
    if settings.config_name in PRESETS:
        config = AlbertConfig.from_preset(settings.config_name)
    elif settings.config_name is not None:
        if not Path(settings.config_name).exists():
            raise FinetuningError(
                f"--config_name {settings.config_name}: neither a file or folder nor one of the "
                f"presets {', '.join(PRESETS)}")
        config = AlbertConfig.from_pretrained(settings.config_name)
    else:
        config = AlbertConfig.from_pretrained(path if source is None else config_beside(source))
    if settings.from_scratch:
        if source is not None:
            logger.warning("--from_scratch: the weights of %s are left aside", source)
        return Start(config, None, None)
    proven = infer_architecture(source)
    return Start(config, source, proven.get("num_labels"), proven)


def _no_weights(path: str) -> str:
    if Path(path).is_dir():
        there = ", ".join(sorted(p.name for p in Path(path).iterdir())[:20]) or "nothing"
        return (f"--model_name_or_path {path}: no weights in this folder, found {there}. Give a "
                "folder with model.safetensors, pytorch_model.bin or a TensorFlow checkpoint, or "
                "--from_scratch to start from random weights")
    known = sorted(p.name for p in CHECKPOINTS.iterdir() if p.is_dir()) if CHECKPOINTS.is_dir(
        ) else []
    if Path(path).name in known:
        hint = f"did you mean {CHECKPOINTS / Path(path).name}?"
    else:
        hint = WHERE_TO_GET
    return (f"--model_name_or_path {path}: no such folder or file, and names are not looked up "
            f"anywhere else; {CHECKPOINTS}/ holds: {', '.join(known) or 'no model'}. {hint}")


def load_tokenizer(settings: FinetuningSettings, start: Start) -> AlbertTokenizer:
    """The tokenizer of the model's folder, or the one that the flags name; it fits the config."""
    folder: Path | None = None
    if settings.tokenizer_name:
        folder = Path(settings.tokenizer_name)
    elif start.source is not None:
        folder = start.source.directories[0]
    elif settings.model_name_or_path:
        folder = Path(settings.model_name_or_path)
    if folder is None and not (settings.vocab_file or settings.spm_model_file):
        raise FinetuningError("no tokenizer: give --spm_model_file (English), --vocab_file "
                              "(Chinese), or --tokenizer_name with a folder that holds one")
    tokenizer = AlbertTokenizer.from_pretrained(
        folder, do_lower_case=False if settings.keep_case else settings.do_lower_case,
        strip_accents=False if settings.keep_accents else None,
        vocab_file=settings.vocab_file, spm_model_file=settings.spm_model_file)
    tokenizer.check_config(start.config.vocab_size, start.config.pad_token_id,
                           str(start.source or settings.config_name
                               or settings.model_name_or_path))
    return tokenizer


def settle_head(settings: FinetuningSettings, start: Start, task: Task,
                ) -> tuple[dict[str, Any], bool]:
    """Config settings that the task and the flags ask for, and whether the head starts anew.

    Raises `FinetuningError` where a head that is to be used has other labels than the task.
    """
    names = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob")
    changes = {name: getattr(settings, name) for name in names
               if getattr(settings, name) is not None}
    if not issubclass(ALL_HEADS[task.head], LABELLED):
        changes |= task.head_config
        there = start.proven.get("head") == task.head and all(
            start.proven.get(name, value) == value for name, value in task.head_config.items())
        if not there and not settings.do_train:
            raise FinetuningError(_no_head(start, task))
        return changes, settings.new_head or not there
    wanted = 1 if task.is_regression else len(task.labels)
    new_head = start.head_labels is None or settings.new_head
    there = start.config.id2label
    if not new_head:
        found = f"{start.head_labels} outputs" if there is None else f"the labels {there}"
        needed = "a number" if task.is_regression else f"the labels {list(task.labels)}"
        if start.head_labels != wanted or (there is not None and not task.is_regression
                                           and there != list(task.labels)):
            raise FinetuningError(
                f"{start.source}: its head has {found}, task {task.name} has {needed}, in this "
                "order. Use a model that was fine-tuned on this task, or give --do_train "
                "--new_head to start the head anew")
        if there is None and not task.is_regression:
            logger.info("%s does not name its labels; taken in the order of the task: %s",
                        start.source, ", ".join(task.labels))
    elif not settings.do_train:
        raise FinetuningError(_no_head(start, task))
    changes["tasks"] = None
    changes["num_labels"] = wanted
    changes["id2label"] = None if task.is_regression else list(task.labels)
    changes["problem_type"] = "regression" if task.is_regression else "classification"
    return changes, new_head


def _no_head(start: Start, task: Task) -> str:
    return (f"{start.source}: no head for {task.name} in it, so there is nothing to predict with; "
            "fine-tune it first (--do_train), or give the --output_dir of such a run")


def _max_length(settings: FinetuningSettings, config: AlbertConfig) -> int:
    positions = config.max_position_embeddings
    if settings.max_seq_length is not None and settings.max_seq_length > positions:
        raise FinetuningError(f"--max_seq_length {settings.max_seq_length}: the model has "
                              f"{positions} positions (max_position_embeddings)")
    return settings.max_seq_length or min(512, positions)


# ---- the work ----------------------------------------------------------------------------------


@dataclass
class _Run:
    """Everything that stays the same over the attempts of a run."""

    settings: FinetuningSettings
    task: Task
    start: Start
    tokenizer: AlbertTokenizer
    changes: dict[str, Any]
    new_head: bool
    data: dict[str, dict[str, Any]]  # train, dev, test -> name -> data set
    device: torch.device

    def model(self, path: Path | None = None, seed: int | None = None) -> AlbertPreTrainedModel:
        """The model to start from, or the one that was saved in `path`."""
        torch.manual_seed(self.settings.seed if seed is None else seed)
        kind = ALL_HEADS[self.task.head]
        if path is not None:
            model = kind.from_pretrained(path)
        elif self.start.source is None:
            model = kind(self.start.config.replace(**self.changes))
        else:
            model = kind.from_pretrained(self.start.source, config=self.start.config,
                                         new_head=self.new_head, **self.changes)
        model.set_activation_checkpointing(self.settings.activation_checkpointing)
        return model.to(self.device)

    # ---- training ------------------------------------------------------------------------------

    def train(self) -> dict[str, Any]:
        """Train, again with other seeds where asked to; the best model is put into output_dir."""
        settings, collapsed = self.settings, []
        last = settings.seed + settings.retry_seeds
        for seed in range(settings.seed, last + 1):
            if collapsed and distributed.is_main():
                for path in checkpoints(settings.output_dir):
                    shutil.rmtree(path)
            distributed.barrier()
            try:
                result, at_chance = self._attempt(seed)
            except TrainingStopped as error:
                if seed == last:
                    raise
                logger.warning("seed %d: %s", seed, error)
                at_chance = True
            if not at_chance:
                break
            collapsed.append(seed)
            logger.warning("seed %d: the model gives the same answer to everything. Lower "
                           "--learning_rate, raise --warmup_proportion or train longer%s", seed,
                           "" if settings.retry_seeds else "; --retry_seeds 3 tries other seeds")
        return result | {"seed": seed, "collapsed_seeds": collapsed}

    def _attempt(self, seed: int) -> tuple[dict[str, Any], bool]:
        """One training run: what became of it, and whether it never left a constant guess."""
        settings, [data] = self.settings, self.data["train"].values()
        newest = checkpoints(settings.output_dir)[-1] if settings.resume else None
        model = self.model(newest, seed)
        schedule, plan = self.schedule(), self._plan(seed)
        steps = schedule.total_steps
        collapses: list[bool] = []  # of every evaluation

        def evaluate() -> dict[str, float]:
            scores, values = self.score(model, "dev")
            collapses.append(all(s.collapsed for s in scores.values()))
            return values

        callbacks, best = self._callbacks()
        trainer = Trainer(
            model, build_optimizer(settings.optimizer, model, settings.learning_rate,
                                   settings.weight_decay, settings.adam_epsilon),
            schedule, plan, data, data.collate,
            TrainerConfig(
                output_dir=settings.output_dir, max_steps=steps, seed=seed,
                micro_batch_size=settings.per_gpu_train_batch_size,
                max_grad_norm=settings.max_grad_norm, precision=settings.autocast,
                logging_steps=settings.logging_steps, eval_steps=settings.eval_steps,
                num_workers=settings.num_workers),
            device=self.device, callbacks=callbacks,
            evaluate=evaluate if self.data["dev"] else None,
            save_model=lambda folder: model.save_pretrained(folder, self.tokenizer),
            fingerprint={"task": self.task.name, "examples": len(data),
                         "tokens": int(data.lengths.sum()),
                         "tokenizer": self.tokenizer.fingerprint(),
                         **({"sampling": data.sampling} if isinstance(data, MixedData) else {})})
        logger.info("%s: %s examples, %s parameters, %d steps of %d examples (%.3g epochs), "
                    "warm-up %d, seed %d", self.task.name, f"{len(data):,}",
                    f"{model.num_parameters():,}", steps, plan.batch_size,
                    steps * plan.batch_size / len(data), schedule.warmup_steps, seed)
        if settings.probe_longest:
            count, mixed = settings.per_gpu_train_batch_size, isinstance(data, MixedData)
            trainer.probe(data.longest(count) if mixed else longest_batch(data.lengths, count))
        if newest is not None:
            try:
                trainer.resume(newest)
            except ValueError as error:  # another seed, batch, schedule or data set
                raise FinetuningError(f"--resume: {error}") from None
        state = trainer.fit()
        if distributed.is_main():
            self._publish(model, best.best)
        distributed.barrier()
        return {"steps": state.step, "skipped_steps": state.bad_steps,
                "best_step": best.best_step or state.step}, bool(collapses) and all(collapses)

    def schedule(self) -> Schedule:
        """The learning rate of every step. Raises `FinetuningError` for too long a warm-up."""
        settings, steps = self.settings, self._steps()
        warmup = int(steps * settings.warmup_proportion) if settings.warmup_steps is None else (
            settings.warmup_steps)
        if warmup > steps:
            raise FinetuningError(f"--warmup_steps {warmup}: the run has {steps} steps, expected "
                                  "fewer")
        return Schedule(settings.scheduler, steps, warmup)

    def _steps(self) -> int:
        settings = self.settings
        return settings.max_steps if settings.max_steps > 0 else math.ceil(
            self._batches() * settings.num_train_epochs)

    def _batches(self) -> int:
        """Steps of an epoch."""
        [data] = self.data["train"].values()
        sizes = data.sizes if isinstance(data, MixedData) else [len(data)]
        return sum(math.ceil(size / self.settings.batch_size) for size in sizes)

    def _plan(self, seed: int) -> Plan:
        """Which examples make up which step."""
        size, [data] = self.settings.batch_size, self.data["train"].values()
        if not isinstance(data, MixedData):
            return LengthGroupedPlan(data.lengths, size, seed)
        parts = [LengthGroupedPlan(part.lengths, size, seed + number)
                 for number, part in enumerate(data.parts)]
        return MixedPlan(parts, data.sizes, data.sampling, seed, self._steps() / self._batches())

    def _callbacks(self) -> tuple[list[Callback], ModelCheckpoint]:
        settings, dev = self.settings, self.data["dev"]
        metric, lower = None, False
        callbacks: list[Callback] = [ProgressBar(), TrainingMonitor(settings.output_dir),
                                     LossSpike()]
        if dev:  # of several dev sets the first decides, of several tasks their mean
            name, first = next(iter(dev.items()))
            metric, lower = self._key(name, first.main), not first.higher_is_better
            if self.task.head == HEAD:
                metric, lower = MEAN, False
            if settings.early_stopping:
                callbacks.append(EarlyStopping(metric, settings.early_stopping, lower))
        best = ModelCheckpoint(settings.save_steps, metric, lower,
                               settings.kept_checkpoints)
        return [*callbacks, best], best

    def _publish(self, model: AlbertPreTrainedModel, best: Path | None) -> None:
        """Make output_dir a model directory: of the best checkpoint, else of the last step."""
        if best is None:
            model.save_pretrained(self.settings.output_dir, self.tokenizer)
            return
        for file in best.iterdir():
            if file.name != STATE_NAME:
                shutil.copyfile(file, self.settings.output_dir / file.name)

    # ---- scores and predictions ----------------------------------------------------------------

    def score(self, model: AlbertPreTrainedModel, part: str,
              ) -> tuple[dict[str, Scores], dict[str, float]]:
        """Scores of every dev (or test) set, and the same as flat numbers for callbacks."""
        scores, values = {}, {}
        for name, data in self.data[part].items():
            outputs = self._outputs(model, name, data)
            scores[name] = data.score(outputs)
            flat = scores[name].values | {"loss": data.loss(outputs)}
            values |= {self._key(name, key): value for key, value in flat.items()}
        if self.task.head == HEAD and scores:
            values[MEAN] = self._mean(part, scores)
        return scores, values

    def _mean(self, part: str, scores: dict[str, Scores]) -> float:
        """Over the tasks, the value that decides in each; of a task's two dev sets their mean."""
        of_task: dict[str, list[float]] = {}
        for name, own in scores.items():
            of_task.setdefault(self.data[part][name].task.name, []).append(own.value)
        return float(np.mean([np.mean(values) for values in of_task.values()]))

    def _key(self, name: str, value: str) -> str:
        return value if len(self.data["dev"]) == 1 else f"{name}/{value}"

    def _outputs(self, model: AlbertPreTrainedModel, name: str, data: Any) -> np.ndarray:
        return predict(model, data, data.collate, data.keep,
                       self.settings.per_gpu_eval_batch_size, data.lengths, self.device,
                       self.settings.autocast, f"scoring {name}")

    def finish(self, results: dict[str, Any], model: AlbertPreTrainedModel | None,
               ) -> dict[str, Any]:
        """Score and predict with the best model, write the files, print the table."""
        settings, folder = self.settings, self.settings.output_dir
        model = model or self.model(folder)
        rows: list[tuple[str, str, Scores]] = []
        if self.data["dev"]:
            scores, values = self.score(model, "dev")
            rows += [(name, "dev", s) for name, s in scores.items()]
            results |= {MEAN: values[MEAN]} if MEAN in values else {}
            results["dev"] = {name: as_plain(s) for name, s in scores.items()}
        written = []
        for name, data in self.data["test"].items():
            outputs = self._outputs(model, name, data)
            path = folder / PREDICTIONS / self.task.submission[name]
            if distributed.is_main():
                data.write(outputs, path)
            written.append(f"{len(data.split):,} predictions in {path}")
            if data.split.labelled:  # most test files keep their labels to themselves
                rows.append((name, "test", data.score(outputs)))
                results.setdefault("test", {})[name] = as_plain(rows[-1][2])
        if settings.eval_all_checkpoints and self.data["dev"]:
            results["checkpoints"] = {
                path.name: {name: s.values for name, s in
                            self.score(self.model(path), "dev")[0].items()}
                for path in checkpoints(folder)}
        results = {"task": self.task.name, **results}
        if distributed.is_main():
            results = write_results(folder, results, keep_old=not settings.do_train)
            print("\n".join(["", *table(rows), *written]))
        distributed.barrier()
        return results
