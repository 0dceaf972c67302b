"""A small model and data set that show what the training engine does; also a program to kill.

    PYTHONPATH=. python tests/toy.py FOLDER --max_steps 20 --save_steps 5 --kill_at 13
"""

from __future__ import annotations

import argparse
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from callback import distributed
from callback.base import Callback
from callback.lr_scheduler import Schedule
from callback.modelcheckpoint import ModelCheckpoint
from callback.optimization import build_optimizer
from callback.plan import ShuffledPlan
from callback.trainer import Trainer, TrainerConfig
from tools.logging import start_logging

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}  # of programs
VOCAB, LABELS = 13, 3


class ToyModel(nn.Module):
    """Two losses of different weights, dropout, a shared layer and a parameter that is not used."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCAB, 5)
        self.layer = nn.Linear(5, 5)
        self.norm = nn.LayerNorm(5)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(5, LABELS)
        self.unused = nn.Linear(5, 7)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor,
                loss_weights: dict[str, Tensor] | None = None) -> SimpleNamespace:
        """(B, T) ids -> logits (B, LABELS)."""
        totals = loss_weights or self.loss_weights({"attention_mask": attention_mask,
                                                    "labels": labels})
        x = self.words(input_ids)  # (B, T) -> (B, T, 5)
        for _ in range(2):
            x = self.norm(x + self.dropout(torch.tanh(self.layer(x))))
        mask = attention_mask[..., None].float()
        logits = self.head((x * mask).sum(1) / mask.sum(1))  # (B, T, 5) -> (B, LABELS)
        losses = {
            "label": F.cross_entropy(logits.float(), labels, reduction="sum") / totals["label"],
            "size": ((x.float() ** 2).sum(-1) * mask[..., 0]).sum() / totals["size"] / 10}
        return SimpleNamespace(loss=sum(losses.values()), losses=losses, logits=logits)

    def loss_weights(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"label": torch.tensor(float(len(batch["labels"]))),
                "size": batch["attention_mask"].sum().float()}

    def save_pretrained(self, folder: Path) -> None:
        save_file(self.state_dict(), folder / "model.safetensors")


class ToyData:
    """Texts of different lengths: a pure function of (epoch, index)."""

    def __init__(self, size: int = 30) -> None:
        self.lengths = np.random.default_rng(0).integers(1, 12, size)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, key: int | tuple[int, int]) -> dict[str, Any]:
        epoch, index = key if isinstance(key, tuple) else (0, key)
        ids = np.random.default_rng([epoch, index]).integers(1, VOCAB, self.lengths[index])
        return {"input_ids": ids, "labels": int(ids.sum()) % LABELS, "index": index}

    @staticmethod
    def collate(features: list[dict[str, Any]]) -> dict[str, Tensor]:
        longest = max(len(f["input_ids"]) for f in features)
        ids = torch.zeros(len(features), longest, dtype=torch.long)
        for row, f in zip(ids, features, strict=True):
            row[:len(f["input_ids"])] = torch.from_numpy(f["input_ids"])
        return {"input_ids": ids, "attention_mask": (ids > 0).long(),
                "labels": torch.tensor([f["labels"] for f in features])}


@dataclass
class Toy:
    """What a test may turn; `trainer` puts a run together."""

    output_dir: Path
    max_steps: int = 5
    batch_size: int = 8
    micro_batch_size: int = 8
    dropout: float = 0.0
    optimizer: str = "adamw"
    learning_rate: float = 0.03
    total_steps: int | None = None  # of the schedule, if not max_steps
    callbacks: list[Callback] = field(default_factory=list)
    evaluate: Any = None
    save_model: Any = None
    config: dict[str, Any] = field(default_factory=dict)  # more of TrainerConfig
    size: int = 30

    def trainer(self, weights: Path | None = None) -> Trainer:
        torch.manual_seed(1)
        model = ToyModel(self.dropout)
        if weights is not None:
            model.load_state_dict(load_file(weights / "model.safetensors"))
        data = ToyData(self.size)
        return Trainer(
            model, build_optimizer(self.optimizer, model, self.learning_rate),
            Schedule("linear", self.total_steps or self.max_steps, 2),
            ShuffledPlan(len(data), self.batch_size), data, data.collate,
            TrainerConfig(self.output_dir, self.max_steps, self.micro_batch_size,
                          **{"logging_steps": 1, **self.config}),
            callbacks=self.callbacks, evaluate=self.evaluate, save_model=self.save_model)

    def run(self) -> Trainer:
        trainer = self.trainer()
        trainer.fit()
        return trainer


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor], within: float = 0.0) -> bool:
    """Are all weights equal, bit for bit unless `within` is given?"""
    assert set(a) == set(b)
    return all(torch.equal(a[n], b[n]) if not within else bool((a[n] - b[n]).abs().max() <= within)
               for n in a)


class Kill(Callback):
    """Ends the process as the kernel would, after a step, or sends it another signal."""

    def __init__(self, step: int, number: int = signal.SIGKILL,
                 only_rank: int | None = None) -> None:
        self.step, self.number, self.only_rank = step, number, only_rank

    def on_step_end(self, trainer: Trainer, result: Any) -> None:
        if trainer.state.step == self.step and self.only_rank in (None, distributed.rank()):
            os.kill(os.getpid(), self.number)


class History(Callback):
    """Remembers what was called, with the step."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.logged: list[dict[str, float]] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)

        def hook(trainer: Trainer, *arguments: Any) -> None:
            self.calls.append((name, trainer.state.step))
            if name == "on_log":
                self.logged.append(dict(arguments[0]))
        return hook

    def steps(self, hook: str) -> list[int]:
        return [step for name, step in self.calls if name == hook]


def main() -> None:
    """A run in a process of its own, for tests that end it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("output_dir", type=Path)
    for name, default in (("max_steps", 20), ("save_steps", 5), ("micro_batch_size", 4),
                          ("kill_at", 0), ("term_at", 0), ("kill_saving", 0), ("dropout", 0.2),
                          ("batch_size", 8)):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    given = parser.parse_args()
    start_logging()
    callbacks: list[Callback] = [ModelCheckpoint(given.save_steps)]
    if given.kill_at:
        callbacks.append(Kill(given.kill_at))
    if given.term_at:
        callbacks.append(Kill(given.term_at, signal.SIGTERM))
    trainer = Toy(given.output_dir, given.max_steps, given.batch_size, given.micro_batch_size,
                  given.dropout, callbacks=callbacks).trainer()
    if given.kill_saving:
        trainer.save_model = lambda folder: die_while_saving(trainer, folder, given.kill_saving)
    trainer.fit()


def die_while_saving(trainer: Trainer, folder: Path, step: int) -> None:
    """Write half a file and die, at a step; save as usual before it."""
    trainer.model.save_pretrained(folder)
    if trainer.state.step == step:
        file = folder / "model.safetensors"
        file.write_bytes(file.read_bytes()[:100])
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
