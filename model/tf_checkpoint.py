"""TensorFlow checkpoints without TensorFlow: both formats read, the current one written.

V2 ("bundle", tensorflow/core/util/tensor_bundle): `prefix.index` is a table from names to
BundleEntryProto, `prefix.data-00000-of-0000N` hold the numbers, each tensor with a checksum.
V1 (tensorflow/core/util/tensor_slice_writer): one file, a table from names to the tensors.
"""

from __future__ import annotations

import logging
import math
import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from model.crc32c import masked_crc32c
from model.tf_files import find_checkpoint
from model.tf_table import (
    CheckpointError,
    read_fields,
    read_table,
    read_varint,
    write_field,
    write_table,
    write_varint,
)

logger = logging.getLogger(__name__)

MAX_DIMENSIONS = 8
BFLOAT16 = 14
DTYPES = {  # tensorflow/core/framework/types.proto; strings (7) and the rest hold no weights
    1: np.dtype("<f4"), 2: np.dtype("<f8"), 3: np.dtype("<i4"), 4: np.dtype("u1"),
    5: np.dtype("<i2"), 6: np.dtype("i1"), 9: np.dtype("<i8"), 10: np.dtype("?"),
    BFLOAT16: np.dtype("<u2"), 19: np.dtype("<f2"), 22: np.dtype("<u4"), 23: np.dtype("<u8"),
}
DTYPE_NUMBERS = {dtype: number for number, dtype in DTYPES.items() if number != BFLOAT16}


@dataclass(frozen=True)
class Entry:
    """One tensor as an index describes it."""

    dtype: int
    shape: tuple[int, ...]
    shard: int = 0
    offset: int = 0
    size: int = 0  # bytes
    checksum: int = 0
    sliced: bool = False

    @property
    def count(self) -> int:
        return math.prod(self.shape)


class TensorFlowCheckpoint(Mapping[str, np.ndarray]):
    """The tensors of a checkpoint by name, each read and checked when it is asked for.

    path: a prefix, an `.index` or `.data-…` file, a V1 file, a folder (also TF-Hub's), or a
    `.tar.gz` of one. Raises FileNotFoundError, or `CheckpointError` for what is damaged, with the
    file and, where it is one tensor, its name.
    """

    def __init__(self, path: str | Path) -> None:
        self.files = find_checkpoint(Path(path))
        self.directories = self.files.directories
        self._reader = _V1(self.files.path) if self.files.v1 else _Bundle(self.files.path)
        self.entries: dict[str, Entry] = self._reader.entries

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self.entries[name]
        where = f"{self.files.path}, tensor {name}"
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
        return str(self.files.path)


