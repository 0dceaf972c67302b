"""Finding a TensorFlow checkpoint: in a folder, behind a prefix, in an archive."""

from __future__ import annotations

import logging
import re
import shutil
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from model.tf_table import MAGIC, CheckpointError

logger = logging.getLogger(__name__)

ARCHIVES = (".tar.gz", ".tgz", ".tar")
MAX_ARCHIVE_BYTES = 16 << 30  # unpacked; xxlarge with optimizer slots takes under 3 GiB
DATA_SUFFIX = re.compile(r"\.data-\d{5}-of-\d{5}$")


@dataclass(frozen=True)
class CheckpointFiles:
    """Where a checkpoint lies."""

    path: Path  # the V1 file, or the prefix of the V2 files
    v1: bool
    directories: tuple[Path, ...]  # where its config and vocabulary may lie
    unpacked: tempfile.TemporaryDirectory | None = field(default=None, repr=False)


def find_checkpoint(path: Path) -> CheckpointFiles:
    """The checkpoint that a path means. Raises FileNotFoundError or `CheckpointError`.

    path: a prefix, an `.index` or `.data-…` file, a V1 file, a folder, a TF-Hub folder, or a
    `.tar.gz` of any of these.
    """
    if path.is_file() and path.name.endswith(ARCHIVES):
        return _unpack(path)
    if path.is_dir():
        return _in_folder(path)
    if path.is_file() and not path.name.endswith(".index") and not DATA_SUFFIX.search(path.name):
        if not is_table(path):
            raise CheckpointError(f"{path}: not a TensorFlow checkpoint; expected a prefix, an "
                                  ".index file, a V1 file, a folder or a .tar.gz")
        return CheckpointFiles(path, True, _directories(path))
    prefix = path.with_name(DATA_SUFFIX.sub("", path.name).removesuffix(".index"))
    if not prefix.with_name(prefix.name + ".index").is_file():
        there = sorted(p.name for p in path.parent.glob("*")) if path.parent.is_dir() else []
        raise FileNotFoundError(f"{path}: no such checkpoint, expected {prefix.name}.index; in "
                                f"{path.parent} there are: {', '.join(there[:20]) or 'nothing'}")
    return CheckpointFiles(prefix, False, _directories(prefix))


def is_table(path: Path) -> bool:
    """Whether a file ends like a TensorFlow table."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        return int.from_bytes(file.read(), "little") == MAGIC


def has_checkpoint(folder: Path) -> bool:
    """Whether there is a TensorFlow checkpoint in a folder."""
    return bool(_candidates(folder))


def _directories(path: Path) -> tuple[Path, ...]:
    folder = path.parent
    parent = folder.parent  # of TF-Hub's `variables`, which has `assets` beside it
    hub = (parent / "assets", parent) if folder.name == "variables" else ()
    return (folder, folder / "assets", *hub)


def _candidates(folder: Path) -> list[Path]:
    """V1 files and V2 prefixes in a folder or its `variables`, oldest first."""
    found = []
    for place in (folder, folder / "variables"):
        if place.is_dir():
            found += [p.with_name(p.name[:-len(".index")]) for p in place.glob("*.index")]
            found += [p for p in place.iterdir() if p.is_file() and is_table(p)
                      and p.suffix != ".index"]
    return sorted(found, key=_age)


def _age(path: Path) -> tuple[int, float]:
    """By the step in the name, then by the time of the file."""
    step = re.search(r"-(\d+)$", path.name)
    file = path if path.is_file() else path.with_name(path.name + ".index")
    return int(step[1]) if step else -1, file.stat().st_mtime


def _in_folder(folder: Path) -> CheckpointFiles:
    found = _candidates(folder)
    named = _named_by_checkpoint_file(folder, found)
    if named is None and not found:
        inside = [p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")]
        if len(inside) == 1:
            return _in_folder(inside[0])
        there = sorted(p.name for p in folder.iterdir())
        raise FileNotFoundError(f"{folder}: no TensorFlow checkpoint (an .index file, or a V1 "
                                f"file), found: {', '.join(there[:20]) or 'nothing'}")
    chosen = named or found[-1]
    if named is None and len(found) > 1:
        logger.warning("%s: several checkpoints (%s); taking the newest, %s", folder,
                       ", ".join(p.name for p in found), chosen.name)
    return CheckpointFiles(chosen, chosen.is_file(), _directories(chosen))


def _named_by_checkpoint_file(folder: Path, found: list[Path]) -> Path | None:
    """What the `checkpoint` file points at, or the file of that name beside it if it moved."""
    listing = folder / "checkpoint"
    if not listing.is_file():
        return None
    match = re.search(r'^model_checkpoint_path: "(.*)"', listing.read_text("utf-8", "replace"),
                      re.MULTILINE)
    if match is None:
        return None
    name = PurePosixPath(match[1].replace("\\", "/")).name
    for path in found:
        if path.name == name:
            return path
    logger.warning("%s names %s, which is not there", listing, match[1])
    return None


def _unpack(archive: Path) -> CheckpointFiles:
    """Unpack the plain files of an archive into a folder that goes with the result.

    Raises `CheckpointError` for a member that points out of the archive, and for more bytes than
    any checkpoint has; links and devices are passed over.
    """
    folder = tempfile.TemporaryDirectory(prefix="albert-")
    left = MAX_ARCHIVE_BYTES
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = PurePosixPath(member.name)
                if name.is_absolute() or ".." in name.parts:
                    raise CheckpointError(f"{archive}: its member {member.name!r} points out of "
                                          "the archive; refused")
                if not member.isfile():
                    continue
                left -= member.size
                if left < 0:
                    raise CheckpointError(f"{archive}: unpacks to more than {MAX_ARCHIVE_BYTES} "
                                          "bytes; refused")
                target = Path(folder.name, *name.parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                with tar.extractfile(member) as source, target.open("wb") as out:
                    shutil.copyfileobj(source, out)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise CheckpointError(f"{archive}: cannot be unpacked ({error}); a download that broke "
                              "off, fetch it again") from None
    found = _in_folder(Path(folder.name))
    return CheckpointFiles(found.path, found.v1, found.directories, folder)
