"""Bytes of a message to values. It is generic: the schema says what comes next, and every length is checked.

A message that cannot be read is a value too: `UnreadMessage` says why and keeps the bytes. Nothing that bytes contain
raises an error, and the memory of a result is bounded: an array is refused before it is read if its elements cannot
fit in the bytes that are left, and no message has more than `MOST_ELEMENTS` elements.

As Kafka does, the reader accepts encodings that Kafka does not write, such as uvarints with more bytes than needed and
strings that are not UTF-8: each malformed part of these becomes U+FFFD.
`ReadMessage.is_exact` is then False: the writer would give other bytes.

Source: generated message classes, org.apache.kafka.common.protocol ByteBufferAccessor, KIP-482.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from logcore.messages.layout import (
    NUMBERS,
    UNKNOWN_TAGS,
    ArrayLayout,
    FieldLayout,
    StructLayout,
    TypeLayout,
    Value,
    message_layout,
)
from logcore.messages.schema import MessageSchema, ScalarType
from logcore.texts import java_text

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
