"""What a fine-tuning run is told and what it leaves behind: its flags and its output folder.

`finetuning.py` is the recipe between the two; every front door adds the flags of its tasks.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callback import distributed
from callback.checkpoint import checkpoints
from callback.lr_scheduler import SCHEDULES
from callback.optimization import OPTIMIZERS
from callback.trainer import PRECISIONS
from metrics.classification import Scores
from model.configuration_albert import PRESETS, AlbertConfig
from tools.arguments import flag, save_settings
from tools.logging import log_to_file

logger = logging.getLogger(__name__)

TASK, MODEL, RUN = "task", "model and tokenizer", "what to do"
TRAINING, OUTPUT, OLD = "training", "output", "accepted for scripts of the predecessor"

# What a run writes into its folder; --overwrite_output_dir removes these and nothing else.
RESULTS, RESULTS_TEXT, LOG = "eval_results.json", "eval_results.txt", "run.log"
CHECKPOINT_RESULTS, PREDICTIONS = "checkpoint_eval_results.txt", "predictions"
OWN_FILES = (RESULTS, RESULTS_TEXT, CHECKPOINT_RESULTS, "settings.json", LOG, "metrics.jsonl",
             "curves.png", "config.json", "model.safetensors", "spiece.model", "vocab.txt",
             "tokenizer_config.json")
OWN_FOLDERS = (PREDICTIONS, "tensorboard")

# From this width on, a rate above this one (for a batch of 32) tends to end at chance.
CAREFUL_RATES = ((2048, 1e-5), (1024, 3e-5))


class FinetuningError(ValueError):
    """A run that cannot start; says what was found, what was expected and what to do."""


@dataclass
class FinetuningSettings:
    """The flags that all fine-tuning front doors share. Defaults are the predecessor's."""

    output_dir: Path = flag("folder for the model, its scores and predictions", group=RUN)
    do_train: bool = flag("train on the training file", False, group=RUN)
    do_eval: bool = flag("score on the dev files, while training and after it", False, group=RUN)
    do_predict: bool = flag("predict the test files, into output_dir/predictions/", False,
                            group=RUN)
    overwrite_output_dir: bool = flag("replace an earlier run in output_dir", False, group=RUN)
    resume: bool = flag("go on from the newest checkpoint in output_dir", False, group=RUN)
    eval_all_checkpoints: bool = flag("score every checkpoint in output_dir, not only the best",
                                      False, group=RUN)
    no_cuda: bool = flag("use the CPU, whatever cards there are", False, group=RUN)
    seed: int = flag("seed of everything random", 42, group=RUN)

    model_name_or_path: str | None = flag(
        "folder or file of a checkpoint: ours, the predecessor's, Hugging Face's or TensorFlow's",
        None, group=MODEL)
    config_name: str | None = flag(
        "config instead of the checkpoint's: a JSON file, a folder, or with --from_scratch a "
        "preset such as base_v2", None, group=MODEL)
    tokenizer_name: str | None = flag("folder of the tokenizer, if not the model's", None,
                                      group=MODEL)
    vocab_file: Path | None = flag("vocab.txt of a Chinese model, if not in its folder", None,
                                   group=MODEL)
    spm_model_file: Path | None = flag("SentencePiece model of an English model, if not in its "
                                       "folder", None, group=MODEL)
    do_lower_case: bool | None = flag(
        "lower-case the text; left out: as saved with the model, else yes, which ALBERT's "
        "published models need", None, group=MODEL)
    keep_case: bool = flag("do not lower-case the text (a cased model)", False, group=MODEL)
    keep_accents: bool = flag("do not strip accents, umlauts and the like", False, group=MODEL)
    from_scratch: bool = flag("start from random weights", False, group=MODEL)
    new_head: bool = flag("start the task's head anew, though the checkpoint has one: from MNLI "
                          "to RTE, say", False, group=MODEL)
    hidden_dropout_prob: float | None = flag("dropout in the encoder, if not the config's", None,
                                             group=MODEL)
    attention_probs_dropout_prob: float | None = flag("dropout of attention, if not the config's",
                                                      None, group=MODEL)
    classifier_dropout_prob: float | None = flag("dropout before the head, if not the config's",
                                                 None, group=MODEL)
    max_seq_length: int | None = flag(
        "tokens of an example with [CLS] and [SEP]; longer ones are cut and counted (default: 512, "
        "or what the model has positions for)", None, group=MODEL)

    per_gpu_train_batch_size: int = flag("training examples in memory at once on each process", 8,
                                         group=TRAINING)
    per_gpu_eval_batch_size: int = flag("the same while scoring", 8, group=TRAINING)
    gradient_accumulation_steps: int = flag(
        "such batches that make one step, on each process", 1, group=TRAINING)
    learning_rate: float = flag("highest learning rate", 5e-5, group=TRAINING)
    num_train_epochs: float = flag("passes over the training data", 3.0, group=TRAINING)
    max_steps: int = flag("optimizer steps; above 0 it replaces num_train_epochs", -1,
                          group=TRAINING)
    warmup_proportion: float = flag("share of the steps in which the rate rises", 0.1,
                                    group=TRAINING)
    warmup_steps: int | None = flag("the same in steps; it replaces warmup_proportion", None,
                                    group=TRAINING)
    weight_decay: float = flag("weight decay, not of biases and LayerNorm", 0.0, group=TRAINING)
    adam_epsilon: float = flag("epsilon of the optimizer", 1e-6, group=TRAINING)
    max_grad_norm: float = flag("gradients are scaled down to this norm; 0: not", 1.0,
                                group=TRAINING)
    optimizer: str = flag("adamw and lamb are the official ones, without bias correction", "adamw",
                          choices=tuple(OPTIMIZERS), group=TRAINING)
    scheduler: str = flag("the rate after the warm-up", "linear", choices=tuple(SCHEDULES),
                          group=TRAINING)
    precision: str = flag("bf16 and fp16 compute in 16 bits, weights stay in 32", "fp32",
                          choices=tuple(PRECISIONS), group=TRAINING)
    retry_seeds: int = flag("start again with the next seed, up to so many times, where a run "
                            "ends with the same prediction for everything", 0, group=TRAINING)
    early_stopping: int = flag("stop after so many evaluations without a better score; 0: never",
                               0, group=TRAINING)
    activation_checkpointing: bool = flag("compute activations twice, to save memory", False,
                                          group=TRAINING)
    probe_longest: bool = flag("try the longest examples first, so that too little memory shows "
                               "at once", False, group=TRAINING)
    num_workers: int = flag("processes that prepare batches", 0, group=TRAINING)

    logging_steps: int = flag("steps between two logs", 10, group=OUTPUT)
    eval_steps: int = flag("steps between two evaluations; 0: after every epoch", 0, group=OUTPUT)
    save_steps: int = flag("steps between two checkpoints, beside the best one; 0: none", 1000,
                           group=OUTPUT)
    save_total_limit: int | None = flag(
        "newest checkpoints to keep, beside the best one; 0: all (default: 1, and all with "
        "--eval_all_checkpoints)", None, group=OUTPUT)

    model_type: str = flag("albert", "albert", group=OLD)
    fp16: bool = flag("the same as --precision fp16", False, group=OLD)
    fp16_opt_level: str | None = flag("a level of apex, which is not used: --precision decides",
                                      None, group=OLD)
    local_rank: int = flag("torchrun says it by environment; refused without torchrun", -1,
                           group=OLD)
    cache_dir: str | None = flag("nothing is downloaded", None, group=OLD)
    overwrite_cache: bool = flag("nothing is cached", False, group=OLD)

    def problems(self) -> list[str]:
        """Everything that can be told from the flags alone."""
        found = []
        if not (self.do_train or self.do_eval or self.do_predict):
            found.append("nothing to do: give --do_train, --do_eval or --do_predict")
        for name in ("per_gpu_train_batch_size", "per_gpu_eval_batch_size",
                     "gradient_accumulation_steps", "logging_steps"):
            if getattr(self, name) < 1:
                found.append(f"--{name} {getattr(self, name)}: expected at least 1")
        for name in ("retry_seeds", "early_stopping", "eval_steps", "save_steps", "num_workers",
                     "save_total_limit", "warmup_steps", "weight_decay", "max_grad_norm"):
            if (getattr(self, name) or 0) < 0:
                found.append(f"--{name} {getattr(self, name)}: expected 0 or more")
        if self.learning_rate <= 0:
            found.append(f"--learning_rate {self.learning_rate}: expected more than 0")
        if self.max_steps < 1 and self.num_train_epochs <= 0:
            found.append(f"--num_train_epochs {self.num_train_epochs}: expected more than 0")
        if not 0 <= self.warmup_proportion < 1:
            found.append(f"--warmup_proportion {self.warmup_proportion}: expected 0 <= p < 1")
        if self.max_seq_length is not None and self.max_seq_length < 4:
            found.append(f"--max_seq_length {self.max_seq_length}: expected at least 4")
        if self.do_lower_case and self.keep_case:
            found.append("--do_lower_case and --keep_case: give one of them")
        if self.fp16 and self.precision == "bf16":
            found.append("--fp16 and --precision bf16: give one of them")
        if self.model_type.lower() != "albert":
            found.append(f"--model_type {self.model_type}: expected albert")
        if self.overwrite_output_dir and self.resume:
            found.append("--overwrite_output_dir and --resume: give one of them")
        if self.resume and self.retry_seeds:
            found.append("--resume and --retry_seeds: give one of them")
        if self.resume and not self.do_train:
            found.append("--resume: only training can be gone on with, give --do_train too")
        if (self.early_stopping or self.retry_seeds) and not (self.do_train and self.do_eval):
            found.append("--early_stopping and --retry_seeds go by dev scores: give --do_train "
                         "and --do_eval too")
        if self.model_name_or_path is None and not self.from_scratch:
            found.append("--model_name_or_path is missing: the folder of a checkpoint; to start "
                         "from random weights give --from_scratch and --config_name")
        if self.from_scratch and not (self.config_name or self.model_name_or_path):
            found.append("--from_scratch needs sizes: --config_name with a JSON file or one of "
                         f"{', '.join(PRESETS)}")
        if self.from_scratch and not self.do_train:
            found.append("--from_scratch without --do_train: random weights predict nothing")
        if self.local_rank != -1 and "LOCAL_RANK" not in os.environ:
            found.append(f"--local_rank {self.local_rank}: start several processes with torchrun "
                         "--nproc_per_node N run_classifier.py …, which needs no --local_rank")
        return found

    @property
    def autocast(self) -> str:
        """The precision, whichever flag gave it."""
        return "fp16" if self.fp16 else self.precision

    @property
    def kept_checkpoints(self) -> int | None:
        """How many of the newest checkpoints stay, beside the best one; None: all."""
        if self.save_total_limit is None:
            return None if self.eval_all_checkpoints else 1
        return self.save_total_limit or None

    @property
    def batch_size(self) -> int:
        """Examples of one optimizer step, on all processes."""
        return (self.per_gpu_train_batch_size * self.gradient_accumulation_steps
                * distributed.world_size())


