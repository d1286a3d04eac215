"""A schema as the program of a kernel: tables of numbers, and buffers for the columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from logcore.columns.kernels.call_frames import address_of
from logcore.columns.kernels.parsing.parsing_frames import (
    AFTER,
    BOUND_HIGH,
    BOUND_LOW,
    CLOSED,
    COUNT,
    FIRST,
    KIND,
    NODE,
    NULLABLE,
    REQUIRED,
    SCOPE,
    SCOPE_END,
    SCOPE_FIRST,
    SCOPE_ROOM,
    SCOPE_SIZE,
    SIZES,
    VALID,
    VALUES,
    NodeKind,
)

Integers = npt.NDArray[np.int64]
_FIRST_ITEMS = 2
"""Items of a list that are expected in each row before a block was seen, and at least."""


@dataclass(slots=True)
class Node:
    """A place of a document, and the node of the program with its number."""

    number: int
    kind: NodeKind
    nullable: int
    """As NULLABLE of the program."""
    scope: int
    children: list[Node] = field(default_factory=list)
    """Of a struct or union its fields; of a list its item."""
    required: int = 0
    """As REQUIRED or LIMIT of the program."""
    bound: int = 0
    """Of a decimal 10 to the power of its digits."""
    symbols: Mapping[int, str] = field(default_factory=dict)
    """Of a SYMBOL its names by their numbers; a number without a name is its own name."""
    is_closed: bool = False
    """As CLOSED or KEYED of the program."""
    item_scope: int = -1
    after: int = 0
    """As AFTER of the program."""


@dataclass(frozen=True, slots=True)
class Program:
    """What the kernel needs to know of a shape, without buffers."""

    root: Node
    nodes: tuple[Node, ...]
    """By number: the nodes of a scope follow each other."""
    fields: Integers
    names: npt.NDArray[np.uint8]
    scopes: tuple[tuple[int, int], ...]
    """Of each scope its first node and the one after its last."""
    first_fields: dict[int, int]
    """Of each struct the number of its first field."""

    items: list[int] = field(default_factory=list)
    """Of each scope so many values are expected for each row, as the block before had them."""

    def rooms(self, rows: int, nbytes: int) -> list[int]:
        """Return for how many values each scope has room at first. A block that needs more is decoded again.

        Args:
            rows: Of the block.
            nbytes: Of its values. A block of few rows may have taught that lists are long; most items have bytes.
        """
        items = self.items or [_FIRST_ITEMS] * len(self.scopes)
        most = max(_FIRST_ITEMS * rows, nbytes)
        return [rows, *(min(each * rows, most) + 1 for each in items[1:])]

    def expect(self, rows: int, counts: Sequence[int]) -> None:
        """Learn how many values the scopes had in a block: a quarter more are expected in the next one."""
        if rows:
            self.items[:] = [max(_FIRST_ITEMS, 1 + 5 * count // (4 * rows)) for count in counts]

    def buffers(self, rooms: list[int]) -> Buffers:
        """Return buffers with room for so many values in each scope."""
        return Buffers.of(self, rooms)


@dataclass(frozen=True, slots=True)
class Buffers:
    """Where the kernel writes the values of each node, and the tables that name these places."""

    values: list[Integers]
    sizes: list[Integers]
    valid: list[npt.NDArray[np.uint8]]
    nodes: Integers
    scopes: Integers

    @classmethod
    def of(cls, program: Program, rooms: list[int]) -> Buffers:
        """Return fresh buffers."""
        made = cls(
            [], [], [], np.zeros(len(program.nodes) * NODE, np.int64), np.zeros(len(rooms) * SCOPE_SIZE, np.int64)
        )
        for node in program.nodes:
            room = max(1, rooms[node.scope])
            made.values.append(np.empty(room, np.int64))
            made.sizes.append(np.empty(room, np.int64))
            made.valid.append(np.empty(room, np.uint8))
            entry = made.nodes[node.number * NODE : (node.number + 1) * NODE]
            entry[KIND], entry[NULLABLE], entry[REQUIRED] = node.kind, node.nullable, node.required
            entry[AFTER] = node.after
            for place, buffers in ((VALUES, made.values), (SIZES, made.sizes), (VALID, made.valid)):
                buffer: npt.NDArray[Any] = buffers[-1]
                entry[place] = address_of(buffer)
            entry[BOUND_HIGH], entry[BOUND_LOW] = np.array(divmod(node.bound, 1 << 64), np.uint64).view(np.int64)
            if node.kind in (NodeKind.STRUCT, NodeKind.UNION):
                entry[FIRST], entry[COUNT] = program.first_fields[node.number], len(node.children)
                entry[CLOSED] = node.is_closed
            elif node.kind == NodeKind.LIST:
                entry[FIRST], entry[SCOPE] = node.children[0].number, node.item_scope
                entry[CLOSED] = node.is_closed
        for scope, (first, end) in enumerate(program.scopes):
            at = scope * SCOPE_SIZE
            made.scopes[at + SCOPE_FIRST], made.scopes[at + SCOPE_END] = first, end
            made.scopes[at + SCOPE_ROOM] = rooms[scope]
        return made
