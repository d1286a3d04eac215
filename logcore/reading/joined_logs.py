"""Local and remote segments as one log.

A tiered log begins in remote storage and ends on a broker's disk. Its remote segments are put before the local ones, so
that everything that reads a log reads them too. Only an unbroken row of segments up to the first local one is taken:
offsets below a gap stay `remote`, as without remote storage. A segment that must be cut, because the next one begins
inside of it, ends the row too.

Two files show that a log has a remote part, as without remote storage: the checkpoint of the log start, and the leader
epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from logcore.errors import LogError
from logcore.logs.model.findings import found
from logcore.logs.model.offset_ledger import EVIDENCE_REMOTE
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.notes import Notes
from logcore.reading.remote_inventory import remote_inventory
from logcore.remote.inventory import FoundSegment, RemoteStatus
from logcore.remote.lineage import joined
from logcore.remote.remote_segment import TopicIdPartition
from logcore.remote.stored_part import RemoteLayout, SegmentPart
from logcore.segments.filenames import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    DirectoryKind,
)
from logcore.storage.discovery import shown
from logcore.storage.opened_source import open_stored
from logcore.storage.remote_tier.chunked_segment import read_manifest

_BESIDE = (
    (OFFSET_INDEX_SUFFIX, SegmentPart.OFFSET_INDEX),
    (TIME_INDEX_SUFFIX, SegmentPart.TIME_INDEX),
    (TRANSACTION_INDEX_SUFFIX, SegmentPart.TRANSACTION_INDEX),
)


def join_remote(logs: Sequence[SourceLog], remotes: Iterable[str], notes: Notes) -> tuple[SourceLog, ...]:
    """Return the logs, those with a remote part together with their remote segments.

    Args:
        logs: All logs at the source, those of the metadata topic too.
        remotes: Directories or prefixes of remote storage.
        notes: Gets the findings about remote storage.

    Raises:
        SourceUnreadable: Remote storage cannot be listed completely.
        AddressError: The name of an object store, or a setting of its access, cannot be used.
        LogError: The package that reads object stores is not installed.
    """
    by_place: dict[TopicIdPartition, list[FoundSegment]] = {}
    for segment in remote_inventory(logs, tuple(remotes), notes).segments:
        if segment.status is RemoteStatus.COUNTS:
            place = TopicIdPartition(segment.topic_id, segment.topic_partition.partition)
            by_place.setdefault(place, []).append(segment)
    return tuple(_with_remote(log, by_place, notes) for log in logs)


def _with_remote(log: SourceLog, by_place: dict[TopicIdPartition, list[FoundSegment]], notes: Notes) -> SourceLog:
    """A log with its remote segments, as far as it has any below its first local one."""
    if log.kind is not DirectoryKind.LIVE or log.topic_id is None or log.named_files:
        return log
    counted = by_place.get(TopicIdPartition(log.topic_id, log.topic_partition.partition), [])
    tiered_end = max((each.end_offset + 1 for each in counted if each.end_offset is not None), default=None)
    log = replace(log, tiered_end_offset=tiered_end)
    if log.remote is None:
        return log
    start, end = log.remote
    taken: list[FoundSegment] = []
    segments: list[SegmentFile] = []
    below = end
    by_id = {(each.segment_id, each.start_offset): each for each in counted}
    parts = joined((each.described for each in counted if each.described is not None), start, end)
    for part in reversed(parts):
        # A segment may begin below the log start: the records there are not visible, as in a local one.
        if part.end_offset != below:
            break
        segment = by_id[part.segment.segment_id, part.segment.start_offset]
        try:
            segments.append(_segment_file(segment, below))
        except LogError as error:
            name = f"{log.topic_partition}, remote segment {segment.segment_id} from offset {segment.start_offset}"
            message = f"{name}: it cannot be used, so the offsets below {below} stay remote: {error}"
            notes.say(found("remote-segment-unreadable", message, file=error.file, end_offset=below))
            break
        taken.append(segment)
        below = part.start_offset
    if not taken:
        return log
    snapshots = {end: path for each in taken for end, path in _snapshot(each)} | dict(log.snapshots)
    return replace(
        log,
        segments=(*reversed(segments), *log.segments),
        log_start_offset=max(start, below),
        below_start=((start, below, EVIDENCE_REMOTE),) if start < below else (),
        snapshots=tuple(sorted(snapshots.items())),
        local_start_offset=end,
    )


def _segment_file(segment: FoundSegment, below: int) -> SegmentFile:
    """The file of a segment.

    Args:
        segment: The segment.
        below: Where the next segment of the log begins.

    Raises:
        LogError: It cannot be read, is shorter than the metadata says, or the next one begins inside of it.
    """
    assert segment.objects is not None
    parts = segment.objects.parts
    log = parts[SegmentPart.LOG]
    beside = tuple((suffix, parts[part].path) for suffix, part in _BESIDE if part in parts)
    size = log.size
    if segment.objects.layout is RemoteLayout.AIVEN:
        size = read_manifest(log.path, open_stored).chunks.segment_size
    if segment.end_offset is not None and segment.end_offset + 1 != below:
        message = f"the next segment of the log begins at offset {below}, which is inside of it"
        raise LogError(message, file=shown(log.path))
    if segment.size is not None and size < segment.size:
        message = f"it has {size} bytes of {segment.size} that the metadata names"
        raise LogError(message, file=shown(log.path), advice="Compare it with another copy of the remote storage.")
    return SegmentFile(segment.start_offset, log.path, size, log.modified_ms, log.inode, beside, log.etag)


def _snapshot(segment: FoundSegment) -> Iterable[tuple[int, str]]:
    """The producer snapshot of a segment: the state after it. Aiven's plugin stores it inside of another object."""
    part = None if segment.objects is None else segment.objects.parts.get(SegmentPart.PRODUCER_SNAPSHOT)
    if part is not None and segment.end_offset is not None:
        yield segment.end_offset + 1, part.path
