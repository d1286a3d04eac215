"""Commits of offsets as decoded lines, from the buffers that the record kernels fill.

One line for each record of `__consumer_offsets`, in the form of `logcore.cli.output.decoded_lines`. The kernel ends
with FOREIGN at a record that is no commit of version 3 or 4 in its usual form (`logcore.topics.group_states`), and
the caller writes its line. The caller provides the constant parts of lines as fragments, each with its size in its last
byte.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels.call_frames import DONE, FOREIGN, FULL
from logcore.columns.kernels.decoding.characters import FRAGMENT, base64, fragment, is_null, null, number, text
from logcore.columns.kernels.decoding.decoding_frames import RecordsFrame
from logcore.columns.kernels.decoding.text_lines import time
from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.intrinsics import (
    big_int16,
    big_int32,
    big_int64,
    byte,
    copy32,
    frame_at,
    load32,
    numbers,
    pointer,
    store8,
)
from logcore.columns.kernels.machine.values import is_utf8

_TIMESTAMP, _CREATE_TIME, _APPEND_TIME, _NO_TYPE = 0, 1, 2, 4
_KEY, _TOPIC, _PARTITION, _VALUE, _VERSION, _OFFSET, _EPOCH = 5, 6, 7, 8, 9, 10, 11
_METADATA, _COMMIT_TIME, _TOPIC_ID, _ID_END, _END, _LEADER_EPOCH, _LINE_END = 12, 13, 14, 15, 16, 17, 18
_LINE_BYTES = 20 * FRAGMENT
_LEAST_KEY, _LEAST_VALUE = 10, 24
_TAGGED_ID = 19

_records_frame = frame_at(RecordsFrame)


@inlined
def put(target, at, fragments, which):
    """Write a fragment."""
    copy32(target, at, fragments, which * FRAGMENT)
    copy32(target, at + 32, fragments, which * FRAGMENT + 32)
    return at + nb.int64(byte(fragments, which * FRAGMENT + FRAGMENT - 1))


@inlined
def size_at(source, position):
    """The length of a string before its bytes."""
    return nb.int64(big_int16(source, position))


@called
def key_part(target, at, keys, start, size, pairs, fragments):
    """Write a key; -1: it is not usual."""
    if size < _LEAST_KEY or size_at(keys, start) != 1:
        return nb.int64(-1)
    group = size_at(keys, start + 2)
    if group < 0 or group > size - _LEAST_KEY:
        return nb.int64(-1)
    topic = size_at(keys, start + 4 + group)
    if topic < 0 or size != _LEAST_KEY + group + topic:
        return nb.int64(-1)
    group_at, topic_at = start + 4, start + 6 + group
    if not is_utf8(keys, group_at, group_at + group) or not is_utf8(keys, topic_at, topic_at + topic):
        return nb.int64(-1)
    at = text(target, put(target, at, fragments, _KEY), keys, group_at, group)
    at = text(target, put(target, at, fragments, _TOPIC), keys, topic_at, topic)
    at = put(target, at, fragments, _PARTITION)
    return number(target, at, nb.int64(big_int32(keys, topic_at + topic)), pairs)


@called
def value_part(target, at, values, start, size, pairs, couples, fragments):
    """Write a value; -1: it is not usual."""
    if size < _LEAST_VALUE:
        return nb.int64(-1)
    version = size_at(values, start)
    if version == 3:
        length, text_at = size_at(values, start + 14), start + 16
    elif version == 4:
        length, text_at = nb.int64(byte(values, start + 14)) - 1, start + 15
        if length > 126:
            return nb.int64(-1)
    else:
        return nb.int64(-1)
    rest = size - (text_at - start) - length - 8
    id_at = nb.int64(-1)
    if length < 0 or rest < 0 or (version == 3 and rest != 0):
        return nb.int64(-1)
    time_at = text_at + length
    if version == 4:
        if rest == _TAGGED_ID:
            if nb.int64(byte(values, time_at + 8)) != 1 or size_at(values, time_at + 9) != 16:
                return nb.int64(-1)
            if big_int64(values, time_at + 11) != 0 or big_int64(values, time_at + 19) != 0:
                id_at = time_at + 11
        elif rest != 1 or nb.int64(byte(values, time_at + 8)) != 0:
            return nb.int64(-1)
    if not is_utf8(values, text_at, text_at + length):
        return nb.int64(-1)
    at = put(target, at, fragments, _VERSION)
    store8(target, at, 48 + version)
    at = number(target, put(target, at + 1, fragments, _OFFSET), big_int64(values, start + 2), pairs)
    at = number(target, put(target, at, fragments, _EPOCH), nb.int64(big_int32(values, start + 10)), pairs)
    at = text(target, put(target, at, fragments, _METADATA), values, text_at, length)
    at = number(target, put(target, at, fragments, _COMMIT_TIME), big_int64(values, time_at), pairs)
    if id_at < 0:
        return put(target, at, fragments, _END)
    at = base64(target, put(target, at, fragments, _TOPIC_ID), values, id_at, 16, couples) - 2  # without padding
    return put(target, at, fragments, _ID_END)


def commit_lines(frame):
    """Write the lines of rows `first`..`end` of a record frame's buffers, until there is no room or an unusual row."""
    emitted = _records_frame(frame.emitted)
    target, room = pointer(frame.target), frame.room
    pairs, couples = pointer(frame.digit_pairs), pointer(frame.couples)
    before_offset, before_offset_size = pointer(frame.prefix), frame.prefix_size
    fragments, is_json = pointer(frame.fragments), frame.as_text != 0
    offsets, stamps = numbers(emitted.to_offsets), numbers(emitted.to_timestamps_ms)
    kinds, epochs = pointer(emitted.to_types), pointer(emitted.to_epochs)
    keys, key_ends = pointer(emitted.to_keys), pointer(emitted.to_key_ends)
    key_bits = pointer(emitted.to_key_validity)
    values, value_ends = pointer(emitted.to_values), pointer(emitted.to_value_ends)
    value_bits = pointer(emitted.to_value_validity)
    row, rows = frame.first, frame.end
    status = nb.int64(DONE)
    used = nb.int64(0)
    while row < rows:
        key_from, value_from = nb.int64(load32(key_ends, 4 * row)), nb.int64(load32(value_ends, 4 * row))
        key_size = nb.int64(load32(key_ends, 4 * row + 4)) - key_from
        value_size = nb.int64(load32(value_ends, 4 * row + 4)) - value_from
        if before_offset_size + _LINE_BYTES + (key_size + value_size) * 6 > room - used:
            status = FULL
            break
        stamp = stamps[row]
        at = number(target, fragment(target, used, before_offset, before_offset_size), offsets[row], pairs)
        if is_json:
            at = number(target, put(target, at, fragments, _TIMESTAMP), stamp, pairs)
            kind = nb.int64(load32(kinds, 4 * row))
            which = (
                nb.int64(_CREATE_TIME) if kind == 0 else (nb.int64(_APPEND_TIME) if kind == 1 else nb.int64(_NO_TYPE))
            )
            at = put(target, at, fragments, which)
        elif stamp < -1:
            at = nb.int64(-1)
        else:
            at = time(target, at, stamp, pairs, fragments)
        if at >= 0:
            at = (
                nb.int64(-1)
                if is_null(key_bits, row)
                else key_part(target, at, keys, key_from, key_size, pairs, fragments)
            )
        if at >= 0:
            at = put(target, at, fragments, _VALUE)
            if is_null(value_bits, row):
                at = null(target, at)
            else:
                at = value_part(target, at, values, value_from, value_size, pairs, couples, fragments)
        if at < 0:
            status = FOREIGN
            break
        if is_json:
            epoch = nb.int64(load32(epochs, 4 * row))
            at = put(target, at, fragments, _LEADER_EPOCH)
            at = null(target, at) if epoch & 0x80000000 else number(target, at, epoch, pairs)
        used = put(target, at, fragments, _LINE_END)
        row += 1
    frame.first = row
    frame.used = used
    frame.status = status
    return nb.int64(0)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"commit_lines": commit_lines}
