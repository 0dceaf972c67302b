"""The bar of a training run: rate, time left, loss."""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from tqdm import tqdm

from callback import distributed
from callback.base import Callback

if TYPE_CHECKING:
    from callback.trainer import StepResult, Trainer


class ProgressBar(Callback):
    """Steps done and left, loss, learning rate, samples and tokens a second, most memory used.

    flops_per_token: of a whole training step; with peak_flops (a second, of one device) the bar
    shows model FLOPs utilisation (MFU). Speeds leave evaluating and saving out.
    """

    def __init__(self, description: str = "training", flops_per_token: float | None = None,
                 peak_flops: float | None = None) -> None:
        self.description = description
        self.flops_per_token, self.peak_flops = flops_per_token, peak_flops
        self.bar: tqdm | None = None

    def on_train_begin(self, trainer: Trainer) -> None:
        self.bar = tqdm(total=trainer.config.max_steps, initial=trainer.state.step, unit="step",
                        desc=self.description, disable=not distributed.is_main(),
                        dynamic_ncols=True)

    def on_log(self, trainer: Trainer, values: Mapping[str, float]) -> None:
        speed = values["tokens_per_second"]
        shown = {"loss": f"{values['loss']:.3f}", "lr": f"{values['learning_rate']:.1e}",
                 "ex/s": f"{values['samples_per_second']:,.0f}", "tok/s": f"{speed:,.0f}"}
        if self.flops_per_token and self.peak_flops:
            used = speed * self.flops_per_token / distributed.world_size()
            shown["MFU"] = f"{used / self.peak_flops:.0%}"
        shown["GB"] = f"{peak_memory(trainer.device) / 2**30:.1f}"
        self.bar.set_postfix(shown, refresh=False)

    def on_step_end(self, trainer: Trainer, result: StepResult) -> None:
        self.bar.update()

    def on_train_end(self, trainer: Trainer) -> None:
        self.bar.close()


def peak_memory(device: torch.device) -> int:
    """The most bytes that a card (tensors) or this process (all of it, on the CPU) has held."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else 1024 * used