# ---- the output folder --------------------------------------------------------------------------


def check_output_dir(settings: FinetuningSettings) -> None:
    """Rank 0 looks, all ranks hear: another rank may look after the log has been opened."""
    problem = distributed.gather(_output_problem(settings) if distributed.is_main() else None)[0]
    if problem:
        raise FinetuningError(problem)


def _output_problem(settings: FinetuningSettings) -> str | None:
    folder = settings.output_dir
    if folder.exists() and not folder.is_dir():
        return f"--output_dir {folder}: found a file, expected a folder"
    if not settings.do_train:
        return None
    if settings.model_name_or_path and not settings.resume:
        model = Path(settings.model_name_or_path).resolve()
        if folder.resolve() in (model, *model.parents):
            return (f"--output_dir {folder} holds --model_name_or_path "
                    f"{settings.model_name_or_path}, which training would overwrite; give another "
                    "folder, or --resume to go on with that run")
    there = sorted(p.name for p in folder.iterdir() if p.name != LOG) if folder.is_dir() else []
    if settings.resume and not checkpoints(folder):
        return f"--resume: no checkpoint-… in {folder}, found {', '.join(there[:10]) or 'nothing'}"
    if there and not (settings.resume or settings.overwrite_output_dir):
        return (f"--output_dir {folder} holds files ({', '.join(there[:10])}); give another "
                "folder, --overwrite_output_dir to replace that run, or --resume to go on with it")
    return None


