"""Records as lines of JSON, from the buffers that the record kernels fill.

One line for each record, in the form of `logcore.cli.output.record_lines.record_fields`: numbers in decimal, bytes in
standard base64 between quotes, null without a value, record header names as text. If requested, keys and values that
are UTF-8 are text too. The caller provides the constant parts of lines as fragments.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels.decoding.characters import (
    FRAGMENT,
    LINE_BYTES,
    fragment,
    is_null,
    null,
    number,
    quoted_base64,
    text,
)
from logcore.columns.kernels.decoding.decoding_frames import RecordsFrame
from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.intrinsics import copy32, frame_at, load32, numbers, pointer, store8
from logcore.columns.kernels.machine.values import is_utf8

_BASE64_NAME, _BASE64_NAME_SIZE = 7 * FRAGMENT, 9
_CONTROL, _ABORT_SIZE, _COMMIT_SIZE = 8 * FRAGMENT, 23, 24

_records_frame = frame_at(RecordsFrame)


@called
def as_text(target, at, source, start, size, couples, fragments):
    """Write well-formed UTF-8 as text, and other bytes in base64 under a longer name. The name was written before."""
    if is_utf8(source, start, start + size):
        return text(target, at, source, start, size)
    copy32(target, at - 2, fragments, _BASE64_NAME)
    return quoted_base64(target, at - 2 + _BASE64_NAME_SIZE, source, start, size, couples)


@inlined
def content(target, at, source, start, size, couples, fragments, with_text):
    """Write a key or a value that is not null."""
    if with_text:
        return as_text(target, at, source, start, size, couples, fragments)
    return quoted_base64(target, at, source, start, size, couples)


def lines(frame):
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
    controls, with_control = pointer(emitted.to_control), emitted.to_control != 0
    row, rows = frame.first, frame.end
    at = nb.int64(0)
    while row < rows:
        key_from, value_from = nb.int64(load32(key_ends, 4 * row)), nb.int64(load32(value_ends, 4 * row))
        key_size = nb.int64(load32(key_ends, 4 * row + 4)) - key_from
        value_size = nb.int64(load32(value_ends, 4 * row + 4)) - value_from
        needed = fixed + ((key_size + value_size) * 6 if with_text else (key_size + value_size) // 3 * 4)
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
            at = content(target, at, keys, key_from, key_size, couples, fragments, with_text)
        copy32(target, at, fragments, 256)
        at += 9
        if is_null(value_bits, row):
            at = null(target, at)
        else:
            at = content(target, at, values, value_from, value_size, couples, fragments, with_text)
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
                at = quoted_base64(target, at, contents, content_from, content_size, couples)
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
        if with_control:
            control = nb.int64(load32(controls, 4 * row))
            if control == 0 or control == 1:
                copy32(target, at, fragments, _CONTROL + control * FRAGMENT)
                at += _ABORT_SIZE if control == 0 else _COMMIT_SIZE
        store8(target, at, 125)
        store8(target, at + 1, 10)
        at += 2
        row += 1
    frame.first = row
    frame.used = at
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"lines": lines}
