"""A remote log segment as the metadata of a cluster describes it, and as objects in remote storage show it.

Source: Kafka RemoteLogSegmentMetadata, RemoteLogSegmentState, Uuid.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from logcore.segments.filenames import TopicPartition
from logcore.segments.side_files.leader_epochs import EpochEntry

UUID = r"[A-Za-z0-9_-]{21}[AQgw]"
"""A pattern for Kafka's text form of a UUID: 16 bytes in base64 for URLs, without padding."""
_UUID = re.compile(UUID, re.ASCII)


class RemoteSegmentState(IntEnum):
    """What a broker has done with a remote segment; the numbers are those of the metadata. Only COPY_FINISHED is
    readable.
    """

    COPY_STARTED = 0
    COPY_FINISHED = 1
    DELETE_STARTED = 2
    DELETE_FINISHED = 3

    @property
    def kafka_name(self) -> str:
        """The name in Kafka's RemoteLogSegmentState, such as `COPY_SEGMENT_FINISHED`."""
        verb, _, outcome = self.name.partition("_")
        return f"{verb}_SEGMENT_{outcome}"


@dataclass(frozen=True, slots=True, order=True)
class TopicIdPartition:
    """A partition of a topic by its ID, which no other topic ever has. `topic_id` is a UUID in Kafka's text form."""

    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A remote segment as the metadata describes it.

    Attributes:
        topic_partition: The partition by name.
        topic_id: UUID of the topic in Kafka's text form.
        segment_id: UUID of the segment in Kafka's text form. Each attempt to copy a segment has its own.
        start_offset: First offset.
        end_offset: Last offset (inclusive, as in the metadata).
        leader_epochs: The epochs of the log from the segment's first offset to its last, ascending.
        size: Bytes of the segment's log file at the broker; other bytes may be stored.
        state: What the broker has done with it.
        custom_metadata: Bytes of the plugin that stored it; None without any.
        max_timestamp_ms: The greatest timestamp of its records in epoch milliseconds; -1 if unknown.
        event_timestamp_ms: When the latest state was recorded, in epoch milliseconds; -1 if unknown.
        broker_id: The broker that recorded the latest state; -1 if unknown.
    """

    topic_partition: TopicPartition
    topic_id: str
    segment_id: str
    start_offset: int
    end_offset: int
    leader_epochs: tuple[EpochEntry, ...]
    size: int
    state: RemoteSegmentState
    custom_metadata: bytes | None = None
    max_timestamp_ms: int = -1
    event_timestamp_ms: int = -1
    broker_id: int = -1

    @property
    def place(self) -> TopicIdPartition:
        """The partition by the ID of its topic."""
        return TopicIdPartition(self.topic_id, self.topic_partition.partition)