def prepare_output_dir(settings: FinetuningSettings) -> None:
    """Make the folder, empty it of an earlier run where asked to, and open the log in it."""
    folder = settings.output_dir
    if distributed.is_main():
        folder.mkdir(parents=True, exist_ok=True)
        if settings.do_train and settings.overwrite_output_dir:
            for name in OWN_FILES:
                (folder / name).unlink(missing_ok=True)
            for path in [*checkpoints(folder), *(folder / name for name in OWN_FOLDERS)]:
                shutil.rmtree(path, ignore_errors=True)
        log_to_file(folder / LOG)
        save_settings(settings, folder / "settings.json")
    distributed.barrier()


# ---- what a person should know before the run --------------------------------------------------


def tell(settings: FinetuningSettings, config: AlbertConfig) -> None:
    """What a person should know before the run: flags without an effect, a risky rate."""
    if settings.fp16_opt_level is not None:
        logger.warning("--fp16_opt_level %s: apex is not used, so it has no effect; the precision "
                       "is %s", settings.fp16_opt_level, settings.autocast)
    if settings.cache_dir or settings.overwrite_cache:
        logger.warning("--cache_dir and --overwrite_cache have no effect: nothing is downloaded, "
                       "and features are made anew in every run, so none can be out of date")
    advice = rate_advice(settings, config)
    if settings.do_train and not settings.from_scratch and advice:
        logger.warning(advice)


