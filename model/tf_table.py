"""LevelDB-style tables and the few protocol buffers that TensorFlow keeps in them.

A table is a file of sorted keys: data blocks, an index block, a footer (tensorflow/core/lib/io/
table_format.txt). Nothing in a file is trusted: every length is held against what is there, every
block against its checksum, and what does not fit raises `CheckpointError` with the file's name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from model.crc32c import masked_crc32c

MAGIC = 0xDB4775248B80FB57
FOOTER_SIZE = 48
BLOCK_TRAILER_SIZE = 5  # a byte for the compression, four for the checksum
BLOCK_SIZE = 262144  # of a data block, TensorFlow's default
RESTART_INTERVAL = 16  # keys of a data block between two that are written whole


class CheckpointError(ValueError):
    """A checkpoint that cannot be read; the message names the file and what is wrong with it."""


class DamagedBlock(CheckpointError):
    """A block that does not match its checksum; the keys in it lie in after < key <= up_to."""

    def __init__(self, message: str, after: bytes, up_to: bytes) -> None:
        super().__init__(message)
        self.after, self.up_to = after, up_to


# ---- protocol buffers ---------------------------------------------------------------------------


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """The number at a position, and the position after it. Raises IndexError past the end."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if value >= 1 << 64:
            raise IndexError("a number of more than 64 bits")
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise IndexError("a number of more than ten bytes")


def write_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Fields of a message as (number, value): an int, or the bytes of a nested one.

    Raises IndexError for a message that does not fit its own lengths.
    """
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind, number = key & 7, key >> 3
        if kind == 0:
            value, at = read_varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value = int.from_bytes(_slice(data, at, size), "little")
            at += size
        elif kind == 2:
            size, at = read_varint(data, at)
            value, at = _slice(data, at, size), at + size
        else:
            raise IndexError(f"field {number} is of the unknown kind {kind}")
        yield number, value


def write_field(number: int, value: int | bytes) -> bytes:
    """A varint or length-delimited field; a zero is left out, as proto3 does."""
    if isinstance(value, int):
        return write_varint(number << 3) + write_varint(value) if value else b""
    return write_varint(number << 3 | 2) + write_varint(len(value)) + value


def _slice(data: memoryview, at: int, size: int) -> memoryview:
    if size > len(data) - at:
        raise IndexError(f"{size} bytes wanted at {at}, {len(data) - at} are left")
    return data[at:at + size]


# ---- reading ------------------------------------------------------------------------------------


def read_table(where: str, data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """Keys and values of a whole table, in order; a block is checked before it is looked into.

    Raises `CheckpointError` with a message that begins with `where`.
    """
    try:
        if len(data) < FOOTER_SIZE:
            raise CheckpointError(f"{where}: {len(data)} bytes, too short for a TensorFlow table; "
                                  "a download that broke off?")
        footer = data[-FOOTER_SIZE:]
        magic, = struct.unpack("<Q", footer[-8:])
        if magic != MAGIC:
            raise CheckpointError(f"{where}: does not end like a TensorFlow table (magic {magic:#x}"
                                  f", expected {MAGIC:#x}); another kind of file, or a download "
                                  "that broke off")
        _, at = read_varint(footer, 0)  # where the metadata block is, which nobody uses
        _, at = read_varint(footer, at)
        offset, at = read_varint(footer, at)
        size, at = read_varint(footer, at)
        last = b""
        for up_to, handle in _read_block(where, data, offset, size, b"", b"\xff"):
            offset, at = read_varint(handle, 0)
            size, at = read_varint(handle, at)
            for key, value in _read_block(where, data, offset, size, last, up_to):
                last = key
                yield key, value
    except (IndexError, struct.error) as error:
        raise CheckpointError(f"{where}: damaged table ({error}); fetch the file again") from None


def _read_block(where: str, data: memoryview, offset: int, size: int, after: bytes, up_to: bytes,
                ) -> list[tuple[bytes, memoryview]]:
    whole = _slice(data, offset, size + BLOCK_TRAILER_SIZE)
    block, compression = whole[:size], whole[size]
    stored, = struct.unpack("<I", whole[size + 1:])
    if masked_crc32c(whole[:size + 1]) != stored:
        raise DamagedBlock(f"{where}: the block at byte {offset} does not match its checksum; "
                           "the file is damaged, fetch it again", after, up_to)
    if compression != 0:
        raise CheckpointError(f"{where}: the block at byte {offset} is compressed (kind "
                              f"{compression}), which TensorFlow does not do in checkpoints")
    restarts, = struct.unpack("<I", _slice(block, size - 4, 4))
    end = size - 4 - 4 * restarts
    if size < 4 or end < 0:
        raise IndexError(f"{restarts} restart points in a block of {size} bytes")
    entries, key, at = [], b"", 0
    while at < end:
        shared, at = read_varint(block, at)
        added, at = read_varint(block, at)
        length, at = read_varint(block, at)
        if shared > len(key) or added + length > end - at:
            raise IndexError(f"an entry at byte {at} of a block is longer than the block")
        key = key[:shared] + bytes(block[at:at + added])
        at += added
        entries.append((key, block[at:at + length]))
        at += length
    return entries


# ---- writing ------------------------------------------------------------------------------------


def write_table(entries: list[tuple[bytes, bytes]]) -> bytes:
    """A whole table of sorted entries, byte for byte as TensorFlow's table builder writes it."""
    out = bytearray()

    def add_block(block: bytes) -> bytes:
        handle = write_varint(len(out)) + write_varint(len(block))
        out.extend(block)
        out.append(0)  # not compressed
        out.extend(struct.pack("<I", masked_crc32c(block + b"\0")))
        return handle

    index: list[tuple[bytes, bytes]] = []
    builder, last = _BlockBuilder(RESTART_INTERVAL), b""
    pending: bytes | None = None  # a finished block, whose index key waits for the next key
    for key, value in entries:
        if pending is not None:
            index.append((_separator(last, key), pending))
            pending = None
        builder.add(key, value)
        last = key
        if builder.size() >= BLOCK_SIZE:
            pending = add_block(builder.finish())
            builder = _BlockBuilder(RESTART_INTERVAL)
    if not builder.empty():
        pending = add_block(builder.finish())
    metadata = add_block(_BlockBuilder(RESTART_INTERVAL).finish())
    if pending is not None:
        index.append((_successor(last), pending))
    builder = _BlockBuilder(1)
    for key, handle in index:
        builder.add(key, handle)
    handles = metadata + add_block(builder.finish())
    return bytes(out) + handles.ljust(FOOTER_SIZE - 8, b"\0") + struct.pack("<Q", MAGIC)


