"""CRC-32C of v2 batches and CRC-32 of v0 and v1 messages, over bytes at a pointer.

With SSE 4.2 three CRC-32C streams run in parallel, because one instruction takes three cycles and can start every
cycle. Tables that represent "as many zero bytes after it" join their results. Without it, and for CRC-32, eight table
look-ups handle eight bytes.

`tables.checksum_tables` makes the tables: int64 numbers, 4 x 256 to join streams, and 8 x 256 for each CRC.
"""

import numba as nb

from logcore.columns.kernels.machine.functions import called, merged
from logcore.columns.kernels.machine.intrinsics import byte, crc32c_of_1, crc32c_of_8, load64

BLOCK = 256
"""Bytes of one stream of three: short, so that all three stay in the nearest cache."""

_SHIFT, _CASTAGNOLI, _IEEE = 0, 1024, 3072

_ALL = nb.uint64(0xFFFFFFFF)
_LOW = nb.uint64(0xFF)


@merged
def _shifted(tables, at, crc):
    return (
        nb.uint64(tables[at + nb.int64(crc & _LOW)])
        ^ nb.uint64(tables[at + 256 + nb.int64((crc >> nb.uint64(8)) & _LOW)])
        ^ nb.uint64(tables[at + 512 + nb.int64((crc >> nb.uint64(16)) & _LOW)])
        ^ nb.uint64(tables[at + 768 + nb.int64((crc >> nb.uint64(24)) & _LOW)])
    )


@merged
def _three_streams(source, position, crc, tables):
    second, third = nb.uint64(0), nb.uint64(0)
    end = position + BLOCK
    while position < end:
        crc = crc32c_of_8(crc, load64(source, position))
        second = crc32c_of_8(second, load64(source, position + BLOCK))
        third = crc32c_of_8(third, load64(source, position + 2 * BLOCK))
        position += 8
    crc = _shifted(tables, _SHIFT, crc) ^ second
    return _shifted(tables, _SHIFT, crc) ^ third


@called
def crc32c_by_instruction(source, position, end, tables):
    """CRC-32C of the bytes [position, end)."""
    crc = _ALL
    while end - position >= 3 * BLOCK:
        crc = _three_streams(source, position, crc, tables)
        position += 3 * BLOCK
    while end - position >= 8:
        crc = crc32c_of_8(crc, load64(source, position))
        position += 8
    while position < end:
        crc = crc32c_of_1(crc, byte(source, position))
        position += 1
    return nb.int64(crc ^ _ALL)


@merged
def _by_tables(source, position, end, tables, at):
    crc = _ALL
    while end - position >= 8:
        word = load64(source, position) ^ crc
        crc = nb.uint64(0)
        for lane in range(8):
            index = nb.int64((word >> nb.uint64(8 * lane)) & _LOW)
            crc ^= nb.uint64(tables[at + 256 * (7 - lane) + index])
        position += 8
    while position < end:
        crc = (crc >> nb.uint64(8)) ^ nb.uint64(tables[at + nb.int64((crc ^ byte(source, position)) & _LOW)])
        position += 1
    return nb.int64(crc ^ _ALL)


@called
def crc32c_by_tables(source, position, end, tables):
    """CRC-32C of the bytes [position, end), on processors without an instruction for it."""
    return _by_tables(source, position, end, tables, _CASTAGNOLI)


@called
def crc32(source, position, end, tables):
    """CRC-32 (IEEE) of the bytes [position, end)."""
    return _by_tables(source, position, end, tables, _IEEE)
