"""The flags of run_pretraining.py; `pretraining.py` is the recipe that they go to."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from callback.checkpoint import checkpoints
from callback.lr_scheduler import SCHEDULES
from callback.optimization import OPTIMIZERS
from callback.trainer import PRECISIONS
from tools.arguments import flag

PAPER_RATE, PAPER_BATCH = 0.00176, 4096  # LAMB, paper section 4.1
PAPER_WARMUP = 3125 / 125_000
DOMAIN_RATE, DOMAIN_WARMUP = 5e-5, 0.1  # going on from released weights: unlearn nothing


OLD = "accepted for scripts of the predecessor"


@dataclass
class PretrainingSettings:
    """Every flag of run_pretraining.py."""

    data_dir: Path = flag("folder of shards that prepare_lm_data.py made", group="data")
    output_dir: Path = flag("folder of the run: checkpoints, curves, report", group="data")
    max_seq_length: int = flag("tokens of an instance", 512, aliases=["max_len"], group="data")
    masked_lm_prob: float = flag("share of tokens to predict", 0.15, group="data")
    max_predictions_per_seq: int | None = flag(
        "most tokens to predict in an instance (default: masked_lm_prob of max_seq_length)", None,
        group="data")
    ngram: int = flag("longest run of words masked together, p(n) ~ 1/n", 3, group="data")
    short_seq_prob: float = flag("share of instances of random shorter length", 0.1, group="data")
    static_masking: bool = flag("the same masks every epoch, as the paper's code", False,
                                group="data")
    dupe_factor: int = flag("with --static_masking: different copies before they repeat", 1,
                            group="data")
    no_sop: bool = flag("leave sentence-order prediction out", False, group="data")
    sop_weight: float = flag("weight of the sentence-order loss", 1.0, group="data")

    config_name: str | None = flag("preset (base_v2, zh_tiny, ...) or JSON file of a new model",
                                   None, aliases=["config_path"], group="model")
    model_path: Path | None = flag("go on from this model directory or TensorFlow checkpoint",
                                   None, aliases=["model_name_or_path"], group="model")
    activation_checkpointing: bool = flag("less memory, a third more time", False,
                                          aliases=["gradient_checkpointing"], group="model")

    max_steps: int = flag("optimizer steps", 125_000, group="training")
    epochs: float | None = flag("passes over the data, instead of --max_steps", None,
                                aliases=["num_train_epochs"], group="training")
    train_batch_size: int = flag("sequences of an optimizer step, on all ranks together", 4096,
                                 group="training")
    per_gpu_train_batch_size: int = flag(
        "sequences in memory at once on a device; the rest is accumulated", 32,
        aliases=["per_device_train_batch_size", "micro_batch_size"], group="training")
    gradient_accumulation_steps: int | None = flag(
        "the same said otherwise: such parts a step, on each process", None, group="training")
    learning_rate: str = flag(
        f"peak rate, or auto: {PAPER_RATE} * sqrt(batch / {PAPER_BATCH}), and {DOMAIN_RATE} with "
        "--model_path", "auto", group="training")
    warmup_proportion: float | None = flag(
        f"share of steps to warm up (default: {PAPER_WARMUP}, and {DOMAIN_WARMUP} with "
        "--model_path)", None, group="training")
    optimizer: str = flag("optimizer", "lamb", choices=list(OPTIMIZERS), group="training")
    scheduler: str = flag("schedule after the warm-up", "linear", choices=list(SCHEDULES),
                          group="training")
    weight_decay: float = flag("decay of matrices", 0.01, group="training")
    adam_epsilon: float = flag("epsilon of the optimizer", 1e-6, group="training")
    max_grad_norm: float = flag("gradient norm to clip to, 0 = none", 1.0, group="training")
    precision: str = flag("arithmetic", "fp32", choices=list(PRECISIONS), group="training")
    fp16: bool = flag("short for --precision fp16", False, group="training")
    seed: int = flag("seed of everything random", 42, group="training")
    num_workers: int = flag("loader processes; they change no number", 0, group="training")
    no_cuda: bool = flag("use the CPU, whatever cards there are", False, group="training")

    logging_steps: int = flag("steps between logs", 50, group="watching")
    num_eval_steps: int = flag("steps between held-out evaluations", 1000, group="watching")
    eval_instances: int = flag("held-out instances to evaluate on", 2000, group="watching")
    save_steps: int = flag("steps between checkpoints", 1000, aliases=["num_save_steps"],
                           group="watching")
    save_total_limit: int = flag("newest checkpoints to keep", 3, group="watching")
    not_learning_steps: int = flag("steps after which a run at chance is warned of", 5000,
                                   group="watching")
    resume: bool = flag("go on from the newest checkpoint in --output_dir", False,
                        group="watching")
    overwrite_output_dir: bool = flag("start in a folder that holds another run", False,
                                      group="watching")

    fp16_opt_level: str | None = flag("a level of apex, which is not used: --precision decides",
                                      None, group=OLD)
    loss_scale: float = flag("fp16 finds its scale by itself", 0.0, group=OLD)
    local_rank: int = flag("torchrun says it by environment; refused without torchrun", -1,
                           group=OLD)
    do_lower_case: bool = flag("was decided when the shards were made", False, group=OLD)
    reduce_memory: bool = flag("shards are always read in place", False, group=OLD)
    data_name: str | None = flag("the folder of shards has all there is", None, group=OLD)
    file_num: int | None = flag("the folder of shards has all there is", None, group=OLD)

    def problems(self) -> list[str]:
        """What is wrong with these settings, before any work."""
        found = []
        if (self.config_name is None) == (self.model_path is None):
            found.append("give one of --config_name (a new model) and --model_path (go on)")
        if self.learning_rate != "auto":
            try:
                positive = float(self.learning_rate) > 0
            except ValueError:
                positive = False
            if not positive:
                found.append(f"--learning_rate {self.learning_rate}: expected a number above 0, "
                             "or auto")
        for name in ("max_steps", "train_batch_size", "per_gpu_train_batch_size", "logging_steps",
                     "num_eval_steps", "save_steps", "ngram", "dupe_factor", "save_total_limit"):
            if getattr(self, name) < 1:
                found.append(f"--{name} {getattr(self, name)}: expected at least 1")
        for name in ("epochs", "gradient_accumulation_steps", "max_predictions_per_seq"):
            if (value := getattr(self, name)) is not None and value <= 0:
                found.append(f"--{name} {value}: expected more than 0")
        for name in ("weight_decay", "max_grad_norm", "sop_weight", "num_workers",
                     "not_learning_steps"):
            if getattr(self, name) < 0:
                found.append(f"--{name} {getattr(self, name)}: expected 0 or more")
        for name in ("warmup_proportion", "short_seq_prob"):
            if not 0 <= (getattr(self, name) or 0) < 1:
                found.append(f"--{name} {getattr(self, name)}: expected 0 <= p < 1")
        if self.max_seq_length < 8:
            found.append(f"--max_seq_length {self.max_seq_length}: expected at least 8")
        if self.fp16 and self.precision == "bf16":
            found.append("--fp16 and --precision bf16: give one of them")
        if self.resume and self.overwrite_output_dir:
            found.append("--resume and --overwrite_output_dir: give one of them")
        if self.dupe_factor > 1 and not self.static_masking:
            found.append("--dupe_factor counts the copies of --static_masking, which is not given")
        if self.local_rank != -1 and "LOCAL_RANK" not in os.environ:
            found.append(f"--local_rank {self.local_rank}: start several processes with torchrun "
                         "--nproc_per_node N run_pretraining.py …, which needs no --local_rank")
        if not 0 < self.masked_lm_prob < 1:
            found.append(f"--masked_lm_prob {self.masked_lm_prob}: expected between 0 and 1")
        if self.output_dir and not (self.resume or self.overwrite_output_dir):
            if checkpoints(Path(self.output_dir)):
                found.append(f"--output_dir {self.output_dir} holds checkpoints: give --resume to "
                             "go on, --overwrite_output_dir to start anew, or another folder")
        return found

    @property
    def rate(self) -> float:
        if self.learning_rate != "auto":
            return float(self.learning_rate)
        if self.model_path is not None:
            return DOMAIN_RATE
        return PAPER_RATE * math.sqrt(self.train_batch_size / PAPER_BATCH)

    def steps(self, instances: int) -> int:
        """Optimizer steps of the run over so many instances an epoch."""
        if self.epochs is None:
            return self.max_steps
        return math.ceil(self.epochs * math.ceil(instances / self.train_batch_size))

    def warmup_steps(self, steps: int) -> int:
        share = self.warmup_proportion
        if share is None:
            share = PAPER_WARMUP if self.model_path is None else DOMAIN_WARMUP
        return int(share * steps)

    def micro_batch_size(self, processes: int) -> int:
        """Sequences in memory at once on each of so many processes."""
        if self.gradient_accumulation_steps is None:
            return self.per_gpu_train_batch_size
        return math.ceil(self.train_batch_size / (processes * self.gradient_accumulation_steps))

    @property
    def autocast(self) -> str:
        """The precision, whichever flag gave it."""
        return "fp16" if self.fp16 else self.precision

    @property
    def max_predictions(self) -> int:
        return self.max_predictions_per_seq or math.ceil(self.masked_lm_prob * self.max_seq_length)
