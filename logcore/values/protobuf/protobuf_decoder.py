"""The decoder of Protobuf values. One value after the other, read by Google's library, specifies the kernel's way.

What a Protobuf message becomes: its columns, and how each field's content becomes a value.

| Protobuf | column |
|---|---|
| `int32`, `sint32`, `sfixed32` | int32 |
| `int64`, `sint64`, `sfixed64`, `uint32`, `fixed32` | int64 |
| `uint64`, `fixed64` | decimal(20, 0) |
| `float`, `double`, `bool`, `string`, `bytes` | the same |
| enum | its name as text; a number without a name as decimal text |
| message, group | struct; without fields, or inside of itself: JSON text |
| `google.protobuf.Struct`, `Value`, `ListValue` | JSON text |
| `google.protobuf.Timestamp` | timestamp in microseconds, UTC; nanoseconds below that are cut |
| `repeated`, `map` | list, map |

The kinds of a Protobuf field: its column, and what becomes of the value that Google's library reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.columns.kernels.parsing.parsing_frames import (
    FIELD_OTHERS,
    FIELD_TAG,
    MOST_FIELDS,
    NodeKind,
    NumberForm,
)
from logcore.values.blocks.decoded_block import decode_block
from logcore.values.blocks.program import Node, Program, ProgramBuilder, UnknownToKernel
from logcore.values.column import DecodedBlock
from logcore.values.form import EMPTY, ITEMS, JSON, NAMES, Form
from logcore.values.invalid_schema import InvalidSchemaError
from logcore.values.json.fragment import Entries, json_text
from logcore.values.limits import DEEPEST_VALUE, MOST_COLUMNS, check_size
from logcore.values.protobuf.descriptors import parse
from logcore.values.undecodable import Reason, Undecodable

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The first of year 1 and the last of year 9999: what `timestamp.proto` allows."""
_NANOS = 1_000_000_000
_EXACT = 1 << 53
"""Below it each whole number is a double."""


@dataclass(frozen=True, slots=True)
class ScalarKind:
    """A number, text, bytes or an enum."""

    arrow_type: pa.DataType
    of: Callable[[Any], object]
    symbols: Mapping[int, str] = field(default_factory=dict)
    """Of an enum."""
    is_closed: bool = False
    """Of an enum whose other numbers are unknown fields."""


@dataclass(frozen=True, slots=True)
class MessageKind:
    """A message or group."""

    arrow_type: pa.DataType
    fields: Mapping[int, FieldShape] = field(default_factory=dict)
    is_json: bool = False
    """Whether the fields become JSON text."""
    of: Callable[[Any], object] | None = None
    """For a message whose meaning is known: makes the value of the library's message."""


Kind = ScalarKind | MessageKind


@dataclass(frozen=True, slots=True)
class FieldShape:
    """A field of a message."""

    field: FieldDescriptor
    kind: Kind
    arrow_type: pa.DataType
    is_map: bool


