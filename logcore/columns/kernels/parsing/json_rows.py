"""JSON documents of one shape, one in each row, become columns. The plain decoder is the specification.

A row is used only if everything about it is certain. Otherwise it is a doubt: it counts as null, and the caller decodes
it plainly. Doubts are all errors, and what is rare or hard: numbers of more than 18 digits, fractions where rounding is
not exact, surrogates, objects and arrays that the schema lacks. Of maps: two equal keys, escapes in keys, many entries.

No byte outside of a row is read. There is no recursion: the levels are those of the schema.
"""

from typing import Any

import numba as nb

from logcore.columns.kernels.machine.functions import called
from logcore.columns.kernels.machine.intrinsics import numbers, pointer, store8, store64, to_bytes
from logcore.columns.kernels.parsing.json_tokens import (
    after_blanks,
    days_at,
    is_word,
    moment_at,
    number_at,
    plain_end,
    text_end,
)
from logcore.columns.kernels.parsing.parsing_frames import (
    CLOSED,
    COUNT,
    ESCAPED,
    EXTRA,
    EXTRA_OPENED,
    EXTRA_SIZE,
    EXTRA_START,
    FIELD,
    FIELD_NAME,
    FIELD_NODE,
    FIELD_SIZE,
    FIRST,
    KEYED,
    KIND,
    LEVEL,
    LEVEL_INDEX,
    LEVEL_NEXT,
    LEVEL_NODE,
    LEVEL_OPENED,
    LEVEL_SEEN,
    MOST_EXTRAS,
    NODE,
    NULLABLE,
    REQUIRED,
    SCOPE,
    SIZES,
    VALID,
    VALUES,
    NodeKind,
)
from logcore.columns.kernels.parsing.scopes import DOUBT, NO_ROOM, WHOLE, clear, is_new_key, next_item, rows_by
from logcore.columns.kernels.parsing.texts import byte_at, is_digit

_STRUCT, _LIST, _INTEGER, _NUMBER = (int(NodeKind[name]) for name in ("STRUCT", "LIST", "INTEGER", "NUMBER"))
_TRUTH, _TEXT, _DATE, _MOMENT = (int(NodeKind[name]) for name in ("TRUTH", "TEXT", "DATE", "MOMENT"))
_VALUE, _AFTER, _KEY = range(3)
"""What comes next in a row: a value; what follows a value; a key."""


@called
def _field_of(source, position, end, fields, names, first, count, following):
    """Which field of a struct a key names: its number, -1 for none. `position`: after the quote of the key.

    Args:
        following: The field to look at first.
    """
    for turn in range(count):
        at = following + turn
        if at >= count:
            at -= count
        entry = (first + at) * FIELD
        size, begun = fields[entry + FIELD_SIZE], fields[entry + FIELD_NAME]
        if position + size >= end or byte_at(source, position + size) != 34:
            continue
        place = nb.int64(0)
        while place < size and byte_at(source, position + place) == byte_at(names, begun + place):
            place += 1
        if place == size:
            return at
    return nb.int64(-1)


@called
def _is_new_extra(source, extras, count, opened, start, size):
    """Whether no earlier key of the same struct is the same."""
    for number in range(count):
        at = number * EXTRA
        if extras[at + EXTRA_OPENED] == opened and extras[at + EXTRA_SIZE] == size:
            begun, place = extras[at + EXTRA_START], nb.int64(0)
            while place < size and byte_at(source, begun + place) == byte_at(source, start + place):
                place += 1
            if place == size:
                return False
    return True


