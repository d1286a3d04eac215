"""Select the gzip members that a fast decoder may decode: those whose code tables zlib would accept too.

isal decodes gzip at twice zlib's speed, but accepts incomplete sets of codes that zlib refuses. Code tables are at the
beginning of a deflate block. Kafka's producers write a bare gzip header and a single block for batches of ordinary
size, so the tables can be checked before decompression. zlib decodes all other members.

This module reads the lengths of the codes and adds them up; it decompresses nothing. Source: RFC 1951, 3.2.7.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import batch_row
from logcore.columns.kernels import codec_numbers as codecs
from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.intrinsics import byte, load32, numbers, pointer, store8

_HEADER = 10
_TRAILER = 8
_LITERALS, _DISTANCES = 286, 30
_SYMBOLS, _WIDTHS = 320, 448
"""Places in the scratch space: lengths of up to 316 codes, then for each 7 bits a symbol, then how many it took."""


@inlined
def bits(source, at, end, position, count):
    """`count` bits (at most 16) from bit `position` of the bytes [at, end) on; -1 after their end."""
    place = at + (position >> 3)
    if end - place < 4:
        return nb.int64(-1)
    return (nb.int64(load32(source, place)) >> (position & 7)) & ((nb.int64(1) << count) - 1)


@inlined
def place_of(index):
    """The symbol whose length three bits give: 16 17 18 0 8 7 9 6 10 5 11 4 12 3 13 2 14 1 15."""
    if index < 3:
        return index + 16
    if index == 3:
        return nb.int64(0)
    low = index - 4
    return 8 + (low >> 1) if low & 1 == 0 else 7 - (low >> 1)


@called
def is_complete(scratch, first, end):
    """Whether the lengths of the symbols [first, end) make a complete set of codes, without unused codes."""
    left = nb.int64(1) << 15
    for index in range(first, end):
        length = nb.int64(byte(scratch, index))
        if length:
            left -= nb.int64(1) << (15 - length)
    return left == 0


@called
def fill_table(scratch):
    """The look-up table of a complete set of codes of at most 7 bits for 19 symbols."""
    code = nb.int64(0)
    for length in range(1, 8):
        for each in range(19):
            if nb.int64(byte(scratch, each)) != length:
                continue
            # Codes are packed from their most significant bit on, all other numbers from the least.
            turned = nb.int64(0)
            for bit in range(length):
                turned |= ((code >> bit) & 1) << (length - 1 - bit)
            step = nb.int64(1) << length
            while turned < 128:
                store8(scratch, _SYMBOLS + turned, each)
                store8(scratch, _WIDTHS + turned, length)
                turned += step
            code += 1
        code <<= 1


@called
def has_sound_tables(source, at, end, scratch):
    """Whether a bare gzip member of one deflate block with complete code tables fills the bytes [at, end)."""
    if end - at < _HEADER + _TRAILER + 8 or load32(source, at) != nb.uint64(0x00088B1F):
        return False
    at += _HEADER
    head = bits(source, at, end, 0, 3)
    if head != 5:  # the last block, with tables of its own
        return False
    literals, distances = bits(source, at, end, 3, 5) + 257, bits(source, at, end, 8, 5) + 1
    count = bits(source, at, end, 13, 4) + 4
    if literals > _LITERALS or distances > _DISTANCES:
        return False
    for index in range(19):
        store8(scratch, index, 0)
    position = nb.int64(17)
    for index in range(count):
        length = bits(source, at, end, position, 3)
        if length < 0:
            return False
        store8(scratch, place_of(nb.int64(index)), length)
        position += 3
    if not is_complete(scratch, 0, 19):
        return False
    fill_table(scratch)
    done, last = nb.int64(0), nb.int64(-1)
    while done < literals + distances:
        seen = bits(source, at, end, position, 14)
        if seen < 0:
            return False
        symbol, width = (
            nb.int64(byte(scratch, _SYMBOLS + (seen & 127))),
            nb.int64(byte(scratch, _WIDTHS + (seen & 127))),
        )
        seen >>= width
        position += width
        times, value = nb.int64(1), symbol
        if symbol == 16:
            times, value = 3 + (seen & 3), last
            position += 2
        elif symbol == 17:
            times, value = 3 + (seen & 7), nb.int64(0)
            position += 3
        elif symbol == 18:
            times, value = 11 + (seen & 127), nb.int64(0)
            position += 7
        if value < 0 or times > literals + distances - done:
            return False
        for _ in range(times):
            store8(scratch, done, value)
            done += 1
        last = value
    return (
        byte(scratch, 256) != nb.uint64(0)
        and is_complete(scratch, 0, literals)
        and is_complete(scratch, literals, literals + distances)
    )


def validate_gzip(frame):
    """Mark in the column SOUND which of the batches `first`..`end` of the table a fast decoder may decode."""
    source, scratch = pointer(frame.source), pointer(frame.target)
    table = numbers(frame.table)
    for batch in range(frame.first, frame.end):
        row = batch * batch_row.WIDTH
        at, end = table[row + batch_row.BODY], table[row + batch_row.BODY_END]
        if table[row + batch_row.MAGIC] < 2:
            at += 8
        is_read = table[row + batch_row.BODY] != batch_row.UNWANTED
        codec = table[row + batch_row.ATTRIBUTES] & codecs.MASK
        sound = is_read and codec == codecs.GZIP and has_sound_tables(source, at, end, scratch)
        table[row + batch_row.SOUND] = 1 if sound else 0
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"validate_gzip": validate_gzip}
