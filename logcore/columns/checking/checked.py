"""A segment judged in bulk: the same as `logcore.logs.checks.validation`, for good batches a group at a time.

The kernels look into every record of a group and leave sums over each batch's records in its row of the table. If the
rules can have nothing to say about any of the rows, the group is counted as a whole; else, and for whatever the kernels
doubt, batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from logcore.columns.checking.bulk_rules import batch_of, judge_table
from logcore.columns.checking.chunks import Chunk, Job, Owner, in_order, jobs, part_of
from logcore.columns.decoding.groups import Groups, Table
from logcore.columns.kernels import slots
from logcore.errors import LogError
from logcore.logs.checks.batch_rules import RecordSums
from logcore.logs.checks.validation import BatchVerdict, SegmentJudgement
from logcore.logs.model.partition_directory import PartitionFile
from logcore.logs.retention.retained_segments import SegmentReading
from logcore.records.model import DEFAULT_LIMITS, BatchHeader, Limits, Record
from logcore.records.varint import Buffer
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.resynchronization import Resynchronizer
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET, ScannedBatch, Stretch, scan

_Item = Table | Stretch | tuple[ScannedBatch, RecordSums]


class CheckedSegment(SegmentJudgement):
    """Iterates once over a segment: tables of good batches, single ones, stretches of damage; the attributes are those
    of `logcore.logs.checks.validation.SegmentValidation` and complete afterwards.

    Or its `jobs` are done elsewhere, perhaps among those of other segments, and their results taken in order.
    """

    def __init__(
        self,
        buf: Buffer,
        *,
        base_offset: int,
        sealed: bool,
        file: str,
        limits: Limits = DEFAULT_LIMITS,
        next_base_offset: int | None = None,
        checks_sequences: bool = True,
        fetched: FetchedBytes | None = None,
    ) -> None:
        super().__init__(file, sealed, base_offset, checks_sequences)
        self._buf, self._base_offset, self._fetched = buf, base_offset, fetched
        self._work = _Work(buf, base_offset, sealed, limits, next_base_offset, fetched=fetched)
        self._padding = 0

    def __iter__(self) -> Iterator[Table | BatchVerdict | Stretch]:
        for _, seen in in_order(self.jobs(self), threads=1):
            yield from self.take_seen(seen)
        self.end_segment()

    def jobs(self, owner: Owner) -> Iterator[Job[Owner, Seen]]:
        """The looking to be done, in someone's name."""
        return jobs(owner, self._buf, self._base_offset, self._work, self._fetched)

    def take_seen(self, seen: Seen) -> Iterator[Table | BatchVerdict | Stretch]:
        """The result of the next job."""
        self._padding += seen.padding
        for item in seen.items:
            if isinstance(item, Stretch):
                self.take_stretch(item)
                yield item
            elif isinstance(item, tuple):
                yield self.take(*item)
            else:
                judge_table(self, item)
                yield item

    def end_segment(self) -> None:
        """All jobs are done."""
        self.finish(len(self._buf), self._padding)


@dataclass(slots=True)
class Seen:
    """What one chunk holds, and where it ended."""

    position: int
    next_offset: int
    items: list[_Item] = field(default_factory=list)
    padding: int = 0
    failure: LogError | None = None
    """Why the bytes behind the items could not be fetched."""


class _Work:
    """Looks at one chunk; called in several threads."""

    def __init__(
        self,
        buf: Buffer,
        base_offset: int,
        sealed: bool,
        limits: Limits,
        next_base_offset: int | None,
        decode: bool = True,
        fetched: FetchedBytes | None = None,
    ) -> None:
        self._fetched = fetched
        self._buf, self._base_offset, self._sealed, self._decode = buf, base_offset, sealed, decode
        self._limits, self._next_base_offset = limits, next_base_offset
        self._ceiling = min(base_offset + MAX_RELATIVE_OFFSET, MAX_OFFSET - 1)
        if next_base_offset is not None:
            self._ceiling = min(self._ceiling, next_base_offset - 1)

    def __call__(self, chunk: Chunk) -> Seen:
        seen = Seen(chunk.start, chunk.next_offset)
        try:
            self._look(seen, chunk)
        except LogError as error:
            seen.failure, seen.position = error, chunk.stop
        return seen

    def _look(self, seen: Seen, chunk: Chunk) -> None:
        part = part_of(self._buf, chunk, self._fetched)
        lane = _CheckLane(part.content, self._ceiling, self._limits, self._decode, part.goes_on)
        resynchronizer = Resynchronizer(self._buf, self._ceiling, self._sealed, self._limits, self._fetched)
        while seen.position < part.stop:
            lane.look(seen, part.stop)
            if seen.position >= part.stop or (seen.position > chunk.start and part.cuts(self._buf, seen.position)):
                return
            if not self._look_closely(seen, resynchronizer):
                seen.padding, seen.position = chunk.stop - seen.position, chunk.stop

    def _look_closely(self, seen: Seen, resynchronizer: Resynchronizer) -> bool:
        """One step of the scan; False where only padding is left."""
        sums = RecordSums()

        def count(_: BatchHeader, record: Record) -> None:
            sums.take(record)

        walk = scan(
            self._buf,
            base_offset=self._base_offset,
            sealed=self._sealed,
            decode=self._decode,
            limits=self._limits,
            next_base_offset=self._next_base_offset,
            inspect=count,
            start=seen.position,
            next_offset=seen.next_offset,
            fetched=self._fetched,
            resynchronizer=resynchronizer,
        )
        item = next(iter(walk), None)
        if item is None:
            return False
        seen.position = item.end
        if isinstance(item, Stretch):
            seen.items.append(item)
        else:
            sums.oddities = walk.oddities
            seen.items.append((item, sums))
            seen.next_offset = item.header.next_offset
        return True


