"""Finding a TensorFlow checkpoint: in a folder, behind a prefix, in an archive."""

from __future__ import annotations

import logging
import lzma
import mmap
import re
import shutil
import tarfile
import tempfile
import weakref
import zlib
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from model.tf_table import MAGIC, CheckpointError

logger = logging.getLogger(__name__)

ARCHIVES = (".tar.gz", ".tgz", ".tar")
MAX_ARCHIVE_BYTES = 16 << 30  # unpacked; xxlarge with optimizer slots takes under 3 GiB
MAX_ARCHIVE_MEMBERS = 10000
UNUSED = re.compile(r"\.meta$|\.pb(txt)?$|\.tfevents\.")  # graphs and logs: left in the archive
DATA_SUFFIX = re.compile(r"\.data-\d{5}-of-\d{5}$")

UNPACKING_ERRORS = (tarfile.TarError, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError)


@dataclass(frozen=True)
class CheckpointFiles:
    """Where a checkpoint lies. Files unpacked from an archive go when this object goes."""

    path: Path  # the V1 file, or the prefix of the V2 files
    v1: bool
    directories: tuple[Path, ...]  # where its config and vocabulary may lie
    shown: str = ""  # what messages call it

    def __post_init__(self) -> None:
        object.__setattr__(self, "shown", self.shown or str(self.path))


def map_file(path: Path, where: str, may_be_empty: bool = False) -> memoryview:
    """A file in memory as it is looked at, not read ahead. Raises `CheckpointError` if empty."""
    with path.open("rb") as file:
        if file.seek(0, 2) == 0:
            if may_be_empty:  # the data of tensors without numbers
                return memoryview(b"")
            raise CheckpointError(f"{where}: the file is empty; fetch it again")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


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
    """Unpack the plain files of an archive that are needed into a folder, and look there.

    Raises `CheckpointError` for a member that points out of the archive, for more than any
    checkpoint has, and for a damaged archive; links and devices are passed over.
    """
    folder = Path(tempfile.mkdtemp(prefix="albert-"))
    try:
        _extract(archive, folder)
        found = _in_folder(folder)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        message = str(error).replace(str(folder), str(archive))
        if isinstance(error, FileNotFoundError | CheckpointError):
            raise CheckpointError(message) from None
        if isinstance(error, UNPACKING_ERRORS):
            raise CheckpointError(f"{archive}: cannot be unpacked ({message}); a download that "
                                  "broke off, fetch it again") from None
        raise
    shown = f"{archive}: {found.path.relative_to(folder)}"
    files = replace(found, shown=shown)
    weakref.finalize(files, shutil.rmtree, folder, ignore_errors=True)
    return files


def _extract(archive: Path, folder: Path) -> None:
    left = MAX_ARCHIVE_BYTES
    with tarfile.open(archive) as tar:
        for count, member in enumerate(tar):
            name = PurePosixPath(member.name)
            if name.is_absolute() or ".." in name.parts:
                raise CheckpointError(f"{archive}: its member {member.name!r} points out of the "
                                      "archive; refused")
            left -= member.size if member.isfile() else 0
            if left < 0 or count >= MAX_ARCHIVE_MEMBERS:
                raise CheckpointError(f"{archive}: more than {MAX_ARCHIVE_BYTES} bytes or "
                                      f"{MAX_ARCHIVE_MEMBERS} members; refused")
            if not member.isfile() or UNUSED.search(name.name):
                continue
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with tar.extractfile(member) as source, target.open("wb") as out:
                shutil.copyfileobj(source, out)
        while left > 0 and (rest := tar.fileobj.read(1 << 20)):  # gzip's checksum is at the end
            left -= len(rest)
