"""A shape of JSON values as the program of the kernel `json_rows`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from logcore.columns.kernels.parsing.parsing_frames import (
    FIELD,
    FIELD_NAME,
    FIELD_NODE,
    FIELD_SIZE,
    MOST_FIELDS,
    NodeKind,
)
from logcore.values.blocks.program import MOST_NODES, Node, Program
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
    integer_of: NodeKind.INTEGER,
    number_of: NodeKind.NUMBER,
    truth_of: NodeKind.TRUTH,
    text_of: NodeKind.TEXT,
    date_of: NodeKind.DATE,
    moment_of: NodeKind.MOMENT,
}
_NOT_IN_NAMES = frozenset(map(chr, range(32))) | {'"', "\\"}


def program_of(shape: JsonShape) -> Program | None:
    """Return the program of a shape; None if it has parts that the kernel does not know, such as maps."""
    try:
        return _Builder().program(shape)
    except _NotKnown:
        return None


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

    def program(self, shape: JsonShape) -> Program:
        """Number the nodes scope by scope."""
        root = self._scope(shape)
        while self.waiting:
            node, listed = self.waiting.pop(0)
            node.item_scope = len(self.scopes)
            node.children.append(self._scope(listed.item))
        fields = np.array(self.fields or [0], np.int64)
        names = np.frombuffer(bytes(self.names) or b"\0", np.uint8)
        return Program(root, tuple(self.nodes), fields, names, tuple(self.scopes), self.first_fields)

    def _scope(self, shape: JsonShape) -> Node:
        first, number = len(self.nodes), len(self.scopes)
        self.scopes.append((first, first))
        root = self._node(shape, number)
        self.scopes[number] = (first, len(self.nodes))
        return root

    def _node(self, shape: JsonShape, scope: int) -> Node:
        if len(self.nodes) >= MOST_NODES:
            raise _NotKnown
        if isinstance(shape, JsonScalar) and shape.of in _SCALARS:
            return self._added(_SCALARS[shape.of], shape.nullable, scope)
        if isinstance(shape, JsonList):
            node = self._added(NodeKind.LIST, shape.nullable, scope)
            self.waiting.append((node, shape))
            return node
        if isinstance(shape, JsonStruct):
            return self._struct(shape, scope)
        raise _NotKnown

    def _struct(self, shape: JsonStruct, scope: int) -> Node:
        if len(shape.fields) > MOST_FIELDS or any(_NOT_IN_NAMES & set(each.name) for each in shape.fields):
            raise _NotKnown
        node = self._added(NodeKind.STRUCT, shape.nullable, scope)
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

    def _added(self, kind: NodeKind, is_nullable: bool, scope: int) -> Node:
        node = Node(len(self.nodes), kind, is_nullable, scope)
        self.nodes.append(node)
        return node
