"""Bytes of a message to values. It is generic: the schema says what comes next, and every length is checked.

A message that cannot be read is a value too: `UnreadMessage` says why and keeps the bytes. Nothing that bytes contain
raises an error, and the memory of a result is bounded: an array is refused before it is read if its elements cannot
fit in the bytes that are left, and no message has more than `MOST_ELEMENTS` elements.

As Kafka does, the reader accepts encodings that Kafka does not write, such as uvarints with more bytes than needed and
strings that are not UTF-8: each malformed part of these becomes U+FFFD.
`ReadMessage.is_exact` is then False: a writer would give other bytes.

Source: generated message classes, org.apache.kafka.common.protocol ByteBufferAccessor, KIP-482.

A schema in one version is a layout: its fields in the order of their bytes, with nothing left to decide about versions.

    type                        not flexible                    flexible
    string                      int16 length, -1 null; UTF-8    uvarint length + 1, 0 null
    bytes, records, array       int32 length, -1 null           uvarint length + 1, 0 null
    struct that may be null     int8: -1 null, 1 present        the same; in a tagged section uvarint 0 or 1
    end of each struct          nothing                         tagged section

    tagged section = uvarint count, then (uvarint tag, uvarint size, bytes)* with ascending tags

Numbers are big-endian, and their sizes are fixed. A uuid has 16 bytes. A uvarint is in base 128 without zigzag.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TypeAlias
from uuid import UUID

from logcore.messages.message_schema import (
    ArrayType,
    FieldSchema,
    FieldType,
    MessageSchema,
    ScalarType,
    StructType,
    Unset,
)
from logcore.texts import java_text

Value: TypeAlias = "bool | int | float | str | bytes | UUID | list[Value] | dict[str, Value] | None"
"""A value of a field: an array is a list, a struct a dict by field name. Bytes of a string that are not UTF-8 are
surrogates, as in `os.fsdecode`."""

UNKNOWN_TAGS = "_unknownTaggedFields"
"""Name in a struct's dict for tagged fields that its schema does not have: a dict from tag, in decimal, to bytes."""

NUMBERS = {
    ScalarType.BOOL: struct.Struct(">B"),
    ScalarType.INT8: struct.Struct(">b"),
    ScalarType.INT16: struct.Struct(">h"),
    ScalarType.UINT16: struct.Struct(">H"),
    ScalarType.INT32: struct.Struct(">i"),
    ScalarType.UINT32: struct.Struct(">I"),
    ScalarType.INT64: struct.Struct(">q"),
    ScalarType.FLOAT64: struct.Struct(">d"),
}
"""How numbers of a fixed size are packed. A bool has one byte."""

ZERO_UUID = UUID(int=0)


@dataclass(frozen=True, slots=True)
class StructLayout:
    """A struct in one version.

    Attributes:
        fields: In the order of their bytes.
        tagged: Fields of the tagged section by tag.
        is_flexible: Whether a tagged section ends the struct.
        least_bytes: Fewest bytes that a value can have.
    """

    fields: tuple[FieldLayout, ...]
    tagged: Mapping[int, FieldLayout]
    is_flexible: bool
    least_bytes: int


@dataclass(frozen=True, slots=True)
class ArrayLayout:
    """An array in one version.

    Attributes:
        element: Its elements, which are never null.
        least_bytes: Fewest bytes of an element, at least 1.
    """

    element: TypeLayout
    least_bytes: int


TypeLayout = ScalarType | StructLayout | ArrayLayout


@dataclass(frozen=True, slots=True)
class FieldLayout:
    """A field in one version.

    Attributes:
        is_nullable: Whether it may be null.
        is_flexible: Whether its lengths are uvarints.
        default: Value if the field is absent.
    """

    name: str
    type: TypeLayout
    is_nullable: bool
    is_flexible: bool
    default: Value


