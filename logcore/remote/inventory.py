"""Every remote segment of a cluster and of a storage: which counts, and which objects have no use.

    status             metadata                    objects       the segment
    counts             COPY_SEGMENT_FINISHED       all           is a part of its log, or begins with one
    below-log-start    COPY_SEGMENT_FINISHED       any           ends below the log start: its deletion follows
    not-in-lineage     COPY_SEGMENT_FINISHED       any           has no offset in an epoch in which its log has it
    objects-missing    COPY_SEGMENT_FINISHED       not all       cannot be read: orphaned metadata
    other-size         COPY_SEGMENT_FINISHED       all           they have other bytes than the metadata says
    storage-empty      COPY_SEGMENT_FINISHED       none          a named storage has no object at all: not mounted?
    ambiguous          any                         some twice    one part lies in two places
    copying            COPY_SEGMENT_STARTED        any           its copy goes on, or was given up: a half copy
    deleting           DELETE_SEGMENT_STARTED      any           its deletion goes on; a broker tries it again
    deleted            DELETE_SEGMENT_FINISHED     some          objects outlived their deletion: orphaned objects
    unnamed            none, but of its partition  some          orphaned objects
    not-covered        none of its partition       some          the metadata given does not decide about it

Without any metadata, a segment counts if it is complete, and if the log's epochs contain those that are stored with it.
Nothing is called an orphan then. The metadata of a partition is in one partition of its topic, and a broker has only
some of these. So a storage may hold partitions, and whole clusters, about which nothing is known here.

Source: KIP-405; Kafka RemoteLogManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from logcore.errors import CorruptIndexError
from logcore.remote import aiven_layout
from logcore.remote.chunked.segment_manifest import DescribedOffsets
from logcore.remote.lineage import JoinedSegment, offsets_in_lineage
from logcore.remote.remote_segment import RemoteSegment, RemoteSegmentState, TopicIdPartition
from logcore.remote.segment_states import SegmentStates
from logcore.remote.stored_names import REQUIRED
from logcore.remote.stored_part import RemoteLayout, RemoteObject, SegmentPart
from logcore.segments.filenames import TopicPartition
from logcore.segments.side_files.leader_epochs import EpochEntry


class RemoteStatus(StrEnum):
    """What a remote segment is to its log; the table above says when."""

    COUNTS = "counts"
    BELOW_LOG_START = "below-log-start"
    NOT_IN_LINEAGE = "not-in-lineage"
    OBJECTS_MISSING = "objects-missing"
    STORAGE_EMPTY = "storage-empty"
    OTHER_SIZE = "other-size"
    AMBIGUOUS = "ambiguous"
    COPYING = "copying"
    DELETING = "deleting"
    DELETED = "deleted"
    UNNAMED = "unnamed"
    NOT_COVERED = "not-covered"


ORPHANED = frozenset({RemoteStatus.OBJECTS_MISSING, RemoteStatus.COPYING, RemoteStatus.DELETED, RemoteStatus.UNNAMED})
"""Objects without metadata, metadata without objects, and half copies."""


@dataclass(frozen=True, slots=True)
class LogLineage:
    """What decides about the remote segments of a log: start, end (exclusive) and leader epochs of the whole log."""

    topic_partition: TopicPartition
    log_start_offset: int
    log_end_offset: int
    leader_epochs: tuple[EpochEntry, ...]


@dataclass(frozen=True, slots=True)
class StoredObjects:
    """The objects of one segment.

    Attributes:
        layout: How it is stored.
        topic_partition: The partition by the name that the objects have.
        topic_id: UUID of the topic.
        segment_id: UUID of the segment.
        start_offset: First offset.
        parts: The objects by part.
        is_ambiguous: A part lies in two places.
    """

    layout: RemoteLayout
    topic_partition: TopicPartition
    topic_id: str
    segment_id: str
    start_offset: int
    parts: dict[SegmentPart, RemoteObject]
    is_ambiguous: bool = False

    @property
    def place(self) -> TopicIdPartition:
        """The partition by the ID of its topic."""
        return TopicIdPartition(self.topic_id, self.topic_partition.partition)

    @property
    def log(self) -> RemoteObject:
        """The object with the segment itself; a segment that counts has it."""
        return self.parts[SegmentPart.LOG]

    @property
    def is_chunked(self) -> bool:
        """Whether the segment is stored in chunks, which its manifest describes."""
        return self.layout is RemoteLayout.AIVEN

    @property
    def nbytes(self) -> int:
        """Bytes of all objects."""
        return sum(each.size for each in self.parts.values())

    @property
    def missing(self) -> tuple[SegmentPart, ...]:
        """Required parts without an object."""
        return tuple(sorted(REQUIRED[self.layout] - set(self.parts)))


@dataclass(frozen=True, slots=True)
class FoundSegment:
    """A remote segment, by the metadata, by its objects, or by both.

    Attributes:
        topic_partition: The partition by name.
        topic_id: UUID of the topic.
        segment_id: UUID of the segment.
        start_offset: First offset.
        end_offset: Last offset (inclusive); None if it is not known.
        status: What it is to its log.
        state: By the metadata; None without any.
        size: Bytes of the segment; None if they are not known.
        objects: Its objects; None without any.
        missing: Required parts without an object.
        is_lineage_known: Whether the log was there, with leader epochs to compare.
        part: The segment and its offsets that are in its log, if it counts.
        other_size: Bytes that are there, and bytes that the metadata says, if they differ.
    """

    topic_partition: TopicPartition
    topic_id: str
    segment_id: str
    start_offset: int
    end_offset: int | None
    status: RemoteStatus
    state: RemoteSegmentState | None = None
    size: int | None = None
    objects: StoredObjects | None = None
    missing: tuple[SegmentPart, ...] = ()
    is_lineage_known: bool = False
    part: JoinedSegment | None = None
    other_size: tuple[int, int] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of its objects."""
        return 0 if self.objects is None else self.objects.nbytes

    @property
    def is_orphaned(self) -> bool:
        """Whether objects have no use, or metadata has no objects."""
        return self.status in ORPHANED


