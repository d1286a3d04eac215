"""A message of Protobuf as the program of the kernel `protobuf_rows`."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.descriptor import FieldDescriptor

from logcore.columns.kernels.parsing.parsing_frames import (
    FIELD_OTHERS,
    FIELD_TAG,
    MOST_FIELDS,
    NodeKind,
    NumberForm,
)
from logcore.values.blocks.program import Node, Program
from logcore.values.blocks.program_builder import ProgramBuilder, UnknownToKernel
from logcore.values.protobuf.kinds import TIMESTAMP_KIND, FieldShape, Kind, MessageKind, ScalarKind

_LENGTH = 2

_NUMBERS = {
    1: (NodeKind.FLOAT64, NumberForm.FIXED64),
    2: (NodeKind.FLOAT32, NumberForm.FIXED32),
    3: (NodeKind.INTEGER, NumberForm.VARINT64),
    4: (NodeKind.UNSIGNED64, NumberForm.VARINT64),
    5: (NodeKind.INT32, NumberForm.VARINT32),
    6: (NodeKind.UNSIGNED64, NumberForm.FIXED64),
    7: (NodeKind.INTEGER, NumberForm.FIXED32),
    8: (NodeKind.TRUTH, NumberForm.TRUTH),
    13: (NodeKind.INTEGER, NumberForm.UNSIGNED32),
    15: (NodeKind.INT32, NumberForm.SIGNED_FIXED32),
    16: (NodeKind.INTEGER, NumberForm.FIXED64),
    17: (NodeKind.INT32, NumberForm.ZIGZAG32),
    18: (NodeKind.INTEGER, NumberForm.ZIGZAG64),
    FieldDescriptor.TYPE_ENUM: (NodeKind.SYMBOL, NumberForm.VARINT32),
}
"""By the type of the field."""
_CONTENTS = {FieldDescriptor.TYPE_STRING: NodeKind.TEXT, FieldDescriptor.TYPE_BYTES: NodeKind.BYTES}
_WIRE_TYPES = {1: 1, 6: 1, 16: 1, 2: 5, 7: 5, 15: 5} | dict.fromkeys((9, 11, 12), _LENGTH)
"""Of fields that are no varints."""
_KEYS = (3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 18)
"""Types of a map's keys: text, truth and whole numbers."""


def program_of(kind: MessageKind) -> Program | None:
    """Return the program of a message; None if it has parts that the kernel does not know: groups, closed enums,
    messages without fields, messages that become JSON.
    """
    return _ProtobufBuilder().program(_Part(kind))


@dataclass(frozen=True, slots=True)
class _Part:
    """The whole message, a field of a message, or an item of a repeated field."""

    kind: Kind
    shape: FieldShape | None = None
    is_field: bool = False
    is_entry: bool = False
    """Of a map."""
    is_in_entry: bool = False
    """The key or value of a map. An absent one has its default."""


class _ProtobufBuilder(ProgramBuilder[_Part]):
    def node(self, shape: _Part, scope: int) -> Node:
        """See `ProgramBuilder`. Items and messages have presence: only absent fields have defaults."""
        field = shape.shape
        if field is not None and field.field.type == FieldDescriptor.TYPE_GROUP:
            raise UnknownToKernel
        if shape.is_field and field is not None and field.is_map:
            return self.listed(_Part(shape.kind, field, is_entry=True), False, scope)
        if shape.is_field and field is not None and field.field.is_repeated:
            return self.listed(_Part(shape.kind, field), False, scope)
        if shape.is_entry:
            return self._entry(shape.kind, scope)
        has_presence = not shape.is_field or field is None or field.field.has_presence or field.field.is_required
        has_presence = has_presence and not shape.is_in_entry
        match shape.kind:
            case MessageKind() as message:
                if message is TIMESTAMP_KIND:
                    return self.added(NodeKind.MOMENT, True, scope)
                return self._message(message, scope)
            case ScalarKind(symbols=symbols, is_closed=is_closed):
                assert field is not None
                if is_closed:
                    raise UnknownToKernel
                if field.field.type in _CONTENTS:
                    return self.added(_CONTENTS[field.field.type], has_presence, scope)
                kind, form = _NUMBERS[field.field.type]
                node = self.added(kind, has_presence, scope)
                node.required, node.symbols = form, symbols
                return node

    def _entry(self, kind: Kind, scope: int) -> Node:
        """An entry of a map. Entries without a message as the value are doubted: the message has its defaults then."""
        assert isinstance(kind, MessageKind)
        key, value = kind.fields[1], kind.fields[2]
        parts = [each.field for each in (key, value)]
        if key.field.type not in _KEYS or any(each.is_required or each.containing_oneof is not None for each in parts):
            raise UnknownToKernel
        node = self.struct([_Part(each.kind, each, True, is_in_entry=True) for each in (key, value)], True, scope)
        node.is_closed = True
        node.required = 2 if isinstance(value.kind, MessageKind) else 0
        for at, each in enumerate((key, value)):
            self.fields[self.entry(node, at) + FIELD_TAG] = _tag(each)
        return node

    def _message(self, kind: MessageKind, scope: int) -> Node:
        shapes = list(kind.fields.values())
        if not shapes or kind.is_json or len(shapes) > MOST_FIELDS:
            raise UnknownToKernel
        node = self.struct([_Part(each.kind, each, True) for each in shapes], True, scope)
        node.required = sum(1 << at for at, each in enumerate(shapes) if each.field.is_required)
        for at, each in enumerate(shapes):
            entry = self.entry(node, at)
            self.fields[entry + FIELD_TAG] = _tag(each)
            self.fields[entry + FIELD_OTHERS] = _others(each.field, shapes)
        return node


def _tag(shape: FieldShape) -> int:
    """The tag of a field whose values are not packed."""
    number: int = shape.field.number
    return number << 3 | _WIRE_TYPES.get(shape.field.type, 0)


def _others(own: FieldDescriptor, shapes: list[FieldShape]) -> int:
    """A bit for each other member of the field's oneof."""
    oneof = own.containing_oneof
    others = {each.number for each in oneof.fields} - {own.number} if oneof is not None else set()
    return sum(1 << at for at, shape in enumerate(shapes) if shape.field.number in others)
