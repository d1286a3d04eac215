"""Kafka's variable-length integers.

    value   → zigzag   0 → 0, -1 → 1, 1 → 2, -2 → 3, …
    zigzag  → base 128, least significant 7 bits first; the high bit of a byte says that another one follows

An int takes at most 5 bytes, a long at most 10; longer is an error. Encodings longer than needed (`80 00` for 0) are
legal to read. The last byte of a full-length encoding has room for more bits than the type: Kafka's reader drops them,
so does this one. Source: org.apache.kafka.common.utils.internals.ByteUtils.

Belongs here: these four functions. Reading anything that contains a varint does not.
"""

import mmap
from typing import TypeAlias

from logcore.errors import CorruptionReason, CorruptRecordError

Buffer: TypeAlias = bytes | bytearray | memoryview | mmap.mmap
"""Anything whose single items are ints and whose slices are bytes again."""

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


def read_varint(buf: Buffer, position: int, end: int) -> tuple[int, int]:
    """Read an int32 at `position`, not looking at or past `end`. Returns (value, position behind it).

    Raises CorruptRecordError: TRUNCATED if the bytes end first, VARINT if it is longer than 5 bytes.
    """
    return _read(buf, position, end, MAX_VARINT_BYTES, 0xFFFF_FFFF)


def read_varlong(buf: Buffer, position: int, end: int) -> tuple[int, int]:
    """Read an int64 at `position`, not looking at or past `end`. Returns (value, position behind it).

    Raises CorruptRecordError: TRUNCATED if the bytes end first, VARINT if it is longer than 10 bytes.
    """
    return _read(buf, position, end, MAX_VARLONG_BYTES, 0xFFFF_FFFF_FFFF_FFFF)


def write_varint(value: int) -> bytes:
    """The shortest encoding of an int32. ValueError if `value` is not one."""
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"{value} is not an int32")
    return _write(value)


def write_varlong(value: int) -> bytes:
    """The shortest encoding of an int64. ValueError if `value` is not one."""
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