@lru_cache(maxsize=1024)
def message_layout(schema: MessageSchema, version: int) -> StructLayout:
    """Return the layout of a version.

    Raises:
        ValueError: The schema has no such version.
    """
    if version not in schema.versions:
        raise ValueError(f"{schema.name} has no version {version}")
    return _struct(schema.fields, version, version in schema.flexible)


def _struct(fields: tuple[FieldSchema, ...], version: int, is_flexible: bool) -> StructLayout:
    plain, tagged = [], {}
    for field in fields:
        if version in field.tagged and field.tag is not None:
            tagged[field.tag] = _field(field, version, True)
        elif version in field.versions:
            plain.append(_field(field, version, is_flexible))
    least = sum(1 if _is_marked(field) else _least_bytes(field.type, field.is_flexible) for field in plain)
    return StructLayout(tuple(plain), tagged, is_flexible, least + (1 if is_flexible else 0))


def _field(field: FieldSchema, version: int, is_flexible: bool) -> FieldLayout:
    flexible = is_flexible if field.flexible is None else version in field.flexible
    is_nullable = version in field.nullable
    kind = _type(field.type, version, flexible)
    default = _default(kind, is_nullable) if field.default is Unset.UNSET else field.default
    return FieldLayout(field.name, kind, is_nullable, flexible, default)


def _type(kind: FieldType, version: int, is_flexible: bool) -> TypeLayout:
    if isinstance(kind, StructType):
        return _struct(kind.fields, version, is_flexible)
    if isinstance(kind, ArrayType):
        element = _type(kind.element, version, is_flexible)
        return ArrayLayout(element, max(1, _least_bytes(element, is_flexible)))
    return kind


def _is_marked(field: FieldLayout) -> bool:
    """Whether a byte says if the struct is present."""
    return field.is_nullable and isinstance(field.type, StructLayout)


def _least_bytes(kind: TypeLayout, is_flexible: bool) -> int:
    if isinstance(kind, StructLayout):
        return kind.least_bytes
    if isinstance(kind, ScalarType):
        if kind in NUMBERS:
            return NUMBERS[kind].size
        if kind is ScalarType.UUID:
            return 16
    if is_flexible:
        return 1
    return 2 if kind is ScalarType.STRING else 4


def _default(kind: TypeLayout, is_nullable: bool) -> Value:
    if isinstance(kind, ArrayLayout):
        return []
    if isinstance(kind, StructLayout):
        return {field.name: field.default for field in kind.fields}
    match kind:
        case ScalarType.STRING:
            return ""
        case ScalarType.BYTES | ScalarType.RECORDS:
            return None if kind is ScalarType.RECORDS and is_nullable else b""
        case ScalarType.UUID:
            return ZERO_UUID
        case ScalarType.BOOL:
            return False
        case ScalarType.FLOAT64:
            return 0.0
        case _:
            return 0


MOST_ELEMENTS = 1 << 20
"""Most elements of all arrays and unknown tagged fields of one message together."""

_UVARINT_BYTES = 5


class UnreadReason(StrEnum):
    """Why a message was not read. The values are part of findings, so they must not change."""

    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    """No schema has this type number."""
    UNKNOWN_VERSION = "UNKNOWN_VERSION"
    """The schema has no such version."""
    TRUNCATED = "TRUNCATED"
    """The bytes end inside the message."""
    LENGTH = "LENGTH"
    """A length is negative, or its elements cannot fit in the bytes that are left."""
    VARINT = "VARINT"
    """A uvarint has more than 5 bytes."""
    TAG = "TAG"
    """A tagged field is longer than its declared size."""
    LIMIT = "LIMIT"
    """More than `MOST_ELEMENTS` elements."""
    TRAILING_BYTES = "TRAILING_BYTES"
    """Bytes follow a record of metadata. Kafka refuses it; after other messages it allows them."""
    FRAME = "FRAME"
    """The frame before the message has an unknown version, or the bytes are too few for a frame."""


