"""The records of `__remote_log_metadata`: what brokers did with remote segments.

    0 segment           a segment, and the state of its copy
    1 update            a new state of a segment
    2 partition delete  a topic was deleted: 0 marked, 1 started, 2 finished

Keys are null. `logcore.messages` has the fields of each type and reads them. Type 3 is only in files of one broker.

Source: Kafka RemoteLogMetadataSerde. Belongs here: messages to values. `segment_states` follows the states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from logcore.errors import CorruptionReason, CorruptRecordError, UnsupportedFormatError
from logcore.messages.framing import read_metadata
from logcore.messages.kafka_json import uuid_text
from logcore.messages.known_messages import MessageFamily
from logcore.messages.reader import UnreadMessage, UnreadReason
from logcore.remote.remote_segment import RemoteSegment, RemoteSegmentState, TopicIdPartition
from logcore.segments.filenames import TopicPartition
from logcore.segments.side_files.leader_epochs import EpochEntry

PARTITION_DELETE_FINISHED = 2
_SEGMENT, _UPDATE, _PARTITION_DELETE = 0, 1, 2
_TYPES = (_SEGMENT, _UPDATE, _PARTITION_DELETE)


@dataclass(frozen=True, slots=True)
class SegmentUpdate:
    """A broker changed the state of a segment.

    Attributes:
        topic_partition: The partition by name.
        topic_id: UUID of the topic.
        segment_id: UUID of the segment.
        broker_id: The broker.
        event_timestamp_ms: When, in epoch milliseconds.
        custom_metadata: Bytes of the plugin; None without any.
        state: The new state.
    """

    topic_partition: TopicPartition
    topic_id: str
    segment_id: str
    broker_id: int
    event_timestamp_ms: int
    custom_metadata: bytes | None
    state: RemoteSegmentState


@dataclass(frozen=True, slots=True)
class PartitionDelete:
    """A topic was deleted, so the segments of its partition are deleted too.

    Attributes:
        topic_partition: The partition by name.
        topic_id: UUID of the topic.
        broker_id: The broker.
        event_timestamp_ms: When, in epoch milliseconds.
        state: 0 marked, 1 started, 2 finished.
    """

    topic_partition: TopicPartition
    topic_id: str
    broker_id: int
    event_timestamp_ms: int
    state: int

    @property
    def place(self) -> TopicIdPartition:
        """The partition by the ID of its topic."""
        return TopicIdPartition(self.topic_id, self.topic_partition.partition)


MetadataEvent: TypeAlias = RemoteSegment | SegmentUpdate | PartitionDelete


def metadata_event(value: bytes) -> MetadataEvent:
    """Decode the value of a record.

    Raises:
        CorruptRecordError: TRUNCATED where the fields do not fit the bytes, TRAILING_BYTES where more follow, COUNT for
            a state, a size or offsets that are not possible.
        UnsupportedFormatError: Another frame, type or version.
    """
    framed = read_metadata(MessageFamily.STORAGE_FILES, value)
    message = framed.message
    if framed.type_number is not None and framed.type_number not in _TYPES:
        raise UnsupportedFormatError(f"a record of type {framed.type_number} is not known")
    if isinstance(message, UnreadMessage):
        if message.reason in _UNKNOWN:
            raise UnsupportedFormatError(f"a record that is not known: {message.detail}")
        is_longer = message.reason is UnreadReason.TRAILING_BYTES
        reason = CorruptionReason.TRAILING_BYTES if is_longer else CorruptionReason.TRUNCATED
        raise CorruptRecordError(reason, f"a record cannot be read: {message.detail}")
    fields: dict[str, Any] = dict(message.fields)
    if framed.type_number == _PARTITION_DELETE:
        name, topic_id = _topic(fields["topicIdPartition"])
        state = fields["remotePartitionDeleteState"]
        return PartitionDelete(name, topic_id, fields["brokerId"], fields["eventTimestampMs"], state)
    name, topic_id = _topic(fields["remoteLogSegmentId"]["topicIdPartition"])
    segment_id = uuid_text(fields["remoteLogSegmentId"]["id"])
    state = _state(fields["remoteLogSegmentState"])
    custom, event_ms, broker = fields["customMetadata"], fields["eventTimestampMs"], fields["brokerId"]
    if framed.type_number == _UPDATE:
        return SegmentUpdate(name, topic_id, segment_id, broker, event_ms, custom, state)
    start, end, size = fields["startOffset"], fields["endOffset"], fields["segmentSizeInBytes"]
    if not 0 <= start <= end or size < 0:
        problem = f"a segment of {size} bytes with offsets {start} to {end} is not possible"
        raise CorruptRecordError(CorruptionReason.COUNT, problem)
    epochs = tuple(sorted(EpochEntry(e["leaderEpoch"], e["offset"]) for e in fields["segmentLeaderEpochs"]))
    greatest = fields["maxTimestampMs"]
    return RemoteSegment(
        name, topic_id, segment_id, start, end, epochs, size, state, custom, greatest, event_ms, broker
    )


def _topic(fields: dict[str, Any]) -> tuple[TopicPartition, str]:
    return TopicPartition(fields["name"], fields["partition"]), uuid_text(fields["id"])


def _state(number: int) -> RemoteSegmentState:
    if number not in list(RemoteSegmentState):
        raise CorruptRecordError(CorruptionReason.COUNT, f"a segment's state {number} is not known")
    return RemoteSegmentState(number)


_UNKNOWN = (UnreadReason.FRAME, UnreadReason.UNKNOWN_TYPE, UnreadReason.UNKNOWN_VERSION)