def grouped(objects: Iterable[RemoteObject]) -> tuple[StoredObjects, ...]:
    """Group objects by segment, in the order of partitions and offsets."""
    found: dict[tuple[RemoteLayout, TopicIdPartition, str, int], StoredObjects] = {}
    for each in objects:
        part = each.part
        place = TopicIdPartition(part.topic_id, part.topic_partition.partition)
        key = (part.layout, place, part.segment_id, part.start_offset)
        known = found.get(key)
        if known is None:
            found[key] = StoredObjects(
                part.layout, part.topic_partition, part.topic_id, part.segment_id, part.start_offset, {part.part: each}
            )
        elif part.part in known.parts:
            found[key] = replace(known, is_ambiguous=True)
        else:
            known.parts[part.part] = each
    return tuple(sorted(found.values(), key=lambda each: (each.topic_partition, each.topic_id, each.start_offset)))


def inventory(
    states: SegmentStates | None,
    stored: Sequence[StoredObjects],
    logs: dict[TopicIdPartition, LogLineage],
    described_by: Callable[[StoredObjects], DescribedOffsets | None],
) -> tuple[FoundSegment, ...]:
    """Decide about every remote segment.

    Args:
        states: What the metadata says; None if it is not given.
        stored: What lies in remote storage.
        logs: The logs at the source, by the IDs of their topics.
        described_by: Reads what objects say of the offsets of their segment; None if they do not say it. Called only
            where there is no metadata.

    Returns:
        The segments, by topic partition and offset. A segment that was deleted completely is left out.
    """
    by_id: dict[tuple[TopicIdPartition, str, int], list[StoredObjects]] = {}
    for each in stored:
        by_id.setdefault((each.place, each.segment_id, each.start_offset), []).append(each)
    found: list[FoundSegment] = []
    for segment in () if states is None else states.segments.values():
        objects = _one_of(by_id.pop((segment.place, segment.segment_id, segment.start_offset), []))
        if segment.state is not RemoteSegmentState.DELETE_FINISHED or objects is not None:
            found.append(_named(segment, objects, logs.get(segment.place)))
    places = set() if states is None else states.places
    for objects in (each for group in by_id.values() for each in group):
        if states is None:
            found.append(_listed(objects, logs.get(objects.place), described_by))
        else:
            status = RemoteStatus.UNNAMED if objects.place in places else RemoteStatus.NOT_COVERED
            found.append(_unnamed(objects, logs.get(objects.place), status))
    return tuple(sorted(found, key=lambda each: (each.topic_partition, each.topic_id, each.start_offset)))


def not_looked_up(segments: Iterable[FoundSegment]) -> tuple[FoundSegment, ...]:
    """Return the segments, with those without any object as not looked up: a storage that may have them is empty."""
    return tuple(
        replace(each, status=RemoteStatus.STORAGE_EMPTY, missing=())
        if each.status is RemoteStatus.OBJECTS_MISSING and each.objects is None
        else each
        for each in segments
    )