@called
def _row(source, position, end, index, frame):
    """Decode a row; return WHOLE, DOUBT or NO_ROOM."""
    nodes, fields, names = numbers(frame.nodes), numbers(frame.fields), pointer(frame.names)
    scopes, stack, levels = numbers(frame.scopes), numbers(frame.stack), pointer(frame.stack)
    scopes_bytes = pointer(frame.scopes)
    extras, extras_bytes = numbers(frame.extras), pointer(frame.extras)
    node, depth, state = nb.int64(0), nb.int64(0), nb.int64(_VALUE)
    opened, extra_count = nb.int64(0), nb.int64(0)
    clear(nodes, scopes, nb.int64(0), index)
    while True:
        position = after_blanks(source, position, end)
        if state == _AFTER:
            if depth == 0:
                return nb.int64(WHOLE if position == end else DOUBT)
            if position >= end:
                return nb.int64(DOUBT)
            top = (depth - 1) * LEVEL
            node, index = stack[top + LEVEL_NODE], stack[top + LEVEL_INDEX]
            character = byte_at(source, position)
            position += 1
            if nodes[node * NODE + KIND] == _STRUCT:
                if character == 44:
                    state = nb.int64(_KEY)
                elif character == 125:
                    needed = nodes[node * NODE + REQUIRED]
                    if (stack[top + LEVEL_SEEN] & needed) != needed:
                        return nb.int64(DOUBT)
                    depth -= 1
                else:
                    return nb.int64(DOUBT)
            elif character == (125 if nodes[node * NODE + KEYED] else 93):
                depth -= 1
            elif character == 44 and nodes[node * NODE + KEYED]:
                state = nb.int64(_KEY)
            elif character == 44:
                state = nb.int64(_VALUE)
                index = next_item(nodes, scopes, scopes_bytes, node, index)
                if index < 0:
                    frame.full_scope = nodes[node * NODE + SCOPE]
                    return nb.int64(NO_ROOM)
                node = nodes[node * NODE + FIRST]
            else:
                return nb.int64(DOUBT)
            continue
        if position >= end:
            return nb.int64(DOUBT)
        character = byte_at(source, position)
        if state == _KEY:
            top = (depth - 1) * LEVEL
            node, index = stack[top + LEVEL_NODE], stack[top + LEVEL_INDEX]
            if character != 34:
                return nb.int64(DOUBT)
            first = nodes[node * NODE + FIRST]
            if nodes[node * NODE + KIND] == _LIST:  # a map: the key begins an entry
                start = position + 1
                stop, is_escaped = text_end(source, start, end)
                if stop < 0 or is_escaped:
                    return nb.int64(DOUBT)
                item = next_item(nodes, scopes, scopes_bytes, node, index)
                if item < 0:
                    frame.full_scope = nodes[node * NODE + SCOPE]
                    return nb.int64(NO_ROOM)
                store8(to_bytes(nodes[first * NODE + VALID]), item, 1)
                entry = nodes[first * NODE + FIRST] * FIELD
                key = fields[entry + FIELD_NODE] * NODE
                store64(to_bytes(nodes[key + VALUES]), item, start)
                store64(to_bytes(nodes[key + SIZES]), item, stop - start)
                store8(to_bytes(nodes[key + VALID]), item, 1)
                if not is_new_key(source, nodes, fields, node, index, item):
                    return nb.int64(DOUBT)
                position = after_blanks(source, stop + 1, end)
                if position >= end or byte_at(source, position) != 58:
                    return nb.int64(DOUBT)
                position += 1
                node, index = fields[entry + FIELD + FIELD_NODE], item
                state = nb.int64(_VALUE)
                continue
            found = _field_of(
                source, position + 1, end, fields, names, first, nodes[node * NODE + COUNT], stack[top + LEVEL_NEXT]
            )
            if found < 0:
                stop, is_escaped = text_end(source, position + 1, end)
                start, this = position + 1, stack[top + LEVEL_OPENED]
                if stop < 0 or is_escaped or nodes[node * NODE + CLOSED] or extra_count >= MOST_EXTRAS:
                    return nb.int64(DOUBT)
                if not _is_new_extra(source, extras, extra_count, this, start, stop - start):
                    return nb.int64(DOUBT)
                store64(extras_bytes, extra_count * EXTRA + EXTRA_OPENED, this)
                store64(extras_bytes, extra_count * EXTRA + EXTRA_START, start)
                store64(extras_bytes, extra_count * EXTRA + EXTRA_SIZE, stop - start)
                extra_count += 1
                position = after_blanks(source, stop + 1, end)
                if position >= end or byte_at(source, position) != 58:
                    return nb.int64(DOUBT)
                position = after_blanks(source, position + 1, end)
                if position >= end:
                    return nb.int64(DOUBT)
                position = plain_end(source, position, end)
                if position < 0:
                    return nb.int64(DOUBT)
                state = nb.int64(_AFTER)
                continue
            bit = nb.int64(1) << found
            if stack[top + LEVEL_SEEN] & bit:
                return nb.int64(DOUBT)
            store64(levels, top + LEVEL_SEEN, stack[top + LEVEL_SEEN] | bit)
            store64(levels, top + LEVEL_NEXT, found + 1)
            entry = (first + found) * FIELD
            position = after_blanks(source, position + fields[entry + FIELD_SIZE] + 2, end)
            if position >= end or byte_at(source, position) != 58:
                return nb.int64(DOUBT)
            position += 1
            node = fields[entry + FIELD_NODE]
            state = nb.int64(_VALUE)
            continue
        entry = node * NODE
        kind = nodes[entry + KIND]
        values, valid = to_bytes(nodes[entry + VALUES]), to_bytes(nodes[entry + VALID])
        state = nb.int64(_AFTER)
        if character == 110:
            if not nodes[entry + NULLABLE] or not is_word(source, position, end, 110, 117, 108, 108):
                return nb.int64(DOUBT)
            position += 4
        elif kind in (_STRUCT, _LIST):
            is_object = kind == _STRUCT or nodes[entry + KEYED] != 0
            if character != (123 if is_object else 91):
                return nb.int64(DOUBT)
            store8(valid, index, 1)
            top = depth * LEVEL
            store64(levels, top + LEVEL_NODE, node)
            store64(levels, top + LEVEL_INDEX, index)
            store64(levels, top + LEVEL_SEEN, 0)
            store64(levels, top + LEVEL_NEXT, 0)
            store64(levels, top + LEVEL_OPENED, opened)
            opened += 1
            depth += 1
            position = after_blanks(source, position + 1, end)
            if position < end and byte_at(source, position) == (125 if is_object else 93):
                continue  # an empty one: what follows a value ends it
            if is_object:
                state = nb.int64(_KEY)
            else:
                state = nb.int64(_VALUE)
                index = next_item(nodes, scopes, scopes_bytes, node, index)
                if index < 0:
                    frame.full_scope = nodes[entry + SCOPE]
                    return nb.int64(NO_ROOM)
                node = nodes[entry + FIRST]
        elif kind in (_TEXT, _DATE, _MOMENT):
            if character != 34:
                return nb.int64(DOUBT)
            position += 1
            stop, is_escaped = text_end(source, position, end)
            if stop < 0:
                return nb.int64(DOUBT)
            if kind == _TEXT:
                store64(values, index, position)
                size = stop - position
                store64(to_bytes(nodes[entry + SIZES]), index, size | ESCAPED if is_escaped else size)
            else:
                if kind == _DATE:
                    found, is_one = days_at(source, position, stop)
                    is_one = is_one and stop - position == 10
                else:
                    found, is_one = moment_at(source, position, stop)
                if not is_one:
                    return nb.int64(DOUBT)
                store64(values, index, found)
            store8(valid, index, 1)
            position = stop + 1
        elif kind == _TRUTH:
            if is_word(source, position, end, 116, 114, 117, 101):
                store64(values, index, 1)
                position += 4
            elif is_word(source, position, end, 102, 97, 108, 115) and (
                end - position >= 5 and byte_at(source, position + 4) == 101
            ):
                store64(values, index, 0)
                position += 5
            else:
                return nb.int64(DOUBT)
            store8(valid, index, 1)
        else:
            if character != 45 and not is_digit(character):
                return nb.int64(DOUBT)
            position, value, power, is_integer = number_at(source, position, end)
            if position < 0 or (kind == _INTEGER and not is_integer):
                return nb.int64(DOUBT)
            store64(values, index, value)
            store64(to_bytes(nodes[entry + SIZES]), index, power)
            store8(valid, index, 1)


def kernels(has_crc32c: bool) -> dict[str, Any]:
    """The sources of the kernels of this module."""
    return {"json_rows": rows_by(_row)}
