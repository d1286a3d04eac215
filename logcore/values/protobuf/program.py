"""A message of Protobuf as the program of the kernel `protobuf_rows`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from logcore.columns.kernels.parsing.parsing_frames import (
    FIELD,
    FIELD_NODE,
    FIELD_NUMBER,
    FIELD_OTHERS,
    MOST_FIELDS,
    NodeKind,
    NumberForm,
)
from logcore.values.blocks.program import MOST_NODES, Node, Program
from logcore.values.protobuf.descriptors import ENUM, FieldType
from logcore.values.protobuf.shape import ContentKind, FieldShape, MessageKind
from logcore.values.protobuf.wire import LENGTH

_NUMBERS = {
    1: (NodeKind.FLOAT64, NumberForm.FIXED64),
    2: (NodeKind.FLOAT32, NumberForm.FIXED32),
    3: (NodeKind.INTEGER, NumberForm.VARINT64),
    5: (NodeKind.INT32, NumberForm.VARINT32),
    7: (NodeKind.INTEGER, NumberForm.FIXED32),
    8: (NodeKind.TRUTH, NumberForm.TRUTH),
    13: (NodeKind.INTEGER, NumberForm.UNSIGNED32),
    15: (NodeKind.INT32, NumberForm.SIGNED_FIXED32),
    16: (NodeKind.INTEGER, NumberForm.FIXED64),
    17: (NodeKind.INT32, NumberForm.ZIGZAG32),
    18: (NodeKind.INTEGER, NumberForm.ZIGZAG64),
    ENUM: (NodeKind.SYMBOL, NumberForm.VARINT32),
}
"""By `FieldDescriptorProto.Type`; unsigned numbers of 64 bits are not among them."""


def program_of(kind: MessageKind) -> Program | None:
    """Return the program of a message; None if it has parts that the kernel does not know: maps, groups, closed enums,
    unsigned numbers of 64 bits, messages without fields.
    """
    try:
        return _Builder().program(kind)
    except _NotKnown:
        return None


class _NotKnown(Exception):
    """The kernel does not know a part of a message."""


@dataclass(slots=True)
class _Builder:
    nodes: list[Node] = field(default_factory=list)
    fields: list[int] = field(default_factory=list)
    scopes: list[tuple[int, int]] = field(default_factory=list)
    first_fields: dict[int, int] = field(default_factory=dict)
    waiting: list[tuple[Node, FieldShape]] = field(default_factory=list)

    def program(self, kind: MessageKind) -> Program:
        """Number the nodes scope by scope."""
        self.scopes.append((0, 0))
        root = self._message(kind, True, 0)
        self.scopes[0] = (0, len(self.nodes))
        while self.waiting:
            node, shape = self.waiting.pop(0)
            node.item_scope, first = len(self.scopes), len(self.nodes)
            self.scopes.append((first, first))
            node.children.append(self._value(shape, True, node.item_scope))
            self.scopes[node.item_scope] = (first, len(self.nodes))
        fields = np.array(self.fields or [0], np.int64)
        names = np.zeros(1, np.uint8)
        return Program(root, tuple(self.nodes), fields, names, tuple(self.scopes), self.first_fields)

    def _message(self, kind: MessageKind, has_presence: bool, scope: int) -> Node:
        if not kind.fields or kind.wire_type != LENGTH or len(kind.fields) > MOST_FIELDS:
            raise _NotKnown
        node = self._added(NodeKind.STRUCT, has_presence, scope)
        begun = self.first_fields[node.number] = len(self.fields) // FIELD
        self.fields += [0] * (FIELD * len(kind.fields))
        shapes = list(kind.fields.values())
        for at, shape in enumerate(shapes):
            child = self._field(shape, scope)
            node.children.append(child)
            node.required |= shape.field.is_required << at
            entry = (begun + at) * FIELD
            self.fields[entry + FIELD_NUMBER], self.fields[entry + FIELD_NODE] = shape.field.number, child.number
            self.fields[entry + FIELD_OTHERS] = _others(shape.field, shapes)
        return node

    def _field(self, shape: FieldShape, scope: int) -> Node:
        if shape.is_map:
            raise _NotKnown
        if shape.field.is_repeated:
            node = self._added(NodeKind.LIST, False, scope)
            self.waiting.append((node, shape))
            return node
        return self._value(shape, shape.field.has_presence or shape.field.is_required, scope)

    def _value(self, shape: FieldShape, has_presence: bool, scope: int) -> Node:
        kind = shape.kind
        if isinstance(kind, MessageKind):
            if kind.is_timestamp:
                return self._added(NodeKind.MOMENT, True, scope)
            return self._message(kind, True, scope)
        if isinstance(kind, ContentKind):
            return self._added(NodeKind.TEXT if kind.is_text else NodeKind.BYTES, has_presence, scope)
        if shape.field.type not in _NUMBERS or kind.is_closed:
            raise _NotKnown
        number, form = _NUMBERS[shape.field.type]
        node = self._added(number, has_presence, scope)
        node.required, node.symbols = form, kind.symbols
        return node

    def _added(self, kind: NodeKind, has_presence: bool, scope: int) -> Node:
        if len(self.nodes) >= MOST_NODES:
            raise _NotKnown
        node = Node(len(self.nodes), kind, int(has_presence), scope)
        self.nodes.append(node)
        return node


def _others(own: FieldType, shapes: list[FieldShape]) -> int:
    """A bit for each other member of the field's oneof."""
    if own.oneof is None:
        return 0
    return sum(
        1 << at
        for at, shape in enumerate(shapes)
        if shape.field.oneof == own.oneof and shape.field.number != own.number
    )