def rate_advice(settings: FinetuningSettings, config: AlbertConfig) -> str | None:
    """A warning where wide models get a rate, or no warm-up, with which many runs fail."""
    batch = settings.batch_size
    warms_up = settings.warmup_proportion > 0 if settings.warmup_steps is None else (
        settings.warmup_steps > 0)
    for width, rate in CAREFUL_RATES:
        if config.hidden_size < width:
            continue
        rate *= max(1.0, batch / 32)
        problems = []
        if settings.learning_rate > rate:
            problems.append(f"--learning_rate {settings.learning_rate:g} is high (try {rate:g})")
        if not warms_up:
            problems.append("there is no warm-up (try --warmup_proportion 0.1)")
        return problems and (
            f"hidden size {config.hidden_size}, batch {batch}: {' and '.join(problems)}; runs of "
            "models this wide often end at chance. --retry_seeds 3 starts again where one does"
            ) or None
    return None


# ---- what a run leaves behind --------------------------------------------------------------------


def as_plain(scores: Scores) -> dict[str, Any]:
    """Scores as `eval_results.json` holds them."""
    return {**scores.values, "main": scores.main, "examples": scores.examples,
            "baseline": scores.baseline, "baseline_guess": scores.baseline_guess,
            "collapsed": scores.collapsed, "notes": list(scores.notes)}


def table(rows: Sequence[tuple[str, str, Scores]]) -> list[str]:
    """Lines for people: every value beside that of the constant guess."""
    if not rows:
        return []
    cells = [("task", "split", "metric", "score", "guess", "examples", "")]
    for name, part, scores in rows:
        for key, value in scores.values.items():
            mark = "decides" if key == scores.main and len(scores.values) > 1 else ""
            cells.append((name, part, key, f"{value:.4f}", f"{scores.baseline[key]:.4f}",
                          f"{scores.examples:,}", mark))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.rjust(width) if column in (3, 4, 5) else cell.ljust(width)
                       for column, (cell, width) in enumerate(zip(row, widths, strict=True)))
             for row in cells]
    lines = [line.rstrip() for line in lines]
    lines.insert(1, "-" * max(map(len, lines)))
    for name, part, scores in rows:
        lines.append(f"{name} {part}: the guess is {scores.baseline_guess}"
                     + "".join(f"; {note}" for note in scores.notes))
    return lines


def write_results(folder: Path, results: dict[str, Any], keep_old: bool) -> dict[str, Any]:
    """Write the results for machines and for people; a later prediction adds to what is there."""
    path = folder / RESULTS
    if keep_old and path.is_file():
        results = json.loads(path.read_text(encoding="utf-8")) | results
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", "utf-8")
    temporary.replace(path)
    _write_lines(folder / RESULTS_TEXT, [
        f"{name} {part} {key} = {value}" for part in ("dev", "test")
        for name, scores in results.get(part, {}).items()
        for key, value in scores.items() if isinstance(value, float)])
    if "checkpoints" in results:
        _write_lines(folder / CHECKPOINT_RESULTS, [
            f"{checkpoint} {name} {key} = {value}"
            for checkpoint, scores in results["checkpoints"].items()
            for name, values in scores.items() for key, value in values.items()])
    return results


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
