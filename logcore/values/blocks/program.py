"""A schema as the program of a kernel: tables of numbers, and buffers for the columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from logcore.columns.kernels.call_frames import address_of
from logcore.columns.kernels.parsing.parsing_frames import (
    AFTER,
    BOUND_HIGH,
    BOUND_LOW,
    CLOSED,
    COUNT,
    FIELD,
    FIELD_NODE,
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


MOST_NODES = 2000
"""Nodes of a program; schemas with more have the plain way alone."""

Shape = TypeVar("Shape")


class UnknownToKernel(Exception):
    """The kernel does not know a part of a schema."""


@dataclass(slots=True)
class ProgramBuilder(ABC, Generic[Shape]):
    """Builds one program. A format says in :meth:`node` what its parts become."""

    nodes: list[Node] = field(default_factory=list)
    fields: list[int] = field(default_factory=list)
    names: bytearray = field(default_factory=bytearray)
    scopes: list[tuple[int, int]] = field(default_factory=list)
    first_fields: dict[int, int] = field(default_factory=dict)
    waiting: list[tuple[Node, Shape]] = field(default_factory=list)
    """Lists whose items are numbered later: each list begins a scope."""

    @abstractmethod
    def node(self, shape: Shape, scope: int) -> Node:
        """Add a part of the schema with all that is in the same scope.

        Raises:
            UnknownToKernel: The kernel does not know it.
        """

    def program(self, shape: Shape) -> Program | None:
        """Return the program of a schema; None if it has parts that the kernel does not know."""
        try:
            root = self._scope(shape)
            while self.waiting:
                node, item = self.waiting.pop(0)
                node.item_scope = len(self.scopes)
                node.children.append(self._scope(item))
        except UnknownToKernel:
            return None
        fields = np.array(self.fields or [0], np.int64)
        names = np.frombuffer(bytes(self.names) or b"\0", np.uint8)
        return Program(root, tuple(self.nodes), fields, names, tuple(self.scopes), self.first_fields)

    def added(self, kind: NodeKind, nullable: int, scope: int) -> Node:
        """Add a node without children.

        Raises:
            UnknownToKernel: There are too many.
        """
        if len(self.nodes) >= MOST_NODES:
            raise UnknownToKernel
        node = Node(len(self.nodes), kind, nullable, scope, after=len(self.nodes) + 1)
        self.nodes.append(node)
        return node

    def listed(self, item: Shape, nullable: int, scope: int) -> Node:
        """Add a list; its items are numbered later."""
        node = self.added(NodeKind.LIST, nullable, scope)
        self.waiting.append((node, item))
        return node

    def struct(self, parts: Sequence[Shape], nullable: int, scope: int) -> Node:
        """Add a struct with its fields; the format completes their entries, from :meth:`entry` on."""
        node = self.added(NodeKind.STRUCT, nullable, scope)
        self.first_fields[node.number] = len(self.fields) // FIELD
        self.fields += [0] * (FIELD * len(parts))
        for at, part in enumerate(parts):
            child = self.node(part, scope)
            node.children.append(child)
            self.fields[self.entry(node, at) + FIELD_NODE] = child.number
        node.after = len(self.nodes)
        return node

    def entry(self, node: Node, at: int) -> int:
        """Return where the entry of a struct's field begins in ``fields``."""
        return (self.first_fields[node.number] + at) * FIELD

    def _scope(self, shape: Shape) -> Node:
        first, number = len(self.nodes), len(self.scopes)
        self.scopes.append((first, first))
        root = self.node(shape, number)
        self.scopes[number] = (first, len(self.nodes))
        return root
