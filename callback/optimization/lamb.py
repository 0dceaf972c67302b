"""The two official optimizers: LAMB and AdamW as google-research/albert has them.

Neither corrects Adam's bias (lamb_optimizer.py, optimization.py), which matters in the first steps
and is why torch.optim.AdamW gives other numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class _AdamWithoutBiasCorrection(torch.optim.Optimizer):
    """Moments and the update m / (sqrt(v) + eps) + decay * w, for many tensors at once."""

    def __init__(self, params: Iterable[Any], lr: float, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-6, weight_decay: float = 0.01) -> None:
        problems = [f"{name} is {value}, expected {expected}" for name, value, expected, right in (
            ("lr", lr, "0 or more", lr >= 0), ("eps", eps, "more than 0", eps > 0),
            ("betas", betas, "two numbers in [0, 1)", all(0 <= b < 1 for b in betas)),
            ("weight_decay", weight_decay, "0 or more", weight_decay >= 0)) if not right]
        if problems:
            raise ValueError(f"{type(self).__name__}: {'; '.join(problems)}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps,
                                  "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights = [p for p in group["params"] if p.grad is not None]
            if weights:
                self._step_group(group, weights, [p.grad for p in weights])
        return loss

    def _step_group(self, group: dict[str, Any], weights: list[Tensor],
                    grads: list[Tensor]) -> None:
        for p in weights:
            if not self.state[p]:
                self.state[p] = {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        m = [self.state[p]["exp_avg"] for p in weights]
        v = [self.state[p]["exp_avg_sq"] for p in weights]
        beta1, beta2 = group["betas"]
        torch._foreach_lerp_(m, grads, 1 - beta1)
        torch._foreach_mul_(v, beta2)
        torch._foreach_addcmul_(v, grads, grads, 1 - beta2)
        updates = torch._foreach_sqrt(v)
        torch._foreach_add_(updates, group["eps"])
        updates = torch._foreach_div(m, updates)
        if group["weight_decay"]:
            torch._foreach_add_(updates, weights, alpha=group["weight_decay"])
        self._apply(group, weights, updates)

    def _apply(self, group: dict[str, Any], weights: list[Tensor], updates: list[Tensor]) -> None:
        raise NotImplementedError


class AdamWeightDecay(_AdamWithoutBiasCorrection):
    """w -= lr * (m / (sqrt(v) + eps) + decay * w): official optimization.py."""

    def _apply(self, group: dict[str, Any], weights: list[Tensor], updates: list[Tensor]) -> None:
        torch._foreach_add_(weights, updates, alpha=-group["lr"])


class Lamb(_AdamWithoutBiasCorrection):
    """The same update times |w| / |update|, the trust ratio (arXiv 1904.00962; lamb_optimizer.py).

    The ratio is 1 where either norm is 0, and in groups with `"trust_ratio": False`. Officially
    those are the parameters that are left out of decay, also where the decay itself is 0.
    """

    def _apply(self, group: dict[str, Any], weights: list[Tensor], updates: list[Tensor]) -> None:
        if group.get("trust_ratio", True):
            w_norms = torch.stack(torch._foreach_norm(weights))
            u_norms = torch.stack(torch._foreach_norm(updates))
            ratios = torch.where((w_norms > 0) & (u_norms > 0), w_norms / u_norms, 1.0)
            torch._foreach_mul_(updates, list(ratios.unbind()))
        torch._foreach_add_(weights, updates, alpha=-group["lr"])
