"""Records as lines of CSV, from the buffers that the record kernels fill.

One line for each record, in the form of `logcore.cli.output.record_lines.csv_line`: bytes in standard base64, an empty
cell without a value, two quotes for empty bytes, record headers as JSON. If requested, keys and values that are UTF-8
are text, and others are base64 in the cell after it. The caller provides the constant parts of lines as fragments.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels import slots
from logcore.columns.kernels.decoding.characters import (
    FRAGMENT,
    LINE_BYTES,
    base64,
    fragment,
    is_null,
    null,
    number,
    text,
)
from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.intrinsics import byte, copy, copy32, load32, numbers, pointer, store8
from logcore.columns.kernels.machine.values import is_utf8

_CREATE_TIME_SIZE, _APPEND_TIME_SIZE, _NO_TYPE_SIZE = 12, 15, 17


@inlined
def quotes(target, at):
    """Write two quotes: an empty cell that is not null, or one quote within a quoted cell."""
    store8(target, at, 34)
    store8(target, at + 1, 34)
    return at + 2


@inlined
def bytes_cell(target, at, source, start, size, couples):
    """Write bytes that are not null."""
    if size == 0:
        return quotes(target, at)
    return base64(target, at, source, start, size, couples)


@called
def text_cells(target, at, source, start, size, couples):
    """Write bytes that are not null as two cells: the text, and the base64 of what is no text."""
    end = start + size
    if not is_utf8(source, start, end):
        store8(target, at, 44)
        return base64(target, at + 1, source, start, size, couples)
    has_special = size == 0
    for index in range(start, end):
        char = byte(source, index)
        has_special |= char == nb.uint64(34) or char == nb.uint64(44) or char == nb.uint64(10) or char == nb.uint64(13)
    if not has_special:
        copy(target, at, source, start, size)
        at += size
    else:
        store8(target, at, 34)
        at += 1
        for index in range(start, end):
            char = byte(source, index)
            store8(target, at, nb.int64(char))
            at += 1
            if char == nb.uint64(34):
                store8(target, at, 34)
                at += 1
        store8(target, at, 34)
        at += 1
    store8(target, at, 44)
    return at + 1


def csv_lines(frame):
    """Write the lines of rows LINE_FIRST..LINE_END of an emit frame's buffers, until the target is full."""
    emitted = numbers(frame, slots.LINE_EMITTED)
    target, room = pointer(frame, slots.LINE_TARGET), frame[slots.LINE_ROOM]
    pairs, couples = pointer(frame, slots.LINE_DIGIT_PAIRS), pointer(frame, slots.LINE_COUPLES)
    before_offset, before_offset_size = pointer(frame, slots.LINE_PREFIX), frame[slots.LINE_PREFIX_SIZE]
    fragments = pointer(frame, slots.LINE_FRAGMENTS)
    with_text = frame[slots.LINE_AS_TEXT] != 0
    fixed = before_offset_size + LINE_BYTES
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
    row, rows = frame[slots.LINE_FIRST], frame[slots.LINE_END]
    at = nb.int64(0)
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
                needed += (header_end - header) * 24 + name_bytes * 6 + content_bytes // 3 * 4
        if needed > room - at:
            break
        at = fragment(target, at, before_offset, before_offset_size)
        at = number(target, at, offsets[row], pairs)
        store8(target, at, 44)
        at = number(target, at + 1, stamps[row], pairs)
        kind = nb.int64(load32(kinds, 4 * row))
        copy32(target, at, fragments, nb.int64(0) if kind == 0 else (FRAGMENT if kind == 1 else 2 * FRAGMENT))
        at += _CREATE_TIME_SIZE if kind == 0 else (_APPEND_TIME_SIZE if kind == 1 else _NO_TYPE_SIZE)
        if with_text:
            if is_null(key_bits, row):
                store8(target, at, 44)
                at += 1
            else:
                at = text_cells(target, at, keys, key_from, key_size, couples)
            store8(target, at, 44)
            at += 1
            if is_null(value_bits, row):
                store8(target, at, 44)
                at += 1
            else:
                at = text_cells(target, at, values, value_from, value_size, couples)
        else:
            if not is_null(key_bits, row):
                at = bytes_cell(target, at, keys, key_from, key_size, couples)
            store8(target, at, 44)
            at += 1
            if not is_null(value_bits, row):
                at = bytes_cell(target, at, values, value_from, value_size, couples)
        store8(target, at, 44)
        at += 1
        if header < header_end:
            store8(target, at, 34)
            at += 1
        store8(target, at, 91)
        at += 1
        first = header
        while header < header_end:
            if header > first:
                store8(target, at, 44)
                store8(target, at + 1, 32)
                at += 2
            store8(target, at, 91)
            name_from = nb.int64(load32(name_ends, 4 * header))
            at = text(target, at + 1, names, name_from, nb.int64(load32(name_ends, 4 * header + 4)) - name_from, 2)
            store8(target, at, 44)
            store8(target, at + 1, 32)
            at += 2
            if is_null(content_bits, header):
                at = null(target, at)
            else:
                start = nb.int64(load32(content_ends, 4 * header))
                size = nb.int64(load32(content_ends, 4 * header + 4)) - start
                at = quotes(target, at)
                at = base64(target, at, contents, start, size, couples)
                at = quotes(target, at)
            store8(target, at, 93)
            at += 1
            header += 1
        store8(target, at, 93)
        at += 1
        if header > first:
            store8(target, at, 34)
            at += 1
        store8(target, at, 44)
        at += 1
        epoch = nb.int64(load32(epochs, 4 * row))
        if epoch & 0x80000000 == 0:
            at = number(target, at, epoch, pairs)
        store8(target, at, 10)
        at += 1
        row += 1
    frame[slots.LINE_FIRST] = row
    frame[slots.LINE_USED] = at
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"csv_lines": csv_lines}