class _CheckLane:
    """Groups of batches whose records were all looked into by the kernels; without `decode`, only their headers."""

    def __init__(self, buf: Buffer, ceiling: int, limits: Limits, decode: bool, goes_on: bool) -> None:
        self._groups, self._decode = Groups(buf, ceiling, limits, goes_on), decode
        self._frame = self._groups.emit_frame()
        self._frame[slots.CHECK_INNER] = 1

    def look(self, seen: Seen, stop: int) -> None:
        """Take batches for as long as all is beyond doubt, no further than `stop`."""
        groups = self._groups
        while seen.position < stop:
            groups.walk(seen.position, seen.next_offset, stop)
            accepted = self._accepted(seen.next_offset)
            if accepted:
                seen.items.append(groups.table[:accepted].copy())
            if accepted < groups.count:
                seen.position = int(groups.table[accepted, slots.POSITION])
                if accepted:
                    seen.next_offset = int(groups.table[accepted - 1, slots.LAST_OFFSET]) + 1
                return
            seen.position, seen.next_offset = groups.position, groups.next_offset
            if groups.is_doubtful:
                return

    def _accepted(self, lowest: int) -> int:
        """How many of the group's batches are good to the last byte."""
        groups, first = self._groups, 0
        if not self._decode and not groups.is_messages:
            return groups.count  # of messages only their content tells where a compressed one begins
        while first < groups.count:
            end = groups.count
            if groups.is_compressed:
                end = groups.decompress(first)
            self._frame[slots.SOURCE], self._frame[slots.SOURCE_SIZE] = groups.source()
            accepted = self._inspected(first, end, lowest)
            if accepted < end or end == first:
                return accepted
            first = end
        return first

    def _inspected(self, first: int, end: int, lowest: int) -> int:
        frame, groups = self._frame, self._groups
        if groups.is_messages:
            return groups.unfold(first, end, frame, lowest)
        frame[slots.FIRST], frame[slots.END], frame[slots.RECORD] = first, end, 0
        groups.library.call("inspect", frame.ctypes.data)
        return int(frame[slots.FIRST])


def checked_extent(
    buf: Buffer,
    *,
    base_offset: int,
    sealed: bool,
    next_base_offset: int | None = None,
    fetched: FetchedBytes | None = None,
) -> tuple[int, int | None, ScannedBatch | None]:
    """(offset behind the last good batch, greatest max timestamp or None, last good batch), as a scan without decoding
    finds them. The type of a control batch is not given. Raises as `fetched` does."""
    work = _Work(buf, base_offset, sealed, DEFAULT_LIMITS, next_base_offset, decode=False, fetched=fetched)
    greatest, next_offset, last = -1, base_offset, None
    for _, seen in in_order(jobs(None, buf, base_offset, work, fetched), threads=1):
        if seen.failure is not None:
            raise seen.failure
        next_offset = seen.next_offset
        for item in seen.items:
            if isinstance(item, np.ndarray):
                greatest = max(greatest, int(item[:, slots.MAX_TIMESTAMP].max()))
                last = batch_of(item[-1].tolist())[0]
            elif isinstance(item, tuple):
                last = item[0]
                greatest = max(greatest, last.header.max_timestamp)
    return next_offset, None if greatest < 0 else greatest, last


def checked_reading(file: PartitionFile, base_offset: int, next_base_offset: int | None) -> SegmentReading:
    """`logcore.logs.retention.retained_segments.read_segment`, compiled."""
    buf, fetched, sealed = file.content, file.fetched, next_base_offset is not None
    work = _Work(buf, base_offset, sealed, DEFAULT_LIMITS, next_base_offset, decode=False, fetched=fetched)
    greatest, next_offset, damage = -1, base_offset, None
    valid = padding = quarantined = 0
    for _, seen in in_order(jobs(None, buf, base_offset, work, fetched), threads=1):
        if seen.failure is not None:
            raise seen.failure
        next_offset = seen.next_offset
        padding += seen.padding
        for item in seen.items:
            if isinstance(item, Stretch):
                quarantined += 0 if item.tail else item.size
                damage = item if damage is None and not item.tail else damage
            elif isinstance(item, tuple):
                valid += item[0].header.size
                greatest = max(greatest, item[0].header.max_timestamp)
            else:
                valid += int(item[:, slots.SIZE].sum())
                greatest = max(greatest, int(item[:, slots.MAX_TIMESTAMP].max()))
    is_damaged = quarantined > 0 or (sealed and padding > 0)
    return SegmentReading(valid, next_offset, greatest, is_damaged, damage)
