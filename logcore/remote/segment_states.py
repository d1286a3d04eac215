"""What the metadata of a cluster says of its remote segments, after all records of the topic.

A segment's first record says that its copy began. Updates follow: the copy ended, its deletion began, it ended. A
broker forgets a segment whose deletion ended. Here it is kept, so that objects that are still there have a reason.

Source: Kafka RemoteLogMetadataCache, RemotePartitionMetadataStore.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from logcore.remote.metadata_records import (
    PARTITION_DELETE_FINISHED,
    MetadataEvent,
    PartitionDelete,
    SegmentUpdate,
)
from logcore.remote.remote_segment import RemoteSegment, RemoteSegmentState, TopicIdPartition


def _unchanging(segment: RemoteSegment) -> RemoteSegment:
    """A segment without what updates change."""
    return replace(
        segment,
        state=RemoteSegmentState.COPY_STARTED,
        custom_metadata=None,
        event_timestamp_ms=-1,
        broker_id=-1,
    )


@dataclass(slots=True)
class SegmentStates:
    """The remote segments of a cluster.

    Attributes:
        segments: By UUID of the segment, in the order of their first records.
        deleted: Partitions whose topic was deleted, with all their segments.
    """

    segments: dict[str, RemoteSegment] = field(default_factory=dict)
    deleted: set[TopicIdPartition] = field(default_factory=set)

    def add(self, event: MetadataEvent) -> str | None:
        """Take in the next record.

        Returns:
            Why the record cannot follow those before it, as a clause; None if it can. Such a record is left out.
        """
        if isinstance(event, RemoteSegment):
            known = self.segments.get(event.segment_id)
            if known is not None and _unchanging(known) != _unchanging(event):
                return f"segment {event.segment_id} is described a second time, differently"
            self.segments.setdefault(event.segment_id, event)
            return None
        if isinstance(event, SegmentUpdate):
            return self._update(event)
        self._delete(event)
        return None

    @property
    def places(self) -> set[TopicIdPartition]:
        """The partitions that the metadata names."""
        return {segment.place for segment in self.segments.values()} | self.deleted

    def _update(self, event: SegmentUpdate) -> str | None:
        known = self.segments.get(event.segment_id)
        if known is None:
            return f"segment {event.segment_id} is updated, and no record before describes it"
        if (known.topic_id, known.topic_partition.partition) != (event.topic_id, event.topic_partition.partition):
            return f"segment {event.segment_id} is updated as one of another partition"
        if event.state < known.state:
            return f"segment {event.segment_id} goes back from {known.state.kafka_name} to {event.state.kafka_name}"
        self.segments[event.segment_id] = replace(
            known,
            state=event.state,
            custom_metadata=known.custom_metadata if event.custom_metadata is None else event.custom_metadata,
            event_timestamp_ms=event.event_timestamp_ms,
            broker_id=event.broker_id,
        )
        return None

    def _delete(self, event: PartitionDelete) -> None:
        if event.state != PARTITION_DELETE_FINISHED:
            return
        self.deleted.add(event.place)
        for segment_id, segment in self.segments.items():
            if segment.place == event.place:
                self.segments[segment_id] = replace(segment, state=RemoteSegmentState.DELETE_FINISHED)