@dataclass(frozen=True, slots=True)
class ReadMessage:
    """A message that was read.

    Attributes:
        schema: Its schema.
        version: Its version.
        fields: Values by field name. A tagged field is there only if the bytes have it.
        left: Bytes after the message.
        is_exact: Whether the writer gives the same bytes.
    """

    schema: MessageSchema
    version: int
    fields: dict[str, Value]
    left: bytes
    is_exact: bool

    def value(self, name: str) -> Value:
        """Return the value of a field; its default if the bytes do not have it.

        Raises:
            KeyError: This version has no such field.
        """
        if name in self.fields:
            return self.fields[name]
        tagged = message_layout(self.schema, self.version).tagged.values()
        defaults = {field.name: field.default for field in tagged}
        return defaults[name]


@dataclass(frozen=True, slots=True, repr=False)
class UnreadMessage:
    """A message that could not be read. Its representation as text has no content of the message.

    Attributes:
        reason: Why.
        detail: What is wrong and where, without content of the message.
        raw: All of its bytes.
    """

    reason: UnreadReason
    detail: str
    raw: bytes

    def __repr__(self) -> str:
        return f"UnreadMessage({self.reason}, {self.detail!r}, {len(self.raw)} bytes)"


class _Malformed(Exception):
    def __init__(self, reason: UnreadReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def read_message(schema: MessageSchema, version: int, data: bytes) -> ReadMessage | UnreadMessage:
    """Read a message of a version from the start of `data`."""
    if version not in schema.versions:
        detail = (
            f"{schema.name} has versions {schema.versions.lowest} to {schema.versions.highest}, and this is {version}"
        )
        return UnreadMessage(UnreadReason.UNKNOWN_VERSION, detail, data)
    reader = _Reader(data)
    try:
        fields = reader.struct(message_layout(schema, version))
    except _Malformed as malformed:
        detail = f"{schema.name} version {version}, byte {reader.position}: {malformed.detail}"
        return UnreadMessage(malformed.reason, detail, data)
    return ReadMessage(schema, version, fields, data[reader.position :], reader.is_exact)


def read_uvarint(data: bytes, position: int) -> tuple[int, int] | None:
    """Read an unsigned int32 in base 128.

    Returns:
        The value, and the position after it. None if the bytes end first, or if it has more than 5 bytes.
    """
    reader = _Reader(data, position)
    try:
        return reader.uvarint(), reader.position
    except _Malformed:
        return None


class _Reader:
    """A position in bytes that are read once, from the start to the end."""

    __slots__ = ("_data", "_elements", "_end", "is_exact", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self._end = len(data)
        self._elements = MOST_ELEMENTS
        self.position = position
        self.is_exact = True

    def struct(self, layout: StructLayout) -> dict[str, Value]:
        values = {field.name: self._field(field) for field in layout.fields}
        if layout.is_flexible:
            self._tagged_section(layout, values)
        return values

    def uvarint(self) -> int:
        value = 0
        for index in range(_UVARINT_BYTES):
            if self.position >= self._end:
                raise _Malformed(UnreadReason.TRUNCATED, "the bytes end inside a uvarint")
            byte = self._data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if (byte == 0 and index > 0) or value > 0xFFFF_FFFF:
                    self.is_exact = False
                return value & 0xFFFF_FFFF
        raise _Malformed(UnreadReason.VARINT, f"a uvarint of more than {_UVARINT_BYTES} bytes")

    def _field(self, field: FieldLayout) -> Value:
        kind = field.type
        if isinstance(kind, StructLayout) and field.is_nullable:
            marker = self._number(ScalarType.INT8)
            self.is_exact &= marker in (-1, 1)
            return None if marker < 0 else self.struct(kind)
        return self._value(kind, field.is_nullable, field.is_flexible)

    def _value(self, kind: TypeLayout, is_nullable: bool, is_flexible: bool) -> Value:
        if isinstance(kind, ArrayLayout):
            return self._array(kind, is_nullable, is_flexible)
        if isinstance(kind, StructLayout):
            return self.struct(kind)
        if kind is ScalarType.BOOL:
            byte = self._number(kind)
            self.is_exact &= byte in (0, 1)
            return byte != 0
        if kind in NUMBERS:
            return self._number(kind)
        if kind is ScalarType.UUID:
            return UUID(bytes=self._take(16))
        length = self._length(kind is ScalarType.STRING, is_nullable, is_flexible)
        if length is None:
            return None
        taken = self._take(length)
        if kind is not ScalarType.STRING:
            return taken
        text = java_text(taken)
        self.is_exact &= text.encode() == taken
        return text

    def _array(self, layout: ArrayLayout, is_nullable: bool, is_flexible: bool) -> Value:
        count = self._length(False, is_nullable, is_flexible)
        if count is None:
            return None
        if count * layout.least_bytes > self._end - self.position:
            raise _Malformed(UnreadReason.LENGTH, f"an array of {count} elements, {self._end - self.position} bytes")
        self._count(count)
        return [self._value(layout.element, False, is_flexible) for _ in range(count)]

    def _tagged_section(self, layout: StructLayout, values: dict[str, Value]) -> None:
        last = -1
        unknown: dict[str, Value] = {}
        for _ in range(self._counted_tags()):
            tag, size = self.uvarint(), self.uvarint()
            if size > self._end - self.position:
                detail = f"a tagged field of {size} bytes, {self._end - self.position} left"
                raise _Malformed(UnreadReason.LENGTH, detail)
            self.is_exact &= tag > last
            last = tag
            field = layout.tagged.get(tag)
            if field is None:
                unknown[str(tag)] = self._take(size)
            else:
                values[field.name] = self._tagged(field, size)
        if unknown:
            values[UNKNOWN_TAGS] = unknown

    def _counted_tags(self) -> int:
        count = self.uvarint()
        if count * 2 > self._end - self.position:
            raise _Malformed(UnreadReason.LENGTH, f"{count} tagged fields, {self._end - self.position} bytes")
        self._count(count)
        return count

    def _tagged(self, field: FieldLayout, size: int) -> Value:
        outer_end, end = self._end, self.position + size
        self._end = end
        try:
            if isinstance(field.type, StructLayout) and field.is_nullable:
                marker = self.uvarint()
                self.is_exact &= marker in (0, 1)
                value: Value = self.struct(field.type) if marker else None
            else:
                value = self._value(field.type, field.is_nullable, field.is_flexible)
        except _Malformed as malformed:
            if malformed.reason is UnreadReason.TRUNCATED:
                raise _Malformed(UnreadReason.TAG, f"tagged field {field.name} needs more bytes than {size}") from None
            raise
        self.is_exact &= self.position == end
        self.position, self._end = end, outer_end
        return value

    def _number(self, kind: ScalarType) -> int | float:
        packed = NUMBERS[kind]
        if packed.size > self._end - self.position:
            raise _Malformed(UnreadReason.TRUNCATED, f"{kind} needs {packed.size} bytes")
        value: int | float = packed.unpack_from(self._data, self.position)[0]
        self.position += packed.size
        return value

    def _length(self, is_string: bool, is_nullable: bool, is_flexible: bool) -> int | None:
        length = (
            self.uvarint() - 1
            if is_flexible
            else int(self._number(ScalarType.INT16 if is_string else ScalarType.INT32))
        )
        if length >= 0:
            return length
        if not is_nullable:
            raise _Malformed(UnreadReason.LENGTH, f"length {length} of a field that is never null")
        self.is_exact &= length == -1
        return None

    def _take(self, size: int) -> bytes:
        if size > self._end - self.position:
            raise _Malformed(UnreadReason.TRUNCATED, f"{size} bytes are needed, {self._end - self.position} are left")
        self.position += size
        return self._data[self.position - size : self.position]

    def _count(self, elements: int) -> None:
        self._elements -= elements
        if self._elements < 0:
            raise _Malformed(UnreadReason.LIMIT, f"more than {MOST_ELEMENTS} elements")
