"""When to save: every so many steps, and the best model by a metric."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callback import distributed
from callback.base import Callback
from callback.checkpoint import remove_old

if TYPE_CHECKING:
    from callback.trainer import StepResult, Trainer

logger = logging.getLogger(__name__)


class ModelCheckpoint(Callback):
    """Writes `checkpoint-<step>` every save_steps steps (0: never) and at improvements of `metric`.

    metric: the name of an evaluated number, higher is better unless `lower_is_better`; `best` says
    where the best model lies. The newest save_total_limit checkpoints and the best one are kept.
    """

    def __init__(self, save_steps: int = 0, metric: str | None = None,
                 lower_is_better: bool = False, save_total_limit: int | None = None) -> None:
        self.save_steps, self.metric, self.limit = save_steps, metric, save_total_limit
        self.sign = -1.0 if lower_is_better else 1.0
        self.best_value: float | None = None
        self.best_step = 0
        self._output_dir = Path()  # known in training; not saved, since a folder may be moved
        self._improved = False

    @property
    def best(self) -> Path | None:
        return self._output_dir / f"checkpoint-{self.best_step}" if self.best_step else None

    def on_train_begin(self, trainer: Trainer) -> None:
        self._output_dir = trainer.config.output_dir

    def on_evaluate(self, trainer: Trainer, metrics: Mapping[str, float]) -> None:
        if self.metric is None:
            return
        if self.metric not in metrics:
            raise KeyError(f"the best model goes by {self.metric!r}, which evaluation does not "
                           f"give; it gives {', '.join(metrics)}")
        value = metrics[self.metric]
        if math.isnan(value):
            return
        if self.best_value is None or self.sign * value > self.sign * self.best_value:
            self.best_value, self.best_step = value, trainer.state.step
            self._improved = True

    def on_step_end(self, trainer: Trainer, result: StepResult) -> None:
        due = self.save_steps and trainer.state.step % self.save_steps == 0
        if not due and not self._improved:
            return
        self._improved = False
        trainer.save()
        if self.limit is not None and distributed.is_main():
            remove_old(trainer.config.output_dir, self.limit, self.best)

    def state_dict(self) -> dict[str, Any]:
        return {"best_value": self.best_value, "best_step": self.best_step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best_value, self.best_step = state.get("best_value"), state.get("best_step", 0)
