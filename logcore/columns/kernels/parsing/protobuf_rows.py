"""Protobuf messages of one type, one in each row, become columns. The plain decoder is the specification.

A row is used only if everything about it is certain. Otherwise it is a doubt: it counts as null, and the caller decodes
it plainly. Doubts are all errors, and what is rare: a message in several parts, two members of a oneof, a known field
with another wire type, groups.

Every length is compared with what is left of its message before it is used, so that no byte outside of a row is read.
There is no recursion: the levels are those of the schema.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels.machine.functions import called
from logcore.columns.kernels.machine.intrinsics import load32, load64, numbers, pointer, store8, store64, to_bytes
from logcore.columns.kernels.machine.values import is_utf8
from logcore.columns.kernels.parsing.parsing_frames import (
    COUNT,
    FIELD,
    FIELD_NODE,
    FIELD_NUMBER,
    FIELD_OTHERS,
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
from logcore.columns.kernels.parsing.scopes import DOUBT, NO_ROOM, WHOLE, is_new_key, next_item, rows_by
from logcore.columns.kernels.parsing.varints import from_zigzag, varint

_STRUCT, _LIST, _MOMENT = (int(NodeKind[name]) for name in ("STRUCT", "LIST", "MOMENT"))
_TEXT, _BYTES = (int(NodeKind[name]) for name in ("TEXT", "BYTES"))
_VARINT32, _UNSIGNED32, _ZIGZAG32 = (int(NumberForm[name]) for name in ("VARINT32", "UNSIGNED32", "ZIGZAG32"))
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
    if form in (_FIXED32, _SIGNED_FIXED32):
        if end - position < 4:
            return nb.int64(0), nb.int64(-1)
        value = nb.int64(load32(source, position))
        return _low_32(value) if form == _SIGNED_FIXED32 else value, position + 4
    value, after = _varint(source, position, end)
    if form == _VARINT32:
        value = _low_32(value)
    elif form == _UNSIGNED32:
        value &= 0xFFFFFFFF
    elif form == _TRUTH:
        value = nb.int64(1) if value != 0 else nb.int64(0)
    elif form in (_ZIGZAG64, _ZIGZAG32):
        bits = nb.uint64(value) if form == _ZIGZAG64 else nb.uint64(value) & nb.uint64(0xFFFFFFFF)
        value = from_zigzag(bits)
    return value, after


@called
def _wire_of(form):
    if form == _FIXED64:
        return nb.int64(_WIRE_64)
    return nb.int64(_WIRE_32) if form in (_FIXED32, _SIGNED_FIXED32) else nb.int64(_WIRE_VARINT)


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
def _opened(nodes, fields, stack, levels, depth, node, index, end):
    """Begin a message: its absent fields without presence have their defaults."""
    entry = node * NODE
    store8(to_bytes(nodes[entry + VALID]), index, 1)
    top = depth * LEVEL
    store64(levels, top + LEVEL_NODE, node)
    store64(levels, top + LEVEL_INDEX, index)
    store64(levels, top + LEVEL_SEEN, 0)
    store64(levels, top + LEVEL_END, end)
    store64(levels, top + LEVEL_OPENED, 0)
    for at in range(nodes[entry + FIRST], nodes[entry + FIRST] + nodes[entry + COUNT]):
        child = fields[at * FIELD + FIELD_NODE] * NODE
        if not nodes[child + NULLABLE]:
            store8(to_bytes(nodes[child + VALID]), index, 1)


@called
def _field_of(fields, first, count, number, following):
    """Which field of a message has a number, -1 for none. `following`: the field to look at first."""
    for turn in range(count):
        at = following + turn
        if at >= count:
            at -= count
        if fields[(first + at) * FIELD + FIELD_NUMBER] == number:
            return at
    return nb.int64(-1)


@called
def _row(source, position, end, index, frame):
    """Decode a row; return WHOLE, DOUBT or NO_ROOM."""
    nodes, fields = numbers(frame.nodes), numbers(frame.fields)
    scopes, scopes_bytes = numbers(frame.scopes), pointer(frame.scopes)
    stack, levels = numbers(frame.stack), pointer(frame.stack)
    _opened(nodes, fields, stack, levels, nb.int64(0), nb.int64(0), index, end)
    depth = nb.int64(1)
    while True:
        top = (depth - 1) * LEVEL
        node, index, stop = stack[top + LEVEL_NODE], stack[top + LEVEL_INDEX], stack[top + LEVEL_END]
        seen = stack[top + LEVEL_SEEN]
        if position == stop:
            needed = nodes[node * NODE + REQUIRED]
            if (seen & needed) != needed:
                return nb.int64(DOUBT)
            depth -= 1
            if depth == 0:
                return nb.int64(WHOLE)
            if nodes[node * NODE + KEYED]:
                top -= LEVEL
                field = nodes[stack[top + LEVEL_NODE] * NODE + FIRST] + stack[top + LEVEL_OPENED]
                listed, at = fields[field * FIELD + FIELD_NODE], stack[top + LEVEL_INDEX]
                if not is_new_key(source, nodes, fields, listed, at, index):
                    return nb.int64(DOUBT)
            continue
        tag, position = _short_varint(source, position, stop)
        if position < 0 or tag < 8:
            return nb.int64(DOUBT)
        wire, first = tag & 7, nodes[node * NODE + FIRST]
        at = _field_of(fields, first, nodes[node * NODE + COUNT], tag >> 3, stack[top + LEVEL_OPENED])
        if at < 0:
            position = _skipped(source, position, stop, wire)
            if position < 0:
                return nb.int64(DOUBT)
            continue
        bit, field = nb.int64(1) << at, (first + at) * FIELD
        if seen & fields[field + FIELD_OTHERS]:
            return nb.int64(DOUBT)
        store64(levels, top + LEVEL_SEEN, seen | bit)
        store64(levels, top + LEVEL_OPENED, at)
        node = fields[field + FIELD_NODE]
        entry = node * NODE
        if nodes[entry + KIND] == _LIST:
            listed, item = node, nodes[entry + FIRST]
            entry = item * NODE
            kind, form = nodes[entry + KIND], nodes[entry + LIMIT]
            if wire == _WIRE_LENGTH and kind != _STRUCT and kind != _TEXT and kind != _BYTES and kind != _MOMENT:
                size, position = _short_varint(source, position, stop)
                if position < 0 or size > stop - position:
                    return nb.int64(DOUBT)
                packed = position + size
                while position < packed:
                    place = next_item(nodes, scopes, scopes_bytes, listed, index)
                    if place < 0:
                        frame.full_scope = nodes[listed * NODE + SCOPE]
                        return nb.int64(NO_ROOM)
                    value, position = _number(source, position, packed, form)
                    if position < 0:
                        return nb.int64(DOUBT)
                    store64(to_bytes(nodes[entry + VALUES]), place, value)
                    store8(to_bytes(nodes[entry + VALID]), place, 1)
                continue
            index = next_item(nodes, scopes, scopes_bytes, listed, index)
            if index < 0:
                frame.full_scope = nodes[listed * NODE + SCOPE]
                return nb.int64(NO_ROOM)
            node, seen = item, nb.int64(0)
        kind, form = nodes[entry + KIND], nodes[entry + LIMIT]
        values, valid = to_bytes(nodes[entry + VALUES]), to_bytes(nodes[entry + VALID])
        if kind in (_STRUCT, _MOMENT, _TEXT, _BYTES):
            if wire != _WIRE_LENGTH:
                return nb.int64(DOUBT)
            size, position = _short_varint(source, position, stop)
            if position < 0 or size > stop - position:
                return nb.int64(DOUBT)
            if kind == _STRUCT:
                if seen & bit:
                    return nb.int64(DOUBT)
                _opened(nodes, fields, stack, levels, depth, node, index, position + size)
                depth += 1
                continue
            if kind == _MOMENT:
                found, is_certain = _moment(source, position, position + size)
                if not is_certain or seen & bit:
                    return nb.int64(DOUBT)
                store64(values, index, found)
            else:
                if kind == _TEXT and not is_utf8(source, position, position + size):
                    return nb.int64(DOUBT)
                store64(values, index, position)
                store64(to_bytes(nodes[entry + SIZES]), index, size)
            position += size
        else:
            if wire != _wire_of(form):
                return nb.int64(DOUBT)
            value, position = _number(source, position, stop, form)
            if position < 0:
                return nb.int64(DOUBT)
            store64(values, index, value)
        store8(valid, index, 1)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"protobuf_rows": rows_by(_row)}
