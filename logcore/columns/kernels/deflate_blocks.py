"""One deflate block from its symbols: with its own codes, with the fixed ones or stored, whichever zlib would take.

A symbol is a uint32: a literal's byte, or a match

    bits 0-7    length minus 3          bits 24-28  the code of the distance
    bits 8-22   distance minus 1        bit 31      set

Bits wait in `numbers` until eight are whole. What is written is 8 bytes a time, of which only the first few may count:
WASTE bytes of room behind the end are needed. Source: RFC 1951, 3.2.3 to 3.2.7; zlib's trees.c for the choice.
"""

import numba as nb

from logcore.columns.kernels.deflate import place_of
from logcore.columns.kernels.deflate_slots import (
    CODES,
    DISTANCES,
    ENTRIES,
    FREQUENCIES,
    LENGTHS,
    LITERALS,
    MATCHES,
    RUNS,
    WAITING,
    WAITING_COUNT,
    WASTE,
    WIDTHS,
)
from logcore.columns.kernels.huffman import build, codes, count_widths
from logcore.columns.kernels.intrinsics import copy, load32, stored64
from logcore.columns.kernels.zero_bits import leading_zeros

LITERAL_CODES, DISTANCE_CODES, LENGTH_CODES = 286, 30, 19
_MATCH = 1 << 31
_BLOCK_END = 256
_CODE_BITS = 32
_CODE = (1 << _CODE_BITS) - 1
_STORED, _FIXED, _DYNAMIC = 0, 1, 2
_MOST_STORED = 65_535


@nb.njit(inline="always")
def distance_code(distance):
    """The code of a distance minus 1."""
    if distance < 2:
        return distance
    high = 63 - leading_zeros(distance)
    return 2 * high + ((distance >> (high - 1)) & 1)


@nb.njit
def _length_code(length):
    """The code of a length minus 3, and how many bits stand behind it."""
    if length < 8:
        return 257 + length, nb.int64(0)
    if length == 255:
        return nb.int64(285), nb.int64(0)
    extra = 61 - leading_zeros(length)
    return 257 + 4 * (extra + 1) + ((length >> extra) & 3), extra


@nb.njit
def reset_counts(numbers):
    """Make ready for the next block."""
    for symbol in range(LENGTHS + LENGTH_CODES):
        numbers[FREQUENCIES + symbol] = 0
    for length in range(256):
        numbers[MATCHES + length] = 0
    numbers[FREQUENCIES + LITERALS + _BLOCK_END] = 1


@nb.njit
def _put(numbers, target, at, value, count):
    """Append up to 48 bits; where they end."""
    waiting = numbers[WAITING] | (value << numbers[WAITING_COUNT])
    count += numbers[WAITING_COUNT]
    stored64(target, at, nb.uint64(waiting))
    numbers[WAITING] = waiting >> (count & ~7)
    numbers[WAITING_COUNT] = count & 7
    return at + (count >> 3)


@nb.njit
def aligned(numbers, target, at):
    """Fill up the last byte; where it ends."""
    return _put(numbers, target, at, nb.int64(0), -numbers[WAITING_COUNT] & 7)


@nb.njit
def _runs(numbers, alphabet, highest, count):
    """Append the widths of an alphabet as runs, and count the symbols that say so; how many runs there are then."""
    last, at = nb.int64(-1), nb.int64(0)
    while at <= highest:
        width = numbers[WIDTHS + alphabet + at]
        most = nb.int64(138 if width == 0 else (6 if width == last else 7))
        least = nb.int64(3 if width == 0 or width == last else 4)
        end = at + 1
        while end <= highest and end - at < most and numbers[WIDTHS + alphabet + end] == width:
            end += 1
        size = end - at
        if size < least:
            for _ in range(size):
                numbers[RUNS + count] = width
                count += 1
            numbers[FREQUENCIES + LENGTHS + width] += size
        else:
            if width:
                if width != last:
                    numbers[RUNS + count] = width
                    count += 1
                    numbers[FREQUENCIES + LENGTHS + width] += 1
                    size -= 1
                symbol, behind = nb.int64(16), size - 3
            elif size <= 10:
                symbol, behind = nb.int64(17), size - 3
            else:
                symbol, behind = nb.int64(18), size - 11
            numbers[RUNS + count] = symbol | (behind << 8)
            count += 1
            numbers[FREQUENCIES + LENGTHS + symbol] += 1
        last = width
        at = end
    return count


