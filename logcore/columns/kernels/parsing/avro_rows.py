"""Avro values of one writer's schema, one in each row, become columns. The plain decoder is the specification.

A row is used only if it is exactly one value. Otherwise it is a doubt: it counts as null, and the caller decodes it
plainly. Every length is compared with what is left of the row before it is used, so that no byte outside of a row is
read. There is no recursion: the levels are those of the schema.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels.machine.functions import called
from logcore.columns.kernels.machine.intrinsics import load32, load64, numbers, pointer, store8, store64, to_bytes
from logcore.columns.kernels.machine.values import is_utf8
from logcore.columns.kernels.parsing.parsing_frames import (
    BOUND_HIGH,
    BOUND_LOW,
    COUNT,
    FIELD,
    FIELD_NODE,
    FIRST,
    KEYED,
    KIND,
    LEVEL,
    LEVEL_INDEX,
    LEVEL_NEXT,
    LEVEL_NODE,
    LEVEL_SEEN,
    LIMIT,
    NODE,
    NULL_FIRST,
    NULLABLE,
    SCOPE,
    SIZES,
    VALID,
    VALUES,
    NodeKind,
)
from logcore.columns.kernels.parsing.scopes import DOUBT, NO_ROOM, WHOLE, clear, is_new_key, next_item, rows_by
from logcore.columns.kernels.parsing.texts import byte_at
from logcore.columns.kernels.parsing.varints import LONGEST, from_zigzag, varint

_STRUCT, _LIST, _INTEGER, _TRUTH = (int(NodeKind[name]) for name in ("STRUCT", "LIST", "INTEGER", "TRUTH"))
_TEXT, _DATE, _MOMENT, _INT32 = (int(NodeKind[name]) for name in ("TEXT", "DATE", "MOMENT", "INT32"))
_FLOAT32, _FLOAT64, _BYTES, _FIXED = (int(NodeKind[name]) for name in ("FLOAT32", "FLOAT64", "BYTES", "FIXED"))
_SYMBOL, _MILLIS = (int(NodeKind[name]) for name in ("SYMBOL", "MILLIS"))
_DECIMAL, _FIXED_DECIMAL, _UNION = (int(NodeKind[name]) for name in ("DECIMAL", "FIXED_DECIMAL", "UNION"))
_WIDEST_DECIMAL = 16
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST_MOMENT, _END_OF_MOMENTS = -62_135_596_800_000_000, 253_402_300_800_000_000
_FIRST_MILLI, _END_OF_MILLIS = _FIRST_MOMENT // 1000, _END_OF_MOMENTS // 1000
_NO_BLOCK = -1


@called
def _zigzag(source, position, end):
    """The zigzag number at a position, and the position after it; -1 where there is none."""
    bits, after = varint(source, position, end)
    if after - position == LONGEST and byte_at(source, after - 1) > 1:  # more than 64 bits
        return nb.int64(0), nb.int64(-1)
    return from_zigzag(bits), after


@called
def _number(source, position, end, kind, limit):
    """A value of one zigzag number, and the position after it; -1 for a doubt."""
    value, after = _zigzag(source, position, end)
    if kind == _INT32 and (value < -0x80000000 or value > 0x7FFFFFFF):
        return value, nb.int64(-1)
    if kind == _DATE and (value < _FIRST_DAY or value > _LAST_DAY):
        return value, nb.int64(-1)
    if kind == _MOMENT and (value < _FIRST_MOMENT or value >= _END_OF_MOMENTS):
        return value, nb.int64(-1)
    if kind == _MILLIS:
        if value < _FIRST_MILLI or value >= _END_OF_MILLIS:
            return value, nb.int64(-1)
        value *= 1000
    if kind == _SYMBOL and (value < 0 or value >= limit):
        return value, nb.int64(-1)
    return value, after


@called
def _bytes(source, position, end, kind, limit):
    """Where bytes or a text begin, and their size; a size of -1 for a doubt."""
    size, begun = limit, position
    if kind != _FIXED and kind != _FIXED_DECIMAL:
        size, begun = _zigzag(source, position, end)
        if begun < 0 or size < 0:
            return position, nb.int64(-1)
    if size > end - begun:
        return position, nb.int64(-1)
    if kind == _TEXT and not is_utf8(source, begun, begun + size):
        return position, nb.int64(-1)
    return begun, size


@called
def _decimal(source, begun, size):
    """The upper and lower 64 bits of a big-endian number with a sign."""
    high, low = nb.int64(0), nb.int64(0)
    if size > 0 and byte_at(source, begun) >= 128:
        high, low = nb.int64(-1), nb.int64(-1)
    for place in range(size):
        high = high << 8 | (low >> 56 & 255)
        low = low << 8 | byte_at(source, begun + place)
    return high, low


@called
def _is_below(high, low, bound_high, bound_low):
    """Whether a number without its sign is below a bound."""
    if high < 0:
        low = -low
        high = ~high
        if low == 0:
            high += 1
    if high == bound_high:
        return nb.uint64(low) < nb.uint64(bound_low)
    return nb.uint64(high) < nb.uint64(bound_high)


@called
def _row(source, position, end, index, frame):
    """Decode a row; return WHOLE, DOUBT or NO_ROOM."""
    nodes, fields = numbers(frame.nodes), numbers(frame.fields)
    scopes, scopes_bytes = numbers(frame.scopes), pointer(frame.scopes)
    stack, levels = numbers(frame.stack), pointer(frame.stack)
    node, depth, is_value = nb.int64(0), nb.int64(0), True
    clear(nodes, scopes, nb.int64(0), index)
    while True:
        if not is_value:
            if depth == 0:
                return nb.int64(WHOLE if position == end else DOUBT)
            top = (depth - 1) * LEVEL
            node, index = stack[top + LEVEL_NODE], stack[top + LEVEL_INDEX]
            following = stack[top + LEVEL_NEXT]
            if nodes[node * NODE + KIND] == _STRUCT:
                if following == nodes[node * NODE + COUNT]:
                    depth -= 1
                    if nodes[node * NODE + KEYED]:
                        top -= LEVEL
                        of_map, at = stack[top + LEVEL_NODE], stack[top + LEVEL_INDEX]
                        if not is_new_key(source, nodes, fields, of_map, at, index):
                            return nb.int64(DOUBT)
                    continue
                store64(levels, top + LEVEL_NEXT, following + 1)
                node = fields[(nodes[node * NODE + FIRST] + following) * FIELD + FIELD_NODE]
                is_value = True
                continue
            if following == 0:  # the next block of a list
                stop = stack[top + LEVEL_SEEN]
                if stop != _NO_BLOCK and position != stop:
                    return nb.int64(DOUBT)
                following, position = _zigzag(source, position, end)
                if position < 0:
                    return nb.int64(DOUBT)
                stop = nb.int64(_NO_BLOCK)
                if following < 0:
                    size, position = _zigzag(source, position, end)
                    if position < 0 or size < 0 or size > end - position:
                        return nb.int64(DOUBT)
                    following = -following
                    stop = position + size
                if following < 0 or following > end - position:
                    return nb.int64(DOUBT)
                if following == 0:
                    depth -= 1
                    continue
                store64(levels, top + LEVEL_SEEN, stop)
            store64(levels, top + LEVEL_NEXT, following - 1)
            index = next_item(nodes, scopes, scopes_bytes, node, index)
            if index < 0:
                frame.full_scope = nodes[node * NODE + SCOPE]
                return nb.int64(NO_ROOM)
            node = nodes[node * NODE + FIRST]
            is_value = True
            continue
        entry = node * NODE
        kind, nullable, limit = nodes[entry + KIND], nodes[entry + NULLABLE], nodes[entry + LIMIT]
        values, valid = to_bytes(nodes[entry + VALUES]), to_bytes(nodes[entry + VALID])
        is_value = False
        if nullable:
            branch, position = _zigzag(source, position, end)
            if position < 0 or branch < 0 or branch > 1:
                return nb.int64(DOUBT)
            if (branch == 0) == (nullable == NULL_FIRST):
                continue
        if kind in (_STRUCT, _LIST):
            top = depth * LEVEL
            store64(levels, top + LEVEL_NODE, node)
            store64(levels, top + LEVEL_INDEX, index)
            store64(levels, top + LEVEL_SEEN, _NO_BLOCK)
            store64(levels, top + LEVEL_NEXT, 0)
            depth += 1
        elif kind in (_TEXT, _BYTES, _FIXED):
            begun, size = _bytes(source, position, end, kind, limit)
            if size < 0:
                return nb.int64(DOUBT)
            store64(values, index, begun)
            store64(to_bytes(nodes[entry + SIZES]), index, size)
            position = begun + size
        elif kind == _FLOAT64:
            if end - position < 8:
                return nb.int64(DOUBT)
            store64(values, index, nb.int64(load64(source, position)))
            position += 8
        elif kind == _FLOAT32:
            if end - position < 4:
                return nb.int64(DOUBT)
            store64(values, index, nb.int64(load32(source, position)))
            position += 4
        elif kind == _TRUTH:
            if position >= end or byte_at(source, position) > 1:
                return nb.int64(DOUBT)
            store64(values, index, byte_at(source, position))
            position += 1
        elif kind < _DECIMAL:
            value, position = _number(source, position, end, kind, limit)
            if position < 0:
                return nb.int64(DOUBT)
            store64(values, index, value)
        elif kind == _UNION:
            branch, position = _zigzag(source, position, end)
            if position < 0 or branch < 0:
                return nb.int64(DOUBT)
            if branch == limit:
                continue
            if limit >= 0 and branch > limit:
                branch -= 1
            if branch >= nodes[entry + COUNT]:
                return nb.int64(DOUBT)
            node, is_value = fields[(nodes[entry + FIRST] + branch) * FIELD + FIELD_NODE], True
        else:  # a decimal
            begun, size = _bytes(source, position, end, kind, limit)
            if size < 0 or size > _WIDEST_DECIMAL:
                return nb.int64(DOUBT)
            high, low = _decimal(source, begun, size)
            if not _is_below(high, low, nodes[entry + BOUND_HIGH], nodes[entry + BOUND_LOW]):
                return nb.int64(DOUBT)
            store64(values, index, low)
            store64(to_bytes(nodes[entry + SIZES]), index, high)
            position = begun + size
        store8(valid, index, 1)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The kernels of this module by name; they are the same for all processors."""
    return {"avro_rows": rows_by(_row)}
