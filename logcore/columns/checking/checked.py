"""The validation of a segment in bulk: as `logcore.logs.checks.validation`, for good batches one table at a time.

The kernels read every record of a table's batches, and add sums over each batch's records to its row. If the rules
cannot have a finding for any row, the table is counted as a whole. Otherwise, and for batches that the kernels do not
accept, each batch is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from logcore.columns.checking.bulk_rules import batch_of, check_table
from logcore.columns.checking.chunks import CHUNK_BYTES, Chunk, Job, Owner, in_order, jobs, part_of
from logcore.columns.decoding.batch_table import BatchTable, Table
from logcore.columns.decoding.lanes import BackOff
from logcore.columns.kernels import batch_row
from logcore.errors import LogError
from logcore.logs.checks.batch_rules import RecordSums
from logcore.logs.checks.validation import BatchVerdict, SegmentVerdict
from logcore.logs.retention.retained_segments import SegmentReading
from logcore.records.model import DEFAULT_LIMITS, BatchHeader, Limits, Record
from logcore.records.varint import Buffer
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.resynchronization import Resynchronizer
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET, ScannedBatch, SegmentScan, Stretch
from logcore.storage.machine import processors

_GUESSED_BYTES = CHUNK_BYTES // 32
"""Bytes of a guessed chunk that are looked at closely. This holds the interpreter's lock, and damage spoils guesses."""

_Item = Table | Stretch | tuple[ScannedBatch, RecordSums]


