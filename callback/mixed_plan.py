"""Batches of several data sets in turn, each batch of one: a pure function of (seed, epoch)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from callback.plan import Plan

SAMPLINGS = ("proportional", "annealed", "uniform")
LEAST_EXPONENT = 0.2  # where annealing ends (Stickland and Murray 2019, section 3.3)


@dataclass(frozen=True)
class MixedPlan:
    """The batches of several plans, mixed; an epoch has as many as theirs together.

    plans: one a data set, of equal batch size. sizes: the examples of each; the indices of data
    set k count on from the sizes before it.

    sampling: the share of each data set among the batches of an epoch:
        proportional  every example of every data set once
        uniform       as many batches of each; small ones come round several times
        annealed      size to the power of a, with a falling from 1 to 0.2 over `epochs`: by size
                      first, nearly alike at the end
    Where a share is not all of a data set, its next epoch goes on where this one stopped, so that
    no example is left out for good.
    """

    plans: Sequence[Plan]
    sizes: Sequence[int]
    sampling: str = "proportional"
    seed: int = 0
    epochs: float = 1.0

    def __post_init__(self) -> None:
        if self.sampling not in SAMPLINGS:
            raise ValueError(f"sampling is {self.sampling!r}, expected one of "
                             f"{', '.join(SAMPLINGS)}")
        if len({plan.batch_size for plan in self.plans}) != 1:
            raise ValueError("the plans have different batch sizes, expected one")

    @property
    def batch_size(self) -> int:
        return self.plans[0].batch_size

    def shares(self, epoch: int) -> np.ndarray:
        """The share (K,) of each of K data sets among the batches of an epoch."""
        done = min(epoch / max(np.ceil(self.epochs) - 1, 1), 1.0)
        exponent = {"proportional": 1.0, "uniform": 0.0,
                    "annealed": 1.0 - (1.0 - LEAST_EXPONENT) * done}[self.sampling]
        weights = np.asarray(self.sizes, dtype=float) ** exponent
        return weights / weights.sum()

    def counts(self, epoch: int) -> np.ndarray:
        """The batches (K,) of each data set in an epoch, as whole numbers of the same sum."""
        whole = np.array([-(-size // self.batch_size) for size in self.sizes])
        if self.sampling == "proportional":
            return whole
        exact = self.shares(epoch) * whole.sum()
        counts = np.floor(exact).astype(int)
        rest = np.argsort(counts - exact, kind="stable")[:whole.sum() - counts.sum()]
        counts[rest] += 1
        return counts

    def epoch(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch, each an array of indices of one data set."""
        counts = self.counts(epoch)
        before = sum((self.counts(earlier) for earlier in range(epoch)), np.zeros_like(counts))
        offsets = np.cumsum([0, *self.sizes[:-1]])
        own = [iter(_stretch(plan, int(first), int(count)))
               for plan, first, count in zip(self.plans, before, counts, strict=True)]
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, epoch, 1]))
        order = rng.permutation(np.repeat(np.arange(len(counts)), counts))
        return [next(own[k]) + offsets[k] for k in order]


def _stretch(plan: Plan, first: int, count: int) -> list[np.ndarray]:
    """`count` batches of a plan from number `first` on, counted over its epochs."""
    batches: list[np.ndarray] = []
    epoch, skip = divmod(first, len(plan.epoch(0)))
    while len(batches) < count:
        batches += plan.epoch(epoch)[skip:]
        epoch, skip = epoch + 1, 0
    return batches[:count]
