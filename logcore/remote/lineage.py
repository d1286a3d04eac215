"""Which offsets of remote segments a log consists of, among the segments that remote storage has.

The same offsets may be stored more than once: a copy was tried again, or a new leader, which had other segments, copied
them too. A leader that was replaced may even have copied records that the log no longer has. The history of leader
epochs decides, offset by offset, as when a broker reads: a segment has an offset of the log if both wrote it in the
same epoch (`offsets_in_lineage`). So a segment may count with its first part alone: an unclean election cut the log
inside of it. Segments that count have the same records where they overlap. `joined` cuts them to ranges without
overlaps.

A broker also asks whether a whole segment is within the log's epochs, but only for retention.

Source: Kafka RemoteLogMetadataCache.remoteLogSegmentMetadata, RemoteLogManager.fetchRemoteLogSegmentMetadata,
buildFilteredLeaderEpochMap, findHighestRemoteOffset.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from logcore.remote.remote_segment import RemoteSegment
from logcore.segments.side_files.leader_epochs import EpochEntry


@dataclass(frozen=True, slots=True)
class JoinedSegment:
    """A remote segment and a part of its offsets: start_offset to end_offset (exclusive).

    `offsets_in_lineage` gives the part that is in the log, `joined` the part that the log takes from the segment.
    """

    segment: RemoteSegment
    start_offset: int
    end_offset: int


def offsets_in_lineage(
    segment: RemoteSegment, epochs: Sequence[EpochEntry], log_end_offset: int
) -> JoinedSegment | None:
    """Find the offsets of a segment that belong to the log with these leader epochs.

    They are one range from the segment's first offset on, or from the log's first one if the log begins inside of the
    segment. Two logs that have the same record have the same records before it, so nothing after another range counts.

    Args:
        segment: The segment.
        epochs: The history of the log, ascending.
        log_end_offset: The log's end.

    Returns:
        The range; None if there is none.
    """
    own = _ranges(segment.leader_epochs, segment.end_offset + 1)
    of_log = _ranges(epochs, log_end_offset)
    if not own or not of_log:
        return None
    log_start = min(start for start, _ in of_log.values())
    found: tuple[int, int] | None = None
    for epoch in sorted(own.keys() & of_log.keys()):
        start = max(own[epoch][0], of_log[epoch][0], segment.start_offset)
        end = min(own[epoch][1], of_log[epoch][1])
        if start >= end:
            continue
        if found is None and start not in (segment.start_offset, log_start):
            return None
        if found is not None and found[1] != start:
            break
        found = (start if found is None else found[0], end)
    return None if found is None else JoinedSegment(segment, *found)


def highest_tiered_offset(
    segments: Sequence[RemoteSegment], epochs: Sequence[EpochEntry], log_end_offset: int
) -> int | None:
    """Find the last offset of a log that was ever copied to remote storage, as a broker answers latest tiered.

    The latest epoch that any segment has decides. If the log ends before the segment, its own end counts.

    Args:
        segments: Those whose copy ended, also if they were deleted since.
        epochs: The history of the log, ascending.
        log_end_offset: The log's end.

    Returns:
        The offset; None if nothing was copied.
    """
    ends: dict[int, int] = {}
    for segment in segments:
        for epoch, (_, end) in _ranges(segment.leader_epochs, segment.end_offset + 1).items():
            ends[epoch] = max(end, ends.get(epoch, 0))
    of_log = _ranges(epochs, log_end_offset)
    for epoch in sorted(of_log.keys() & ends.keys(), reverse=True):
        return min(ends[epoch], of_log[epoch][1]) - 1
    return None


def joined(parts: Iterable[JoinedSegment], start: int, end: int) -> tuple[JoinedSegment, ...]:
    """Choose from segments for the offsets of a log, without overlaps. Offsets that no segment has are left out.

    From parts that begin at the same offset the longest is taken, and the last given among equal ones. Each is cut
    where the next one begins, because a reader can stop in a segment sooner than it can begin in it.

    Args:
        parts: Segments with their offsets that count, in any order.
        start: The first wanted offset.
        end: Exclusive end.
    """
    by_start: dict[int, JoinedSegment] = {}
    for part in parts:
        known = by_start.get(part.segment.start_offset)
        if known is None or part.end_offset >= known.end_offset:
            by_start[part.segment.start_offset] = part
    kept: list[JoinedSegment] = []
    for part in sorted(by_start.values(), key=lambda each: each.segment.start_offset):
        if not kept or part.end_offset > kept[-1].end_offset:
            kept.append(part)
    found = []
    for number, part in enumerate(kept):
        following = kept[number + 1].start_offset if number + 1 < len(kept) else end
        low, high = max(part.start_offset, start), min(part.end_offset, following, end)
        if low < high:
            found.append(JoinedSegment(part.segment, low, high))
    return tuple(found)


def _ranges(epochs: Sequence[EpochEntry], end_offset: int) -> dict[int, tuple[int, int]]:
    """The offsets (start, end exclusive) of each epoch in which a record was written."""
    starts = [(entry.start_offset, entry.epoch) for entry in sorted(epochs, reverse=True)]
    found = {}
    for start, epoch in starts:
        if start < end_offset:
            found[epoch] = (start, end_offset)
        end_offset = min(start, end_offset)
    return found