def text_of(content: bytes) -> str:
    """Return the text of a field.

    Raises:
        Undecodable: INVALID_UTF8.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(Reason.INVALID_UTF8, f"byte {error.start}") from None


def _same(value: object) -> object:
    return value


SCALARS: Mapping[int, ScalarKind] = {
    FieldDescriptor.TYPE_DOUBLE: ScalarKind(pa.float64(), _same),
    FieldDescriptor.TYPE_FLOAT: ScalarKind(pa.float32(), _same),
    FieldDescriptor.TYPE_INT64: ScalarKind(pa.int64(), _same),
    FieldDescriptor.TYPE_UINT64: ScalarKind(pa.decimal128(20, 0), Decimal),
    FieldDescriptor.TYPE_INT32: ScalarKind(pa.int32(), _same),
    FieldDescriptor.TYPE_FIXED64: ScalarKind(pa.decimal128(20, 0), Decimal),
    FieldDescriptor.TYPE_FIXED32: ScalarKind(pa.int64(), _same),
    FieldDescriptor.TYPE_BOOL: ScalarKind(pa.bool_(), _same),
    FieldDescriptor.TYPE_STRING: ScalarKind(pa.string(), text_of),
    FieldDescriptor.TYPE_BYTES: ScalarKind(pa.binary(), _same),
    FieldDescriptor.TYPE_UINT32: ScalarKind(pa.int64(), _same),
    FieldDescriptor.TYPE_SFIXED32: ScalarKind(pa.int32(), _same),
    FieldDescriptor.TYPE_SFIXED64: ScalarKind(pa.int64(), _same),
    FieldDescriptor.TYPE_SINT32: ScalarKind(pa.int32(), _same),
    FieldDescriptor.TYPE_SINT64: ScalarKind(pa.int64(), _same),
}
"""By the type of the field."""


def _micros_of(time: Any) -> int:
    """Microseconds since the epoch."""
    if not _FIRST_SECOND <= time.seconds <= _LAST_SECOND or not 0 <= time.nanos < _NANOS:
        raise Undecodable(Reason.OUT_OF_RANGE, "", "no time between the years 1 and 9999")
    return int(time.seconds) * 1_000_000 + int(time.nanos) // 1_000


def _of_struct(struct: Any) -> object:
    return {text_of(entry.key): _of_value(entry.value) for entry in struct.fields}


def _of_list(listed: Any) -> object:
    return [_of_value(each) for each in listed.values]


def _of_value(value: Any) -> object:
    """A value without a kind is null."""
    match value.WhichOneof("kind"):
        case "number_value":
            return _number(value.number_value)
        case "string_value":
            return text_of(value.string_value)
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return _of_struct(value.struct_value)
        case "list_value":
            return _of_list(value.list_value)
    return None


def _number(number: float) -> int | float:
    """A number as JSON has it: whole ones without a fraction, if that is exact."""
    if not isfinite(number):
        raise Undecodable(Reason.OUT_OF_RANGE, "", "a number that JSON does not have")
    is_plain = number.is_integer() and abs(number) < _EXACT and str(number) != "-0.0"
    return int(number) if is_plain else number


TIMESTAMP_KIND = MessageKind(pa.timestamp("us", tz="UTC"), of=_micros_of)
KNOWN: Mapping[str, MessageKind] = {
    "google.protobuf.Timestamp": TIMESTAMP_KIND,
    "google.protobuf.Struct": MessageKind(pa.string(), is_json=True, of=lambda value: json_text(_of_struct(value))),
    "google.protobuf.Value": MessageKind(pa.string(), is_json=True, of=lambda value: json_text(_of_value(value))),
    "google.protobuf.ListValue": MessageKind(pa.string(), is_json=True, of=lambda value: json_text(_of_list(value))),
}
"""Messages whose meaning is known, by full name."""


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


def shape_of(message: Descriptor, said: Mapping[str, str]) -> tuple[MessageKind, dict[str, str]]:
    """Return the shape of a message, and what the schema says about its fields by their path.

    Args:
        message: The message.
        said: Comments by the full names of messages and fields.

    Raises:
        InvalidSchemaError: It has too many fields or levels.
    """
    builder = _Builder(said)
    known = KNOWN.get(message.full_name)
    root = known if known is not None and known.is_json else builder.message(message, "", ())
    if said.get(message.full_name):
        builder.comments[""] = said[message.full_name]
    return root, builder.comments


@dataclass(slots=True)
class _Builder:
    said: Mapping[str, str]
    comments: dict[str, str] = field(default_factory=dict)
    open: dict[str, dict[int, FieldShape]] = field(default_factory=dict)
    """Fields of the messages that are being read, by name."""
    left: int = MOST_COLUMNS

    def message(self, message: Descriptor, path: str, outer: tuple[str, ...]) -> MessageKind:
        name = message.full_name
        if name in outer:
            return MessageKind(pa.string(), self.open[name], is_json=True)
        if len(outer) >= DEEPEST_VALUE:
            raise InvalidSchemaError(f"The schema has more than {DEEPEST_VALUE} levels.", place=path[:200])
        self.left -= max(1, len(message.fields))
        if self.left < 0:
            raise InvalidSchemaError(f"The schema has more than {MOST_COLUMNS} fields.")
        shapes = self.open[name] = {}
        for each in message.fields:
            shapes[each.number] = self._field(each, f"{path}.{each.name}".lstrip("."), (*outer, name))
        if not shapes:
            return MessageKind(pa.string(), is_json=True)
        return MessageKind(pa.struct([pa.field(each.field.name, each.arrow_type) for each in shapes.values()]), shapes)

    def _field(self, field: FieldDescriptor, path: str, outer: tuple[str, ...]) -> FieldShape:
        if self.said.get(field.full_name):
            self.comments[path] = self.said[field.full_name]
        kind = self._kind(field, path, outer)
        if not field.is_repeated:
            return FieldShape(field, kind, kind.arrow_type, False)
        if field.message_type is None or not field.message_type.GetOptions().map_entry:
            return FieldShape(field, kind, pa.list_(kind.arrow_type), False)
        parts = kind.fields if isinstance(kind, MessageKind) else {}
        if parts.keys() != {1, 2} or any(each.field.is_repeated for each in parts.values()):
            raise InvalidSchemaError("The entries of a map need a key and a value.", place=path)
        return FieldShape(field, kind, pa.map_(parts[1].arrow_type, parts[2].arrow_type), True)

    def _kind(self, field: FieldDescriptor, path: str, outer: tuple[str, ...]) -> Kind:
        if field.enum_type is not None:
            return _enum(field.enum_type)
        if field.message_type is None:
            return SCALARS[field.type]
        return KNOWN.get(field.message_type.full_name) or self.message(field.message_type, path, outer)


def _enum(enum: EnumDescriptor) -> ScalarKind:
    """Of several names for one number the first counts."""
    symbols = {each.number: each.name for each in reversed(enum.values)}
    return ScalarKind(pa.string(), lambda number: symbols.get(number, str(number)), symbols, enum.is_closed)


def protobuf_form(kind: Kind) -> Form:
    """Return the form of the column that a kind becomes."""
    if isinstance(kind, MessageKind):
        if kind.is_json:
            return Form(JSON if kind.fields or kind.of else EMPTY)
        return Form(parts={each.field.name: _field_form(each) for each in kind.fields.values()})
    return Form(NAMES if kind.symbols else "")


def _field_form(shape: FieldShape) -> Form:
    kind = shape.kind.fields[2].kind if shape.is_map and isinstance(shape.kind, MessageKind) else shape.kind
    form = protobuf_form(kind)
    return Form(parts={ITEMS: form}) if shape.field.is_repeated else form


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
        self._root, self.comments = shape_of(root, parsed.comments)
        self._message = GetMessageClass(root)
        self._layout = GetMessageClass(parsed.layouts.FindMessageTypeByName(root.full_name))
        self._program = program_of(self._root)
        self.form = protobuf_form(self._root)

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
