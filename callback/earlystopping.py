"""Ending a run that has stopped to improve."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from callback.base import Callback

if TYPE_CHECKING:
    from callback.trainer import Trainer

logger = logging.getLogger(__name__)


class EarlyStopping(Callback):
    """Stops after `patience` evaluations without a better `metric` (higher, unless told)."""

    def __init__(self, metric: str, patience: int, lower_is_better: bool = False) -> None:
        self.metric, self.patience = metric, patience
        self.sign = -1.0 if lower_is_better else 1.0
        self.best: float | None = None
        self.waited = 0

    def on_train_begin(self, trainer: Trainer) -> None:
        trainer.should_stop |= self.waited >= self.patience  # resumed where it had stopped

    def on_evaluate(self, trainer: Trainer, metrics: Mapping[str, float]) -> None:
        if self.metric not in metrics:
            raise KeyError(f"early stopping goes by {self.metric!r}, which evaluation does not "
                           f"give; it gives {', '.join(metrics)}")
        value = self.sign * metrics[self.metric]
        if not math.isnan(value) and (self.best is None or value > self.best):
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            logger.info("no better %s in %d evaluations: stopping at step %d", self.metric,
                        self.waited, trainer.state.step)
            trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best, self.waited = state.get("best"), state.get("waited", 0)