class _BlockBuilder:
    def __init__(self, restart_interval: int) -> None:
        self.interval, self.data = restart_interval, bytearray()
        self.restarts, self.since, self.last = [0], 0, b""

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self.since < self.interval:
            shared = _common_prefix(self.last, key)
        else:
            self.restarts.append(len(self.data))
            self.since = 0
        self.data += write_varint(shared) + write_varint(len(key) - shared)
        self.data += write_varint(len(value)) + key[shared:] + value
        self.last, self.since = key, self.since + 1

    def empty(self) -> bool:
        return not self.data

    def size(self) -> int:
        return len(self.data) + 4 * len(self.restarts) + 4

    def finish(self) -> bytes:
        restarts = struct.pack(f"<{len(self.restarts) + 1}I", *self.restarts, len(self.restarts))
        return bytes(self.data) + restarts


def _common_prefix(a: bytes, b: bytes) -> int:
    shared = 0
    while shared < min(len(a), len(b)) and a[shared] == b[shared]:
        shared += 1
    return shared


def _separator(low: bytes, high: bytes) -> bytes:
    """A short key k with low <= k < high (LevelDB's bytewise comparator)."""
    at = _common_prefix(low, high)
    if at < min(len(low), len(high)) and low[at] < 0xFF and low[at] + 1 < high[at]:
        return low[:at] + bytes([low[at] + 1])
    return low


def _successor(key: bytes) -> bytes:
    """A short key >= key."""
    for at, byte in enumerate(key):
        if byte != 0xFF:
            return key[:at] + bytes([byte + 1])
    return key