def _one_of(stored: Sequence[StoredObjects]) -> StoredObjects | None:
    """The objects of a segment. If both layouts have some, a part lies in two places."""
    if not stored:
        return None
    chosen = min(stored, key=lambda each: len(each.missing))
    return chosen if len(stored) == 1 else replace(chosen, is_ambiguous=True)


def _named(segment: RemoteSegment, objects: StoredObjects | None, log: LogLineage | None) -> FoundSegment:
    """A segment that the metadata describes."""
    missing = (SegmentPart.LOG,) if objects is None else objects.missing
    is_copied = segment.state is RemoteSegmentState.COPY_FINISHED
    part = _in_log(segment, log) if is_copied else None
    if not is_copied:
        status = _OF_STATE[segment.state]
    elif log is not None and segment.end_offset < log.log_start_offset:
        status = RemoteStatus.BELOW_LOG_START
    elif part is None:
        status = RemoteStatus.NOT_IN_LINEAGE
    else:
        status = RemoteStatus.OBJECTS_MISSING if missing else RemoteStatus.COUNTS
    if objects is not None and objects.is_ambiguous and status in (RemoteStatus.COUNTS, RemoteStatus.OBJECTS_MISSING):
        status = RemoteStatus.AMBIGUOUS
    differs = None
    if objects is not None and status is RemoteStatus.COUNTS:
        differs = _other_size(segment, objects)
        status = status if differs is None else RemoteStatus.OTHER_SIZE
    return FoundSegment(
        segment.topic_partition,
        segment.topic_id,
        segment.segment_id,
        segment.start_offset,
        segment.end_offset,
        status,
        segment.state,
        segment.size,
        objects,
        missing if is_copied else (),
        log is not None and bool(log.leader_epochs),
        part if status is RemoteStatus.COUNTS else None,
        differs,
    )


def _other_size(segment: RemoteSegment, objects: StoredObjects) -> tuple[int, int] | None:
    """Compare the objects of a segment with its metadata, without a read.

    LocalTieredStorage stores the log file as it is. Aiven's plugin may note the bytes of all objects in the metadata.

    Returns:
        The bytes that are there and those that the metadata says, if they differ.
    """
    if objects.layout is RemoteLayout.LOCAL_TIERED_STORAGE:
        there = objects.parts[SegmentPart.LOG].size
        return (there, segment.size) if segment.size and segment.size != there else None
    try:
        said = aiven_layout.custom_metadata(segment.custom_metadata or b"").remote_size
    except CorruptIndexError:
        return None  # of another plugin
    return None if said is None or said <= objects.nbytes else (objects.nbytes, said)


def _in_log(segment: RemoteSegment, log: LogLineage | None) -> JoinedSegment | None:
    """The offsets of a segment that are in its log; all if there are no leader epochs to compare with."""
    if log is None or not log.leader_epochs:
        return JoinedSegment(segment, segment.start_offset, segment.end_offset + 1)
    part = offsets_in_lineage(segment, log.leader_epochs, log.log_end_offset)
    return None if part is None or part.end_offset <= log.log_start_offset else part


def _listed(
    objects: StoredObjects,
    log: LogLineage | None,
    described_by: Callable[[StoredObjects], DescribedOffsets | None],
) -> FoundSegment:
    """A segment without any metadata to ask."""
    offsets = None if objects.missing or objects.is_ambiguous else described_by(objects)
    if offsets is None or offsets.start_offset != objects.start_offset:
        status = RemoteStatus.AMBIGUOUS if objects.is_ambiguous else RemoteStatus.NOT_COVERED
        return replace(_unnamed(objects, log, status), missing=objects.missing)
    name = objects.topic_partition if log is None else log.topic_partition
    segment = RemoteSegment(
        name,
        objects.topic_id,
        objects.segment_id,
        offsets.start_offset,
        offsets.end_offset,
        offsets.leader_epochs,
        0,
        RemoteSegmentState.COPY_FINISHED,
    )
    return replace(_named(segment, objects, log), state=None, size=None)


def _unnamed(objects: StoredObjects, log: LogLineage | None, status: RemoteStatus) -> FoundSegment:
    name = objects.topic_partition if log is None else log.topic_partition
    return FoundSegment(name, objects.topic_id, objects.segment_id, objects.start_offset, None, status, objects=objects)


_OF_STATE = {
    RemoteSegmentState.COPY_STARTED: RemoteStatus.COPYING,
    RemoteSegmentState.DELETE_STARTED: RemoteStatus.DELETING,
    RemoteSegmentState.DELETE_FINISHED: RemoteStatus.DELETED,
}
