"""A record of an internal topic as the JSON that Kafka's decoders print, without secrets.

    topic                                    key                         value
    __consumer_offsets, __share_group_state  {"type": "1", "data": {…}}  {"version": "3", "data": {…}}
    __transaction_state                      the same                    the same
    __cluster_metadata                       none                        {"type": "TOPIC_RECORD", "version": 0, …}
    __remote_log_metadata                    none                        the same

A message that could not be read has `unread` instead of `data`: reason, detail, and its bytes in base64. The bytes are
left out if they may hold a secret.

Source: org.apache.kafka.tools.consumer CoordinatorRecordMessageFormatter, org.apache.kafka.tools DumpLogSegments
(OffsetsMessageParser, TransactionLogMessageParser, ClusterMetadataLogMessageParser).
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any

from logcore.messages.framing import ASSIGNMENT, CONSUMER_PROTOCOL, SUBSCRIPTION, FramedMessage, read_protocol
from logcore.messages.kafka_json import message_json
from logcore.messages.reader import ReadMessage, UnreadMessage
from logcore.topics.internal_topics import InternalTopic, record_messages
from logcore.topics.secrets import may_show_bytes, redacted_fields

Json = dict[str, Any]

_CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A record as JSON.

    Attributes:
        key: None if there is no key.
        value: None if there is no value.
        problems: What could not be read.
    """

    key: Json | None
    value: Json | None
    problems: tuple[UnreadMessage, ...]


def decode_record(topic: InternalTopic, key: bytes | None, value: bytes | None) -> DecodedRecord:
    """Decode a record that is no control record."""
    messages = record_messages(topic, key, value)
    is_metadata = topic is InternalTopic.CLUSTER_METADATA
    has_keys = topic not in (InternalTopic.CLUSTER_METADATA, InternalTopic.REMOTE_LOG_METADATA)
    return DecodedRecord(
        None if messages.key is None else _key(messages.key),
        None if messages.value is None else (_value if has_keys else _metadata)(messages.value, is_metadata),
        messages.unread,
    )


def message_type_name(message: ReadMessage) -> str:
    """Return the name of a metadata record's type, such as `TOPIC_RECORD`."""
    return _CAPITAL.sub(r"_\1", message.schema.name).upper()


def fields_without_secrets(message: ReadMessage) -> Json:
    """Return the fields of a message as JSON, without secrets."""
    return redacted_fields(message.schema.name, message_json(message))


def _key(framed: FramedMessage) -> Json:
    return {"type": _number(framed.type_number)} | _content(framed, False)


def _value(framed: FramedMessage, is_metadata: bool) -> Json:
    message = framed.message
    if isinstance(message, UnreadMessage):
        return _content(framed, is_metadata)
    data = _content(framed, is_metadata)
    if message.schema.name == "GroupMetadataValue" and message.fields["protocolType"] == CONSUMER_PROTOCOL:
        for member, shown in zip(_list(message.fields["members"]), data["data"]["members"], strict=True):
            for field, name in (("subscription", SUBSCRIPTION), ("assignment", ASSIGNMENT)):
                inner = read_protocol(name, member[field])
                if inner is not None:
                    shown[field] = message_json(inner)
    return {"version": str(message.version)} | data


def _metadata(framed: FramedMessage, is_metadata: bool) -> Json:
    message = framed.message
    if isinstance(message, UnreadMessage):
        return {"type": _number(framed.type_number)} | _content(framed, is_metadata)
    return {"type": message_type_name(message), "version": message.version} | _content(framed, is_metadata)


def _content(framed: FramedMessage, is_metadata: bool) -> Json:
    message = framed.message
    if isinstance(message, ReadMessage):
        return {"data": fields_without_secrets(message)}
    unread: Json = {"reason": str(message.reason), "detail": message.detail, "bytes": len(message.raw)}
    if may_show_bytes(is_metadata, framed.type_number):
        unread["raw"] = base64.b64encode(message.raw).decode()
    return {"unread": unread}


def _number(type_number: int | None) -> str | None:
    return None if type_number is None else str(type_number)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
