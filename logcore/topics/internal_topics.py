"""Kafka's own topics, and the messages in the records of each.

Source: org.apache.kafka.tools DumpLogSegments, org.apache.kafka.coordinator.common.runtime CoordinatorRecordSerde,
org.apache.kafka.metadata MetadataRecordSerde, RemoteLogMetadataSerde.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from logcore.messages.framing import FramedMessage, read_key, read_metadata, read_value
from logcore.messages.known_messages import MessageFamily
from logcore.messages.reader import UnreadMessage, UnreadReason


class InternalTopic(StrEnum):
    """The topics whose records hold messages. The values are their names."""

    CONSUMER_OFFSETS = "__consumer_offsets"
    TRANSACTION_STATE = "__transaction_state"
    SHARE_GROUP_STATE = "__share_group_state"
    CLUSTER_METADATA = "__cluster_metadata"
    REMOTE_LOG_METADATA = "__remote_log_metadata"


_FAMILIES = {
    InternalTopic.CONSUMER_OFFSETS: MessageFamily.CONSUMER_OFFSETS,
    InternalTopic.TRANSACTION_STATE: MessageFamily.TRANSACTION_STATE,
    InternalTopic.SHARE_GROUP_STATE: MessageFamily.SHARE_GROUP_STATE,
    InternalTopic.CLUSTER_METADATA: MessageFamily.CLUSTER_METADATA,
    InternalTopic.REMOTE_LOG_METADATA: MessageFamily.STORAGE_FILES,
}
_WITHOUT_KEYS = (InternalTopic.CLUSTER_METADATA, InternalTopic.REMOTE_LOG_METADATA)


@dataclass(frozen=True, slots=True)
class RecordMessages:
    """The messages of a record.

    Attributes:
        key: None if records of the topic have no key.
        value: None if the record has no value: it deletes its key.
    """

    key: FramedMessage | None
    value: FramedMessage | None

    @property
    def unread(self) -> tuple[UnreadMessage, ...]:
        """Those that could not be read."""
        framed = [part.message for part in (self.key, self.value) if part is not None]
        return tuple(message for message in framed if isinstance(message, UnreadMessage))


def internal_topic(name: str) -> InternalTopic | None:
    """Return the internal topic with this name; None if it is none."""
    return InternalTopic(name) if name in tuple(InternalTopic) else None


def record_messages(topic: InternalTopic, key: bytes | None, value: bytes | None) -> RecordMessages:
    """Read the messages of a record that is no control record."""
    family = _FAMILIES[topic]
    if topic in _WITHOUT_KEYS:
        return RecordMessages(None, None if value is None else read_metadata(family, value))
    if key is None:
        unread = UnreadMessage(UnreadReason.FRAME, "the record has no key", b"")
        return RecordMessages(FramedMessage(None, unread), _without_type(value))
    framed = read_key(family, key)
    if framed.type_number is None:
        return RecordMessages(framed, _without_type(value))
    return RecordMessages(framed, None if value is None else read_value(family, framed.type_number, value))


def _without_type(value: bytes | None) -> FramedMessage | None:
    if value is None:
        return None
    return FramedMessage(None, UnreadMessage(UnreadReason.UNKNOWN_TYPE, "the key does not say what it is", value))
