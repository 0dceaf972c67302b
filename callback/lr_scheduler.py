"""Learning rates over a run: pure functions from the update to a factor of the peak rate.

Updates count from 1. During warm-up the factor is update / warmup; after it a schedule sees the
share of ALL updates, warm-up included, as in the official optimization.py. (The first update of the
official code has a rate above 0 and its last one a rate of 0: the recorded runs show it.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

SCHEDULES: dict[str, Callable[[float], float]] = {
    "linear": lambda done: max(0.0, 1.0 - done),  # polynomial of power 1, the official one
    "constant": lambda done: 1.0,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * min(1.0, done))),
    "quadratic": lambda done: max(0.0, 1.0 - done) ** 2,
}


@dataclass(frozen=True)
class Schedule:
    """The factor of the peak rate at each update of a run."""

    name: str
    total_steps: int
    warmup_steps: int = 0

    def __post_init__(self) -> None:
        if self.name not in SCHEDULES:
            raise ValueError(f"--scheduler {self.name}: no such schedule; there are: "
                             f"{', '.join(SCHEDULES)}")
        if self.total_steps < 1 or not 0 <= self.warmup_steps <= self.total_steps:
            raise ValueError(f"warm-up of {self.warmup_steps} steps in a run of "
                             f"{self.total_steps}; expected 0 up to the whole run")

    def factor(self, update: int) -> float:
        """The factor of update 1 <= update <= total_steps."""
        if update < self.warmup_steps:
            return update / self.warmup_steps
        return SCHEDULES[self.name](update / self.total_steps)

    def apply(self, optimizer: torch.optim.Optimizer, update: int) -> float:
        """Set the rates for an update; returns the first group's."""
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
            group["lr"] = group["initial_lr"] * self.factor(update)
        return optimizer.param_groups[0]["lr"]

    def describe(self) -> dict[str, Any]:
        return {"scheduler": self.name, "total_steps": self.total_steps,
                "warmup_steps": self.warmup_steps}
