"""What lines of all forms are made of: fragments, numbers, base64, JSON strings.

Functions write at a position and return the position after what they wrote. The caller has checked that there is room.
"""

import numba as nb

from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.intrinsics import byte, copy, copy2, copy32, store8

FRAGMENT = 64
"""Distance of fragments in bytes; each is shorter than that."""
LINE_BYTES = 256
"""Most bytes of a line without prefix, key, value and headers: fragments, and three numbers of at most 20 digits."""


@inlined
def fragment(target, at, source, size):
    """Copy a fragment; at least 64 bytes may be read from its beginning on and written from `at` on."""
    if size <= 64:
        copy32(target, at, source, 0)
        copy32(target, at + 32, source, 32)
    else:
        copy(target, at, source, 0, size)
    return at + size


@inlined
def digits_of(value):
    """The number of decimal digits of a number that is not negative."""
    count = nb.int64(1)
    while value >= nb.uint64(10):
        if value < nb.uint64(100):
            return count + 1
        if value < nb.uint64(1000):
            return count + 2
        if value < nb.uint64(10000):
            return count + 3
        value //= nb.uint64(10000)
        count += 4
    return count


@inlined
def number(target, at, value, pairs):
    """Write an int64 in decimal. `pairs`: the hundred pairs of digits, two bytes each."""
    left = nb.uint64(value)
    if value < 0:
        store8(target, at, 45)
        at += 1
        left = nb.uint64(0) - left
    end = at + digits_of(left)
    place = end
    while left >= nb.uint64(100):
        pair = nb.int64(left % nb.uint64(100)) * 2
        left //= nb.uint64(100)
        place -= 2
        copy2(target, place, pairs, pair)
    if left >= nb.uint64(10):
        pair = nb.int64(left) * 2
        copy2(target, place - 2, pairs, pair)
    else:
        store8(target, place - 1, 48 + nb.int64(left))
    return end


@inlined
def base64(target, at, source, start, size, couples):
    """Write standard base64. `couples`: for each 12 bits their two characters, two bytes each."""
    end = start + size
    while end - start >= 3:
        bits = nb.int64(byte(source, start)) << 16 | nb.int64(byte(source, start + 1)) << 8
        bits |= nb.int64(byte(source, start + 2))
        copy2(target, at, couples, (bits >> 12) * 2)
        copy2(target, at + 2, couples, (bits & 4095) * 2)
        start += 3
        at += 4
    if end - start == 2:
        bits = nb.int64(byte(source, start)) << 16 | nb.int64(byte(source, start + 1)) << 8
        copy2(target, at, couples, (bits >> 12) * 2)
        store8(target, at + 2, nb.int64(byte(couples, (bits & 4095) * 2)))
        store8(target, at + 3, 61)
        at += 4
    elif end - start == 1:
        bits = nb.int64(byte(source, start)) << 4
        copy2(target, at, couples, bits * 2)
        store8(target, at + 2, 61)
        store8(target, at + 3, 61)
        at += 4
    return at


@inlined
def quoted_base64(target, at, source, start, size, couples):
    """Write standard base64 between quotes."""
    store8(target, at, 34)
    at = base64(target, at + 1, source, start, size, couples)
    store8(target, at, 34)
    return at + 1


@inlined
def null(target, at):
    """Write the word null."""
    store8(target, at, 110)
    store8(target, at + 1, 117)
    store8(target, at + 2, 108)
    store8(target, at + 3, 108)
    return at + 4


@called
def control_character(target, at, char):
    """Write a character below 65,536 as JSON escapes it."""
    short = nb.int64(0)
    if char == 8:
        short = 98
    elif char == 9:
        short = 116
    elif char == 10:
        short = 110
    elif char == 12:
        short = 102
    elif char == 13:
        short = 114
    store8(target, at, 92)
    if short:
        store8(target, at + 1, short)
        return at + 2
    store8(target, at + 1, 117)
    for digit in range(4):
        low = (char >> (12 - 4 * digit)) & 15
        store8(target, at + 2 + digit, low + (48 if low < 10 else 87))
    return at + 6


@called
def obeyed(source, index):
    """The character of two or three bytes at a place if a terminal obeys it, as `logcore.texts` lists them; else 0."""
    first, second = nb.int64(byte(source, index)), nb.int64(byte(source, index + 1))
    if first < 0xE0:
        point = (first & 31) << 6 | (second & 63)
        return point if point < 0xA0 or point == 0x061C else nb.int64(0)
    point = (first & 15) << 12 | (second & 63) << 6 | (nb.int64(byte(source, index + 2)) & 63)
    if 0x200B <= point <= 0x200F or 0x2028 <= point <= 0x202E or 0x2060 <= point <= 0x206F or point == 0xFEFF:
        return point
    return nb.int64(0)


@called
def text(target, at, source, start, size):
    """Write well-formed UTF-8 as a JSON string; quotes, backslashes and what a terminal obeys are escaped."""
    store8(target, at, 34)
    at += 1
    index, end = start, start + size
    while index < end:
        char = nb.int64(byte(source, index))
        if char == 34 or char == 92:
            store8(target, at, 92)
            store8(target, at + 1, char)
            at += 2
        elif char < 32 or char == 127:
            at = control_character(target, at, char)
        else:
            point = nb.int64(0)
            if char == 0xC2 or char == 0xD8 or char == 0xE2 or char == 0xEF:
                point = obeyed(source, index)
            if point:
                at = control_character(target, at, point)
                index += 1 if point < 0x800 else 2
            else:
                store8(target, at, char)
                at += 1
        index += 1
    store8(target, at, 34)
    return at + 1


@inlined
def is_null(bits, index):
    """Whether element `index` is marked as null."""
    return (nb.int64(byte(bits, index >> 3)) >> (index & 7)) & 1 == 0
