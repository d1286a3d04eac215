"""Records as lines of JSON, from the buffers that the record kernels fill.

One line for each record, in the form of `logcore.cli.output.record_lines.record_fields`: numbers in decimal, bytes in
standard base64 between quotes, null without a value, record header names as text. The caller provides the constant
parts of lines as fragments.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import slots
from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.intrinsics import byte, copy, copy2, copy32, load32, numbers, pointer, store8

_LINE_BYTES = 192
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
    """Write standard base64 between quotes. `couples`: for each 12 bits their two characters, two bytes each."""
    store8(target, at, 34)
    at += 1
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
def text(target, at, source, start, size):
    """Write well-formed UTF-8 as a JSON string; only quotes, backslashes and control characters are escaped."""
    store8(target, at, 34)
    at += 1
    for index in range(start, start + size):
        char = nb.int64(byte(source, index))
        if char == 34 or char == 92:
            store8(target, at, 92)
            store8(target, at + 1, char)
            at += 2
        elif char >= 32:
            store8(target, at, char)
            at += 1
        else:
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
                at += 2
            else:
                store8(target, at + 1, 117)
                store8(target, at + 2, 48)
                store8(target, at + 3, 48)
                store8(target, at + 4, 48 + (char >> 4))
                low = char & 15
                store8(target, at + 5, low + (48 if low < 10 else 87))
                at += 6
    store8(target, at, 34)
    return at + 1


@inlined
def is_null(bits, index):
    """Whether element `index` is marked as null."""
    return (nb.int64(byte(bits, index >> 3)) >> (index & 7)) & 1 == 0


def lines(frame):
    """Write the lines of rows LINE_FIRST.. of an emit frame's buffers, until the target is full."""
    emitted = numbers(frame, slots.LINE_EMITTED)
    target, room = pointer(frame, slots.LINE_TARGET), frame[slots.LINE_ROOM]
    pairs, couples = pointer(frame, slots.LINE_DIGIT_PAIRS), pointer(frame, slots.LINE_COUPLES)
    before_offset, before_offset_size = pointer(frame, slots.LINE_PREFIX), frame[slots.LINE_PREFIX_SIZE]
    fragments = pointer(frame, slots.LINE_FRAGMENTS)
    fixed = before_offset_size + _LINE_BYTES
    offsets, stamps = numbers(emitted, slots.TO_OFFSETS), numbers(emitted, slots.TO_TIMESTAMPS_MS)
    kinds, epochs = pointer(emitted, slots.TO_TYPES), pointer(emitted, slots.TO_EPOCHS)
    keys, key_ends = pointer(emitted, slots.TO_KEYS), pointer(emitted, slots.TO_KEY_ENDS)
    key_bits = pointer(emitted, slots.TO_KEY_VALIDITY)
    values, value_ends = pointer(emitted, slots.TO_VALUES), pointer(emitted, slots.TO_VALUE_ENDS)
    value_bits = pointer(emitted, slots.TO_VALUE_VALIDITY)
    header_ends = pointer(emitted, slots.TO_HEADER_ENDS)
    names, name_ends = pointer(emitted, slots.TO_NAMES), pointer(emitted, slots.TO_NAME_ENDS)
    contents, content_ends = pointer(emitted, slots.TO_HEADER_VALUES), pointer(emitted, slots.TO_HEADER_VALUE_ENDS)
    content_bits = pointer(emitted, slots.TO_HEADER_VALUE_VALIDITY)
    with_headers = emitted[slots.HEADER_COUNT] > 0
    row, rows = frame[slots.LINE_FIRST], emitted[slots.ROWS]
    at = nb.int64(0)
    while row < rows:
        key_from, value_from = nb.int64(load32(key_ends, 4 * row)), nb.int64(load32(value_ends, 4 * row))
        key_size = nb.int64(load32(key_ends, 4 * row + 4)) - key_from
        value_size = nb.int64(load32(value_ends, 4 * row + 4)) - value_from
        needed = fixed + (key_size + value_size) // 3 * 4
        header, header_end = nb.int64(0), nb.int64(0)
        if with_headers:
            header = nb.int64(load32(header_ends, 4 * row))
            header_end = nb.int64(load32(header_ends, 4 * row + 4))
            if header_end > header:
                name_bytes = nb.int64(load32(name_ends, 4 * header_end)) - nb.int64(load32(name_ends, 4 * header))
                content_bytes = nb.int64(load32(content_ends, 4 * header_end))
                content_bytes -= nb.int64(load32(content_ends, 4 * header))
                needed += (header_end - header) * 20 + name_bytes * 6 + content_bytes // 3 * 4
        if needed > room - at:
            break
        at = fragment(target, at, before_offset, before_offset_size)
        at = number(target, at, offsets[row], pairs)
        # Fragments are 64 bytes apart: timestamp, three kinds of timestamp, value, headers, leader epoch, end.
        copy32(target, at, fragments, 0)
        at += 13
        at = number(target, at, stamps[row], pairs)
        kind = nb.int64(load32(kinds, 4 * row))
        which = nb.int64(64) if kind == 0 else (nb.int64(128) if kind == 1 else nb.int64(192))
        copy32(target, at, fragments, which)
        copy32(target, at + 32, fragments, which + 32)
        at += 37 if kind == 0 else (40 if kind == 1 else 42)
        if is_null(key_bits, row):
            at = null(target, at)
        else:
            at = base64(target, at, keys, key_from, key_size, couples)
        copy32(target, at, fragments, 256)
        at += 9
        if is_null(value_bits, row):
            at = null(target, at)
        else:
            at = base64(target, at, values, value_from, value_size, couples)
        copy32(target, at, fragments, 320)
        at += 12
        first = header
        while header < header_end:
            if header > first:
                store8(target, at, 44)
                at += 1
            store8(target, at, 91)
            name_from = nb.int64(load32(name_ends, 4 * header))
            at = text(target, at + 1, names, name_from, nb.int64(load32(name_ends, 4 * header + 4)) - name_from)
            store8(target, at, 44)
            at += 1
            if is_null(content_bits, header):
                at = null(target, at)
            else:
                content_from = nb.int64(load32(content_ends, 4 * header))
                content_size = nb.int64(load32(content_ends, 4 * header + 4)) - content_from
                at = base64(target, at, contents, content_from, content_size, couples)
            store8(target, at, 93)
            at += 1
            header += 1
        copy32(target, at, fragments, 384)
        at += 17
        epoch = nb.int64(load32(epochs, 4 * row))
        if epoch & 0x80000000:
            at = null(target, at)
        else:
            at = number(target, at, epoch, pairs)
        store8(target, at, 125)
        store8(target, at + 1, 10)
        at += 2
        row += 1
    frame[slots.LINE_FIRST] = row
    frame[slots.LINE_USED] = at
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"lines": lines}
