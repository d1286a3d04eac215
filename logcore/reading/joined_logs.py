"""Local and remote segments as one log.

A tiered log begins in remote storage and ends on a broker's disk. Its remote segments are put before the local ones, so
that everything that reads a log reads them too. Only an unbroken row of segments up to the first local one is taken:
offsets below a gap stay `remote`, as without remote storage.

The next segment may begin inside of a remote one: replicas cut their segments at different offsets, and an unclean
election cuts a log inside of a segment that was copied before. Then the batches before the next segment are taken
(`SegmentFile.end`). Segments begin with whole batches, so a segment that would have to be cut inside of a batch is
damaged, and ends the row. A segment that cannot be used is left out, and others that have its offsets are tried.

Two files show that a log has a remote part, as without remote storage: the checkpoint of the log start, and the leader
epochs. Without leader epochs nothing shows which remote segments belong to the log, so none is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from logcore.errors import LogError
from logcore.logs.model.findings import found
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.offset_ledger import EVIDENCE_REMOTE
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.read_options import Notes
from logcore.reading.remote_inventory import RemoteInventory, remote_inventory
from logcore.reading.segment_reading import reading_start
from logcore.remote import aiven_layout
from logcore.remote.chunked.chunk_map import NONE_REGISTERED, RegisteredObject
from logcore.remote.inventory import FoundSegment, StoredObjects
from logcore.remote.lineage import joined, offsets_in_lineage
from logcore.remote.remote_segment import TopicIdPartition
from logcore.remote.stored_part import SegmentPart
from logcore.segments.filenames import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    DirectoryKind,
)
from logcore.storage.discovery import HeaderReader, shown
from logcore.storage.remote_tier.known_manifests import KnownManifest, known_manifest
from logcore.storage.source_bytes import SourceBytes

_MANIFESTS_AT_ONCE = 16
"""Each is small, and costs a request on an object store."""

_BESIDE = (
    (OFFSET_INDEX_SUFFIX, SegmentPart.OFFSET_INDEX),
    (TIME_INDEX_SUFFIX, SegmentPart.TIME_INDEX),
    (TRANSACTION_INDEX_SUFFIX, SegmentPart.TRANSACTION_INDEX),
)


def join_remote(
    logs: Sequence[SourceLog],
    remotes: Iterable[str],
    notes: Notes,
    selection: LogSelection | None = None,
    registered: Mapping[str, RegisteredObject] = NONE_REGISTERED,
) -> tuple[SourceLog, ...]:
    """Return the logs, those with a remote part together with their remote segments.

    Args:
        logs: All logs at the source, those of the metadata topic too.
        remotes: Directories or prefixes of remote storage.
        notes: Gets the findings about remote storage.
        selection: Which logs are joined; others are returned as they are. None: all.
        registered: Objects that a lake has registered, by path. The manifests of those with a chunk map are not read.

    Raises:
        SourceUnreadable: Remote storage cannot be listed completely.
        AddressError: The name of an object store, or a setting of its access, cannot be used.
        LogError: The package that reads object stores is not installed.
    """
    by_place: dict[TopicIdPartition, list[FoundSegment]] = {}
    whole = remote_inventory(logs, tuple(remotes), notes, selection, registered)
    for segment in whole.segments:
        if segment.part is not None:
            by_place.setdefault(segment.part.segment.place, []).append(segment)
    return tuple(_with_remote(log, whole, by_place, registered, notes) for log in logs)


def _with_remote(
    log: SourceLog,
    whole: RemoteInventory,
    by_place: dict[TopicIdPartition, list[FoundSegment]],
    registered: Mapping[str, RegisteredObject],
    notes: Notes,
) -> SourceLog:
    """A log with its remote segments, as far as it has any below its first local one."""
    if log.kind is not DirectoryKind.LIVE or log.topic_id is None or log.named_files:
        return log
    place = TopicIdPartition(log.topic_id, log.topic_partition.partition)
    log = replace(log, tiered_end_offset=whole.tiered_ends.get(place))
    absent = log.remote or log.removed
    if absent is None or not log.leader_epochs:
        return log
    taken = _row(log, absent[:2], by_place.get(place, ()), registered, notes)
    if not taken:
        return log
    (start, end, _), below = absent, taken[0].start_offset
    snapshots = dict(each.snapshot for each in taken if each.snapshot is not None) | dict(log.snapshots)
    return replace(
        log,
        segments=(*(each.file for each in taken), *log.segments),
        log_start_offset=max(start, below),
        below_start=((start, below, EVIDENCE_REMOTE),) if start < below else (),
        snapshots=tuple(sorted(snapshots.items())),
        local_start_offset=end,
    )


@dataclass(frozen=True, slots=True)
class _Taken:
    """A remote segment that the log takes: its file, its first offset, and the producer snapshot after it."""

    file: SegmentFile
    start_offset: int
    snapshot: tuple[int, str] | None


def _row(
    log: SourceLog,
    absent: tuple[int, int],
    counted: Sequence[FoundSegment],
    registered: Mapping[str, RegisteredObject],
    notes: Notes,
) -> list[_Taken]:
    """The unbroken row of remote segments that ends where the local segments begin, by offset.

    The leader epochs of this log decide. Of several replicas it may be a shorter one, or one that has diverged.
    """
    start, end = absent
    by_part = {each.part.segment: each for each in counted if each.part is not None}
    ours = (offsets_in_lineage(segment, log.leader_epochs, end) for segment in by_part)
    parts = [part for part in ours if part is not None]
    manifests = _Manifests([by_part[each.segment] for each in joined(parts, start, end)], registered)
    taken: list[_Taken] = []
    below = end
    while True:
        for part in reversed(joined(parts, start, below)):
            if part.end_offset != below:
                return taken[::-1]
            segment = by_part[part.segment]
            try:
                # It may begin below the log start: the records there are not visible, as in a local segment.
                taken.append(_taken(segment, manifests, part.start_offset, below))
            except LogError as error:
                name = f"{log.topic_partition}, remote segment {segment.segment_id} from offset {segment.start_offset}"
                message = f"{name}: it cannot be used: {error}"
                notes.say(found("remote-segment-unreadable", message, file=error.file, end_offset=below))
                parts = [each for each in parts if each.segment is not part.segment]
                break
            below = part.start_offset
        else:
            return taken[::-1]


class _Manifests:
    """What the manifests of segments in chunks say, or why they cannot be read; several are read at a time."""

    def __init__(self, segments: Sequence[FoundSegment], registered: Mapping[str, RegisteredObject]) -> None:
        self._registered = registered
        chunked = [each.objects for each in segments if each.objects is not None and each.objects.is_chunked]
        self._found: dict[str, KnownManifest | LogError] = {}
        if chunked:
            with ThreadPoolExecutor(min(_MANIFESTS_AT_ONCE, len(chunked)), "manifests") as pool:
                found_ones = pool.map(self._find, chunked)
                self._found = {each.log.path: one for each, one in zip(chunked, found_ones, strict=True)}

    def of(self, objects: StoredObjects) -> KnownManifest:
        """What the manifest of a segment says.

        Raises:
            LogError: It cannot be read.
        """
        one = self._found.get(objects.log.path) or self._find(objects)
        if isinstance(one, LogError):
            raise one
        return one

    def _find(self, objects: StoredObjects) -> KnownManifest | LogError:
        try:
            return known_manifest(objects.log, objects.parts[SegmentPart.MANIFEST], self._registered)
        except LogError as error:
            return error


def _taken(segment: FoundSegment, manifests: _Manifests, start: int, below: int) -> _Taken:
    """A segment as a log takes it.

    Args:
        segment: The segment.
        manifests: Manifests of segments in chunks.
        start: The first offset that the log takes from it.
        below: Where the next segment of the log begins.

    Raises:
        LogError: It cannot be read, is shorter than the metadata says, or the next one begins inside of a batch.
    """
    assert segment.objects is not None
    parts = segment.objects.parts
    log = segment.objects.log
    size, of_part = log.size, {part: parts[part].path for _, part in _BESIDE if part in parts}
    snapshot = parts[SegmentPart.PRODUCER_SNAPSHOT].path if SegmentPart.PRODUCER_SNAPSHOT in parts else None
    chunk_map = None
    if segment.objects.is_chunked:
        known = manifests.of(segment.objects)
        manifest, chunk_map = known.manifest, known.chunk_map
        manifest.chunks.refuse_other_size(log.size)
        size = manifest.chunks.segment_size
        indexes = {part: aiven_layout.index_path(log.path, part) for part in manifest.indexes}
        of_part = {part: indexes[part] for _, part in _BESIDE if part in indexes}
        snapshot = indexes.get(SegmentPart.PRODUCER_SNAPSHOT)
    if segment.size is not None and size < segment.size:
        message = f"it has {size} of the {segment.size} bytes that the metadata states"
        raise LogError(message, file=shown(log.path), advice="Compare it with another copy of the remote storage.")
    beside = tuple((suffix, of_part[part]) for suffix, part in _BESIDE if part in of_part)
    file = SegmentFile(
        segment.start_offset, log.path, size, log.modified_ms, log.inode, beside, log.etag, chunk_map=chunk_map
    )
    after = None if segment.end_offset is None else segment.end_offset + 1
    if after != below:
        return _Taken(replace(file, end=_cut(file, below)), start, None)
    return _Taken(file, start, None if snapshot is None else (below, snapshot))


def _cut(file: SegmentFile, offset: int) -> int | None:
    """Find where in a segment the first batch at or above an offset begins; None: no batch is there.

    Raises:
        LogError: The segment cannot be read up to there, or the offset is inside of a batch.
    """
    start = reading_start(file, SourceBytes(file.path, sealed=True, seen=file), offset)
    for position, header in HeaderReader().headers(file, start.position):
        if header is None:
            message = f"nothing can be read from position {position} on, where offset {offset} is searched"
            raise LogError(message, file=shown(file.path), position=position)
        if header.base_offset >= offset:
            return position
        if header.next_offset > offset:
            message = f"the next segment of the log begins at offset {offset}, which is inside of a batch of it"
            raise LogError(message, file=shown(file.path), position=position)
    return None
