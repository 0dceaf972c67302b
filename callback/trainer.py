"""The training loop: everything that touches a number, and nothing else.

Forward, backward, accumulation, clipping, scaling, schedule and counters are here; what a person
or a disk sees is in callbacks. It trains any model that has `forward(**batch, loss_weights=…)`
with `.loss` and `.losses`, and `loss_weights(batch)`.

Position is (epoch, offset), and dropout is seeded for every step from (seed, step, rank), so a run
that was killed and resumed computes what it would have computed.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from callback import distributed
from callback.base import Callback
from callback.checkpoint import (
    checkpoints,
    load_state,
    remove_unfinished,
    save_state,
    write_directory,
)
from callback.lr_scheduler import Schedule
from callback.plan import Plan, Position, batch_stream
from callback.signals import StopSignals

logger = logging.getLogger(__name__)

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
EXIT_INTERRUPTED = 75  # EX_TEMPFAIL: saved after SIGTERM or Ctrl-C, start again to go on
Batch = dict[str, Any]


class TrainingStopped(RuntimeError):
    """Training cannot go on; the message says what to do, and names the last good checkpoint."""


@dataclass
class TrainerConfig:
    """How to train; each field is read by the loop."""

    output_dir: Path
    max_steps: int  # optimizer steps
    micro_batch_size: int = 32  # examples in memory at once on a rank
    max_grad_norm: float = 1.0  # 0: no clipping
    precision: str = "fp32"
    logging_steps: int = 50
    eval_steps: int = 0  # 0: at the end of every epoch
    seed: int = 42
    num_workers: int = 0
    max_bad_steps: int = 20  # steps in a row without finite gradients before it stops

    def __post_init__(self) -> None:
        self.output_dir = Path(self.output_dir)
        if self.precision not in PRECISIONS:
            raise ValueError(f"--precision {self.precision}: expected {', '.join(PRECISIONS)}")


@dataclass
class TrainerState:
    """The counters of a run, all of which survive a restart."""

    step: int = 0  # optimizer steps, skipped ones included
    epoch: int = 0
    offset: int = 0  # batches done in the epoch
    samples: int = 0
    tokens: int = 0  # without padding
    seconds: float = 0.0  # of steps and waiting for data, without evaluating and saving
    bad_steps: int = 0
    bad_in_a_row: int = 0


@dataclass
class StepResult:
    """What one optimizer step did, on this rank where it says share."""

    losses: dict[str, Tensor] = field(default_factory=dict)  # this rank's share of each part
    loss: Tensor | float = 0.0  # this rank's share of the total
    grad_norm: float = 0.0  # before clipping, of all ranks
    learning_rate: float = 0.0
    skipped: bool = False
    samples: int = 0  # of all ranks
    tokens: int = 0
    seconds: float = 0.0  # with the wait for its data

    def add(self, output: Any) -> None:
        """Count a micro-batch's losses in, without waiting for the device."""
        self.loss = self.loss + output.loss.detach()
        for name, value in output.losses.items():
            self.losses[name] = self.losses.get(name, 0.0) + value.detach()


def global_norm(parameters: Sequence[Tensor]) -> Tensor:
    """The norm of all gradients together."""
    return torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])


