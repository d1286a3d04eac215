"""Records as lines for people, from the buffers that the record kernels fill.

One line for each record, in the form of `logcore.cli.output.record_lines.text_line`: times in ISO-8601, printable UTF-8
between quotes, all other bytes in hex. The caller provides the constant parts of lines as fragments.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import batch_row
from logcore.columns.kernels.call_frames import DONE, FOREIGN, FULL
from logcore.columns.kernels.decoding.characters import FRAGMENT, LINE_BYTES, fragment, is_null, null, number
from logcore.columns.kernels.decoding.decoding_frames import RecordsFrame
from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.intrinsics import (
    byte,
    copy2,
    copy32,
    frame_at,
    load32,
    load64,
    numbers,
    pointer,
    store8,
    stored64,
)
from logcore.columns.kernels.machine.values import is_utf8

_CREATE_TIME, _APPEND_TIME, _NO_TYPE = 0, FRAGMENT, 2 * FRAGMENT
_CREATE_TIME_SIZE, _APPEND_TIME_SIZE, _NO_TYPE_SIZE = 12, 15, 17
_NO_TIMESTAMP, _NO_TIMESTAMP_SIZE = 3 * FRAGMENT, 14
_KEY, _KEY_SIZE = 4 * FRAGMENT, 6
_VALUE, _VALUE_SIZE = 5 * FRAGMENT, 8
_HEADERS, _HEADERS_SIZE = 6 * FRAGMENT, 10
_CONTROL, _ABORT_SIZE, _COMMIT_SIZE = 7 * FRAGMENT, 7, 8

_HIGH = nb.uint64(0x8080808080808080)
_ONES = nb.uint64(0x0101010101010101)
_FROM_SPACE = nb.uint64(0x6060606060606060)
_SEVENS = nb.uint64(0x7F7F7F7F7F7F7F7F)
_QUOTES = nb.uint64(0x2222222222222222)
_BACKSLASHES = nb.uint64(0x5C5C5C5C5C5C5C5C)
_WHICH_BYTE = nb.uint64(0x0001020304050607)
_DAY_MS = 86_400_000

_records_frame = frame_at(RecordsFrame)


@inlined
def plain_bytes(word):
    """How many of eight bytes, from the lowest on, are printable ASCII without quote and backslash.

    A sum that overflows a byte changes only the bytes above it, and that byte itself is not plain.
    """
    plain = (word + _FROM_SPACE) & ((word ^ _QUOTES) + _SEVENS) & ((word ^ _BACKSLASHES) + _SEVENS)
    other = ~(plain & ~(word + _ONES) & ~word) & _HIGH
    if other == nb.uint64(0):
        return nb.int64(8)
    lowest = (other & (nb.uint64(0) - other)) >> nb.uint64(7)
    return nb.int64((lowest * _WHICH_BYTE) >> nb.uint64(56))


@called
def hexadecimal(target, at, source, start, size, pairs):
    """Write `0x` and two digits for each byte. `pairs`: the digits of each byte."""
    store8(target, at, 48)
    store8(target, at + 1, 120)
    at += 2
    for index in range(size):
        copy2(target, at + 2 * index, pairs, 2 * nb.int64(byte(source, start + index)))
    return at + 2 * size


@called
def readable(target, at, source, start, size, pairs, printable, has_printable):
    """Write printable UTF-8 between quotes, and other bytes in hex; -1: the table of code points is needed."""
    begin, index, end = at, start, start + size
    is_checked = False
    store8(target, at, 34)
    at += 1
    while index < end:
        if end - index >= 8:
            word = load64(source, index)
            stored64(target, at, word)
            count = plain_bytes(word)
            index += count
            at += count
            if count == 8:
                continue
        char = nb.int64(byte(source, index))
        if char < 32 or char == 127:
            return hexadecimal(target, begin, source, start, size, pairs)
        if char < 128:
            if char == 34 or char == 92:
                store8(target, at, 92)
                at += 1
            store8(target, at, char)
            at += 1
            index += 1
            continue
        if not is_checked:
            if not is_utf8(source, index, end):
                return hexadecimal(target, begin, source, start, size, pairs)
            if not has_printable:
                return nb.int64(-1)
            is_checked = True
        more = nb.int64(1) if char < 0xE0 else (nb.int64(2) if char < 0xF0 else nb.int64(3))
        point = char & (nb.int64(0x3F) >> more)
        store8(target, at, char)
        for step in range(1, more + 1):
            following = nb.int64(byte(source, index + step))
            store8(target, at + step, following)
            point = point << 6 | (following & 0x3F)
        if is_null(printable, point):
            return hexadecimal(target, begin, source, start, size, pairs)
        at += more + 1
        index += more + 1
    store8(target, at, 34)
    return at + 1


@inlined
def pair(target, at, value, pairs):
    """Write two digits."""
    copy2(target, at, pairs, value * 2)
    return at + 2


@called
def time(target, at, stamp, pairs, fragments):
    """Write two spaces and a time in ISO-8601; a number outside of the years 1 to 9999."""
    if stamp == -1:
        copy32(target, at, fragments, _NO_TIMESTAMP)
        return at + _NO_TIMESTAMP_SIZE
    store8(target, at, 32)
    store8(target, at + 1, 32)
    at += 2
    if stamp < batch_row.MIN_TIMESTAMP_MS or stamp > batch_row.MAX_TIMESTAMP_MS:
        return number(target, at, stamp, pairs)
    # Days since 0000-03-01 of the Gregorian calendar: there, a leap day is the last day of its year.
    left = stamp - batch_row.MIN_TIMESTAMP_MS
    days, left = left // _DAY_MS + 306, left % _DAY_MS
    era, day = days // 146_097, days % 146_097
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    year += 400 * era
    month += 3
    if month > 12:
        month -= 12
        year += 1
    at = pair(target, at, year // 100, pairs)
    at = pair(target, at, year % 100, pairs)
    store8(target, at, 45)
    at = pair(target, at + 1, month, pairs)
    store8(target, at, 45)
    at = pair(target, at + 1, day, pairs)
    store8(target, at, 84)
    at = pair(target, at + 1, left // 3_600_000, pairs)
    store8(target, at, 58)
    at = pair(target, at + 1, left // 60_000 % 60, pairs)
    store8(target, at, 58)
    at = pair(target, at + 1, left // 1000 % 60, pairs)
    store8(target, at, 46)
    store8(target, at + 1, 48 + left // 100 % 10)
    at = pair(target, at + 2, left % 100, pairs)
    store8(target, at, 90)
    return at + 1


def text_lines(frame):
    """Write the lines of rows `first`..`end` of a record frame's buffers, until the target is full."""
    emitted = _records_frame(frame.emitted)
    target, room = pointer(frame.target), frame.room
    pairs, hex_pairs = pointer(frame.digit_pairs), pointer(frame.hex_pairs)
    printable, has_printable = pointer(frame.printable), frame.printable != 0
    before_offset, before_offset_size = pointer(frame.prefix), frame.prefix_size
    fragments = pointer(frame.fragments)
    fixed = before_offset_size + LINE_BYTES
    offsets, stamps = numbers(emitted.to_offsets), numbers(emitted.to_timestamps_ms)
    kinds = pointer(emitted.to_types)
    keys, key_ends = pointer(emitted.to_keys), pointer(emitted.to_key_ends)
    key_bits = pointer(emitted.to_key_validity)
    values, value_ends = pointer(emitted.to_values), pointer(emitted.to_value_ends)
    value_bits = pointer(emitted.to_value_validity)
    header_ends = pointer(emitted.to_header_ends)
    names, name_ends = pointer(emitted.to_names), pointer(emitted.to_name_ends)
    contents, content_ends = pointer(emitted.to_header_values), pointer(emitted.to_header_value_ends)
    content_bits = pointer(emitted.to_header_value_validity)
    with_headers = emitted.header_count > 0
    controls, with_control = pointer(emitted.to_control), emitted.to_control != 0
    row, rows = frame.first, frame.end
    status = nb.int64(DONE)
    used = nb.int64(0)
    while row < rows:
        key_from, value_from = nb.int64(load32(key_ends, 4 * row)), nb.int64(load32(value_ends, 4 * row))
        key_size = nb.int64(load32(key_ends, 4 * row + 4)) - key_from
        value_size = nb.int64(load32(value_ends, 4 * row + 4)) - value_from
        needed = fixed + (key_size + value_size) * 2
        header, header_end = nb.int64(0), nb.int64(0)
        if with_headers:
            header = nb.int64(load32(header_ends, 4 * row))
            header_end = nb.int64(load32(header_ends, 4 * row + 4))
            if header_end > header:
                name_bytes = nb.int64(load32(name_ends, 4 * header_end)) - nb.int64(load32(name_ends, 4 * header))
                content_bytes = nb.int64(load32(content_ends, 4 * header_end))
                content_bytes -= nb.int64(load32(content_ends, 4 * header))
                needed += (header_end - header) * 10 + (name_bytes + content_bytes) * 2
        if needed > room - used:
            status = FULL
            break
        at = fragment(target, used, before_offset, before_offset_size)
        at = number(target, at, offsets[row], pairs)
        at = time(target, at, stamps[row], pairs, fragments)
        kind = nb.int64(load32(kinds, 4 * row))
        which = nb.int64(_CREATE_TIME) if kind == 0 else (nb.int64(_APPEND_TIME) if kind == 1 else nb.int64(_NO_TYPE))
        copy32(target, at, fragments, which)
        at += _CREATE_TIME_SIZE if kind == 0 else (_APPEND_TIME_SIZE if kind == 1 else _NO_TYPE_SIZE)
        if with_control:
            control = nb.int64(load32(controls, 4 * row))
            if control == 0 or control == 1:
                copy32(target, at, fragments, _CONTROL + control * FRAGMENT)
                at += _ABORT_SIZE if control == 0 else _COMMIT_SIZE
        copy32(target, at, fragments, _KEY)
        at += _KEY_SIZE
        if is_null(key_bits, row):
            at = null(target, at)
        else:
            at = readable(target, at, keys, key_from, key_size, hex_pairs, printable, has_printable)
        if at >= 0:
            copy32(target, at, fragments, _VALUE)
            at += _VALUE_SIZE
            if is_null(value_bits, row):
                at = null(target, at)
            else:
                at = readable(target, at, values, value_from, value_size, hex_pairs, printable, has_printable)
        if at >= 0 and header < header_end:
            copy32(target, at, fragments, _HEADERS)
            at += _HEADERS_SIZE - 1
        while at >= 0 and header < header_end:
            store8(target, at, 32)
            name_from = nb.int64(load32(name_ends, 4 * header))
            name_size = nb.int64(load32(name_ends, 4 * header + 4)) - name_from
            at = readable(target, at + 1, names, name_from, name_size, hex_pairs, printable, has_printable)
            if at >= 0:
                store8(target, at, 61)
                if is_null(content_bits, header):
                    at = null(target, at + 1)
                else:
                    start = nb.int64(load32(content_ends, 4 * header))
                    size = nb.int64(load32(content_ends, 4 * header + 4)) - start
                    at = readable(target, at + 1, contents, start, size, hex_pairs, printable, has_printable)
            header += 1
        if at < 0:
            status = FOREIGN
            break
        store8(target, at, 10)
        used = at + 1
        row += 1
    frame.first = row
    frame.used = used
    frame.status = status
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"text_lines": text_lines}
