"""The decoder of Protobuf values. One value after the other is the specification of the kernel's way.

Rules that the format leaves open are those of Google's libraries. Of a field that comes twice the last one counts, and
messages are merged. A field with another wire type than its own is unknown. Unknown fields are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.values.blocks.decoded_block import decode_block
from logcore.values.column import DecodedBlock
from logcore.values.json.fragment import Entries
from logcore.values.limits import check_size
from logcore.values.protobuf.descriptors import parse
from logcore.values.protobuf.json_values import check_depth
from logcore.values.protobuf.kinds import ContentKind, FieldShape, MessageKind, NumberKind
from logcore.values.protobuf.program import program_of
from logcore.values.protobuf.shape import protobuf_form, shape_of
from logcore.values.protobuf.wire import FIXED32, FIXED64, LENGTH, VARINT, WireField, fields_in, varint_at
from logcore.values.undecodable import Reason, Undecodable

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The first of year 1 and the last of year 9999: what `timestamp.proto` allows."""
_NANOS = 1_000_000_000
_MAP_KEY, _MAP_VALUE = 1, 2

Part = tuple[int, int]
"""Start and end of a message in the value. A message may come in several parts."""


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
        shape = shape_of(parsed, parsed.at(message or (0,)))
        self._root = shape.root
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
        return _message(self._root, body, [(0, len(body))])

    def decode_block(self, bodies: pa.Array[Any]) -> DecodedBlock | None:
        """See `BlockDecoder`."""
        if self._program is None or bodies.type != pa.binary() or not is_chosen(Work.DECODE_PROTOBUF):
            return None
        return decode_block("protobuf_rows", self._program, self.arrow_type, bodies)


def _message(kind: MessageKind, body: bytes, parts: Sequence[Part]) -> object:
    if kind.json_of is not None:
        check_depth(kind, body, parts)
    found: dict[int, list[WireField]] = {}
    in_oneof: dict[int, int] = {}
    for start, end in parts:
        for each in fields_in(body, start, end):
            shape = kind.fields.get(each.number)
            if shape is None or not _is_of(shape, each, body):
                continue
            oneof = shape.field.oneof
            if oneof is not None and in_oneof.get(oneof, each.number) != each.number:
                found.pop(in_oneof[oneof], None)
            if oneof is not None:
                in_oneof[oneof] = each.number
            found.setdefault(each.number, []).append(each)
    if kind.is_timestamp:
        return _timestamp(kind, body, found)
    values: dict[str, object] = {}
    for number, shape in kind.fields.items():
        try:
            values[shape.field.name] = _field(shape, body, found.get(number, ()))
        except Undecodable as failure:
            raise failure.inside(shape.field.name) from None
    return values if kind.json_of is None else kind.json_of(values)


def _is_of(shape: FieldShape, each: WireField, body: bytes) -> bool:
    """Whether the bytes are a value of the field; otherwise they are an unknown field."""
    kind = shape.kind
    if isinstance(kind, ContentKind):
        return each.wire_type == LENGTH
    if isinstance(kind, MessageKind):
        return each.wire_type == kind.wire_type
    if each.wire_type == LENGTH:
        return shape.field.is_repeated
    return each.wire_type == kind.wire_type and kind.read(each.value) is not None


def _field(shape: FieldShape, body: bytes, found: Sequence[WireField]) -> object:
    kind, field = shape.kind, shape.field
    if shape.is_map:
        assert isinstance(kind, MessageKind)
        return _map(kind, body, found)
    if field.is_repeated:
        return _repeated(kind, body, found)
    if not found:
        if field.is_required:
            raise Undecodable(Reason.MISSING_FIELD)
        return None if field.has_presence else kind.default
    if isinstance(kind, MessageKind):
        return _message(kind, body, [(each.start, each.end) for each in found])
    if isinstance(kind, ContentKind):
        for each in found[:-1]:
            kind.read(body[each.start : each.end])
        return kind.read(body[found[-1].start : found[-1].end])
    return kind.read(found[-1].value)


def _repeated(kind: NumberKind | ContentKind | MessageKind, body: bytes, found: Sequence[WireField]) -> list[object]:
    values: list[object] = []
    for each in found:
        try:
            if isinstance(kind, MessageKind):
                values.append(_message(kind, body, [(each.start, each.end)]))
            elif isinstance(kind, ContentKind):
                values.append(kind.read(body[each.start : each.end]))
            elif each.wire_type == LENGTH:
                values.extend(_packed(kind, body, each))
            else:
                values.append(kind.read(each.value))
        except Undecodable as failure:
            raise failure.inside(f"[{len(values)}]") from None
    return values


def _packed(kind: NumberKind, body: bytes, packed: WireField) -> list[object]:
    values = []
    position = packed.start
    width = {FIXED32: 4, FIXED64: 8}.get(kind.wire_type)
    if width is not None and (packed.end - packed.start) % width:
        raise Undecodable(Reason.WRONG_SIZE, f"byte {packed.start}", f"not a multiple of {width} bytes")
    while position < packed.end:
        if kind.wire_type == VARINT:
            value, position = varint_at(body, position, packed.end)
        else:
            assert width is not None
            value = int.from_bytes(body[position : position + width], "little")
            position += width
        read = kind.read(value)
        if read is not None:
            values.append(read)
    return values


def _map(entry: MessageKind, body: bytes, found: Sequence[WireField]) -> list[tuple[object, object]]:
    """The entries in the order of their keys' first place; of one key the last value counts.

    An entry whose value is no symbol of a closed enum is an unknown field as a whole.
    """
    values: dict[object, object] = {}
    key, value = entry.fields[_MAP_KEY], entry.fields[_MAP_VALUE]
    for number, each in enumerate(found):
        try:
            if isinstance(value.kind, NumberKind) and _has_unknown_symbol(value.kind, body, each):
                continue
            parts = _message(entry, body, [(each.start, each.end)])
        except Undecodable as failure:
            raise failure.inside(f"[{number}]") from None
        assert isinstance(parts, dict)
        read = parts[value.field.name]
        if read is None and isinstance(value.kind, MessageKind):
            read = _message(value.kind, body, [(0, 0)])
        elif read is None:
            read = value.kind.default
        named = parts[key.field.name]
        values[key.kind.default if named is None else named] = read
    return Entries(values.items())


def _has_unknown_symbol(kind: NumberKind, body: bytes, entry: WireField) -> bool:
    # All fields are read: an entry that is left out must be whole too.
    values = [each for each in fields_in(body, entry.start, entry.end) if each.number == _MAP_VALUE]
    return any(each.wire_type == kind.wire_type and kind.read(each.value) is None for each in values)


def _timestamp(kind: MessageKind, body: bytes, found: Mapping[int, Sequence[WireField]]) -> int:
    """Microseconds since the epoch."""
    seconds, nanos = (_field(kind.fields[number], body, found.get(number, ())) for number in (1, 2))
    assert isinstance(seconds, int)
    assert isinstance(nanos, int)
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND or not 0 <= nanos < _NANOS:
        raise Undecodable(Reason.OUT_OF_RANGE, "", "no time between the years 1 and 9999")
    return seconds * 1_000_000 + nanos // 1_000