class _Bundle:
    """The V2 format."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        index = prefix.with_name(prefix.name + ".index")
        self.entries: dict[str, Entry] = {}
        self.shards = 0
        for key, value in read_table(index, _map(index)):
            try:
                if key == b"":
                    self.shards = _read_header(index, value)
                else:
                    self.entries[key.decode("utf-8")] = _read_entry(value)
            except (IndexError, UnicodeDecodeError) as error:
                raise CheckpointError(f"{index}: damaged entry {key!r} ({error})") from None
        if not 1 <= self.shards <= 99999:
            raise CheckpointError(f"{index}: the header names {self.shards} data files, expected 1 "
                                  "or more; not the index of a checkpoint?")
        self._data: dict[int, memoryview] = {}

    def read(self, name: str, entry: Entry, where: str) -> np.ndarray:
        data, shard = self._shard(entry.shard, where)
        if entry.size != entry.count * DTYPES[entry.dtype].itemsize:
            raise CheckpointError(f"{where}: {entry.size} bytes for the shape {entry.shape}")
        if entry.offset + entry.size > len(data):
            raise CheckpointError(f"{where}: ends at byte {entry.offset + entry.size} of {shard}, "
                                  f"which has {len(data)}; a download that broke off, fetch it "
                                  "again")
        raw = data[entry.offset:entry.offset + entry.size]
        if masked_crc32c(raw) != entry.checksum:
            raise CheckpointError(f"{where}: does not match its checksum; {shard} is damaged, "
                                  "fetch it again")
        return np.frombuffer(raw, DTYPES[entry.dtype])

    def _shard(self, number: int, where: str) -> tuple[memoryview, Path]:
        path = self.prefix.with_name(f"{self.prefix.name}.data-{number:05}-of-{self.shards:05}")
        if number not in self._data:
            if number >= self.shards or not path.is_file():
                there = sorted(p.name for p in path.parent.glob(f"{self.prefix.name}.data-*"))
                raise CheckpointError(f"{where}: needs {path}, which is not there (found: "
                                      f"{', '.join(there) or 'no data file'}); fetch it too")
            self._data[number] = _map(path)
        return self._data[number], path


def _read_header(index: Path, value: memoryview) -> int:
    """BundleHeaderProto -> number of shards."""
    shards = 0
    for field, content in read_fields(value):
        if field == 1:
            shards = _int(content)
        elif field == 2 and content != 0:
            raise CheckpointError(f"{index}: big-endian numbers, which are not supported")
    return shards


def _read_entry(value: memoryview) -> Entry:
    """BundleEntryProto."""
    fields: dict[str, object] = {"dtype": 0, "shape": ()}
    names = {1: "dtype", 3: "shard", 4: "offset", 5: "size"}
    for field, content in read_fields(value):
        if field in names:
            fields[names[field]] = _int(content)
        elif field == 2:
            fields["shape"] = _read_shape(_bytes(content))
        elif field == 6:
            fields["checksum"] = _int(content)
        elif field == 7:
            fields["sliced"] = True
    return Entry(**fields)


def _read_shape(value: memoryview) -> tuple[int, ...]:
    """TensorShapeProto."""
    shape = []
    for field, content in read_fields(value):
        if field == 2:
            size = 0
            for subfield, number in read_fields(_bytes(content)):
                size = _int(number) if subfield == 1 else size
            shape.append(size)
    if len(shape) > MAX_DIMENSIONS or math.prod(shape) >= 2**40:
        raise IndexError(f"impossible shape {tuple(shape)}")
    return tuple(shape)


class _V1:
    """The format of TensorFlow before 2016: the tensors lie in the table itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: dict[str, Entry] = {}
        self._values: dict[str, memoryview] = {}
        for key, value in read_table(path, _map(path)):
            try:
                for field, content in read_fields(value):
                    if key == b"" and field == 1:
                        self._read_meta(_bytes(content))
                    elif key != b"" and field == 2:
                        self._read_slice(_bytes(content))
            except (IndexError, UnicodeDecodeError) as error:
                raise CheckpointError(f"{path}: damaged entry {key!r} ({error})") from None
        if not self.entries:
            raise CheckpointError(f"{path}: holds no tensor; not a V1 checkpoint?")

    def _read_meta(self, value: memoryview) -> None:
        """SavedTensorSliceMeta."""
        for field, content in read_fields(value):
            if field != 1:
                continue
            name, dtype, shape, slices = "", 0, (), 0
            for subfield, part in read_fields(_bytes(content)):
                if subfield == 1:
                    name = str(_bytes(part), "utf-8")
                elif subfield == 2:
                    shape = _read_shape(_bytes(part))
                elif subfield == 3:
                    dtype = _int(part)
                elif subfield == 4:
                    slices += 1
            self.entries[name] = Entry(dtype, shape, sliced=slices > 1)

    def _read_slice(self, value: memoryview) -> None:
        """SavedSlice."""
        name = ""
        for field, content in read_fields(value):
            if field == 1:
                name = str(_bytes(content), "utf-8")
            elif field == 3:
                self._values[name] = _bytes(content)

    # TensorProto keeps numbers in a field of their type: packed, fixed-width or varints.
    FIXED = {1: (5, np.dtype("<f4")), 2: (6, np.dtype("<f8"))}
    VARINT = {3: 7, 4: 7, 5: 7, 6: 7, 9: 10, 10: 11, BFLOAT16: 13, 19: 13, 22: 16, 23: 17}

    def read(self, name: str, entry: Entry, where: str) -> np.ndarray:
        if name not in self._values:
            raise CheckpointError(f"{where}: listed but not there; fetch the file again")
        try:
            array = self._numbers(name, entry)
        except IndexError as error:
            raise CheckpointError(f"{where}: damaged ({error}); fetch the file again") from None
        if array.size != entry.count:
            raise CheckpointError(f"{where}: {array.size} numbers for the shape {entry.shape}; "
                                  "fetch the file again")
        return array

    def _numbers(self, name: str, entry: Entry) -> np.ndarray:
        dtype = DTYPES[entry.dtype]
        if entry.dtype in self.FIXED:
            number, _ = self.FIXED[entry.dtype]
            raw = b"".join(_bytes(v) for f, v in read_fields(self._values[name]) if f == number)
            if len(raw) % dtype.itemsize:
                raise IndexError(f"{len(raw)} bytes of {dtype}")
            return np.frombuffer(raw, dtype)
        values: list[int] = []
        for field, content in read_fields(self._values[name]):
            if field != self.VARINT[entry.dtype]:
                continue
            if isinstance(content, int):
                values.append(content)
                continue
            at = 0
            while at < len(content):
                value, at = read_varint(content, at)
                values.append(value)
        if entry.dtype == 19:  # half precision travels as its bits
            return np.array(values, np.uint64).astype(np.uint16).view(dtype)
        return np.array(values, np.uint64).astype(dtype)


