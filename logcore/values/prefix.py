"""The prefix of one key or value: a schema's id or GUID, and for Protobuf the indexes of the message type.

Source: `SchemaId.java`, `MessageIndexes.java` and `DualSchemaIdDeserializer.java` of Confluent's schema registry.
Byte 0 and an id of four bytes, or byte 1 and a GUID of 16 bytes. Protobuf adds a list of message indexes: a count and
that many numbers, each as a zigzag varint; the count 0 means the list [0]. A record header may hold such a prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias
from uuid import UUID

from logcore.values.limits import DEEPEST_VALUE
from logcore.values.undecodable import Reason, Undecodable

SchemaId: TypeAlias = int | UUID
"""An id, unique within a context of a registry, or a GUID, unique everywhere."""

KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"
"""Names of the record headers that hold a prefix."""

ID_BYTES, GUID_BYTES = 5, 17
"""Length of the prefixes, with their first byte."""

_LONG_ID = "an id of eight bytes, as Apicurio's serializers write"
LONG_IDS = f"no registry gives the id 0, and {_LONG_ID}, begins with zeros"

_GLUE_BYTES = 18
_GLUE_COMPRESSIONS = {0: "not compressed", 5: "compressed by zlib"}
_MOST_VARINT_BYTES = 5


class Framing(StrEnum):
    """Where a topic's keys or values name their schema."""

    NONE = "none"
    """Nowhere: the bytes are the value, and headers are not looked at."""
    HEADER_OR_PREFIX = "header-or-prefix"
    """As Confluent's deserializers do by default: a header decides and the bytes are the value; else the prefix."""
    PREFIX = "prefix"
    """Always before the value. A header must name the same schema."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The schema that wrote a key or value. Both are None where the framing is NONE."""

    schema: SchemaId | None = None
    message: tuple[int, ...] | None = None
    """Only for Protobuf: indexes that lead to the message type."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """The writer, and the position where the value itself begins."""

    writer: Writer
    start: int


def read_prefix(body: bytes, messages: bool = False) -> Prefix:
    """Read the prefix of a key or value.

    Args:
        messages: Message indexes follow, as for Protobuf.

    Raises:
        Undecodable: SHORT_PREFIX, NO_PREFIX, VARINT or LENGTH.
    """
    if not body:
        raise Undecodable(Reason.SHORT_PREFIX, "byte 0", "no bytes at all")
    if body[0] > 1:
        framing = glue_framing(body)
        detail = "neither 0 nor 1" if framing is None else f"{framing}, which is not decoded"
        raise Undecodable(Reason.NO_PREFIX, "byte 0", detail, framing or "")
    start = GUID_BYTES if body[0] else ID_BYTES
    if len(body) < start:
        raise Undecodable(Reason.SHORT_PREFIX, f"byte {len(body)}", f"{len(body)} bytes instead of {start}")
    schema: SchemaId = UUID(bytes=body[1:GUID_BYTES]) if body[0] else int.from_bytes(body[1:ID_BYTES], "big")
    if not messages:
        return Prefix(Writer(schema), start)
    message, start = _message_at(body, start)
    return Prefix(Writer(schema, message), start)


def glue_framing(body: bytes) -> str | None:
    """Name the framing of AWS Glue's serializers: byte 3, a compression, a GUID; None for other bytes.

    Source: `AWSSchemaRegistryConstants.java` of AWS Glue Schema Registry.
    """
    compression = _GLUE_COMPRESSIONS.get(body[1]) if body[:1] == b"\3" and len(body) >= _GLUE_BYTES else None
    return None if compression is None else f"the framing of AWS Glue, {compression}"


def unknown_schema(schema: SchemaId | None, where: str) -> Undecodable:
    """Return the failure of a row whose schema is not known.

    Args:
        where: Where the schema was looked for.
    """
    hint, framing = (f"; {LONG_IDS}", _LONG_ID) if schema == 0 else ("", "")
    return Undecodable(Reason.UNKNOWN_SCHEMA, "", f"no schema {schema} {where}{hint}", framing)


def read_header(header: bytes, messages: bool = False) -> Writer:
    """Read a record header that holds exactly a prefix.

    Raises:
        Undecodable: As of `read_prefix`; NO_PREFIX also if the header is longer.
    """
    try:
        prefix = read_prefix(header, messages)
    except Undecodable as failure:
        raise Undecodable(failure.reason, "header", f"{failure.place}: {failure.detail}") from None
    if prefix.start != len(header):
        raise Undecodable(Reason.NO_PREFIX, "header", f"{len(header)} bytes instead of {prefix.start}")
    return prefix.writer


def split_row(body: bytes, header: bytes | None, framing: Framing, messages: bool = False) -> Prefix:
    """Find the writer of one key or value, plainly: the specification of `split_column`.

    Args:
        header: Content of the record's last header of the right name; None if there is none.
        messages: The format is Protobuf.

    Raises:
        Undecodable: SHORT_PREFIX, NO_PREFIX, VARINT, LENGTH or HEADER_DIFFERS.
    """
    if framing == Framing.NONE:
        return Prefix(Writer(), 0)
    if header is None:
        return read_prefix(body, messages)
    named = read_header(header, messages)
    if framing == Framing.HEADER_OR_PREFIX:
        return Prefix(named, 0)
    prefix = read_prefix(body, messages)
    if type(prefix.writer.schema) is not type(named.schema):
        raise Undecodable(Reason.HEADER_DIFFERS, "header", "one is an id and the other a GUID")
    if prefix.writer != named:
        raise Undecodable(Reason.HEADER_DIFFERS, "header", "it names another schema or message than the prefix")
    return prefix


def _message_at(body: bytes, position: int) -> tuple[tuple[int, ...], int]:
    count, position = _zigzag_at(body, position)
    if count == 0:
        return (0,), position
    if count < 0 or count > DEEPEST_VALUE:
        raise Undecodable(Reason.LENGTH, f"byte {position}", f"not between 0 and {DEEPEST_VALUE} message indexes")
    indexes = []
    for _ in range(count):
        index, after = _zigzag_at(body, position)
        if index < 0:
            raise Undecodable(Reason.LENGTH, f"byte {position}", "a negative message index")
        indexes.append(index)
        position = after
    return tuple(indexes), position


def _zigzag_at(body: bytes, position: int) -> tuple[int, int]:
    value = 0
    for number in range(_MOST_VARINT_BYTES):
        if position + number >= len(body):
            raise Undecodable(Reason.SHORT_PREFIX, f"byte {len(body)}", "the bytes end inside the message indexes")
        byte = body[position + number]
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            if value >> 32:
                break
            return (value >> 1) ^ -(value & 1), position + number + 1
    raise Undecodable(Reason.VARINT, f"byte {position}", "a message index of more than 32 bits")
