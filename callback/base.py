"""Callbacks: what a person or a disk sees of a run. They change no number that is trained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from callback.trainer import StepResult, Trainer


class Callback:
    """Hooks that the trainer calls, in the order of its list of callbacks, on every rank.

    What is for one reader only (a bar, a file) asks `distributed.is_main()`.
    """

    def on_train_begin(self, trainer: Trainer) -> None: ...

    def on_step_end(self, trainer: Trainer, result: StepResult) -> None: ...

    def on_log(self, trainer: Trainer, values: Mapping[str, float]) -> None: ...

    def on_evaluate(self, trainer: Trainer, metrics: Mapping[str, float]) -> None: ...

    def on_epoch_end(self, trainer: Trainer) -> None: ...

    def on_save(self, trainer: Trainer, path: Path) -> None: ...

    def on_train_end(self, trainer: Trainer) -> None:
        """Comes once, also where a run was interrupted or failed."""

    def state_dict(self) -> dict[str, Any]:
        """What has to survive a restart, of plain values."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
