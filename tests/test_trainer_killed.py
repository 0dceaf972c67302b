"""Runs that are killed, in processes of their own, go on to the same weights, bit for bit."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from toy import ENVIRONMENT, Toy, same, weights_of

from callback.checkpoint import checkpoints
from callback.trainer import EXIT_INTERRUPTED

TOY = Path(__file__).resolve().parent / "toy.py"
SETTINGS = {"max_steps": 20, "micro_batch_size": 4, "dropout": 0.2}  # the program's defaults


@dataclass
class Ended:
    """A process that has ended, and the folder of its run."""

    folder: Path
    code: int
    told: str


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """Three runs of 20 steps with a checkpoint every 5, side by side, each with its own end."""
    running = {}
    for end, step in (("kill_at", 13), ("kill_saving", 15), ("term_at", 7)):
        folder = tmp_path_factory.mktemp(end)
        running[end] = folder, subprocess.Popen(
            [sys.executable, TOY, folder, f"--{end}", str(step)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    result = {}
    try:
        for end, (folder, process) in running.items():
            _, told = process.communicate(timeout=600)  # syncing takes long on a busy disk
            result[end] = Ended(folder, process.returncode, told)
    finally:
        for _, process in running.values():
            process.kill()
    return result


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The weights of 20 steps without a stop."""
    return weights_of(Toy(tmp_path_factory.mktemp("whole"), **SETTINGS).run().model)


def go_on(folder: Path) -> dict[str, torch.Tensor]:
    newest = checkpoints(folder)[-1]
    trainer = Toy(folder, **SETTINGS).trainer(newest)
    assert trainer.resume(newest)
    trainer.fit()
    return weights_of(trainer.model)


def test_20_steps_are_10_and_kill_9_and_10(ended: dict[str, Ended],
                                           whole: dict[str, torch.Tensor]) -> None:
    killed = ended["kill_at"]
    assert killed.code == -signal.SIGKILL, killed.told
    assert [p.name for p in checkpoints(killed.folder)] == ["checkpoint-5", "checkpoint-10"]
    assert same(whole, go_on(killed.folder))


def test_a_crash_while_saving_leaves_the_last_good_checkpoint(
        ended: dict[str, Ended], whole: dict[str, torch.Tensor]) -> None:
    killed = ended["kill_saving"]
    assert killed.code == -signal.SIGKILL, killed.told
    assert checkpoints(killed.folder)[-1].name == "checkpoint-10"
    assert (killed.folder / ".checkpoint-15.tmp").is_dir()
    assert same(whole, go_on(killed.folder))
    assert not list(killed.folder.glob(".checkpoint-*"))  # cleared away


def test_sigterm_saves_and_exits_with_its_own_code(ended: dict[str, Ended],
                                                   whole: dict[str, torch.Tensor]) -> None:
    stopped = ended["term_at"]
    assert stopped.code == EXIT_INTERRUPTED == 75, stopped.told
    assert "interrupted: step 7 is saved in" in stopped.told
    assert [p.name for p in checkpoints(stopped.folder)] == ["checkpoint-5", "checkpoint-7"]
    assert same(whole, go_on(stopped.folder))
