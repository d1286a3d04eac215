"""What is before the messages in records of Kafka's own topics, and in the metadata of classic groups.

    key of a coordinator's record      int16 type, message in version 0
    value of a coordinator's record    int16 version, message
    record of metadata                 uvarint frame version (1), uvarint type, uvarint version, message
    subscription, assignment           int16 version, message: what a consumer puts into the metadata of its group

The key says which message the value is. A value of null deletes the key.

Source: org.apache.kafka.coordinator.common.runtime CoordinatorRecordSerde, org.apache.kafka.server.common.serialization
AbstractApiMessageSerde, org.apache.kafka.clients.consumer.internals ConsumerProtocol.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache

from logcore.messages.kafka_json import message_json
from logcore.messages.known_messages import MessageFamily, message_named, message_of_type
from logcore.messages.message_schema import MessagePurpose, MessageSchema
from logcore.messages.reader import ReadMessage, UnreadMessage, UnreadReason, read_message, read_uvarint
from logcore.messages.straight_readers import (
    Fields,
    JsonReader,
    ValueReader,
    json_reader,
    read_straight,
    value_reader,
)

FRAME_VERSION = 1
CONSUMER_PROTOCOL = "consumer"
"""The protocol type of groups whose metadata is read. Others, such as `connect`, have other bytes, which stay bytes."""
SUBSCRIPTION = "ConsumerProtocolSubscription"
ASSIGNMENT = "ConsumerProtocolAssignment"

_SHORT = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class FramedMessage:
    """A message and what its frame says.

    Attributes:
        type_number: Of the frame; None if the bytes are too few.
        message: Without its frame. An unread message has the bytes of the frame too.
    """

    type_number: int | None
    message: ReadMessage | UnreadMessage


def read_key(family: MessageFamily, key: bytes) -> FramedMessage:
    """Read the key of a coordinator's record."""
    if len(key) < _SHORT.size:
        return FramedMessage(None, UnreadMessage(UnreadReason.FRAME, f"a key of {len(key)} bytes has no type", key))
    (number,) = _SHORT.unpack_from(key)
    schema = message_of_type(family, MessagePurpose.KEY, number)
    if schema is None:
        return FramedMessage(number, UnreadMessage(UnreadReason.UNKNOWN_TYPE, f"no key has type {number}", key))
    return FramedMessage(number, _message(schema, 0, key, _SHORT.size))


def read_value(family: MessageFamily, type_number: int, value: bytes) -> FramedMessage:
    """Read the value of a coordinator's record whose key has this type."""
    schema = message_of_type(family, MessagePurpose.VALUE, type_number)
    if schema is None:
        detail = f"no value has type {type_number}"
        return FramedMessage(type_number, UnreadMessage(UnreadReason.UNKNOWN_TYPE, detail, value))
    if len(value) < _SHORT.size:
        detail = f"a value of {len(value)} bytes has no version"
        return FramedMessage(type_number, UnreadMessage(UnreadReason.FRAME, detail, value))
    (version,) = _SHORT.unpack_from(value)
    return FramedMessage(type_number, _message(schema, version, value, _SHORT.size))


def value_fields(family: MessageFamily, type_number: int, value: bytes) -> Fields | None:
    """Read only the fields of a value, in a fraction of the time.

    Returns:
        As in `read_value`; None: that has to decide.
    """
    reader = _value_reader(family, type_number, value[0] << 8 | value[1]) if len(value) >= _SHORT.size else None
    found = None if reader is None else reader(value, _SHORT.size)
    return None if found is None else found[0]


@lru_cache(maxsize=1024)
def _value_reader(family: MessageFamily, type_number: int, version: int) -> ValueReader | None:
    schema = message_of_type(family, MessagePurpose.VALUE, type_number)
    return None if schema is None else value_reader(schema, version)


def read_metadata(family: MessageFamily, value: bytes) -> FramedMessage:
    """Read a record of metadata. As in Kafka, one with more bytes after it is not read."""
    position, numbers = 0, []
    for _ in range(3):
        found = read_uvarint(value, position)
        if found is None:
            detail = f"a value of {len(value)} bytes has no frame"
            return FramedMessage(None, UnreadMessage(UnreadReason.FRAME, detail, value))
        number, position = found
        numbers.append(number)
    frame_version, type_number, version = numbers
    if frame_version != FRAME_VERSION:
        detail = f"version {frame_version} of the frame is unknown"
        return FramedMessage(None, UnreadMessage(UnreadReason.FRAME, detail, value))
    schema = message_of_type(family, MessagePurpose.METADATA, type_number)
    if schema is None:
        detail = f"no record has type {type_number}"
        return FramedMessage(type_number, UnreadMessage(UnreadReason.UNKNOWN_TYPE, detail, value))
    message = _message(schema, version, value, position)
    if isinstance(message, ReadMessage) and message.left:
        detail = f"{len(message.left)} bytes follow the fields of the record"
        message = UnreadMessage(UnreadReason.TRAILING_BYTES, detail, value)
    return FramedMessage(type_number, message)


def metadata_json(family: MessageFamily, value: bytes) -> tuple[str, Fields] | UnreadMessage:
    """Read a record of metadata as `read_metadata` does.

    Returns:
        The name of its schema, and its fields as JSON (`logcore.messages.kafka_json`). Else why it was not read.
    """
    if len(value) >= 3 and value[0] == FRAME_VERSION and value[1] < 0x80 and value[2] < 0x80:
        name, reader = _json_reader(family, value[1], value[2])
        fields = None if reader is None else reader(value, 3)
        if fields is not None:
            return name, fields
    message = read_metadata(family, value).message
    return (message.schema.name, message_json(message)) if isinstance(message, ReadMessage) else message


@lru_cache(maxsize=1024)
def _json_reader(family: MessageFamily, type_number: int, version: int) -> tuple[str, JsonReader | None]:
    schema = message_of_type(family, MessagePurpose.METADATA, type_number)
    return ("", None) if schema is None else (schema.name, json_reader(schema, version))


def _message(schema: MessageSchema, version: int, framed: bytes, position: int) -> ReadMessage | UnreadMessage:
    """Read the message after a frame. An unread one has the bytes of the frame too."""
    straight = read_straight(schema, version, framed, position)
    if straight is not None:
        return straight
    message = read_message(schema, version, framed[position:])
    if isinstance(message, UnreadMessage):
        return UnreadMessage(message.reason, message.detail, framed)
    return message


def read_protocol(name: str, content: bytes) -> ReadMessage | None:
    """Read a subscription or an assignment.

    A version above the known ones is read as the highest known one, because later versions only add fields.

    Args:
        name: `SUBSCRIPTION` or `ASSIGNMENT`.
        content: The bytes in the group's metadata.

    Returns:
        None if the bytes are another protocol's, or damaged.
    """
    if len(content) < _SHORT.size:
        return None
    (version,) = _SHORT.unpack_from(content)
    schema = message_named(MessageFamily.SHARED_PARTS, name)
    message = read_message(schema, min(version, schema.versions.highest), content[_SHORT.size :])
    return message if isinstance(message, ReadMessage) else None
