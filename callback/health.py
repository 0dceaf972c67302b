"""Warnings that a person wants in the middle of a run, not after it."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

from callback.base import Callback

if TYPE_CHECKING:
    from callback.trainer import Trainer

logger = logging.getLogger(__name__)


class LossSpike(Callback):
    """Warns when a logged loss is more than `factor` times the median of the last ones."""

    def __init__(self, factor: float = 2.0, window: int = 20) -> None:
        self.factor, self.recent = factor, deque(maxlen=window)

    def on_log(self, trainer: Trainer, values: Mapping[str, float]) -> None:
        loss = values["loss"]
        if not math.isfinite(loss):  # every step was skipped, which the trainer tells
            return
        if len(self.recent) >= 5 and loss > self.factor * median(self.recent):
            logger.warning("step %d: loss %.3f, %.1f times the median of the last %d logs; if it "
                           "does not come back, lower the learning rate or resume from before",
                           trainer.state.step, loss, loss / median(self.recent), len(self.recent))
        self.recent.append(loss)

    def state_dict(self) -> dict[str, Any]:
        return {"recent": list(self.recent)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.recent.extend(state.get("recent", []))


class NotLearning(Callback):
    """Warns once when evaluated numbers have not left chance after `steps` steps.

    chance: name of a number -> what guessing gives (a number, or the name of one that is evaluated
    with it) and how far above it learning begins.
    """

    def __init__(self, steps: int, chance: Mapping[str, tuple[float | str, float]],
                 advice: str) -> None:
        self.steps, self.chance, self.advice = steps, chance, advice
        self.warned = False

    def on_evaluate(self, trainer: Trainer, metrics: Mapping[str, float]) -> None:
        if self.warned or trainer.state.step < self.steps:
            return
        chance = {name: (metrics.get(guess, 0.0) if isinstance(guess, str) else guess, margin)
                  for name, (guess, margin) in self.chance.items() if name in metrics}
        stuck = [f"{name} {metrics[name]:.3f} (guessing: {guess:.3f})"
                 for name, (guess, margin) in chance.items() if metrics[name] < guess + margin]
        if stuck:
            self.warned = True
            logger.warning("not learning after %d steps: %s. %s", trainer.state.step,
                           ", ".join(stuck), self.advice)

    def state_dict(self) -> dict[str, Any]:
        return {"warned": self.warned}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.warned = state.get("warned", False)
