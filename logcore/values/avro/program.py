"""An Avro type as the program of the kernel `avro_rows`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from logcore.columns.kernels.parsing.parsing_frames import FIELD, FIELD_NODE, NULL_FIRST, NULL_SECOND, NodeKind
from logcore.values.avro.schema import Array, Enum, Fixed, Primitive, RecordType, Type, Union
from logcore.values.blocks.program import MOST_NODES, Node, Program

_NULL = Primitive("null")
_NUMBERS = {
    ("boolean", ""): NodeKind.TRUTH,
    ("int", ""): NodeKind.INT32,
    ("int", "date"): NodeKind.DATE,
    ("long", ""): NodeKind.INTEGER,
    ("long", "timestamp-millis"): NodeKind.MILLIS,
    ("long", "timestamp-micros"): NodeKind.MOMENT,
    ("float", ""): NodeKind.FLOAT32,
    ("double", ""): NodeKind.FLOAT64,
    ("bytes", ""): NodeKind.BYTES,
    ("string", ""): NodeKind.TEXT,
}


def program_of(kind: Type) -> Program | None:
    """Return the program of a type; None if it has parts that the kernel does not know: maps, decimals, other unions
    than of null and one type.
    """
    try:
        return _Builder().program(kind)
    except _NotKnown:
        return None


class _NotKnown(Exception):
    """The kernel does not know a part of a type."""


@dataclass(slots=True)
class _Builder:
    nodes: list[Node] = field(default_factory=list)
    fields: list[int] = field(default_factory=list)
    scopes: list[tuple[int, int]] = field(default_factory=list)
    first_fields: dict[int, int] = field(default_factory=dict)
    waiting: list[tuple[Node, Type]] = field(default_factory=list)

    def program(self, kind: Type) -> Program:
        """Number the nodes scope by scope."""
        root = self._scope(kind)
        while self.waiting:
            node, items = self.waiting.pop(0)
            node.item_scope = len(self.scopes)
            node.children.append(self._scope(items))
        fields = np.array(self.fields or [0], np.int64)
        names = np.zeros(1, np.uint8)
        return Program(root, tuple(self.nodes), fields, names, tuple(self.scopes), self.first_fields)

    def _scope(self, kind: Type) -> Node:
        first, number = len(self.nodes), len(self.scopes)
        self.scopes.append((first, first))
        root = self._node(kind, number)
        self.scopes[number] = (first, len(self.nodes))
        return root

    def _node(self, kind: Type, scope: int) -> Node:
        nullable = 0
        if isinstance(kind, Union):
            if len(kind.branches) != 2 or _NULL not in kind.branches:
                raise _NotKnown
            nullable = NULL_FIRST if kind.branches[0] == _NULL else NULL_SECOND
            kind = next(branch for branch in kind.branches if branch != _NULL)
        if len(self.nodes) >= MOST_NODES:
            raise _NotKnown
        match kind:
            case RecordType():
                return self._record(kind, nullable, scope)
            case Array(items):
                node = self._added(NodeKind.LIST, nullable, scope)
                self.waiting.append((node, items))
                return node
            case Enum(_, symbols):
                node = self._added(NodeKind.SYMBOL, nullable, scope)
                node.required, node.symbols = len(symbols), dict(enumerate(symbols))
                return node
            case Fixed(_, size, ""):
                node = self._added(NodeKind.FIXED, nullable, scope)
                node.required = size
                return node
            case Primitive(name, logical) if (name, logical) in _NUMBERS:
                return self._added(_NUMBERS[name, logical], nullable, scope)
        raise _NotKnown

    def _record(self, kind: RecordType, nullable: int, scope: int) -> Node:
        node = self._added(NodeKind.STRUCT, nullable, scope)
        begun = self.first_fields[node.number] = len(self.fields) // FIELD
        self.fields += [0] * (FIELD * len(kind.fields))
        for at, each in enumerate(kind.fields):
            child = self._node(each.type, scope)
            node.children.append(child)
            self.fields[(begun + at) * FIELD + FIELD_NODE] = child.number
        return node

    def _added(self, kind: NodeKind, nullable: int, scope: int) -> Node:
        node = Node(len(self.nodes), kind, nullable, scope)
        self.nodes.append(node)
        return node
