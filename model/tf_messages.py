"""The protocol buffers in checkpoints: what an index says of a tensor.

From tensorflow/core/protobuf/tensor_bundle.proto and tensorflow/core/framework/{tensor_shape,
types}.proto. Every function raises IndexError for a message that cannot be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from model.tf_table import CheckpointError, read_fields, write_field, write_varint

MAX_DIMENSIONS = 8
MAX_COUNT = 2**40  # numbers in a tensor
BFLOAT16 = 14
DTYPES = {  # strings (7), quantised and complex numbers are no weights
    1: np.dtype("<f4"), 2: np.dtype("<f8"), 3: np.dtype("<i4"), 4: np.dtype("u1"),
    5: np.dtype("<i2"), 6: np.dtype("i1"), 9: np.dtype("<i8"), 10: np.dtype("?"),
    BFLOAT16: np.dtype("<u2"), 17: np.dtype("<u2"), 19: np.dtype("<f2"), 22: np.dtype("<u4"),
    23: np.dtype("<u8"),
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


def as_int(value: int | memoryview) -> int:
    if not isinstance(value, int):
        raise IndexError("a message where a number was expected")
    return value


def as_bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise IndexError("a number where a message was expected")
    return value


def read_header(index: str, value: memoryview) -> int:
    """BundleHeaderProto -> number of data files."""
    shards = 0
    for field, content in read_fields(value):
        if field == 1:
            shards = as_int(content)
        elif field == 2 and content != 0:
            raise CheckpointError(f"{index}: big-endian numbers, which are not supported")
    return shards


def read_entry(value: memoryview) -> Entry:
    """BundleEntryProto."""
    fields: dict[str, object] = {"dtype": 0, "shape": ()}
    names = {1: "dtype", 3: "shard", 4: "offset", 5: "size", 6: "checksum"}
    for field, content in read_fields(value):
        if field in names:
            fields[names[field]] = as_int(content)
        elif field == 2:
            fields["shape"] = read_shape(as_bytes(content))
        elif field == 7:
            fields["sliced"] = True
    return Entry(**fields)


def read_shape(value: memoryview) -> tuple[int, ...]:
    """TensorShapeProto."""
    shape = []
    for field, content in read_fields(value):
        if field == 2:
            size = 0
            for subfield, number in read_fields(as_bytes(content)):
                size = as_int(number) if subfield == 1 else size
            shape.append(size)
    if len(shape) > MAX_DIMENSIONS or any(size > MAX_COUNT for size in shape) \
            or math.prod(shape) > MAX_COUNT:
        raise IndexError(f"impossible shape {tuple(shape)}")
    return tuple(shape)


def write_header() -> bytes:
    """BundleHeaderProto of a checkpoint in one data file, of version 1."""
    return write_field(1, 1) + write_field(3, write_field(1, 1))


def write_entry(entry: Entry) -> bytes:
    """BundleEntryProto, its fields in the order in which protobuf writes them."""
    shape = b"".join(write_field(2, write_field(1, size)) for size in entry.shape)
    return (write_field(1, entry.dtype) + write_field(2, shape) + write_field(3, entry.shard)
            + write_field(4, entry.offset) + write_field(5, entry.size)
            + write_varint(6 << 3 | 5) + entry.checksum.to_bytes(4, "little"))
