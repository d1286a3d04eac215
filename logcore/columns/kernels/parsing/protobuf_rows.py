"""Protobuf messages of one type, one in each row, become columns. The plain decoder is the specification.

A row is used only if everything about it is certain. Otherwise it is a doubt: it counts as null, and the caller decodes
it plainly. Doubts are all errors, and what is rare: a message in several parts, two members of a oneof, a known field
with another wire type, groups.

Every length is compared with what is left of its message before it is used, so that no byte outside of a row is read.
There is no recursion: the levels are those of the schema.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels.machine.functions import called, inlined
from logcore.columns.kernels.machine.intrinsics import load32, load64, numbers, pointer, store8, store64, to_bytes
from logcore.columns.kernels.machine.values import is_utf8
from logcore.columns.kernels.parsing.parsing_frames import (
    AFTER,
    COUNT,
    FIELD,
    FIELD_NODE,
    FIELD_OTHERS,
    FIELD_TAG,
    FIRST,
    KEYED,
    KIND,
    LEVEL,
    LEVEL_END,
    LEVEL_INDEX,
    LEVEL_NODE,
    LEVEL_OPENED,
    LEVEL_SEEN,
    LIMIT,
    NODE,
    NULLABLE,
    REQUIRED,
    SCOPE,
    SIZES,
    VALID,
    VALUES,
    NodeKind,
    NumberForm,
)
from logcore.columns.kernels.parsing.scopes import DOUBT, NO_ROOM, WHOLE, added_item, is_new_key, rows_by
from logcore.columns.kernels.parsing.texts import byte_at
from logcore.columns.kernels.parsing.varints import from_zigzag, varint

_STRUCT, _LIST, _MOMENT = (int(NodeKind[name]) for name in ("STRUCT", "LIST", "MOMENT"))
_TEXT, _BYTES = (int(NodeKind[name]) for name in ("TEXT", "BYTES"))
_VARINT64, _VARINT32, _UNSIGNED32 = (int(NumberForm[name]) for name in ("VARINT64", "VARINT32", "UNSIGNED32"))
_ZIGZAG64, _TRUTH, _FIXED32 = (int(NumberForm[name]) for name in ("ZIGZAG64", "TRUTH", "FIXED32"))
_SIGNED_FIXED32, _FIXED64 = (int(NumberForm[name]) for name in ("SIGNED_FIXED32", "FIXED64"))
_WIRE_VARINT, _WIRE_64, _WIRE_LENGTH, _WIRE_32 = 0, 1, 2, 5
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_LARGEST_TAG = 0xFFFFFFFF


@called
def _varint(source, position, end):
    """The varint at a position, without bits beyond the 64th, and the position after it; -1 where there is none."""
    value, after = varint(source, position, end)
    return nb.int64(value), after


@inlined
def _tag_or_length(source, position, end):
    """As `_short_varint`; most have one byte."""
    if position < end:
        value = byte_at(source, position)
        if value < 0x80:
            return value, position + 1
    return _short_varint(source, position, end)


@called
def _short_varint(source, position, end):
    """A tag or a length: at most five bytes and 32 bits; the position after it is -1 where there is none."""
    value, after = _varint(source, position, end)
    if after < 0 or after - position > 5 or value > _LARGEST_TAG:
        return nb.int64(0), nb.int64(-1)
    return value, after


@called
def _low_32(value):
    """The lowest 32 bits as a signed number."""
    return nb.int64((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


@called
def _number(source, position, end, form):
    """A number in one of the forms, and the position after it; -1 for a doubt."""
    if form == _FIXED64:
        if end - position < 8:
            return nb.int64(0), nb.int64(-1)
        return nb.int64(load64(source, position)), position + 8
    if form >= _FIXED32:
        if end - position < 4:
            return nb.int64(0), nb.int64(-1)
        value = nb.int64(load32(source, position))
        return _low_32(value) if form == _SIGNED_FIXED32 else value, position + 4
    value, after = _varint(source, position, end)
    if form == _VARINT64:
        return value, after
    if form == _VARINT32:
        value = _low_32(value)
    elif form == _UNSIGNED32:
        value &= 0xFFFFFFFF
    elif form == _TRUTH:
        value = nb.int64(1) if value != 0 else nb.int64(0)
    else:
        bits = nb.uint64(value) if form == _ZIGZAG64 else nb.uint64(value) & nb.uint64(0xFFFFFFFF)
        value = from_zigzag(bits)
    return value, after


@called
def _skipped(source, position, end, wire):
    """The position after the content of an unknown field; -1 for a doubt."""
    if wire == _WIRE_VARINT:
        return _varint(source, position, end)[1]
    size = nb.int64(8) if wire == _WIRE_64 else nb.int64(4)
    if wire == _WIRE_LENGTH:
        size, position = _short_varint(source, position, end)
        if position < 0:
            return position
    elif wire != _WIRE_64 and wire != _WIRE_32:
        return nb.int64(-1)
    return position + size if size <= end - position else nb.int64(-1)


@called
def _moment(source, position, end):
    """Microseconds of a `google.protobuf.Timestamp`, and whether they are certain."""
    seconds, nanos = nb.int64(0), nb.int64(0)
    while position < end:
        tag, position = _short_varint(source, position, end)
        if position < 0 or (tag != 8 and tag != 16):
            return nb.int64(0), False
        value, position = _varint(source, position, end)
        if position < 0:
            return nb.int64(0), False
        if tag == 8:
            seconds = value
        else:
            nanos = _low_32(value)
    if seconds < _FIRST_SECOND or seconds > _LAST_SECOND or nanos < 0 or nanos >= 1_000_000_000:
        return nb.int64(0), False
    return seconds * 1_000_000 + nanos // 1000, True


@called
def _fill_absent(nodes, fields, first, count, seen, index):
    """Write what absent fields of a message are: null, or their default where they have no presence."""
    for at in range(count):
        if seen >> at & 1:
            continue
        node = fields[(first + at) * FIELD + FIELD_NODE]
        for each in range(node, nodes[node * NODE + AFTER]):
            store8(to_bytes(nodes[each * NODE + VALID]), index, 0)
            store64(to_bytes(nodes[each * NODE + SIZES]), index, 0)
            store64(to_bytes(nodes[each * NODE + VALUES]), index, 0)
        if not nodes[node * NODE + NULLABLE]:
            store8(to_bytes(nodes[node * NODE + VALID]), index, 1)


@called
def _field_of(fields, first, count, number, following):
    """Which field of a message has a number, -1 for none. `following`: the field to look at first."""
    for turn in range(count):
        at = following + turn
        if at >= count:
            at -= count
        if fields[(first + at) * FIELD + FIELD_TAG] >> 3 == number:
            return at
    return nb.int64(-1)


@called
def _add_packed(source, position, end, listed, index, frame):
    """Decode numbers that are packed; return the position after them, -1 for a doubt, -2 where there is no room."""
    nodes, scopes, scopes_bytes = numbers(frame.nodes), numbers(frame.scopes), pointer(frame.scopes)
    entry = nodes[listed * NODE + FIRST] * NODE
    kind, form = nodes[entry + KIND], nodes[entry + LIMIT]
    if kind in (_STRUCT, _TEXT, _BYTES, _MOMENT):
        return nb.int64(-1)
    size, position = _short_varint(source, position, end)
    if position < 0 or size > end - position:
        return nb.int64(-1)
    packed = position + size
    while position < packed:
        place = added_item(nodes, scopes, scopes_bytes, listed, index)
        if place < 0:
            frame.full_scope = nodes[listed * NODE + SCOPE]
            return nb.int64(-2)
        value, position = _number(source, position, packed, form)
        if position < 0:
            return nb.int64(-1)
        store64(to_bytes(nodes[entry + VALUES]), place, value)
        store8(to_bytes(nodes[entry + VALID]), place, 1)
    return position


@called
def _row(source, position, end, index, frame):
    """Decode a row; return WHOLE, DOUBT or NO_ROOM."""
    nodes, fields = numbers(frame.nodes), numbers(frame.fields)
    scopes, scopes_bytes = numbers(frame.scopes), pointer(frame.scopes)
    stack, levels = numbers(frame.stack), pointer(frame.stack)
    store8(to_bytes(nodes[VALID]), index, 1)
    depth, message, stop, seen, following = nb.int64(0), nb.int64(0), end, nb.int64(0), nb.int64(0)
    first, count = nodes[FIRST], nodes[COUNT]
    while True:
        if position == stop:
            needed = nodes[message * NODE + REQUIRED]
            if (seen & needed) != needed:
                return nb.int64(DOUBT)
            if seen != (nb.int64(1) << count) - 1:
                _fill_absent(nodes, fields, first, count, seen, index)
            if depth == 0:
                return nb.int64(WHOLE)
            is_entry, item = nodes[message * NODE + KEYED], index
            depth -= 1
            top = depth * LEVEL
            message, index, stop = stack[top + LEVEL_NODE], stack[top + LEVEL_INDEX], stack[top + LEVEL_END]
            seen, following = stack[top + LEVEL_SEEN], stack[top + LEVEL_OPENED]
            first, count = nodes[message * NODE + FIRST], nodes[message * NODE + COUNT]
            if is_entry:
                listed = fields[(first + following) * FIELD + FIELD_NODE]
                if not is_new_key(source, nodes, fields, listed, index, item):
                    return nb.int64(DOUBT)
            continue
        tag, position = _tag_or_length(source, position, stop)
        if position < 0 or tag < 8:
            return nb.int64(DOUBT)
        at = following
        if at >= count or fields[(first + at) * FIELD + FIELD_TAG] != tag:
            at = _field_of(fields, first, count, tag >> 3, following)
            if at < 0:
                position = _skipped(source, position, stop, tag & 7)
                if position < 0:
                    return nb.int64(DOUBT)
                continue
        bit, field = nb.int64(1) << at, (first + at) * FIELD
        if seen & fields[field + FIELD_OTHERS]:
            return nb.int64(DOUBT)
        is_again = seen & bit
        seen |= bit
        following = at + 1
        node, place = fields[field + FIELD_NODE], index
        entry = node * NODE
        kind = nodes[entry + KIND]
        if kind == _LIST:
            following = at
            if not is_again:
                store8(to_bytes(nodes[entry + VALID]), index, 1)
                store64(to_bytes(nodes[entry + SIZES]), index, 0)
            if tag != fields[field + FIELD_TAG]:
                position = nb.int64(-1) if tag & 7 != _WIRE_LENGTH else position
                if position >= 0:
                    position = _add_packed(source, position, stop, node, index, frame)
                if position < 0:
                    return nb.int64(NO_ROOM if position == -2 else DOUBT)
                continue
            place = added_item(nodes, scopes, scopes_bytes, node, index)
            if place < 0:
                frame.full_scope = nodes[entry + SCOPE]
                return nb.int64(NO_ROOM)
            is_again = nb.int64(0)
            node = nodes[entry + FIRST]
            entry = node * NODE
            kind = nodes[entry + KIND]
        elif tag != fields[field + FIELD_TAG]:
            return nb.int64(DOUBT)
        if tag & 7 != _WIRE_LENGTH:
            value, position = _number(source, position, stop, nodes[entry + LIMIT])
            if position < 0:
                return nb.int64(DOUBT)
            store64(to_bytes(nodes[entry + VALUES]), place, value)
            store8(to_bytes(nodes[entry + VALID]), place, 1)
            continue
        size, position = _tag_or_length(source, position, stop)
        if position < 0 or size > stop - position:
            return nb.int64(DOUBT)
        store8(to_bytes(nodes[entry + VALID]), place, 1)
        if kind in (_TEXT, _BYTES):
            if kind == _TEXT and not is_utf8(source, position, position + size):
                return nb.int64(DOUBT)
            store64(to_bytes(nodes[entry + VALUES]), place, position)
            store64(to_bytes(nodes[entry + SIZES]), place, size)
            position += size
            continue
        if is_again:
            return nb.int64(DOUBT)
        if kind == _STRUCT:
            top = depth * LEVEL
            store64(levels, top + LEVEL_NODE, message)
            store64(levels, top + LEVEL_INDEX, index)
            store64(levels, top + LEVEL_END, stop)
            store64(levels, top + LEVEL_SEEN, seen)
            store64(levels, top + LEVEL_OPENED, following)
            depth += 1
            message, index, stop, seen, following = node, place, position + size, nb.int64(0), nb.int64(0)
            first, count = nodes[message * NODE + FIRST], nodes[message * NODE + COUNT]
            continue
        found, is_certain = _moment(source, position, position + size)
        if not is_certain:
            return nb.int64(DOUBT)
        store64(to_bytes(nodes[entry + VALUES]), place, found)
        position += size


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"protobuf_rows": rows_by(_row)}
