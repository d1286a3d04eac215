"""The remote segments of the logs at some paths, and what is wrong with them.

The metadata topic decides which segments count; `logcore.remote.inventory` has the rules. Without that topic the
objects themselves decide: a manifest has the offsets of its segment, LocalTieredStorage has leader epochs and the
segment's own batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from logcore.errors import LogError
from logcore.logs.model.findings import found
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.read_options import Notes
from logcore.reading.remote_metadata import segment_states
from logcore.remote.chunked.chunk_map import NONE_REGISTERED, RegisteredObject
from logcore.remote.chunked.segment_manifest import DescribedOffsets
from logcore.remote.inventory import (
    FoundSegment,
    LogLineage,
    RemoteStatus,
    StoredObjects,
    grouped,
    inventory,
    not_looked_up,
)
from logcore.remote.lineage import highest_tiered_offset
from logcore.remote.remote_segment import RemoteSegment, RemoteSegmentState, TopicIdPartition
from logcore.remote.segment_states import SegmentStates
from logcore.remote.stored_names import name_of_part
from logcore.remote.stored_part import RemoteLayout, RemoteObject, SegmentPart
from logcore.segments.filenames import DirectoryKind
from logcore.segments.side_files import offset_index
from logcore.segments.side_files.checkpoints import parse_leader_epochs
from logcore.segments.side_files.leader_epochs import truncate_from_start
from logcore.storage.discovery import HeaderReader, read_file, shown
from logcore.storage.remote_tier.known_manifests import known_manifest
from logcore.storage.remote_tier.remote_listing import RemoteListing, list_remote

_MOST_INDEX_BYTES = 64 << 20
_MOST_EPOCH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class RemoteInventory:
    """Remote storage, and the segments in it.

    Attributes:
        listings: What lies there, by root.
        segments: The segments, by topic partition and offset.
        has_metadata: Whether the metadata topic decided which of them count.
        tiered_ends: The offset after the last one that was ever copied, of each log at the source that has any.
    """

    listings: tuple[RemoteListing, ...]
    segments: tuple[FoundSegment, ...]
    has_metadata: bool
    tiered_ends: Mapping[TopicIdPartition, int]


def remote_inventory(
    logs: Sequence[SourceLog],
    remotes: Sequence[str],
    notes: Notes,
    selection: LogSelection | None = None,
    registered: Mapping[str, RegisteredObject] = NONE_REGISTERED,
) -> RemoteInventory:
    """List remote storage and decide about every segment.

    Args:
        logs: All logs at the source, those of the metadata topic too.
        remotes: Directories, or prefixes of buckets. All are one storage: a segment may lie in any of them.
        notes: Gets the findings.
        selection: Which segments are returned and reported; None: all.
        registered: Objects that a lake has registered, by path. The manifests of those with a chunk map are not read.

    Raises:
        SourceUnreadable: Remote storage cannot be listed completely.
        AddressError: The name of an object store, or a setting of its access, cannot be used.
        LogError: The package that reads object stores is not installed.
    """
    listings = tuple(list_remote(remote) for remote in dict.fromkeys(remotes))
    states = segment_states(logs, notes)
    root = ", ".join(shown(listing.root) for listing in listings)
    if states is None:
        message = (
            f"no partition of __remote_log_metadata is at the named paths; which segments of {root} count is decided "
            "by their own names and manifests."
        )
        notes.say(found("no-remote-metadata", message, file=root))

    def described(objects: StoredObjects) -> DescribedOffsets | None:
        try:
            return _described(objects, registered)
        except LogError as error:
            notes.say(found("remote-segment-unreadable", f"{error}", file=error.file or root))
            return None

    wanted = LogSelection() if selection is None else selection
    stored = {each.path: each for listing in listings for each in listing.objects}
    facts = _facts(logs)
    segments = tuple(
        segment
        for segment in inventory(states, grouped(stored.values()), facts, described)
        if wanted.matches(segment.topic_partition.topic, segment.topic_partition.partition)
    )
    for path in dict.fromkeys(path for listing in listings for path in listing.iceberg):
        message = (
            f"{shown(path)}: the segment is stored with segment.format: iceberg, as rows of an Iceberg table and not "
            "as Kafka's bytes; it is not read."
        )
        notes.say(found("remote-segment-unreadable", message, file=shown(path)))
    empty = [listing for listing in listings if not listing.has_segments]
    if empty:
        segments = not_looked_up(segments)
        _report_empty(empty, segments, notes)
    for segment in segments:
        _report(segment, notes, root)
    for listing in listings:
        _report_others(listing, notes)
    return RemoteInventory(listings, segments, states is not None, _tiered_ends(states, segments, facts))


def _tiered_ends(
    states: SegmentStates | None, segments: Iterable[FoundSegment], facts: Mapping[TopicIdPartition, LogLineage]
) -> dict[TopicIdPartition, int]:
    """The offset after the last one that was ever copied, of each log.

    A broker answers from the metadata, also for segments that were deleted or lost since. Without metadata those that
    are there answer.
    """
    copied: dict[TopicIdPartition, list[RemoteSegment]] = {}
    if states is None:
        for found_segment in segments:
            if found_segment.part is not None:
                copied.setdefault(found_segment.part.segment.place, []).append(found_segment.part.segment)
    else:
        for segment in states.segments.values():
            if segment.state is not RemoteSegmentState.COPY_STARTED:
                copied.setdefault(segment.place, []).append(segment)
    ends = {}
    for place, log in facts.items():
        last = highest_tiered_offset(copied.get(place, ()), log.leader_epochs, log.log_end_offset)
        if last is not None:
            ends[place] = last + 1
    return ends


def report_overlaps(whole: RemoteInventory, notes: Notes) -> None:
    """Report offsets that several segments that count have, once for each log. A read takes each of them once.

    Args:
        whole: The segments.
        notes: Gets the findings.
    """
    root = ", ".join(shown(listing.root) for listing in whole.listings)
    ends: dict[TopicIdPartition, int] = {}
    overlaps: dict[TopicIdPartition, list[tuple[int, int]]] = {}
    names = {}
    counted = (segment.part for segment in whole.segments if segment.part is not None)
    for part in sorted(counted, key=lambda each: (each.start_offset, each.end_offset)):
        place = part.segment.place
        names[place] = part.segment.topic_partition
        end = ends.get(place, 0)
        if part.start_offset < end:
            overlaps.setdefault(place, []).append((part.start_offset, min(end, part.end_offset)))
        ends[place] = max(end, part.end_offset)
    for place, spans in overlaps.items():
        start, end = spans[0][0], max(last for _, last in spans)
        message = (
            f"{names[place]}: offsets between {start} and {end - 1} are in more than one remote segment. Each "
            f"offset is read once. Segments that begin inside of others: {len(spans)}."
        )
        notes.say(found("remote-overlap", message, file=root, start_offset=start, end_offset=end))


def _report_empty(listings: Iterable[RemoteListing], segments: Iterable[FoundSegment], notes: Notes) -> None:
    """Report storage without any segment, if segments were copied that are nowhere else."""
    names = [str(each.topic_partition) for each in segments if each.status is RemoteStatus.STORAGE_EMPTY]
    if not names:
        return
    several = len(set(names))
    whose = names[0] if several == 1 else f"{several} topic partitions"
    copied = f"1 segment of {whose} was" if len(names) == 1 else f"{len(names)} segments of {whose} were"
    for listing in listings:
        root = shown(listing.root)
        message = (
            f"{root} has no object of a segment, and the metadata says that {copied} copied. They are not counted as "
            "lost. Is the storage not mounted, or is its directory or prefix another one?"
        )
        notes.say(found("remote-storage-empty", message, file=root))


def _report_others(listing: RemoteListing, notes: Notes) -> None:
    """Report objects that are not read."""
    root = shown(listing.root)
    if listing.old:
        message = (
            f"{root} has {len(listing.old)} indexes as objects of their own, from an old release of the plugin; they "
            "are not read."
        )
        notes.say(found("other-remote-objects", message, file=root))
    if listing.other:
        message = f"{root} has {listing.other} other objects with {listing.other_bytes} bytes; they are not read."
        notes.say(found("other-remote-objects", message, file=root, nbytes=listing.other_bytes))


def _facts(logs: Iterable[SourceLog]) -> dict[TopicIdPartition, LogLineage]:
    """What decides about remote segments, of each live log with the ID of a topic.

    Of several replicas the one with the greatest last epoch decides, and the longest of those: its leader copied last.
    """
    facts: dict[TopicIdPartition, LogLineage] = {}
    for log in logs:
        if log.kind is DirectoryKind.LIVE and log.topic_id is not None and not log.named_files:
            place = TopicIdPartition(log.topic_id, log.topic_partition.partition)
            start = log.whole_log_start_offset if log.removed is None else log.removed[0]  # the storage may have them
            lineage = LogLineage(log.topic_partition, start, log_end_offset(log), log.leader_epochs)
            known = facts.get(place)
            if known is None or _newness(lineage) > _newness(known):
                facts[place] = lineage
    return facts


def _newness(lineage: LogLineage) -> tuple[int, int]:
    """The last epoch and the end of a log."""
    return max((entry.epoch for entry in lineage.leader_epochs), default=-1), lineage.log_end_offset


def log_end_offset(log: SourceLog) -> int:
    """The offset after the last batch of a log, or its last known base offset where that cannot be read."""
    bases = [segment.base_offset for segment in log.segments]
    end = max([log.log_start_offset, *bases, *log.unreadable])
    for segment in log.segments[-1:]:
        try:
            end = max([end, *(header.next_offset for _, header in HeaderReader().headers(segment) if header)])
        except LogError:
            return end  # reported where the log is read
    return end


def _described(objects: StoredObjects, registered: Mapping[str, RegisteredObject]) -> DescribedOffsets | None:
    """What objects say of the offsets of their segment."""
    log = objects.parts[SegmentPart.LOG]
    if objects.layout is RemoteLayout.AIVEN:
        return known_manifest(log, objects.parts[SegmentPart.MANIFEST], registered).manifest.described
    epochs = parse_leader_epochs(read_file(objects.parts[SegmentPart.LEADER_EPOCHS].path, _MOST_EPOCH_BYTES))
    index = read_file(objects.parts[SegmentPart.OFFSET_INDEX].path, _MOST_INDEX_BYTES)
    try:
        entries = offset_index.parse(index, objects.start_offset)
    except LogError:
        entries = ()
    end = _end_offset(log, objects.start_offset, entries[-1].position if entries else 0)
    if end is None:
        return None
    # The file begins with the log. The metadata has the epochs from the segment's first offset on.
    return DescribedOffsets(objects.start_offset, end, truncate_from_start(epochs, objects.start_offset))


def _end_offset(log: RemoteObject, start_offset: int, position: int) -> int | None:
    """The last offset of a segment, by the headers of its batches; None if it has none that can be read."""
    file = SegmentFile(start_offset, log.path, log.size, log.modified_ms, log.inode, etag=log.etag)
    for start in dict.fromkeys((position, 0)):
        ends = [header.last_offset for _, header in HeaderReader().headers(file, start) if header is not None]
        if ends and max(ends) >= start_offset:
            return max(ends)
    return None


def _harmed_object(segment: FoundSegment, objects: StoredObjects) -> str:
    """The object that a finding about a segment is about: one that is missing or has another size, else any of it."""
    if segment.status is RemoteStatus.OBJECTS_MISSING and segment.missing:
        known, there = next(iter(objects.parts.items()))
        part = SegmentPart.LOG if SegmentPart.LOG in segment.missing else segment.missing[0]
        return name_of_part(objects.layout, there.path, known, part)
    if segment.other_size is not None:
        return objects.log.path
    return min(each.path for each in objects.parts.values())


def _report(segment: FoundSegment, notes: Notes, root: str) -> None:
    """Report what is wrong with a segment."""
    name = f"{segment.topic_partition}, remote segment {segment.segment_id} from offset {segment.start_offset}"
    file = root if segment.objects is None else shown(_harmed_object(segment, segment.objects))
    if segment.status is RemoteStatus.OBJECTS_MISSING:
        parts = ", ".join(segment.missing) if segment.objects is not None else "all"
        message = f"{name}: the metadata says that it is copied, and objects are missing: {parts}."
        end = None if segment.end_offset is None else segment.end_offset + 1
        notes.say(
            found("remote-segment-missing", message, file=file, start_offset=segment.start_offset, end_offset=end)
        )
    elif segment.status is RemoteStatus.AMBIGUOUS:
        message = f"{name}: a part of it lies in two places below {root}, so it is not used."
        notes.say(found("remote-segment-unreadable", message, file=file))
    elif segment.other_size is not None:
        there, said = segment.other_size
        message = f"{name}: it has {there} of the {said} bytes that the metadata states, so it is not used."
        notes.say(found("remote-segment-unreadable", message, file=file, start_offset=segment.start_offset))
    elif segment.is_orphaned and segment.objects is not None:
        why = {
            RemoteStatus.COPYING: "its copy did not end, or goes on",
            RemoteStatus.DELETED: "it was deleted, and objects are still there",
            RemoteStatus.UNNAMED: "no record of __remote_log_metadata names it",
        }[segment.status]
        message = f"{name}: {why}; it has {segment.nbytes} bytes in {len(segment.objects.parts)} objects."
        notes.say(found("remote-orphan", message, file=file, nbytes=segment.nbytes))
