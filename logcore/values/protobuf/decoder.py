"""The decoder of Protobuf values. One value after the other, read by Google's library, specifies the kernel's way."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.values.blocks.decoded_block import decode_block
from logcore.values.column import DecodedBlock
from logcore.values.json.fragment import Entries, json_text
from logcore.values.limits import check_size
from logcore.values.protobuf.descriptors import parse
from logcore.values.protobuf.kinds import FieldShape, Kind, MessageKind, ScalarKind
from logcore.values.protobuf.program import program_of
from logcore.values.protobuf.shape import protobuf_form, shape_of
from logcore.values.undecodable import Reason, Undecodable

_VARINT = 0


class ProtobufDecoder:
    """A `ValueDecoder` of one message type, and a `BlockDecoder` where the kernel knows all of its fields."""

    def __init__(
        self, schema: str, references: Mapping[str, str] = MappingProxyType({}), message: tuple[int, ...] | None = None
    ) -> None:
        """Read the compiled schema.

        Args:
            schema: See :func:`logcore.values.protobuf.descriptors.parse`.
            references: The same of its imports.
            message: Indexes of the message type; None: the first of the file.

        Raises:
            InvalidSchemaError: The schema cannot be used.
        """
        parsed = parse(schema, references)
        root = parsed.at(message or (0,))
        shape = shape_of(root, parsed.comments)
        self._root = shape.root
        self._message = GetMessageClass(root)
        self._layout = GetMessageClass(parsed.layouts.FindMessageTypeByName(root.full_name))
        self._program = program_of(shape.root)
        self.comments: Mapping[str, str] = shape.comments
        self.form = protobuf_form(shape.root)

    @property
    def arrow_type(self) -> pa.DataType:
        """See `ValueDecoder`."""
        return self._root.arrow_type

    def decode(self, body: bytes) -> object:
        """See `ValueDecoder`."""
        check_size(body)
        try:
            value = _message(self._root, self._layout.FromString(body))
        except DecodeError:
            raise Undecodable(Reason.NOT_PROTOBUF) from None
        try:
            self._message.FromString(body)
        except DecodeError:
            raise Undecodable(Reason.INVALID_UTF8, "", "text that another one replaces") from None
        return value

    def decode_block(self, bodies: pa.Array[Any]) -> DecodedBlock | None:
        """See `BlockDecoder`."""
        if self._program is None or bodies.type != pa.binary() or not is_chosen(Work.DECODE_PROTOBUF):
            return None
        return decode_block("protobuf_rows", self._program, self.arrow_type, bodies)


def _message(kind: MessageKind, message: Any) -> object:
    if kind.of is not None:
        return kind.of(message)
    # By way of the class: a field may have the name of a method.
    found = {field.number: value for field, value in type(message).ListFields(message)}
    values: dict[str, object] = {}
    for number, shape in kind.fields.items():
        try:
            values[shape.field.name] = _field(shape, found.get(number), message)
        except Undecodable as failure:
            raise failure.inside(shape.field.name) from None
    return json_text(values) if kind.is_json else values


def _field(shape: FieldShape, found: Any, message: Any) -> object:
    field = shape.field
    if found is None:
        if field.is_required:
            raise Undecodable(Reason.MISSING_FIELD)
        if field.is_repeated:
            return Entries() if shape.is_map else []
        return None if field.has_presence else _one(shape.kind, getattr(message, field.name))
    if shape.is_map:
        assert isinstance(shape.kind, MessageKind)
        return _map(shape.kind, found)
    if not field.is_repeated:
        return _one(shape.kind, found)
    values: list[object] = []
    for each in found:
        try:
            values.append(_one(shape.kind, each))
        except Undecodable as failure:
            raise failure.inside(f"[{len(values)}]") from None
    return values


def _one(kind: Kind, value: Any) -> object:
    return _message(kind, value) if isinstance(kind, MessageKind) else kind.of(value)


def _map(kind: MessageKind, found: Any) -> list[tuple[object, object]]:
    """The entries in the order of their keys' first place; of one key the last value counts.

    An entry whose value is no symbol of a closed enum is left out.
    """
    values: dict[object, object] = {}
    key, value = (kind.fields[number] for number in (1, 2))
    for number, entry in enumerate(found):
        if isinstance(value.kind, ScalarKind) and value.kind.is_closed and _has_unknown_symbol(entry):
            continue
        try:
            read = [_entry_part(each, entry) for each in (key, value)]
        except Undecodable as failure:
            raise failure.inside(f"[{number}]") from None
        values[read[0]] = read[1]
    return Entries(values.items())


def _entry_part(shape: FieldShape, entry: Any) -> object:
    try:
        return _one(shape.kind, getattr(entry, shape.field.name))
    except Undecodable as failure:
        raise failure.inside(shape.field.name) from None


def _has_unknown_symbol(entry: Any) -> bool:
    return any(each.field_number == 2 and each.wire_type == _VARINT for each in UnknownFieldSet(entry))
