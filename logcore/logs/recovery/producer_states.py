"""Producer snapshots during a broker's start: which one is loaded, which are written, which are removed.

    rebuilding up to an offset    snapshots above it, and at or below the log's start, are removed; the latest readable
                                  one is loaded without expired producers; the log is replayed from there; snapshots are
                                  written at the bases of the last two segments, and at the end
    writing one                   only if the state has moved since the last one
    strays                        of snapshots at no segment's base the highest stays, if it is above every segment
    clean, and no snapshot        an upgrade from a release without snapshots: empty ones are written, without a replay

Several states use the same files, as in a broker: one for every segment that is recovered, and the log's own.
Source: Kafka ProducerStateManager, UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from logcore.errors import CorruptIndexError, CorruptRecordError, InvalidRecordError
from logcore.logs.model.producers.producer_state import ProducerReplay, read_end_marker, without_expired
from logcore.logs.recovery.segment_recovery import WouldNotStart
from logcore.logs.recovery.snapshot_offsets import SnapshotOffsets
from logcore.records.model import BatchHeader
from logcore.records.varint import Buffer
from logcore.segments.side_files.producer_state import encode, java_order, parse


class SnapshotFiles(Protocol):
    """The snapshots on disk, by the offset in their names."""

    def snapshot_offsets(self) -> SnapshotOffsets:
        """The present offsets; writing and removing snapshots changes this same object."""

    def read_snapshot(self, offset: int) -> bytes:
        """The content of the snapshot file at an offset."""

    def write_snapshot(self, offset: int, content: bytes) -> None:
        """Write the snapshot file at an offset."""

    def remove_snapshot(self, offset: int, why: str) -> None:
        """Remove the snapshot file at an offset, and record why."""


class ReplayedSegment(Protocol):
    """A segment as the replay reads it."""

    @property
    def base_offset(self) -> int:
        """Of the segment."""

    @property
    def content(self) -> Buffer:
        """All bytes of the segment."""

    def batches(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Batches from the one with an offset on, as the segment's offset index finds it."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """The clock, and `producer.id.expiration.ms`."""

    as_of_ms: int
    after_ms: int


class ProducerStates:
    """The state of a log's producers, and the snapshots that it knows.

    Args:
        files: The snapshots on disk.
        expiry: When producers expire.
        is_lasting: Other states write and remove snapshots in the meantime, and this one does not see that.
    """

    def __init__(self, files: SnapshotFiles, expiry: Expiry, *, is_lasting: bool = False) -> None:
        self._files, self._expiry = files, expiry
        self.replay = ProducerReplay(is_strict=True)
        self._known = files.snapshot_offsets().copy() if is_lasting else files.snapshot_offsets()
        self._is_empty = True
        self.map_end = 0
        """The state covers the offsets below this one."""
        self._taken_at = 0
        self.lost_on_upgrade = False
        """Whether the log counted as one without snapshots yet, so that its producers were forgotten."""

    def take_snapshot(self) -> None:
        """Write the present state, unless it was just written."""
        if self.map_end > self._taken_at:
            entries = java_order(self.replay.entries().values())
            self._files.write_snapshot(self.map_end, encode(entries))
            self._known.add(self.map_end)
            self._taken_at = self.map_end

    def finish_segment(self, replayed_to: int | None) -> None:
        """Finish a segment: its v2 batches end at `replayed_to` (None: it has none), and a snapshot is written."""
        if replayed_to is not None:
            self.map_end = replayed_to
        self.take_snapshot()

    def remove_strays(self, base_offsets: Sequence[int]) -> None:
        """Read the file names again, and remove snapshots at no segment's base, except the highest above all."""
        self._known = self._files.snapshot_offsets()
        bases = set(base_offsets)
        strays = [offset for offset in self._known if offset not in bases]
        if strays and strays[-1] >= max(base_offsets, default=0):
            strays.pop()
        for offset in strays:
            self._remove(offset, "no segment begins at the offset of this producer snapshot")

    def start_anew(self, offset: int) -> None:
        """Forget everything; the log now begins, empty, at an offset."""
        for known in list(self._known):
            self._remove(known, "all segments before the log's start are gone")
        self.replay = ProducerReplay(is_strict=True)
        self._taken_at, self.map_end = 0, offset

    def remove_with_segment(self, base_offset: int) -> None:
        """Remove the snapshot at the base of a removed segment."""
        if base_offset in self._known:
            self._remove(base_offset, "its segment is dropped")

    def rebuild(self, segments: Sequence[ReplayedSegment], log_start: int, end_offset: int, *, is_clean: bool) -> None:
        """Restore the state at an offset of the log.

        Raises:
            WouldNotStart: The log cannot be replayed.
        """
        at_bases = {segment.base_offset for segment in segments[-2:]}
        if is_clean and self._known.latest is None:
            self.lost_on_upgrade = True
            for offset in (*sorted(at_bases), end_offset):
                self.map_end = offset
                self.take_snapshot()
            return
        self._reload(log_start, end_offset)
        if end_offset > self.map_end:
            for segment in _between(segments, self.map_end, end_offset):
                start = max(segment.base_offset, self.map_end, log_start)
                self.map_end = start
                if segment.base_offset in at_bases:
                    self.take_snapshot()
                self._replay(segment, start, end_offset)
        self.map_end = end_offset
        self.take_snapshot()

    def _reload(self, log_start: int, end_offset: int) -> None:
        for offset in self._known.outside(log_start, end_offset):
            above = f"the part that is recovered begins at offset {end_offset}; it is made again from the records"
            below = f"its offset is not above the log start offset {log_start}"
            self._remove(offset, above if offset > end_offset else below)
        newest = self._known.latest
        if end_offset == self.map_end:
            self.map_end = max(self.map_end, log_start)
            self._taken_at = log_start if newest is None else newest
            return
        self.replay = ProducerReplay(is_strict=True)
        while (newest := self._known.latest) is not None:
            try:
                entries = parse(self._files.read_snapshot(newest))
            except CorruptIndexError as error:
                self._remove(newest, f"it cannot be read: {error.message}")
                continue
            alive = without_expired(entries, self._expiry.as_of_ms, self._expiry.after_ms)
            self.replay = ProducerReplay(alive.values(), is_strict=True)
            self.map_end = self._taken_at = newest
            return
        self.map_end = self._taken_at = log_start

    def _replay(self, segment: ReplayedSegment, start: int, end_offset: int) -> None:
        try:
            content = segment.content  # referenced during the walk
            for position, header in segment.batches(start):
                if header.last_offset >= end_offset:
                    return
                if header.producer_id < 0:
                    continue
                if not header.is_control:
                    self.replay.take_data(header)
                    continue
                marker = read_end_marker(content, position, header)
                if marker is not None:
                    self.replay.take_marker(header, marker)
        except (CorruptRecordError, InvalidRecordError) as error:
            message = f"the producers' state cannot be replayed from segment {segment.base_offset}: {error.message}"
            raise WouldNotStart(message, position=error.position, offset=error.offset) from error

    def _remove(self, offset: int, why: str) -> None:
        self._known.discard(offset)
        self._files.remove_snapshot(offset, why)


def _between(segments: Sequence[ReplayedSegment], start: int, end: int) -> Sequence[ReplayedSegment]:
    """The segments with offsets in [start, end), ascending, from the one with `start` on."""
    past = bisect_left(segments, end, key=_base_offset)
    first = bisect_right(segments, start, hi=past, key=_base_offset) - 1
    return segments[max(first, 0) : past]


def _base_offset(segment: ReplayedSegment) -> int:
    return segment.base_offset
