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
_NAME, _OLD = re.compile(r"checkpoint-\d+"), re.compile(r"\.checkpoint-\d+\.old")


def write_directory(path: Path, fill: Callable[[Path], None]) -> None:
    """Make a directory whole or not at all: `fill` writes into a temporary one beside it.

    A directory of that name is replaced at the end, after everything is on disk.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        fill(temporary)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    for file in (*temporary.rglob("*"), temporary):
        _sync(file)
    old = path.with_name(f".{path.name}.old")
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)
        path.rename(old)
    temporary.rename(path)
    _sync(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save_state(directory: Path, state: Mapping[str, Any]) -> None:
    torch.save(dict(state), directory / STATE_NAME)


def load_state(directory: Path) -> dict[str, Any] | None:
    """The training state of a checkpoint, or None where it has none (a converted model).

    Raises ValueError for a file that is damaged or holds more than plain values and tensors.
    """
    path = directory / STATE_NAME
    if not path.is_file():
        return None
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle may raise anything
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(
            f"{path} cannot be read ({reason}). A checkpoint is complete when it gets its name, so "
            "this one was damaged later or is not of this library: remove its folder to go on from "
            "the one before it") from error


def checkpoints(output_dir: Path) -> list[Path]:
    """The checkpoints in a run's folder, oldest first; each of them is complete.

    One that was being replaced when its process died is there under the name of the old one.
    """
    found: dict[int, Path] = {}
    for pattern, name in ((".checkpoint-*.old", _OLD), ("checkpoint-*", _NAME)):
        found |= {step_of(path): path for path in output_dir.glob(pattern)
                  if name.fullmatch(path.name) and path.is_dir()}
    return [found[step] for step in sorted(found)]


def step_of(checkpoint: Path) -> int:
    """The step that a checkpoint's name tells."""
    return int(checkpoint.name.split("-")[1].removesuffix(".old"))


def remove_old(output_dir: Path, keep: int, spare: Path | None = None) -> None:
    """Leave the newest `keep` checkpoints (at least one), and `spare` (the best one)."""
    for path in checkpoints(output_dir)[:-max(keep, 1)]:
        if path != spare:
            hidden = path.with_name(f".{path.name}.tmp")  # never seen half removed
            path.rename(hidden)
            shutil.rmtree(hidden)


def remove_unfinished(output_dir: Path) -> None:
    """Clear away what a killed process was still writing or removing."""
    for path in output_dir.glob(".checkpoint-*"):
        if path.name.endswith(".tmp") or path.with_name(path.name[1:-len(".old")]).exists():
            shutil.rmtree(path)
