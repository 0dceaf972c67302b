"""CRC-32C (Castagnoli), the checksum of TensorFlow's files, in NumPy.

A CRC is linear over bits: the checksum of a long text is the sum (exclusive or) of its 32-bit
words, each multiplied by the power of x that belongs to its place. So words are taken N at a time:
lane j runs over the words j, j + N, j + 2N, …, and a step multiplies all N lanes by x^(32 N), which
is two look-ups in tables of 65,536 entries. The N lanes, read as a text of N words, have the same
checksum as the whole text.
"""

from __future__ import annotations

from functools import cache

import numpy as np

POLYNOMIAL = 0x82F63B78  # reversed bit order: bit 31 is x^0
LANES = (16384, 2048, 256)  # widths to fold by; the widest and its tables fit a core's cache
MASK_DELTA = 0xA282EAD8


def _byte_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_BYTES = _byte_table()


def _multiply(a: int, b: int) -> int:
    """Product of two residues modulo the polynomial."""
    product = 0
    while a:
        if a & 0x80000000:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ (POLYNOMIAL if b & 1 else 0)  # times x
    return product


@cache
def _shift_tables(lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """Tables that multiply the low and the high half of a residue by x^(32 lanes)."""
    factor, square, exponent = 0x80000000, 0x40000000, 32 * lanes  # 1 and x
    while exponent:
        if exponent & 1:
            factor = _multiply(factor, square)
        square = _multiply(square, square)
        exponent >>= 1
    tables = []
    for half in (0, 16):
        table = np.zeros(1, dtype=np.uint32)
        for bit in range(half, half + 16):  # double the table: the entries with this bit set
            table = np.concatenate([table, table ^ np.uint32(_multiply(1 << bit, factor))])
        tables.append(table)
    return tables[0], tables[1]


def _fold(words: np.ndarray, state: int) -> bytes:
    """(rows, lanes) words -> `lanes` words, as bytes, of the same checksum."""
    low, high = _shift_tables(words.shape[1])
    lanes = words[0].astype(np.uint32)
    lanes[0] ^= np.uint32(state)
    indices, halves = np.empty((2, lanes.size), np.intp), np.empty((2, lanes.size), np.uint32)
    for row in words[1:]:
        np.copyto(indices[0], lanes)
        np.right_shift(indices[0], 16, out=indices[1])
        np.bitwise_and(indices[0], 0xFFFF, out=indices[0])
        # mode "wrap": every index is in range, and "raise" would take a buffered, slower path
        np.take(low, indices[0], out=halves[0], mode="wrap")
        np.take(high, indices[1], out=halves[1], mode="wrap")
        np.bitwise_xor(halves[0], halves[1], out=lanes)
        np.bitwise_xor(lanes, row, out=lanes)
    return lanes.astype("<u4").tobytes()


def _update(state: int, data: memoryview) -> int:
    for lanes in LANES:
        rows = len(data) // (4 * lanes)
        if rows > 1:
            words = np.frombuffer(data, dtype="<u4", count=rows * lanes).reshape(rows, lanes)
            state = _update(0, memoryview(_fold(words, state)))
            data = data[4 * rows * lanes:]
    for byte in data.tobytes():
        state = state >> 8 ^ _BYTES[(state ^ byte) & 0xFF]
    return state


def crc32c(data: bytes | memoryview | np.ndarray) -> int:
    """The CRC-32C of bytes, or of the memory of a contiguous array."""
    view = memoryview(data)
    view = view.cast("B") if view.nbytes else memoryview(b"")
    return _update(0xFFFFFFFF, view) ^ 0xFFFFFFFF


def masked_crc32c(data: bytes | memoryview | np.ndarray) -> int:
    """The form that LevelDB and TensorFlow store: rotated and offset."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF
