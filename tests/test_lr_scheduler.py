"""Learning rates: factors of the peak, by update."""

from __future__ import annotations

import pytest
import torch

from callback.lr_scheduler import SCHEDULES, Schedule


def official(update: int, total: int, warmup: int) -> float:
    """optimization.py: rises by t / warmup, then falls as the polynomial of t over ALL steps."""
    return update / warmup if update < warmup else (1 - update / total)


def test_linear_is_the_official_schedule() -> None:
    schedule = Schedule("linear", 10, 3)
    found = [schedule.factor(update) for update in range(1, 11)]
    assert found == pytest.approx([official(update, 10, 3) for update in range(1, 11)])
    assert found[:3] == pytest.approx([1 / 3, 2 / 3, 0.7]) and found[-1] == 0


@pytest.mark.parametrize("name", sorted(SCHEDULES))
@pytest.mark.parametrize("warmup", [0, 1, 7, 40])
def test_every_schedule_stays_between_0_and_1(name: str, warmup: int) -> None:
    schedule = Schedule(name, 40, warmup)
    factors = [schedule.factor(update) for update in range(1, 41)]
    assert all(0 <= factor <= 1 for factor in factors)
    rising, falling = factors[:max(0, warmup - 1)], factors[warmup:]
    assert rising == sorted(rising) and falling == sorted(falling, reverse=True)
    assert factors[-1] == pytest.approx(1.0 if name == "constant" else 0.0)


def test_the_middle_of_each_schedule() -> None:
    middle = {name: Schedule(name, 100).factor(50) for name in SCHEDULES}
    assert middle == pytest.approx({"linear": 0.5, "constant": 1.0, "cosine": 0.5,
                                    "quadratic": 0.25})


def test_rates_are_those_of_the_update_whatever_came_before() -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    other = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([{"params": [weight]}, {"params": [other], "lr": 0.1}], lr=0.4)
    schedule = Schedule("linear", 8)
    for update in (4, 6, 2, 4):
        assert schedule.apply(optimizer, update) == pytest.approx(0.4 * (1 - update / 8))
        assert optimizer.param_groups[1]["lr"] == pytest.approx(0.1 * (1 - update / 8))


@pytest.mark.parametrize("arguments, told", [
    (("linaer", 10, 0), "--scheduler linaer.*linear"), (("linear", 0, 0), "run of 0"),
    (("linear", 10, 11), "warm-up of 11 steps in a run of 10"), (("linear", 10, -1), "-1")])
def test_impossible_schedules_are_refused(arguments: tuple, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Schedule(*arguments)
