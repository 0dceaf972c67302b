"""Which examples make up which step: pure functions of (seed, epoch).

A plan gives an epoch as a list of GLOBAL batches, each what one optimizer step sees on all ranks
and in all micro-batches together. So neither the number of ranks nor the accumulation changes what
is computed, and a position in a run is (epoch, batches done).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from torch.utils.data import DataLoader, Dataset, Sampler

Key = tuple[int, np.ndarray]  # epoch, indices of a micro-batch


@dataclass(frozen=True)
class Position:
    """Where a run is: batches done of an epoch. At the end of one: 0 of the next."""

    epoch: int = 0
    offset: int = 0


class Plan(Protocol):
    batch_size: int

    def epoch(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch, each an array of indices."""


def _generator(seed: int, epoch: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([seed, epoch]))


def _cut(order: np.ndarray, size: int) -> list[np.ndarray]:
    return [order[at:at + size] for at in range(0, len(order), size)]


@dataclass(frozen=True)
class ShuffledPlan:
    """Every example once an epoch, in an order of its own; the last batch may be short.

    size: number of examples, or a function that gives it for an epoch.
    """

    size: int | Callable[[int], int]
    batch_size: int
    seed: int = 0

    def epoch(self, epoch: int) -> list[np.ndarray]:
        size = self.size(epoch) if callable(self.size) else self.size
        return _cut(_generator(self.seed, epoch).permutation(size), self.batch_size)


@dataclass(frozen=True)
class LengthGroupedPlan:
    """As `ShuffledPlan`, but a batch holds examples of like length, so that little is padding.

    Examples are shuffled, sorted within pools of `pool` batches, cut, and the batches shuffled.
    """

    lengths: np.ndarray = field(repr=False)  # tokens of each example
    batch_size: int = 32
    seed: int = 0
    pool: int = 50

    def epoch(self, epoch: int) -> list[np.ndarray]:
        rng = _generator(self.seed, epoch)
        order = rng.permutation(len(self.lengths))
        pools = [pool[np.argsort(self.lengths[pool], kind="stable")]
                 for pool in _cut(order, self.pool * self.batch_size)]
        batches = [batch for pool in pools for batch in _cut(pool, self.batch_size)]
        return [batches[i] for i in rng.permutation(len(batches))]


def micro_batches(batch: np.ndarray, size: int, rank: int = 0, world: int = 1) -> list[np.ndarray]:
    """A rank's share of a global batch, cut for memory. A short batch may leave a rank nothing."""
    return _cut(batch[rank::world], size)


class _Walk(Sampler[Key]):
    """The micro-batches of a rank from a position on, epoch after epoch, without end."""

    def __init__(self, plan: Plan, size: int, rank: int, world: int, epoch: int, offset: int):
        self.arguments = (plan, size, rank, world, epoch, offset)

    def __iter__(self) -> Iterator[Key]:
        plan, size, rank, world, epoch, offset = self.arguments
        while True:
            for batch in plan.epoch(epoch)[offset:]:
                for part in micro_batches(batch, size, rank, world):
                    yield epoch, part
            epoch, offset = epoch + 1, 0


class _Collated(Dataset):
    """What a loader's worker does: a micro-batch, fetched and collated, from its key alone."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], dict[str, Any]]) -> None:
        self.dataset, self.collate = dataset, collate

    def __getitem__(self, key: Key) -> dict[str, Any]:
        epoch, indices = key
        return self.collate([self.dataset[epoch, int(index)] for index in indices])


def _ignore_signals(worker: int) -> None:
    """A cluster and Ctrl-C tell all processes to stop; the trainer still needs this one for a step.

    It ends with the trainer, which tells it so, or when it finds it gone.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def batch_stream(dataset: Any, collate: Callable[[list[Any]], dict[str, Any]], plan: Plan,
                 micro_batch_size: int, epoch: int = 0, offset: int = 0, rank: int = 0,
                 world: int = 1, num_workers: int = 0, pin_memory: bool = False,
                 ) -> Iterator[tuple[Position, list[dict[str, Any]]]]:
    """Every global batch from a position on, as (position after it, this rank's micro-batches).

    The number of workers changes when a batch is made, never what is in it. Raises ValueError
    where a rank would never have anything to do.
    """
    largest = max(map(len, plan.epoch(epoch)), default=0)
    if largest < world:
        raise ValueError(f"the largest batch of epoch {epoch} has {largest} examples; expected at "
                         f"least {world}, one for each process")
    walk = _Walk(plan, micro_batch_size, rank, world, epoch, offset)
    loader = iter(DataLoader(_Collated(dataset, collate), sampler=walk, batch_size=None,
                             num_workers=num_workers, pin_memory=pin_memory,
                             prefetch_factor=4 if num_workers else None,
                             worker_init_fn=_ignore_signals if num_workers else None))
    while True:
        batches = plan.epoch(epoch)
        for at in range(offset, len(batches)):
            parts = len(micro_batches(batches[at], micro_batch_size, rank, world))
            last = at + 1 == len(batches)
            after = Position(epoch + 1, 0) if last else Position(epoch, at + 1)
            yield after, [next(loader) for _ in range(parts)]
        epoch, offset = epoch + 1, 0


def longest_batch(lengths: Sequence[int] | np.ndarray, micro_batch_size: int) -> np.ndarray:
    """Indices of the micro-batch that takes the most memory: the longest examples together."""
    return np.argsort(np.asarray(lengths), kind="stable")[::-1][:micro_batch_size]
