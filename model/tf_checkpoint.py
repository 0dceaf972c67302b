"""TensorFlow checkpoints without TensorFlow: both formats, memory-mapped and checked.

V2 ("bundle", tensorflow/core/util/tensor_bundle): `prefix.index` is a table from names to
BundleEntryProto, `prefix.data-00000-of-0000N` hold the numbers, each tensor with a checksum.
V1 (tensorflow/core/util/tensor_slice_writer): one file, see `model/tf_v1.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from model.crc32c import masked_crc32c
from model.tf_files import find_checkpoint, map_file
from model.tf_messages import BFLOAT16, DTYPES, Entry, read_entry, read_header
from model.tf_table import CheckpointError, read_table
from model.tf_v1 import V1Reader


class _Reader(Protocol):
    entries: dict[str, Entry]

    def read(self, name: str, entry: Entry, where: str) -> np.ndarray:
        """The (count,) numbers of a tensor, checked."""


class TensorFlowCheckpoint(Mapping[str, np.ndarray]):
    """The tensors of a checkpoint by name, each read and checked when it is asked for.

    path: a prefix, an `.index` or `.data-…` file, a V1 file, a folder (also TF-Hub's), or a
    `.tar.gz` of one. bfloat16 is given as float32, which holds it exactly; arrays are read-only.
    Raises FileNotFoundError, or `CheckpointError` for what is damaged or cut off, with the file
    and, where it is one tensor, its name.
    """

    def __init__(self, path: str | Path) -> None:
        self.files = find_checkpoint(Path(path))
        self.directories = self.files.directories
        reader = V1Reader if self.files.v1 else _Bundle
        self._reader: _Reader = reader(self.files.path, self.files.shown)
        self.entries = self._reader.entries

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self.entries[name]
        where = f"{self}, tensor {name}"
        if entry.sliced:
            raise CheckpointError(f"{where}: saved in slices (a partitioned variable), which ALBERT"
                                  " checkpoints are not; save it again without partitioner")
        if entry.dtype not in DTYPES:
            raise CheckpointError(f"{where}: of TensorFlow type {entry.dtype}, which is no number")
        array = self._reader.read(name, entry, where)
        if entry.dtype == BFLOAT16:
            array = (array.astype(np.uint32) << 16).view(np.float32)
        return array.reshape(entry.shape)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading it."""
        return self.entries[name].shape

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __str__(self) -> str:
        return self.files.shown


class _Bundle:
    """The V2 format. `shown` is what messages call the prefix."""

    def __init__(self, prefix: Path, shown: str) -> None:
        self.prefix, self.shown = prefix, shown
        index = f"{shown}.index"
        self.entries: dict[str, Entry] = {}
        self.shards = 0
        for key, value in read_table(index, map_file(Path(f"{prefix}.index"), index)):
            try:
                if key == b"":
                    self.shards = read_header(index, value)
                elif not key.startswith(b"\0"):  # not a slice of a tensor, which has its own entry
                    self.entries[key.decode("utf-8")] = read_entry(value)
            except (IndexError, UnicodeDecodeError) as error:
                raise CheckpointError(f"{index}: damaged entry {key!r} ({error})") from None
        if not 1 <= self.shards <= 99999:
            raise CheckpointError(f"{index}: the header names {self.shards} data files, expected 1 "
                                  "or more; not the index of a checkpoint?")
        self._data: dict[int, memoryview] = {}
        self._check_extents()

    def _check_extents(self) -> None:
        """What is listed must be there, before long work begins on the rest."""
        for name, entry in self.entries.items():
            if entry.sliced:  # its numbers lie under other keys
                continue
            where = f"{self.shown}, tensor {name}"
            data = self._shard(entry.shard, where)
            end = entry.offset + entry.size
            if end > len(data):
                raise CheckpointError(
                    f"{where}: ends at byte {end} of {self._shard_name(entry.shard)}, which has "
                    f"{len(data)}; a download that broke off, fetch it again")

    def read(self, name: str, entry: Entry, where: str) -> np.ndarray:
        dtype = DTYPES[entry.dtype]
        if entry.size != entry.count * dtype.itemsize:
            raise CheckpointError(f"{where}: {entry.size} bytes for {dtype} of shape {entry.shape}")
        raw = self._shard(entry.shard, where)[entry.offset:entry.offset + entry.size]
        if masked_crc32c(raw) != entry.checksum:
            raise CheckpointError(f"{where}: does not match its checksum; "
                                  f"{self._shard_name(entry.shard)} is damaged, fetch it again")
        return np.frombuffer(raw, dtype)

    def _shard_name(self, number: int) -> str:
        return f"{Path(self.shown).name}.data-{number:05}-of-{self.shards:05}"

    def _shard(self, number: int, where: str) -> memoryview:
        if number not in self._data:
            path = self.prefix.with_name(self._shard_name(number))
            if number >= self.shards or not path.is_file():
                there = sorted(p.name for p in path.parent.glob("*.data-*"))
                raise CheckpointError(f"{where}: needs {path.name}, which is not there (found: "
                                      f"{', '.join(there) or 'no data file'}); fetch it too")
            self._data[number] = map_file(path, f"{where}: {path.name}", may_be_empty=True)
        return self._data[number]
