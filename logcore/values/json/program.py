"""A shape of JSON values as the program of the kernel `json_rows`: tables of numbers, and buffers for the columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from logcore.columns.kernels.call_frames import address_of
from logcore.columns.kernels.parsing.parsing_frames import (
    CLOSED,
    COUNT,
    FIELD,
    FIELD_NAME,
    FIELD_NODE,
    FIELD_SIZE,
    FIRST,
    KIND,
    MOST_FIELDS,
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
    JsonKind,
)
from logcore.values.json.shape import (
    JsonList,
    JsonScalar,
    JsonShape,
    JsonStruct,
    date_of,
    integer_of,
    moment_of,
    number_of,
    text_of,
    truth_of,
)

_SCALARS = {
    integer_of: JsonKind.INTEGER,
    number_of: JsonKind.NUMBER,
    truth_of: JsonKind.TRUTH,
    text_of: JsonKind.TEXT,
    date_of: JsonKind.DATE,
    moment_of: JsonKind.MOMENT,
}
_MOST_NODES = 2000
_NOT_IN_NAMES = frozenset(map(chr, range(32))) | {'"', "\\"}

Integers = npt.NDArray[np.int64]


@dataclass(slots=True)
class Node:
    """A place of a document, and the node of the program with its number."""

    number: int
    kind: JsonKind
    is_nullable: bool
    scope: int
    children: list[Node] = field(default_factory=list)
    """Of a struct its fields; of a list its item."""
    required: int = 0
    is_closed: bool = False
    item_scope: int = -1


@dataclass(frozen=True, slots=True)
class JsonProgram:
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

    @classmethod
    def of(cls, shape: JsonShape) -> JsonProgram | None:
        """Return the program of a shape; None if it has parts that the kernel does not know, such as maps."""
        try:
            return _Builder().program(shape)
        except _NotKnown:
            return None

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
    def of(cls, program: JsonProgram, rooms: list[int]) -> Buffers:
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
            entry[KIND], entry[NULLABLE], entry[REQUIRED] = node.kind, node.is_nullable, node.required
            for place, buffers in ((VALUES, made.values), (SIZES, made.sizes), (VALID, made.valid)):
                buffer: npt.NDArray[Any] = buffers[-1]
                entry[place] = address_of(buffer)
            if node.kind == JsonKind.STRUCT:
                entry[FIRST], entry[COUNT] = program.first_fields[node.number], len(node.children)
                entry[CLOSED] = node.is_closed
            elif node.kind == JsonKind.LIST:
                entry[FIRST], entry[SCOPE] = node.children[0].number, node.item_scope
        for scope, (first, end) in enumerate(program.scopes):
            at = scope * SCOPE_SIZE
            made.scopes[at + SCOPE_FIRST], made.scopes[at + SCOPE_END] = first, end
            made.scopes[at + SCOPE_ROOM] = rooms[scope]
        return made


class _NotKnown(Exception):
    """The kernel does not know a part of a shape."""


@dataclass(slots=True)
class _Builder:
    nodes: list[Node] = field(default_factory=list)
    fields: list[int] = field(default_factory=list)
    names: bytearray = field(default_factory=bytearray)
    scopes: list[tuple[int, int]] = field(default_factory=list)
    first_fields: dict[int, int] = field(default_factory=dict)
    waiting: list[tuple[Node, JsonList]] = field(default_factory=list)

    def program(self, shape: JsonShape) -> JsonProgram:
        """Number the nodes scope by scope."""
        root = self._scope(shape)
        while self.waiting:
            node, listed = self.waiting.pop(0)
            node.item_scope = len(self.scopes)
            node.children.append(self._scope(listed.item))
        fields = np.array(self.fields or [0], np.int64)
        names = np.frombuffer(bytes(self.names) or b"\0", np.uint8)
        return JsonProgram(root, tuple(self.nodes), fields, names, tuple(self.scopes), self.first_fields)

    def _scope(self, shape: JsonShape) -> Node:
        first, number = len(self.nodes), len(self.scopes)
        self.scopes.append((first, first))
        root = self._node(shape, number)
        self.scopes[number] = (first, len(self.nodes))
        return root

    def _node(self, shape: JsonShape, scope: int) -> Node:
        if len(self.nodes) >= _MOST_NODES:
            raise _NotKnown
        if isinstance(shape, JsonScalar) and shape.of in _SCALARS:
            return self._added(_SCALARS[shape.of], shape.nullable, scope)
        if isinstance(shape, JsonList):
            node = self._added(JsonKind.LIST, shape.nullable, scope)
            self.waiting.append((node, shape))
            return node
        if isinstance(shape, JsonStruct):
            return self._struct(shape, scope)
        raise _NotKnown

    def _struct(self, shape: JsonStruct, scope: int) -> Node:
        if len(shape.fields) > MOST_FIELDS or any(_NOT_IN_NAMES & set(each.name) for each in shape.fields):
            raise _NotKnown
        node = self._added(JsonKind.STRUCT, shape.nullable, scope)
        node.required = sum(1 << at for at, each in enumerate(shape.fields) if each.required)
        node.is_closed = shape.closed
        begun = self.first_fields[node.number] = len(self.fields) // FIELD
        self.fields += [0] * (FIELD * len(shape.fields))
        for at, each in enumerate(shape.fields):
            name = each.name.encode()
            child = self._node(each.shape, scope)
            node.children.append(child)
            entry = (begun + at) * FIELD
            self.fields[entry + FIELD_NAME], self.fields[entry + FIELD_SIZE] = len(self.names), len(name)
            self.fields[entry + FIELD_NODE] = child.number
            self.names += name
        return node

    def _added(self, kind: JsonKind, is_nullable: bool, scope: int) -> Node:
        node = Node(len(self.nodes), kind, is_nullable, scope)
        self.nodes.append(node)
        return node
