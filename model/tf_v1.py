"""The checkpoint format of TensorFlow before 2017: one table that holds the tensors themselves.

The first value (key "") is a SavedTensorSliceMeta, the list of tensors; each other value a
SavedSlice with a TensorProto (tensorflow/core/util/saved_tensor_slice.proto). The key is the name
in a form that sorts: a zero byte, the name, 0x00 0x01, then what part of the tensor it is. There is
no checksum for a tensor, only for a block of the table, so all blocks are checked on opening.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from model.tf_files import map_file
from model.tf_messages import BFLOAT16, DTYPES, Entry, as_bytes, as_int, read_shape
from model.tf_table import CheckpointError, DamagedBlock, read_fields, read_table, read_varint

HALF, BOOL = 19, 10
FIXED = {1: 5, 2: 6}  # type -> field of TensorProto with its numbers, packed
VARINTS = {3: 7, 4: 7, 5: 7, 6: 7, 17: 7, 9: 10, BOOL: 11, BFLOAT16: 13, HALF: 13, 22: 16, 23: 17}


class V1Reader:
    """The tensors of a V1 file; `shown` is what messages call it."""

    def __init__(self, path: Path, shown: str) -> None:
        self.entries: dict[str, Entry] = {}
        self._values: dict[str, memoryview] = {}
        try:
            self._read(shown, map_file(path, shown))
        except DamagedBlock as error:
            names = [name for name in self.entries
                     if error.after < b"\0" + name.encode() + b"\0\1" <= error.up_to]
            listing = ", ".join(names[:4]) + (", …" if names[4:] else "")
            raise CheckpointError(f"{error} (tensors: {listing or 'unknown'})") from None
        if not self.entries:
            raise CheckpointError(f"{shown}: holds no tensor; not a V1 checkpoint?")

    def _read(self, shown: str, data: memoryview) -> None:
        for key, value in read_table(shown, data):
            try:
                for field, content in read_fields(value):
                    if key == b"" and field == 1:
                        self._read_meta(as_bytes(content))
                    elif key != b"" and field == 2:
                        self._read_slice(as_bytes(content))
            except (IndexError, UnicodeDecodeError) as error:
                raise CheckpointError(f"{shown}: damaged entry {key!r} ({error})") from None

    def _read_meta(self, value: memoryview) -> None:
        """SavedTensorSliceMeta."""
        for field, content in read_fields(value):
            if field != 1:
                continue
            name, dtype, shape, slices = "", 0, (), 0
            for subfield, part in read_fields(as_bytes(content)):
                if subfield == 1:
                    name = str(as_bytes(part), "utf-8")
                elif subfield == 2:
                    shape = read_shape(as_bytes(part))
                elif subfield == 3:
                    dtype = as_int(part)
                elif subfield == 4:
                    slices += 1
            self.entries[name] = Entry(dtype, shape, sliced=slices > 1)

    def _read_slice(self, value: memoryview) -> None:
        """SavedSlice."""
        name = ""
        for field, content in read_fields(value):
            if field == 1:
                name = str(as_bytes(content), "utf-8")
            elif field == 3:
                self._values[name] = as_bytes(content)

    def read(self, name: str, entry: Entry, where: str) -> np.ndarray:
        """The (count,) numbers of a tensor."""
        if name not in self._values:
            raise CheckpointError(f"{where}: listed but not there; fetch the file again")
        try:
            array = _numbers(self._values[name], entry.dtype)
        except IndexError as error:
            raise CheckpointError(f"{where}: damaged ({error}); fetch the file again") from None
        if array.size != entry.count:
            raise CheckpointError(f"{where}: {array.size} numbers for the shape {entry.shape}; "
                                  "fetch the file again")
        return array


def _numbers(value: memoryview, number: int) -> np.ndarray:
    """TensorProto -> its numbers, which lie in a field of their type."""
    dtype = DTYPES[number]
    fields = [content for field, content in read_fields(value)
              if field == FIXED.get(number, VARINTS.get(number))]
    if number in FIXED:
        raw = b"".join(map(as_bytes, fields))
        if len(raw) % dtype.itemsize:
            raise IndexError(f"{len(raw)} bytes of {dtype}")
        return np.frombuffer(raw, dtype)
    values: list[int] = []
    for content in fields:
        if isinstance(content, int):
            values.append(content)
            continue
        at = 0
        while at < len(content):
            one, at = read_varint(content, at)
            values.append(one)
    wide = np.array(values, np.uint64)
    return wide.astype(np.uint16).view(dtype) if number == HALF else wide.astype(dtype)
