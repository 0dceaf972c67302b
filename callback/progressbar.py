"""The bar of a training run: rate, time left, loss."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from tqdm import tqdm

from callback import distributed
from callback.base import Callback

if TYPE_CHECKING:
    from callback.trainer import StepResult, Trainer


class ProgressBar(Callback):
    """Steps done and left, loss, rate, tokens a second, memory of a GPU and its utilisation.

    flops_per_token: of a whole training step; with peak_flops (a second, of one device) the bar
    shows model FLOPs utilisation (MFU).
    """

    def __init__(self, description: str = "training", flops_per_token: float | None = None,
                 peak_flops: float | None = None) -> None:
        self.description = description
        self.flops_per_token, self.peak_flops = flops_per_token, peak_flops
        self.bar: tqdm | None = None
        self.tokens_per_second = 0.0

    def on_train_begin(self, trainer: Trainer) -> None:
        self._mark = (time.perf_counter(), trainer.state.tokens)
        self.bar = tqdm(total=trainer.config.max_steps, initial=trainer.state.step, unit="step",
                        desc=self.description, disable=not distributed.is_main(),
                        dynamic_ncols=True)

    def on_log(self, trainer: Trainer, values: Mapping[str, float]) -> None:
        now, tokens = time.perf_counter(), trainer.state.tokens
        self.tokens_per_second = (tokens - self._mark[1]) / max(now - self._mark[0], 1e-9)
        self._mark = (now, tokens)
        shown = {"loss": f"{values['loss']:.3f}", "lr": f"{values['learning_rate']:.1e}",
                 "tok/s": f"{self.tokens_per_second:,.0f}"}
        if self.flops_per_token and self.peak_flops:
            used = self.tokens_per_second * self.flops_per_token / distributed.world_size()
            shown["MFU"] = f"{used / self.peak_flops:.0%}"
        if trainer.device.type == "cuda":
            shown["GB"] = f"{torch.cuda.max_memory_allocated() / 2**30:.1f}"
        self.bar.set_postfix(shown, refresh=False)

    def on_step_end(self, trainer: Trainer, result: StepResult) -> None:
        self.bar.update()

    def on_train_end(self, trainer: Trainer) -> None:
        self.bar.close()