@nb.njit
def _extra_of_run(symbol):
    """How many bits stand behind a symbol of a code length."""
    if symbol < 16:
        return nb.int64(0)
    return nb.int64(7) if symbol == 18 else symbol - 14


@nb.njit
def _put_tables(numbers, target, at, literals, distances, lengths, runs):
    at = _put(numbers, target, at, literals - 257, nb.int64(5))
    at = _put(numbers, target, at, distances - 1, nb.int64(5))
    at = _put(numbers, target, at, lengths - 4, nb.int64(4))
    for index in range(lengths):
        at = _put(numbers, target, at, numbers[WIDTHS + LENGTHS + place_of(nb.int64(index))], nb.int64(3))
    for index in range(runs):
        symbol, behind = numbers[RUNS + index] & 255, numbers[RUNS + index] >> 8
        width = numbers[WIDTHS + LENGTHS + symbol]
        value = numbers[CODES + LENGTHS + symbol] | (behind << width)
        at = _put(numbers, target, at, value, width + _extra_of_run(symbol))
    return at


@nb.njit
def _put_symbols(numbers, symbols, count, target, at):
    """The symbols of the block and its end, by the codes there are."""
    for length in range(256):
        if numbers[MATCHES + length]:
            symbol, extra = _length_code(nb.int64(length))
            width = numbers[WIDTHS + LITERALS + symbol]
            behind = length & ((nb.int64(1) << extra) - 1)
            entry = numbers[CODES + LITERALS + symbol] | (behind << width)
            numbers[ENTRIES + length] = entry | ((width + extra) << _CODE_BITS)
    waiting, waiting_count = nb.uint64(numbers[WAITING]), numbers[WAITING_COUNT]
    for index in range(count):
        symbol = nb.int64(load32(symbols, 4 * index))
        if symbol < _MATCH:
            value, width = numbers[CODES + LITERALS + symbol], numbers[WIDTHS + LITERALS + symbol]
        else:
            entry = numbers[ENTRIES + (symbol & 255)]
            value, width = entry & _CODE, entry >> _CODE_BITS
            code = (symbol >> 24) & 31
            value |= numbers[CODES + DISTANCES + code] << width
            width += numbers[WIDTHS + DISTANCES + code]
            extra = max(0, (code >> 1) - 1)
            value |= ((symbol >> 8) & ((nb.int64(1) << extra) - 1)) << width
            width += extra
        waiting |= nb.uint64(value) << nb.uint64(waiting_count)
        waiting_count += width
        stored64(target, at, waiting)
        at += waiting_count >> 3
        waiting >>= nb.uint64(waiting_count & ~7)
        waiting_count &= 7
    numbers[WAITING], numbers[WAITING_COUNT] = nb.int64(waiting), waiting_count
    value, width = numbers[CODES + LITERALS + _BLOCK_END], numbers[WIDTHS + LITERALS + _BLOCK_END]
    return _put(numbers, target, at, value, width)


@nb.njit
def _count_lengths(numbers):
    """Add the codes of the matches' lengths to the literals; how many bits stand behind all codes."""
    behind = nb.int64(0)
    for length in range(256):
        seen = numbers[MATCHES + length]
        if seen:
            symbol, extra = _length_code(nb.int64(length))
            numbers[FREQUENCIES + LITERALS + symbol] += seen
            behind += seen * extra
    for code in range(4, DISTANCE_CODES):
        behind += numbers[FREQUENCIES + DISTANCES + code] * ((code >> 1) - 1)
    return behind


