"""Kafka's variable-length integers.

    value   → zigzag   0 → 0, -1 → 1, 1 → 2, -2 → 3, …
    zigzag  → base 128, least significant 7 bits first; the high bit of a byte says that another one follows

An int takes at most 5 bytes, a long at most 10; longer is an error. Encodings longer than needed (`80 00` for 0) are
valid. The last byte of a full-length encoding has more bits than the type needs. Kafka's reader ignores the extra bits,
and so does this one. Source: org.apache.kafka.common.utils.internals.ByteUtils.

Belongs here: these four functions. Reading a structure that contains a varint does not.
"""

import mmap
from typing import TypeAlias

from logcore.errors import CorruptionReason, CorruptRecordError

Buffer: TypeAlias = bytes | bytearray | memoryview | mmap.mmap
"""A sequence whose items are ints and whose slices are bytes."""

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


def read_varint(buf: Buffer, position: int, end: int) -> tuple[int, int]:
    """Read an int32 at `position`. No byte at or after `end` is read.

    Returns:
        The value, and the position after it.

    Raises:
        CorruptRecordError: TRUNCATED if the bytes end first, VARINT if it is longer than 5 bytes.
    """
    return _read(buf, position, end, MAX_VARINT_BYTES, 0xFFFF_FFFF)


def read_varlong(buf: Buffer, position: int, end: int) -> tuple[int, int]:
    """Read an int64 at `position`. No byte at or after `end` is read.

    Returns:
        The value, and the position after it.

    Raises:
        CorruptRecordError: TRUNCATED if the bytes end first, VARINT if it is longer than 10 bytes.
    """
    return _read(buf, position, end, MAX_VARLONG_BYTES, 0xFFFF_FFFF_FFFF_FFFF)


def write_varint(value: int) -> bytes:
    """Write an int32 in its shortest encoding.

    Raises:
        ValueError: `value` is not an int32.
    """
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"{value} is not an int32")
    return _write(value)


def write_varlong(value: int) -> bytes:
    """Write an int64 in its shortest encoding.

    Raises:
        ValueError: `value` is not an int64.
    """
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} is not an int64")
    return _write(value)


def _read(buf: Buffer, position: int, end: int, longest: int, mask: int) -> tuple[int, int]:
    raw = 0
    for index in range(longest):
        if position + index >= end:
            raise CorruptRecordError(CorruptionReason.TRUNCATED, "the bytes end inside a variable-length integer")
        byte = buf[position + index]
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            raw &= mask
            return (raw >> 1) ^ -(raw & 1), position + index + 1
    raise CorruptRecordError(CorruptionReason.VARINT, f"a variable-length integer of more than {longest} bytes")


def _write(value: int) -> bytes:
    raw = value << 1 if value >= 0 else (~value << 1) | 1
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)
