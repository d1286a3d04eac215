"""Records as lines of CSV, from the buffers that the record kernels fill.

One line for each record, in the form of `logcore.cli.output.record_lines.csv_line`: bytes in standard base64, an empty
cell without a value, two quotes for empty bytes, record headers as JSON. If requested, keys and values that are UTF-8
are text, and others are base64 in the cell after it. The caller provides the constant parts of lines as fragments.
"""

from typing import Any

import numba as nb

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
from logcore.columns.kernels.decoding.decoding_frames import RecordsFrame
from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.intrinsics import byte, copy, copy32, frame_at, load32, numbers, pointer, store8
from logcore.columns.kernels.machine.values import is_utf8

_CREATE_TIME_SIZE, _APPEND_TIME_SIZE, _NO_TYPE_SIZE = 12, 15, 17

_records_frame = frame_at(RecordsFrame)


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
    """Write the lines of rows `first`..`end` of a record frame's buffers, until the target is full."""
    emitted = _records_frame(frame.emitted)
    target, room = pointer(frame.target), frame.room
    pairs, couples = pointer(frame.digit_pairs), pointer(frame.couples)
    before_offset, before_offset_size = pointer(frame.prefix), frame.prefix_size
    fragments = pointer(frame.fragments)
    with_text = frame.as_text != 0
    fixed = before_offset_size + LINE_BYTES
    offsets, stamps = numbers(emitted.to_offsets), numbers(emitted.to_timestamps_ms)
    kinds, epochs = pointer(emitted.to_types), pointer(emitted.to_epochs)
    keys, key_ends = pointer(emitted.to_keys), pointer(emitted.to_key_ends)
    key_bits = pointer(emitted.to_key_validity)
    values, value_ends = pointer(emitted.to_values), pointer(emitted.to_value_ends)
    value_bits = pointer(emitted.to_value_validity)
    header_ends = pointer(emitted.to_header_ends)
    names, name_ends = pointer(emitted.to_names), pointer(emitted.to_name_ends)
    contents, content_ends = pointer(emitted.to_header_values), pointer(emitted.to_header_value_ends)
    content_bits = pointer(emitted.to_header_value_validity)
    with_headers = emitted.header_count > 0
    row, rows = frame.first, frame.end
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
    frame.first = row
    frame.used = at
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"csv_lines": csv_lines}
