"""Optimizers by name, and which parameters decay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from callback.optimization.lamb import AdamWeightDecay, Lamb

__all__ = ["OPTIMIZERS", "AdamWeightDecay", "Lamb", "build_optimizer", "parameter_groups"]


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameters that decay, and those of one dimension (biases, LayerNorm), which do not.

    In these models that is the official rule, which goes by the names LayerNorm and bias. What is
    left out of decay is left out of LAMB's trust ratio, too.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.dim() > 1]
    vectors = [p for p in trained if p.dim() <= 1]
    return [{"params": matrices, "weight_decay": weight_decay, "trust_ratio": True},
            {"params": vectors, "weight_decay": 0.0, "trust_ratio": False}]


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": AdamWeightDecay,  # the official one, without bias correction
    "lamb": Lamb,
    "adamw_torch": lambda groups, lr, **more: torch.optim.AdamW(groups, lr, fused=True, **more),
    "sgd": lambda groups, lr, **more: torch.optim.SGD(groups, lr, momentum=0.9),
}


def build_optimizer(name: str, model: nn.Module, learning_rate: float, weight_decay: float = 0.01,
                    eps: float = 1e-6, betas: tuple[float, float] = (0.9, 0.999),
                    ) -> torch.optim.Optimizer:
    """An optimizer of `OPTIMIZERS` for a model. Raises ValueError that lists the names."""
    if name not in OPTIMIZERS:
        raise ValueError(f"--optimizer {name}: no such optimizer; there are: "
                         f"{', '.join(OPTIMIZERS)}")
    return OPTIMIZERS[name](parameter_groups(model, weight_decay), learning_rate, eps=eps,
                            betas=betas)
