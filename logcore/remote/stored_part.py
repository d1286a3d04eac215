"""One stored part of a remote segment: what the name of its object says. The layouts share these values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from logcore.segments.filenames import MAX_OFFSET, MAX_PARTITION, TopicPartition


class RemoteLayout(StrEnum):
    """How remote segments are stored, by the name of the plugin that stores them."""

    LOCAL_TIERED_STORAGE = "LocalTieredStorage"
    AIVEN = "Aiven"


class SegmentPart(StrEnum):
    """A part of a remote segment.

    The first six are what a broker gives to the plugin (Kafka LogSegmentData). The indexes file has all of them but the
    log, and the manifest describes both.
    """

    LOG = "log"
    OFFSET_INDEX = "offset-index"
    TIME_INDEX = "time-index"
    TRANSACTION_INDEX = "transaction-index"
    LEADER_EPOCHS = "leader-epochs"
    PRODUCER_SNAPSHOT = "producer-snapshot"
    INDEXES = "indexes"
    MANIFEST = "manifest"


@dataclass(frozen=True, slots=True)
class StoredPart:
    """What the name of an object says.

    Attributes:
        layout: How it is stored.
        topic_partition: The partition by name. With Aiven's plugin the topic's name may begin with a prefix of keys.
        topic_id: UUID of the topic.
        start_offset: First offset of the segment.
        segment_id: UUID of the segment.
        part: Which part of the segment it is.
    """

    layout: RemoteLayout
    topic_partition: TopicPartition
    topic_id: str
    start_offset: int
    segment_id: str
    part: SegmentPart


@dataclass(frozen=True, slots=True)
class RemoteObject:
    """An object as it was listed.

    Attributes:
        path: Its path or address.
        part: What its name says.
        size: In bytes.
        modified_ms: When it was written, in epoch milliseconds.
        inode: 0 for an object of a store.
        etag: Names the content of an object of a store; empty if the store states none. None for a file of a disk.
    """

    path: str
    part: StoredPart
    size: int
    modified_ms: int
    inode: int = 0
    etag: str | None = None

    @property
    def version(self) -> str:
        """Names its content: its ETag, or its size and time where there is none."""
        return self.etag or file_version(self.size, self.modified_ms)


def file_version(size: int, modified_ms: int) -> str:
    """Name the content of a file of a disk as an ETag names that of an object.

    Only for files that nobody changes after they got their name. Another file of the same size and time has this name
    too.

    Args:
        size: In bytes.
        modified_ms: The mtime in epoch milliseconds.
    """
    return f"file of {size} bytes at {modified_ms}"


def stored_part(
    layout: RemoteLayout,
    topic: str,
    topic_id: str,
    partition: str,
    start_offset: str,
    segment_id: str,
    part: SegmentPart,
) -> StoredPart | None:
    """Build the value from the texts in a name; None if a number is larger than Kafka's."""
    if int(partition) > MAX_PARTITION or int(start_offset) > MAX_OFFSET:
        return None
    return StoredPart(layout, TopicPartition(topic, int(partition)), topic_id, int(start_offset), segment_id, part)