@nb.njit
def _fixed_width(symbol):
    if symbol < 144:
        return nb.int64(8)
    if symbol < 256:
        return nb.int64(9)
    return nb.int64(7 if symbol < 280 else 8)


@nb.njit
def _fix_codes(numbers):
    """Put the fixed codes in place of those that were made."""
    for symbol in range(288):
        numbers[WIDTHS + LITERALS + symbol] = _fixed_width(symbol)
    count_widths(numbers, nb.int64(LITERALS), nb.int64(288))
    codes(numbers, nb.int64(LITERALS), nb.int64(287))
    for symbol in range(DISTANCE_CODES):
        numbers[WIDTHS + DISTANCES + symbol] = 5
    count_widths(numbers, nb.int64(DISTANCES), nb.int64(DISTANCE_CODES))
    codes(numbers, nb.int64(DISTANCES), nb.int64(DISTANCE_CODES - 1))


@nb.njit
def write_block(numbers, symbols, count, source, start, end, is_last, target, at, room):
    """Write the block of `count` symbols that stand for the bytes [start, end) of the source; where it ends, -1 where
    it and WASTE bytes would go beyond `room`, a place in the target. A start below 0: the block may not be stored."""
    behind = _count_lengths(numbers)
    fixed = behind
    for symbol in range(LITERAL_CODES):
        fixed += numbers[FREQUENCIES + LITERALS + symbol] * _fixed_width(symbol)
    for symbol in range(DISTANCE_CODES):
        fixed += numbers[FREQUENCIES + DISTANCES + symbol] * 5
    literals = build(numbers, nb.int64(LITERALS), nb.int64(LITERAL_CODES), nb.int64(15)) + 1
    distances = build(numbers, nb.int64(DISTANCES), nb.int64(DISTANCE_CODES), nb.int64(15)) + 1
    runs = _runs(numbers, nb.int64(LITERALS), literals - 1, nb.int64(0))
    runs = _runs(numbers, nb.int64(DISTANCES), distances - 1, runs)
    build(numbers, nb.int64(LENGTHS), nb.int64(LENGTH_CODES), nb.int64(7))
    lengths = nb.int64(LENGTH_CODES)
    while lengths > 4 and numbers[WIDTHS + LENGTHS + place_of(lengths - 1)] == 0:
        lengths -= 1
    own = behind + 3 * lengths + 14
    for symbol in range(LENGTHS + LENGTH_CODES):
        own += numbers[FREQUENCIES + symbol] * numbers[WIDTHS + symbol]
    for symbol in range(16, LENGTH_CODES):
        own += numbers[FREQUENCIES + LENGTHS + symbol] * _extra_of_run(symbol)
    own, fixed = (own + 10) >> 3, (fixed + 10) >> 3
    size = end - start
    last = nb.int64(1 if is_last else 0)
    if start >= 0 and size + 4 <= min(own, fixed):
        if at + size + 6 + WASTE > room or size > _MOST_STORED:
            return nb.int64(-1)
        at = _put(numbers, target, at, (_STORED << 1) | last, nb.int64(3))
        at = aligned(numbers, target, at)
        at = _put(numbers, target, at, size | ((size ^ 0xFFFF) << 16), nb.int64(32))
        copy(target, at, source, start, size)
        return at + size
    if at + min(own, fixed) + 2 + WASTE > room:
        return nb.int64(-1)
    if fixed <= own:
        at = _put(numbers, target, at, nb.int64((_FIXED << 1) | last), nb.int64(3))
        _fix_codes(numbers)
    else:
        at = _put(numbers, target, at, nb.int64((_DYNAMIC << 1) | last), nb.int64(3))
        at = _put_tables(numbers, target, at, literals, distances, lengths, runs)
    at = _put_symbols(numbers, symbols, count, target, at)
    return aligned(numbers, target, at) if is_last else at