def _map(path: Path) -> memoryview:
    """A file in memory as it is looked at, not read ahead. Raises `CheckpointError` if empty."""
    with path.open("rb") as file:
        try:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError:
            raise CheckpointError(f"{path}: the file is empty; fetch it again") from None


def _int(value: int | memoryview) -> int:
    return value if isinstance(value, int) else int.from_bytes(value, "little")


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise IndexError("a number where a message was expected")
    return value


# ---- writing ------------------------------------------------------------------------------------


def write_tf_checkpoint(prefix: str | Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write a V2 checkpoint of one data file, and the `checkpoint` file that names it.

    The bytes are those that TensorFlow's own BundleWriter gives for the same tensors.
    Raises `CheckpointError` for a type that TensorFlow does not know.
    """
    prefix = Path(prefix)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    entries = [(b"", write_field(1, 1) + write_field(3, write_field(1, 1)))]  # 1 shard, version 1
    offset = 0
    with prefix.with_name(f"{prefix.name}.data-00000-of-00001").open("wb") as file:
        for name in sorted(tensors, key=str.encode):
            array = np.asarray(tensors[name])
            dtype = array.dtype.newbyteorder("<")
            if dtype not in DTYPE_NUMBERS:
                raise CheckpointError(f"tensor {name}: type {array.dtype} is not one that can be "
                                      f"written: {', '.join(map(str, DTYPE_NUMBERS))}")
            raw = np.ascontiguousarray(array, dtype).tobytes()
            shape = b"".join(write_field(2, write_field(1, size)) for size in array.shape)
            entries.append((name.encode(), write_field(1, DTYPE_NUMBERS[dtype])
                            + write_field(2, shape) + write_field(4, offset)
                            + write_field(5, len(raw)) + write_varint(6 << 3 | 5)
                            + masked_crc32c(raw).to_bytes(4, "little")))
            file.write(raw)
            offset += len(raw)
    prefix.with_name(f"{prefix.name}.index").write_bytes(write_table(entries))
    quoted = re.sub(r'(["\\])', r"\\\1", prefix.name)
    prefix.with_name("checkpoint").write_text(
        f'model_checkpoint_path: "{quoted}"\nall_model_checkpoint_paths: "{quoted}"\n',
        encoding="utf-8")
