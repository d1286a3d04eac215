"""What kernels that decode values share: rows and items of lists, and the loop over the rows of a block."""

from typing import Any

import numba as nb

from logcore.columns.kernels.call_frames import DONE, FULL
from logcore.columns.kernels.machine.functions import called
from logcore.columns.kernels.machine.intrinsics import byte, numbers, pointer, store8, store64, to_bytes
from logcore.columns.kernels.parsing.parsing_frames import (
    FIELD,
    FIELD_NODE,
    FIRST,
    KIND,
    MOST_ENTRIES,
    NODE,
    SCOPE,
    SCOPE_COUNT,
    SCOPE_END,
    SCOPE_FIRST,
    SCOPE_ROOM,
    SCOPE_SIZE,
    SIZES,
    VALID,
    VALUES,
    NodeKind,
)

WHOLE, DOUBT, NO_ROOM = 1, 0, -1
"""How a row ends: decoded; left to the plain way; a scope is full."""
_TEXT = int(NodeKind.TEXT)


@called
def clear(nodes, scopes, scope, index):
    """Make the values of a new row or item null."""
    for node in range(scopes[scope * SCOPE_SIZE + SCOPE_FIRST], scopes[scope * SCOPE_SIZE + SCOPE_END]):
        store8(to_bytes(nodes[node * NODE + VALID]), index, 0)
        store64(to_bytes(nodes[node * NODE + SIZES]), index, 0)
        store64(to_bytes(nodes[node * NODE + VALUES]), index, 0)


@called
def added_item(nodes, scopes, scopes_bytes, node, index):
    """Add an item to a list; return its index, -1 where the scope is full. Its values are not made null."""
    scope = nodes[node * NODE + SCOPE]
    at = scope * SCOPE_SIZE
    item = scopes[at + SCOPE_COUNT]
    if item >= scopes[at + SCOPE_ROOM]:
        return nb.int64(-1)
    store64(scopes_bytes, at + SCOPE_COUNT, item + 1)
    sizes = to_bytes(nodes[node * NODE + SIZES])
    store64(sizes, index, numbers(nb.uint64(nodes[node * NODE + SIZES]))[index] + 1)
    return item


@called
def next_item(nodes, scopes, scopes_bytes, node, index):
    """Begin an item of a list, with values that are null; return its index, -1 where the scope is full."""
    item = added_item(nodes, scopes, scopes_bytes, node, index)
    if item >= 0:
        clear(nodes, scopes, nodes[node * NODE + SCOPE], item)
    return item


@called
def is_new_key(source, nodes, fields, node, index, item):
    """Whether no earlier entry of a map has the key of its newest one. False also where the map has too many entries.

    The entries of one map follow each other in their scope. `node` and `index` are those of the map, `item` is the
    entry's index. The key is the first field of an entry.
    """
    count = numbers(nb.uint64(nodes[node * NODE + SIZES]))[index]
    if count > MOST_ENTRIES:
        return False
    key = fields[nodes[nodes[node * NODE + FIRST] * NODE + FIRST] * FIELD + FIELD_NODE] * NODE
    values, sizes = numbers(nb.uint64(nodes[key + VALUES])), numbers(nb.uint64(nodes[key + SIZES]))
    own, size, is_text = values[item], sizes[item], nodes[key + KIND] == _TEXT
    for earlier in range(item + 1 - count, item):
        if not is_text:
            if values[earlier] == own:
                return False
        elif sizes[earlier] == size:
            place = nb.int64(0)
            while place < size and byte(source, values[earlier] + place) == byte(source, own + place):
                place += 1
            if place == size:
                return False
    return True


def rows_by(row_of: Any) -> Any:
    """Make the kernel that decodes rows, until a scope is full.

    Args:
        row_of: Decodes a row: (source, start, end, index of the row, frame) to WHOLE, DOUBT or NO_ROOM. It writes all
            values of a row that is whole, also those that are null.
    """

    def decode_rows(frame):
        source, starts, ends = pointer(frame.source), numbers(frame.starts), numbers(frame.ends)
        nodes, scopes, scopes_bytes = numbers(frame.nodes), numbers(frame.scopes), pointer(frame.scopes)
        saved, saved_bytes, doubts = numbers(frame.saved), pointer(frame.saved), pointer(frame.doubts)
        frame.status = DONE
        for row in range(frame.rows):
            for scope in range(frame.scope_count):
                store64(saved_bytes, scope, scopes[scope * SCOPE_SIZE + SCOPE_COUNT])
            if ends[row] < 0:
                clear(nodes, scopes, nb.int64(0), row)
                continue
            found = nb.int64(DOUBT)
            if ends[row] - starts[row] <= frame.longest:
                found = row_of(source, starts[row], ends[row], nb.int64(row), frame)
            if found < 0:
                frame.status = FULL
                return nb.int64(0)
            if found == DOUBT:
                for scope in range(frame.scope_count):
                    store64(scopes_bytes, scope * SCOPE_SIZE + SCOPE_COUNT, saved[scope])
                clear(nodes, scopes, nb.int64(0), row)
                store64(doubts, frame.doubt_count, row)
                frame.doubt_count += 1
        return nb.int64(0)

    return decode_rows
