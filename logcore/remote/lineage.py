"""Which remote segments a log consists of, among those that remote storage has.

The same offsets may be stored more than once: a copy was tried again, or a new leader, which had other segments, copied
them too. A leader that was replaced may even have copied records that the log no longer has. The history of leader
epochs decides, as at a broker: a segment counts if each of its epochs begins in the log where it begins in the segment,
and if it ends where its last epoch ends, or before (`is_in_lineage`). Segments that count have the same records where
they overlap. `joined` cuts them to ranges without overlaps.

Source: Kafka RemoteLogManager.isRemoteSegmentWithinLeaderEpochs, buildFilteredLeaderEpochMap; RemoteLogMetadataCache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from logcore.remote.remote_segment import RemoteSegment
from logcore.segments.side_files.leader_epochs import EpochEntry


@dataclass(frozen=True, slots=True)
class JoinedSegment:
    """A remote segment and the part of its offsets that a log takes from it: start_offset to end_offset (exclusive)."""

    segment: RemoteSegment
    start_offset: int
    end_offset: int


def is_in_lineage(segment: RemoteSegment, epochs: Sequence[EpochEntry], log_end_offset: int) -> bool:
    """Whether a segment belongs to the log with these leader epochs.

    Args:
        segment: The segment.
        epochs: The history of the log, ascending.
        log_end_offset: The log's end; the segment must end below it.
    """
    own = {entry.epoch: entry.start_offset for entry in _with_records(segment.leader_epochs)}
    starts = {entry.epoch: entry.start_offset for entry in _with_records(epochs)}
    if not own or not starts or segment.end_offset >= log_end_offset:
        return False
    first_of_log, last_of_log, last = min(starts), max(starts), max(own)
    if not first_of_log <= last <= last_of_log:
        return False
    first = min((epoch for epoch in own if epoch >= first_of_log), default=None)
    if first is None or first not in starts:
        return False
    # The log may begin inside the segment: then its first epoch begins at the log's start, which was moved.
    if first != first_of_log and own[first] < starts[first]:
        return False
    for epoch in sorted(each for each in own if each >= first):
        following = _following(starts, epoch)
        if epoch not in starts:
            return False
        if epoch == last:
            if following is not None and segment.end_offset >= following[1]:
                return False
        elif following != _following(own, epoch):
            return False
    return True


def joined(segments: Iterable[RemoteSegment], start: int, end: int) -> tuple[JoinedSegment, ...]:
    """Choose segments for the offsets of a log, without overlaps. Offsets that no segment has are left out.

    From segments that begin at the same offset the longest is taken, and the last given among equal ones. Each is cut
    where the next one begins, because a reader can stop in a segment sooner than it can begin in it.

    Args:
        segments: Segments that count, in any order.
        start: The first wanted offset.
        end: Exclusive end.
    """
    by_start: dict[int, RemoteSegment] = {}
    for segment in segments:
        known = by_start.get(segment.start_offset)
        if known is None or segment.end_offset >= known.end_offset:
            by_start[segment.start_offset] = segment
    kept: list[RemoteSegment] = []
    for segment in sorted(by_start.values(), key=lambda each: each.start_offset):
        if not kept or segment.end_offset > kept[-1].end_offset:
            kept.append(segment)
    found = []
    for number, segment in enumerate(kept):
        following = kept[number + 1].start_offset if number + 1 < len(kept) else end
        low, high = max(segment.start_offset, start), min(segment.end_offset + 1, following, end)
        if low < high:
            found.append(JoinedSegment(segment, low, high))
    return tuple(found)


def _with_records(epochs: Sequence[EpochEntry]) -> list[EpochEntry]:
    """Epochs without those in which no record was written: the next one begins at the same offset."""
    ordered = sorted(epochs)
    return [
        entry
        for number, entry in enumerate(ordered)
        if number + 1 == len(ordered) or ordered[number + 1].start_offset != entry.start_offset
    ]


def _following(starts: dict[int, int], epoch: int) -> tuple[int, int] | None:
    """The next higher epoch and its start offset."""
    higher = min((each for each in starts if each > epoch), default=None)
    return None if higher is None else (higher, starts[higher])
