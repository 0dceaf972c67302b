"""Which examples make up which step, on which rank, by which worker."""

from __future__ import annotations

import multiprocessing
import os
import signal
from itertools import islice

import numpy as np
import pytest
from toy import ToyData

from callback.plan import (
    LengthGroupedPlan,
    Plan,
    Position,
    ShuffledPlan,
    batch_stream,
    longest_batch,
    micro_batches,
)

LENGTHS = np.random.default_rng(5).geometric(1 / 30, 1003).clip(3, 128)
PLANS = {"shuffled": lambda seed=0: ShuffledPlan(1003, 16, seed),
         "grouped": lambda seed=0: LengthGroupedPlan(LENGTHS, 16, seed, pool=10)}


def as_lists(batches: list[np.ndarray]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@pytest.mark.parametrize("make", PLANS.values(), ids=PLANS)
def test_an_epoch_has_every_example_once(make) -> None:
    for epoch in (0, 1, 7):
        batches = make().epoch(epoch)
        assert sorted(np.concatenate(batches).tolist()) == list(range(1003))
        sizes = sorted(map(len, batches))
        assert sizes == [1003 % 16, *[16] * (1003 // 16)]  # the short batch is kept


@pytest.mark.parametrize("make", PLANS.values(), ids=PLANS)
def test_an_epoch_is_a_function_of_seed_and_number(make) -> None:
    first = as_lists(make().epoch(3))
    np.random.seed(1)
    assert first == as_lists(make().epoch(3))
    assert first != as_lists(make().epoch(4))
    assert first != as_lists(make(seed=1).epoch(3))


def test_epochs_may_differ_in_size() -> None:
    plan = ShuffledPlan(lambda epoch: 10 + epoch, 4)
    assert [len(np.concatenate(plan.epoch(e))) for e in (0, 5)] == [10, 15]


def padding(plan: Plan) -> float:
    """Share of a padded epoch that is padding."""
    padded = sum(len(batch) * LENGTHS[batch].max() for batch in plan.epoch(0))
    return 1 - LENGTHS.sum() / padded


def test_like_lengths_go_together_yet_stay_shuffled() -> None:
    assert padding(ShuffledPlan(1003, 16)) > 0.5
    assert padding(LengthGroupedPlan(LENGTHS, 16)) < 0.08
    batches = LengthGroupedPlan(LENGTHS, 16).epoch(0)
    longest = np.array([LENGTHS[batch].max() for batch in batches])
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3  # no order of lengths
    again = [set(batch.tolist()) for batch in LengthGroupedPlan(LENGTHS, 16).epoch(1)]
    kept = [max(len(set(batch.tolist()) & other) for other in again) for batch in batches]
    assert np.mean(kept) < 10  # nor the same neighbours


@pytest.mark.parametrize("world", [1, 2, 3, 20])
@pytest.mark.parametrize("size", [1, 3, 16])
def test_ranks_share_a_batch_without_rest(world: int, size: int) -> None:
    batch = PLANS["shuffled"]().epoch(0)[0]
    shares = [micro_batches(batch, size, rank, world) for rank in range(world)]
    assert all(1 <= len(part) <= size for share in shares for part in share)
    found = [index for share in shares for part in share for index in part.tolist()]
    assert sorted(found) == sorted(batch.tolist())
    counts = [sum(map(len, share)) for share in shares]
    assert max(counts) - min(counts) <= 1


def stream(count: int, **changes) -> list[tuple[Position, list[dict]]]:
    data = ToyData(21)
    arguments = {"micro_batch_size": 3, "epoch": 0, "offset": 0} | changes
    return list(islice(batch_stream(data, data.collate, ShuffledPlan(21, 8), **arguments), count))


def same_stream(a: list, b: list) -> bool:
    return [p for p, _ in a] == [p for p, _ in b] and all(
        x.keys() == y.keys() and all(x[n].equal(y[n]) for n in x)
        for (_, left), (_, right) in zip(a, b, strict=True)
        for x, y in zip(left, right, strict=True))


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_nothing(workers: int) -> None:
    assert same_stream(stream(7), stream(7, num_workers=workers))


def test_workers_outlive_a_signal_to_all_processes() -> None:
    data = ToyData(21)
    running = batch_stream(data, data.collate, ShuffledPlan(21, 8), 3, num_workers=2)
    found = [next(running)]
    workers = multiprocessing.active_children()
    assert len(workers) == 2
    for worker in workers:
        os.kill(worker.pid, signal.SIGTERM)
        os.kill(worker.pid, signal.SIGINT)
    found += islice(running, 40)
    assert same_stream(found, stream(41))
    del running
    assert not multiprocessing.active_children()


def test_positions_count_batches_and_start_each_epoch_at_0() -> None:
    found = stream(7)
    assert [(p.epoch, p.offset) for p, _ in found] == [
        (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]
    assert [[len(part["labels"]) for part in parts] for _, parts in found[:3]] == [
        [3, 3, 2], [3, 3, 2], [3, 2]]


@pytest.mark.parametrize("done", [1, 2, 3, 5])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_goes_on_from_any_position(done: int, workers: int) -> None:
    whole = stream(8)
    at = whole[done - 1][0]
    rest = stream(8 - done, epoch=at.epoch, offset=at.offset, num_workers=workers)
    assert same_stream(whole[done:], rest)


def test_a_rank_may_have_nothing_to_do() -> None:
    found = stream(3, rank=5, world=6, micro_batch_size=2)  # 8, 8 and 5 examples for 6 ranks
    assert [len(parts) for _, parts in found] == [1, 1, 0]


@pytest.mark.parametrize("workers", [0, 1])
def test_too_few_examples_are_an_error(workers: int) -> None:
    for size, world in ((0, 1), (3, 4)):
        with pytest.raises(ValueError, match=f"{size} examples; expected at least {world}"):
            next(batch_stream([], ToyData.collate, ShuffledPlan(size, 8), 4, world=world,
                              num_workers=workers))


def test_the_longest_batch() -> None:
    lengths = [3, 9, 4, 9, 5, 1]
    assert sorted(longest_batch(lengths, 3).tolist()) == [1, 3, 4]
    assert len(longest_batch(lengths, 100)) == 6
