"""Checkpoints on disk: written beside, synced, renamed; so a crash leaves the last good one."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

STATE_NAME = "training_state.pt"
_NAME = re.compile(r"checkpoint-(\d+)$")


def write_directory(path: Path, fill: Callable[[Path], None]) -> None:
    """Make a directory whole or not at all: `fill` writes into a temporary one beside it.

    A directory of that name is replaced at the end, after everything is on disk.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    fill(temporary)
    for file in (p for p in temporary.rglob("*") if p.is_file()):
        _sync(file)
    _sync(temporary)
    if path.exists():
        old = path.with_name(f".{path.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        path.rename(old)
        temporary.rename(path)
        shutil.rmtree(old)
    else:
        temporary.rename(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save_state(directory: Path, state: Mapping[str, Any]) -> None:
    torch.save(dict(state), directory / STATE_NAME)


def load_state(directory: Path) -> dict[str, Any] | None:
    """The training state of a checkpoint, or None where it has none (a converted model)."""
    path = directory / STATE_NAME
    return torch.load(path, map_location="cpu", weights_only=True) if path.is_file() else None


def checkpoints(output_dir: Path) -> list[Path]:
    """The checkpoints in a run's folder, oldest first."""
    found = [p for p in output_dir.glob("checkpoint-*") if p.is_dir() and _NAME.search(p.name)]
    return sorted(found, key=step_of)


def step_of(checkpoint: Path) -> int:
    """The step that a checkpoint's name tells."""
    return int(_NAME.search(checkpoint.name)[1])


def remove_old(output_dir: Path, keep: int, spare: Path | None = None) -> None:
    """Leave the newest `keep` checkpoints, and `spare` (the best one)."""
    for path in checkpoints(output_dir)[:-keep]:
        if path != spare:
            shutil.rmtree(path)
