"""The records of `__remote_log_metadata`: what brokers did with remote segments.

    value               unsigned varint 1 (frame), unsigned varint type, unsigned varint version, then the fields
    0 segment           segment ID, start offset int64, end offset int64 (inclusive), broker int32, greatest timestamp
                        int64, event timestamp int64, epochs: array of (epoch int32, start offset int64), size int32,
                        custom metadata nullable bytes, state int8
    1 update            segment ID, broker int32, event timestamp int64, custom metadata nullable bytes, state int8
    2 partition delete  topic, broker int32, event timestamp int64, state int8: 0 marked, 1 started, 2 finished
    segment ID          topic, UUID of the segment (16 bytes)
    topic               name compact string, UUID of the topic (16 bytes), partition int32

Lengths of strings, bytes and arrays are unsigned varints plus one. After each structure follow its tagged fields, which
are skipped. Keys are null. All integers are big-endian. Type 3 is only in files of one broker.

Source: Kafka RemoteLogMetadataSerde, RemoteLogSegmentMetadataRecord.json, RemoteLogSegmentMetadataUpdateRecord.json,
RemotePartitionDeleteMetadataRecord.json. Belongs here: bytes to values. `segment_states` follows the states.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TypeAlias

from logcore.errors import CorruptionReason, CorruptRecordError, UnsupportedFormatError
from logcore.remote.remote_segment import RemoteSegment, RemoteSegmentState, TopicIdPartition
from logcore.segments.filenames import TopicPartition
from logcore.segments.side_files.leader_epochs import EpochEntry

METADATA_TOPIC = "__remote_log_metadata"
PARTITION_DELETE_FINISHED = 2
_SEGMENT, _UPDATE, _PARTITION_DELETE = 0, 1, 2
_TYPES = {_SEGMENT: "segment", _UPDATE: "update", _PARTITION_DELETE: "partition delete"}


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
        CorruptRecordError: TRUNCATED where the bytes end too early, TRAILING_BYTES where more follow, COUNT for a
            length or state that is not possible.
        UnsupportedFormatError: Another frame, type or version.
    """
    fields = _Fields(value)
    frame, kind, version = fields.unsigned(), fields.unsigned(), fields.unsigned()
    if frame != 1 or version != 0 or kind not in _TYPES:
        raise UnsupportedFormatError(f"a record of frame {frame}, type {kind}, version {version} is not known")
    event: MetadataEvent
    if kind == _PARTITION_DELETE:
        name, topic_id = fields.topic()
        event = PartitionDelete(name, topic_id, fields.integer(4), fields.integer(8), fields.integer(1))
    else:
        event = _of_segment(fields, is_update=kind == _UPDATE)
    fields.skip_tags()
    fields.end()
    return event


def _of_segment(fields: _Fields, *, is_update: bool) -> RemoteSegment | SegmentUpdate:
    name, topic_id = fields.topic()
    segment_id = fields.uuid()
    fields.skip_tags()
    if is_update:
        return SegmentUpdate(
            name, topic_id, segment_id, fields.integer(4), fields.integer(8), fields.nullable_bytes(), fields.state()
        )
    start, end, broker, greatest, event_ms = (fields.integer(size) for size in (8, 8, 4, 8, 8))
    epochs = []
    for _ in range(fields.count(12)):
        epochs.append(EpochEntry(fields.integer(4), fields.integer(8)))
        fields.skip_tags()
    size, custom, state = fields.integer(4), fields.nullable_bytes(), fields.state()
    if not 0 <= start <= end or size < 0:
        message = f"a segment of {size} bytes with offsets {start} to {end} is not possible"
        raise CorruptRecordError(CorruptionReason.COUNT, message)
    return RemoteSegment(
        name, topic_id, segment_id, start, end, tuple(sorted(epochs)), size, state, custom, greatest, event_ms, broker
    )


class _Fields:
    """The fields of a record, one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def raw(self, size: int) -> bytes:
        if size > len(self._content) - self._at:
            raise CorruptRecordError(CorruptionReason.TRUNCATED, f"a field of {size} bytes does not fit the record")
        self._at += size
        return self._content[self._at - size : self._at]

    def integer(self, size: int) -> int:
        return int.from_bytes(self.raw(size), "big", signed=True)

    def unsigned(self) -> int:
        value = 0
        for index in range(5):
            (byte,) = self.raw(1)
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise CorruptRecordError(CorruptionReason.VARINT, "a length of more than 5 bytes")

    def count(self, least_bytes: int) -> int:
        """The length of an array whose items have at least so many bytes."""
        count = self.unsigned() - 1
        if not 0 <= count <= (len(self._content) - self._at) // least_bytes:
            raise CorruptRecordError(CorruptionReason.COUNT, f"an array of {count} items does not fit the record")
        return count

    def uuid(self) -> str:
        return base64.urlsafe_b64encode(self.raw(16)).decode().rstrip("=")

    def nullable_bytes(self) -> bytes | None:
        length = self.unsigned()
        return None if length == 0 else self.raw(length - 1)

    def topic(self) -> tuple[TopicPartition, str]:
        length = self.unsigned()
        if not 1 < length <= 250:
            raise CorruptRecordError(CorruptionReason.COUNT, f"a topic's name of {length - 1} bytes")
        name = self.raw(length - 1).decode("utf-8", "replace")
        topic_id, partition = self.uuid(), self.integer(4)
        self.skip_tags()
        return TopicPartition(name, partition), topic_id

    def state(self) -> RemoteSegmentState:
        number = self.integer(1)
        if number not in list(RemoteSegmentState):
            raise CorruptRecordError(CorruptionReason.COUNT, f"a segment's state {number} is not known")
        return RemoteSegmentState(number)

    def skip_tags(self) -> None:
        for _ in range(self.unsigned()):
            self.unsigned()
            self.raw(self.unsigned())

    def end(self) -> None:
        left = len(self._content) - self._at
        if left:
            raise CorruptRecordError(CorruptionReason.TRAILING_BYTES, f"{left} bytes follow the fields of the record")
