"""Checkpoints on disk: whole or not there, whenever the process dies."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch

from callback.checkpoint import (
    STATE_NAME,
    checkpoints,
    load_state,
    remove_old,
    remove_unfinished,
    save_state,
    step_of,
    write_directory,
)


class Crash(BaseException):
    """The process is gone: nothing after it runs."""


def fill(text: str):
    def write(folder: Path) -> None:
        (folder / "model").write_text(text)
        (folder / "sub").mkdir()
        (folder / "sub" / "file").write_text(text)
    return write


def content(folder: Path) -> str:
    model, nested = (folder / "model").read_text(), (folder / "sub" / "file").read_text()
    assert model == nested
    return model


def crash_at(monkeypatch: pytest.MonkeyPatch, number: int) -> list[str]:
    """Crash at the n-th call that changes the disk or waits for it; the calls before go through."""
    calls: list[str] = []

    def watched(name, original):
        def call(*arguments, **keywords):
            calls.append(name)
            if len(calls) == number:
                raise Crash
            return original(*arguments, **keywords)
        return call

    monkeypatch.setattr(os, "fsync", watched("fsync", os.fsync))
    monkeypatch.setattr(Path, "rename", watched("rename", Path.rename))
    monkeypatch.setattr(Path, "mkdir", watched("mkdir", Path.mkdir))
    monkeypatch.setattr(shutil, "rmtree", watched("rmtree", shutil.rmtree))
    return calls


@pytest.mark.parametrize("again", [False, True], ids=["new", "replaced"])
def test_a_crash_at_any_call_leaves_a_whole_checkpoint(tmp_path: Path, again: bool) -> None:
    """The last checkpoint is the new one or the one before, and each one listed is complete."""
    seen = set()
    for number in range(1, 40):
        folder = tmp_path / str(number)
        write_directory(folder / "checkpoint-5", fill("five"))
        if again:
            write_directory(folder / "checkpoint-10", fill("before"))
        with pytest.MonkeyPatch.context() as patch:
            calls = crash_at(patch, number)
            try:
                write_directory(folder / "checkpoint-10", fill("ten"))
            except Crash:
                pass
        found = [content(path) for path in checkpoints(folder)]
        assert found[0] == "five"
        assert found[1:] in ([["before"], ["ten"]] if again else [[], ["ten"]])
        seen.add(found[-1])
        remove_unfinished(folder)
        assert [content(path) for path in checkpoints(folder)] == found
        write_directory(folder / "checkpoint-10", fill("anew"))  # going on is possible
        assert content(checkpoints(folder)[-1]) == "anew"
        if len(calls) < number:
            break
    else:
        pytest.fail("never finished")
    assert seen == {"before" if again else "five", "ten"}


def test_everything_is_synced_before_it_gets_its_name(tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        assert synced[-1] == str(tmp_path) or not (tmp_path / "checkpoint-1").exists()

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc to tell what was synced")
    monkeypatch.setattr(os, "fsync", fsync)
    write_directory(tmp_path / "checkpoint-1", fill("x"))
    beside = tmp_path / ".checkpoint-1.tmp"
    assert set(synced) == {str(p) for p in (beside, beside / "model", beside / "sub",
                                            beside / "sub" / "file", tmp_path)}
    assert synced[-1] == str(tmp_path)


def test_a_failure_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def fails(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_directory(tmp_path / "checkpoint-1", fails)
    assert not list(tmp_path.iterdir())


def test_checkpoints_go_by_step_and_nothing_else_is_one(tmp_path: Path) -> None:
    for name in ("checkpoint-10", "checkpoint-9", "checkpoint-100", "checkpoint-best",
                 "checkpoint-7-copy", ".checkpoint-300.tmp", "old-checkpoint-4"):
        (tmp_path / name).mkdir()
    (tmp_path / "checkpoint-200").write_text("a file")
    found = checkpoints(tmp_path)
    assert [p.name for p in found] == ["checkpoint-9", "checkpoint-10", "checkpoint-100"]
    assert [step_of(p) for p in found] == [9, 10, 100]
    assert checkpoints(tmp_path / "nothing") == []


@pytest.mark.parametrize("keep, spare, left", [(2, None, [4, 5]), (1, 2, [2, 5]), (0, None, [5]),
                                               (9, None, [1, 2, 3, 4, 5])])
def test_old_ones_go_the_best_stays(tmp_path: Path, keep: int, spare: int | None,
                                    left: list[int]) -> None:
    for step in range(1, 6):
        write_directory(tmp_path / f"checkpoint-{step}", fill("x"))
    remove_old(tmp_path, keep, spare and tmp_path / f"checkpoint-{spare}")
    assert [step_of(p) for p in checkpoints(tmp_path)] == left
    assert len(list(tmp_path.iterdir())) == len(left)


def test_a_checkpoint_is_never_seen_half_removed(tmp_path: Path) -> None:
    for step in (1, 2):
        write_directory(tmp_path / f"checkpoint-{step}", fill("x"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda path: (path / "model").unlink())
        remove_old(tmp_path, 1)
    assert [p.name for p in checkpoints(tmp_path)] == ["checkpoint-2"]
    remove_unfinished(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint-2"]


def test_states_are_plain_and_damage_is_told(tmp_path: Path) -> None:
    assert load_state(tmp_path) is None
    state = {"step": 3, "weights": torch.arange(5.0), "name": "x", "none": None}
    save_state(tmp_path, state)
    found = load_state(tmp_path)
    assert torch.equal(found.pop("weights"), state.pop("weights")) and found == state
    file = tmp_path / STATE_NAME
    whole = file.read_bytes()
    for cut in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match=f"{STATE_NAME} cannot be read.*the one before it"):
            load_state(tmp_path)


class Runs:
    """A pickle that runs code when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_a_state_that_runs_code_is_refused(tmp_path: Path) -> None:
    torch.save({"state": Runs(tmp_path / "ran")}, tmp_path / STATE_NAME)
    with pytest.raises(ValueError, match="cannot be read"):
        load_state(tmp_path)
    assert not (tmp_path / "ran").exists()