class Trainer:
    """Trains a model along a plan.

    schedule: the learning rate of each step, over `config.max_steps` steps.
    dataset[(epoch, index)] gives features, `collate` makes a batch (a dict of tensors) of them.
    evaluate: called with the model in evaluation mode; returns named numbers.
    save_model: writes the model into a directory; `model.save_pretrained` unless given.
    fingerprint: settings that a resumed run must share, such as that of the data.
    gradient_norm: the norm that clipping goes by.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, schedule: Schedule,
                 plan: Plan, dataset: Any, collate: Callable[[list[Any]], Batch],
                 config: TrainerConfig, device: torch.device | None = None,
                 callbacks: Sequence[Callback] = (),
                 evaluate: Callable[[], Mapping[str, float]] | None = None,
                 save_model: Callable[[Path], None] | None = None,
                 fingerprint: Mapping[str, Any] | None = None,
                 gradient_norm: Callable[[Sequence[Tensor]], Tensor] = global_norm) -> None:
        self.model, self.optimizer, self.schedule = model, optimizer, schedule
        self.plan, self.dataset, self.collate = plan, dataset, collate
        self.config, self.callbacks = config, list(callbacks)
        self.device = device or torch.device("cpu")
        self.evaluate_model, self.gradient_norm = evaluate, gradient_norm
        self.save_model = save_model or model.save_pretrained
        self.fingerprint = {"seed": config.seed, "batch_size": plan.batch_size,
                            "precision": config.precision, **schedule.describe(),
                            **(fingerprint or {})}
        self.state = TrainerState()
        self.should_stop = False  # a callback may set it: the loop ends after this step
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.precision == "fp16")
        self.scaler.scale(torch.zeros((), device=self.device))  # a rank may have nothing to scale
        self._signals = StopSignals()
        self._stopping = False  # a rank was told to stop, and all have heard of it
        self._saved: tuple[int, Path] | None = None  # the last checkpoint and its step
        self._parts: list[str] = []
        self._since_log: list[StepResult] = []

    # ---- one step ----------------------------------------------------------------------------

    def train_step(self, batches: Sequence[Batch]) -> StepResult:
        """One optimizer step over this rank's micro-batches, in host memory, of a global batch."""
        self._seed()
        totals, counts = self._totals(batches)
        result = StepResult()
        for batch in batches:
            output = self.forward(self.to_device(batch), totals)
            self.scaler.scale(output.loss).backward()
            result.add(output)
        distributed.sum_gradients(self.parameters)
        self.scaler.unscale_(self.optimizer)
        result.grad_norm = self._clip()  # here, once a step, the host waits for the device
        stop, result.samples, result.tokens = map(int, counts.tolist())
        self._stopping = stop > 0
        result.learning_rate = self.schedule.apply(self.optimizer, self.state.step + 1)
        result.skipped = not math.isfinite(result.grad_norm)
        if not result.skipped:
            self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return result

    def forward(self, batch: Batch, totals: Mapping[str, Tensor] | None = None) -> Any:
        """The model's output for a batch, in the precision of the run."""
        dtype = PRECISIONS[self.config.precision]
        with torch.autocast(self.device.type, dtype, enabled=dtype is not None):
            return self.model(**batch, loss_weights=totals)

    def _seed(self) -> None:
        """Dropout of a step depends on the step alone, not on what ran before it."""
        sequence = np.random.SeedSequence([self.config.seed, self.state.step, distributed.rank()])
        seed = int(sequence.generate_state(1, np.uint64)[0]) >> 1
        torch.default_generator.manual_seed(seed)  # torch.manual_seed takes 2 ms without a card
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def _totals(self, batches: Sequence[Batch]) -> tuple[dict[str, Tensor], Tensor]:
        """Of the global batch: loss weights, and (ranks asked to stop, examples, tokens)."""
        own = [self.model.loss_weights(batch) for batch in batches]
        if not self._parts:  # a rank without a micro-batch learns the names from the others
            names = distributed.gather(sorted(own[0]) if own else [])
            self._parts = sorted(set().union(*names))
        weights = [sum(float(w[part]) for w in own) for part in self._parts]
        counts = [self._signals.received,
                  sum(len(batch["input_ids"]) for batch in batches),
                  sum(int(batch["attention_mask"].sum()) for batch in batches)]
        packed = torch.tensor([*weights, *counts], dtype=torch.float64).to(self.device)
        distributed.all_reduce_sum(packed)
        totals, counts = packed.split([len(weights), 3])
        return dict(zip(self._parts, totals.float().unbind(), strict=True)), counts

    def _clip(self) -> float:
        """Scale the gradients down to `max_grad_norm` (as tf.clip_by_global_norm); their norm."""
        norm = float(self.gradient_norm(self.parameters))
        limit = self.config.max_grad_norm
        if limit and math.isfinite(norm) and norm > limit:
            torch._foreach_mul_([p.grad for p in self.parameters if p.grad is not None],
                                limit / norm)
        return norm

    # ---- the loop ----------------------------------------------------------------------------

    def fit(self) -> TrainerState:
        """Train up to `max_steps`, from wherever the state is."""
        if distributed.is_main():
            remove_unfinished(self.config.output_dir)
        self.model.train()
        stream = batch_stream(
            self.dataset, self.collate, self.plan, self.config.micro_batch_size,
            self.state.epoch, self.state.offset, distributed.rank(), distributed.world_size(),
            self.config.num_workers, pin_memory=self.device.type == "cuda")
        with self._signals:
            self._call("on_train_begin")
            try:
                while self.state.step < self.config.max_steps and not self.should_stop:
                    started = time.perf_counter()
                    position, batches = next(stream)
                    result = self.train_step(batches)
                    result.seconds = time.perf_counter() - started
                    self._advance(position, result)
                    self._after_step(result)
            finally:
                self._call("on_train_end")
        return self.state

    def to_device(self, batch: Batch) -> Batch:
        return {name: value.to(self.device, non_blocking=True) for name, value in batch.items()}

    def _advance(self, position: Position, result: StepResult) -> None:
        state = self.state
        state.step += 1
        state.epoch, state.offset = position.epoch, position.offset
        state.samples += result.samples
        state.tokens += result.tokens
        state.seconds += result.seconds
        state.bad_in_a_row = state.bad_in_a_row + 1 if result.skipped else 0
        state.bad_steps += result.skipped

    def _after_step(self, result: StepResult) -> None:
        step, config = self.state.step, self.config
        epoch_done = self.state.offset == 0
        last = step == config.max_steps
        if result.skipped:
            self._warn_of_bad_step()
        self._since_log.append(result)
        if last or step % config.logging_steps == 0:
            self._call("on_log", self._summary())
        if self.evaluate_model and (last or (step % config.eval_steps == 0 if config.eval_steps
                                             else epoch_done)):
            self.evaluate()
        self._call("on_step_end", result)
        if epoch_done:
            self._call("on_epoch_end")
        if self._stopping or (self._signals.received and distributed.world_size() == 1):
            saved_at, path = self._saved or (None, None)
            path = path if saved_at == step else self.save()
            logger.warning("interrupted: step %d is saved in %s; start again to go on from there",
                           step, path)
            raise SystemExit(EXIT_INTERRUPTED)

    def _warn_of_bad_step(self) -> None:
        state = self.state
        logger.warning("step %d: gradients are not finite; step skipped (%d in a row, %d in all)",
                       state.step, state.bad_in_a_row, state.bad_steps)
        if state.bad_in_a_row >= self.config.max_bad_steps:
            saved = checkpoints(self.config.output_dir)
            raise TrainingStopped(
                f"{state.bad_in_a_row} steps in a row without finite gradients, up to step "
                f"{state.step}. Last good checkpoint: {saved[-1] if saved else 'none'}. Try a "
                "lower --learning_rate, a longer warm-up, or --precision bf16 instead of fp16")

    def _summary(self) -> dict[str, float]:
        """Means over the steps since the last log that were taken, of all ranks."""
        results, self._since_log = self._since_log, []
        taken = [result for result in results if not result.skipped]
        sums = torch.zeros(1 + len(self._parts), dtype=torch.float64, device=self.device)
        for result in taken:
            for i, value in enumerate([result.loss, *(result.losses.get(name, 0.0)
                                                      for name in self._parts)]):
                sums[i] += value
        loss, *parts = (distributed.all_reduce_sum(sums) / len(taken)).tolist()
        values = {"loss": loss}
        if len(parts) > 1:
            values |= dict(zip(self._parts, parts, strict=True))
        seconds = sum(result.seconds for result in results) or math.nan
        return values | {
            "learning_rate": results[-1].learning_rate, "grad_norm": results[-1].grad_norm,
            "bad_steps": float(self.state.bad_steps),
            "samples_per_second": sum(result.samples for result in results) / seconds,
            "tokens_per_second": sum(result.tokens for result in results) / seconds}

    def evaluate(self) -> dict[str, float]:
        """Evaluate now, tell the callbacks, and go back to training mode."""
        self.model.eval()
        metrics = dict(self.evaluate_model())
        self.model.train()
        self._call("on_evaluate", metrics)
        return metrics

    def probe(self, indices: Sequence[int]) -> None:
        """Run one micro-batch forward and backward and forget it: does the longest one fit?

        Raises TrainingStopped that says what to do where it does not.
        """
        batch = self.collate([self.dataset[self.state.epoch, int(index)] for index in indices])
        shape = " x ".join(map(str, batch["input_ids"].shape))
        training, cards = self.model.training, [self.device] if self.device.type == "cuda" else []
        try:
            with torch.random.fork_rng(cards):
                self.model.train()
                self.forward(self.to_device(batch)).loss.backward()
        except torch.OutOfMemoryError as error:
            raise TrainingStopped(
                f"the longest micro-batch, {shape} tokens, does not fit into the memory of "
                f"{self.device}: lower --per_gpu_train_batch_size and accumulate more of them, "
                "which computes the same, or lower --max_seq_length, or give "
                "--activation_checkpointing") from error
        finally:
            self.optimizer.zero_grad(set_to_none=True)
            self.model.train(training)
        logger.info("the longest micro-batch, %s tokens, fits%s", shape, "".join(
            f": {torch.cuda.max_memory_allocated(card) / 2**30:.1f} GB" for card in cards))

    def _call(self, hook: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, hook)(self, *arguments)

    # ---- restarts ----------------------------------------------------------------------------

    def save(self, path: Path | None = None) -> Path:
        """Write a checkpoint, a model directory with the training state; every rank calls it."""
        path = path or self.config.output_dir / f"checkpoint-{self.state.step}"
        if distributed.is_main():
            write_directory(path, self._write)
        distributed.barrier()
        self._saved = self.state.step, path
        self._call("on_save", path)
        return path

    def _write(self, directory: Path) -> None:
        self.save_model(directory)
        save_state(directory, self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        return {"state": asdict(self.state), "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(), "fingerprint": dict(self.fingerprint),
                "callbacks": {name: c.state_dict() for name, c in self._named_callbacks()}}

    def _named_callbacks(self) -> Iterator[tuple[str, Callback]]:
        """Callbacks by class; a second one of a class gets a number."""
        seen: Counter[str] = Counter()
        for callback in self.callbacks:
            name = type(callback).__name__
            seen[name] += 1
            yield name if seen[name] == 1 else f"{name} {seen[name]}", callback

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        self.state = TrainerState(**saved["state"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.scaler.load_state_dict(saved["scaler"])
        for name, callback in self._named_callbacks():
            callback.load_state_dict(saved["callbacks"].get(name, {}))

    def resume(self, checkpoint: Path) -> bool:
        """Go on from a checkpoint, whose weights the model already has.

        False, with a message, where it holds no training state: the run starts clean. Raises
        ValueError that lists the settings in which it differs from this run.
        """
        saved = load_state(checkpoint)
        if saved is None:
            logger.info("%s holds no training state (a converted or final model): starting at "
                        "step 0 with a fresh optimizer", checkpoint)
            return False
        there = saved["fingerprint"]
        wrong = [f"{name}: checkpoint {there.get(name)}, this run {value}"
                 for name, value in self.fingerprint.items() if there.get(name) != value]
        if wrong:
            raise ValueError(f"{checkpoint} belongs to another run, whose results could not be "
                             "continued:\n  " + "\n  ".join(wrong) + "\nUse the same settings, or "
                             "give the checkpoint as --model_name_or_path to start anew from it")
        self.load_state_dict(saved)
        logger.info("resuming %s at step %d (epoch %d, batch %d)", checkpoint, self.state.step,
                    self.state.epoch, self.state.offset)
        return True