class CheckedSegment(SegmentVerdict):
    """Iterates once over a segment: tables of good batches, single ones, stretches of damage.

    Afterwards the attributes are complete; they are those of `logcore.logs.checks.validation.SegmentValidation`.
    Instead, a caller can run its `jobs`, perhaps among those of other segments, and pass the results in order.
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
        """Return the jobs of this segment, with an owner."""
        return jobs(owner, self._buf, self._base_offset, self._work, self._fetched)

    def take_seen(self, seen: Seen) -> Iterator[Table | BatchVerdict | Stretch]:
        """Add the result of the next job."""
        self._padding += seen.padding
        for item in seen.items:
            if isinstance(item, Stretch):
                self.take_stretch(item)
                yield item
            elif isinstance(item, tuple):
                yield self.take(*item)
            else:
                check_table(self, item)
                yield item

    def end_segment(self) -> None:
        """Complete the attributes after the last job."""
        self.finish(len(self._buf), self._padding)


@dataclass(slots=True)
class Seen:
    """The content of one chunk, and where it ended."""

    position: int
    next_offset: int
    items: list[_Item] = field(default_factory=list)
    padding: int = 0
    failure: LogError | None = None
    """Why the bytes after the items could not be fetched."""


class _Work:
    """Checks one chunk; called in several threads."""

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
        lane, back_off = _CheckLane(part.content, self._ceiling, self._limits, self._decode, part.goes_on), BackOff()
        resynchronizer = Resynchronizer(self._buf, self._ceiling, self._sealed, self._limits, self._fetched)
        doubted = 0
        while seen.position < part.stop:
            before = seen.next_offset
            lane.look(seen, part.stop)
            steps = back_off.steps(seen.next_offset - before)
            walk = self._look_closely(seen, resynchronizer)
            while seen.position < part.stop and steps:
                position, steps = seen.position, steps - 1
                if position > chunk.start and part.cuts(self._buf, position):
                    return
                if not next(walk, False):
                    seen.padding, seen.position = chunk.stop - position, chunk.stop
                doubted += seen.position - position
                if chunk.is_guess and doubted > _GUESSED_BYTES:
                    return

    def _look_closely(self, seen: Seen, resynchronizer: Resynchronizer) -> Iterator[bool]:
        """Do one step of the scan at a time; it ends where only padding is left."""
        sums = RecordSums()

        def count(_: BatchHeader, record: Record) -> None:
            sums.take(record)

        walk = SegmentScan(
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
        for item in walk:
            seen.position = item.end
            if isinstance(item, Stretch):
                seen.items.append(item)
            else:
                sums.oddities = walk.oddities
                seen.items.append((item, sums))
                seen.next_offset = item.header.next_offset
            sums = RecordSums()
            yield True


class _CheckLane:
    """Tables of batches whose records were all checked by the kernels; without `decode`, only their headers."""

    def __init__(self, buf: Buffer, ceiling: int, limits: Limits, decode: bool, goes_on: bool) -> None:
        self._batch_table, self._decode = BatchTable(buf, ceiling, limits, goes_on), decode
        self._frame = self._batch_table.emit_frame()
        self._frame.check_inner = self._frame.takes_any_name = 1

    def look(self, seen: Seen, stop: int) -> None:
        """Add batches as long as they are certainly good, at most up to `stop`."""
        batches = self._batch_table
        while seen.position < stop:
            first = batches.begin(seen.position, seen.next_offset, stop)
            accepted = self._accepted(first, seen.next_offset)
            if accepted > first:
                seen.items.append(batches.table[first:accepted].copy())
            if accepted < batches.count:
                seen.position = int(batches.table[accepted, batch_row.POSITION])
                if accepted > first:
                    seen.next_offset = int(batches.table[accepted - 1, batch_row.LAST_OFFSET]) + 1
                return
            seen.position, seen.next_offset = batches.position, batches.next_offset
            if batches.is_doubtful:
                return

    def _accepted(self, first: int, lowest: int) -> int:
        """Return the first batch of the table from `first` on that is not good up to its last byte."""
        batches = self._batch_table
        if not self._decode and not batches.is_messages:
            return batches.count  # for messages, only the content shows where a compressed one begins
        while first < batches.count:
            end = batches.end_of_call(first)
            if batches.is_compressed:
                end = batches.decompress(first, end)
            self._frame.source, self._frame.source_size = batches.source()
            accepted = self._inspected(first, end, lowest)
            if accepted < end or end == first:
                return accepted
            first = end
        return first

    def _inspected(self, first: int, end: int, lowest: int) -> int:
        frame, batches = self._frame, self._batch_table
        if batches.is_messages:
            return batches.unfold(first, end, frame, lowest)
        frame.first, frame.end, frame.record = first, end, 0
        batches.library.call("inspect", frame)
        return frame.first


def checked_headers(
    buf: Buffer,
    *,
    base_offset: int,
    sealed: bool,
    next_base_offset: int | None = None,
    fetched: FetchedBytes | None = None,
) -> Iterator[Table | ScannedBatch | Stretch]:
    """Yield what a scan of a segment without decoding finds, tables of good batches among it.

    Args:
        buf: The segment's bytes.
        base_offset: Base offset of the segment.
        sealed: Whether a later segment follows.
        next_base_offset: Base offset of the next segment.
        fetched: Loads the bytes of `buf` into memory; its errors pass through.
    """
    work = _Work(buf, base_offset, sealed, DEFAULT_LIMITS, next_base_offset, decode=False, fetched=fetched)
    for _, seen in in_order(jobs(None, buf, base_offset, work, fetched), processors.available()):
        for item in seen.items:
            yield item[0] if isinstance(item, tuple) else item
        if seen.failure is not None:
            raise seen.failure


def checked_reading(
    buf: Buffer, base_offset: int, sealed: bool, next_base_offset: int | None, fetched: FetchedBytes | None
) -> SegmentReading:
    """Return the result of `logcore.logs.retention.retained_segments.read_segment`, compiled."""
    work = _Work(buf, base_offset, sealed, DEFAULT_LIMITS, next_base_offset, decode=False, fetched=fetched)
    greatest, next_offset, last = -1, base_offset, None
    valid = padding = quarantined = 0
    for _, seen in in_order(jobs(None, buf, base_offset, work, fetched), threads=1):
        if seen.failure is not None:
            raise seen.failure
        next_offset = seen.next_offset
        padding += seen.padding
        for item in seen.items:
            if isinstance(item, Stretch):
                quarantined += 0 if item.tail else item.size
            elif isinstance(item, tuple):
                last = item[0]
                valid += last.header.size
                greatest = max(greatest, last.header.max_timestamp)
            else:
                last = batch_of(item[-1].tolist())[0]
                valid += int(item[:, batch_row.SIZE].sum())
                greatest = max(greatest, int(item[:, batch_row.MAX_TIMESTAMP].max()))
    is_damaged = quarantined > 0 or (sealed and padding > 0)
    return SegmentReading(valid, next_offset, greatest, is_damaged, last)
