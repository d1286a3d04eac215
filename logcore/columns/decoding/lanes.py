"""A walk over a segment in two lanes: a fast lane as far as possible, and the scan for the rest.

This module has the change between lanes, and the slow lane. The engines have their own fast lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from logcore.columns.wanted import Wanted
from logcore.records.model import BatchHeader, Limits, Record
from logcore.records.record import read_records
from logcore.records.varint import Buffer
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.resynchronization import Resynchronizer
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET, ScannedBatch, SegmentScan, Stretch

if TYPE_CHECKING:  # the reference engine works without NumPy
    from logcore.columns.decoding.batch_table import Gaps

Rows = TypeVar("Rows", covariant=True)


RECORDS_AT_ONCE = 1 << 15
"""Most records that the slow lane keeps as values."""

_MOST_STEPS = 128
_WORTH_A_TRY = 8
"""Offsets that the fast lane must accept, or the slow lane takes more at the next doubt."""


class BackOff:
    """How much the slow lane validates before the fast lane is tried again.

    A try costs about as much as the slow lane needs for a few records. So where the fast lane accepts almost nothing,
    it is tried more and more rarely. Both lanes give the same results.
    """

    def __init__(self) -> None:
        self._steps = 1

    def steps(self, accepted: int) -> int:
        """Return how many batches and stretches the slow lane takes after `accepted` offsets of the fast lane."""
        if accepted >= _WORTH_A_TRY:
            self._steps = 1
            return 1
        steps, self._steps = self._steps, min(2 * self._steps, _MOST_STEPS)
        return steps


class FastLane(Protocol[Rows]):
    """The inner part of an engine, for one segment."""

    position: int
    next_offset: int
    """The position and offset after the last batch that was read."""
    stop: int
    gaps: list[Gaps]
    """The gaps before the batches that were read."""

    def rows(self) -> Iterator[Rows]:
        """Yield rows of batches from `position` on, as long as they are certainly good and begin before `stop`. It
        moves `position` after them.
        """


class SegmentRows(Generic[Rows]):
    """Iterates once over a segment's rows and stretches; `position` and `next_offset` are the progress.

    `enough` is called where the fast lane ends; True ends the walk there, before `stop`.
    """

    def __init__(
        self,
        lane: FastLane[Rows] | None,
        careful: CarefulLane,
        of_records: Callable[[BatchHeader, int, list[Record]], Rows],
        position: int,
        next_offset: int,
        stop: int,
        enough: Callable[[], bool] | None = None,
    ) -> None:
        self._enough = enough
        self._lane, self._careful, self._of_records, self._stop = lane, careful, of_records, stop
        self.position, self.next_offset = position, next_offset
        self.padding = 0
        """Zeros at the end of the segment."""
        self.gaps: list[Gaps] = [] if lane is None else lane.gaps
        """The gaps between offsets of batches, also those that damage explains."""
        self.careful_steps = 0
        """Batches and stretches that the slow lane validated."""
        self._walk = self._steps()

    def __iter__(self) -> Iterator[Rows | Stretch]:
        return self._walk

    def _steps(self) -> Iterator[Rows | Stretch]:
        lane, back_off, steps = self._lane, BackOff(), 0
        while self.position < self._stop:
            if lane is not None and steps == 0:
                lane.position, lane.next_offset, lane.stop = self.position, self.next_offset, self._stop
                yield from lane.rows()
                steps = back_off.steps(lane.next_offset - self.next_offset)
                self.position, self.next_offset = lane.position, lane.next_offset
            if lane is not None:
                if self.position >= self._stop or (self._enough is not None and self._enough()):
                    return
                steps -= 1
            self.careful_steps += 1
            item = self._careful.step(self.position, self.next_offset)
            if item is None:
                self.padding, self.position = self._stop - self.position, self._stop
                return
            start, self.position = self.position, item.end
            if isinstance(item, Stretch):
                yield item
                continue
            if item.header.base_offset > self.next_offset:
                self.gaps.append([(self.next_offset, item.header.base_offset, start)])
            self.next_offset = item.header.next_offset
            for records in self._careful.records(item):
                yield self._of_records(item.header, start, records)


class CarefulLane:
    """One batch at a time, with the scan and the record reader."""

    def __init__(
        self,
        buf: Buffer,
        base_offset: int,
        sealed: bool,
        next_base_offset: int | None,
        wanted: Wanted,
        limits: Limits,
        fetched: FetchedBytes | None = None,
    ) -> None:
        self._fetched = fetched
        self._buf, self._base_offset, self._sealed = buf, base_offset, sealed
        self._next_base_offset, self._wanted, self._limits = next_base_offset, wanted, limits
        self.ceiling = min(base_offset + MAX_RELATIVE_OFFSET, MAX_OFFSET - 1)
        """Greatest last offset of a batch in this segment."""
        if next_base_offset is not None:
            self.ceiling = min(self.ceiling, next_base_offset - 1)
        self._resynchronizer = Resynchronizer(buf, self.ceiling, sealed, limits, fetched)

    def step(self, position: int, next_offset: int) -> ScannedBatch | Stretch | None:
        """Return the item at a position; None if only padding is left. A batch that `wanted` reads is decoded."""
        item = self._scanned(position, next_offset, decode=False)
        if isinstance(item, ScannedBatch) and self._wanted.reads(item.header):
            return self._scanned(position, next_offset, decode=True)
        return item

    def records(self, batch: ScannedBatch) -> Iterator[list[Record]]:
        """Yield the wanted records of a good batch of `step`, in parts: it may contain very many."""
        if not self._wanted.may_hold(batch.header):
            return
        held: list[Record] = []
        for record in read_records(self._buf, batch.position, batch.header, self._limits):
            if self._wanted.holds(record, batch.header.reader_shift):
                held.append(record)
            if len(held) == RECORDS_AT_ONCE:
                yield held
                held = []
        if held:
            yield held

    def _scanned(self, position: int, next_offset: int, *, decode: bool) -> ScannedBatch | Stretch | None:
        walk = SegmentScan(
            self._buf,
            base_offset=self._base_offset,
            sealed=self._sealed,
            decode=decode,
            limits=self._limits,
            next_base_offset=self._next_base_offset,
            start=position,
            next_offset=next_offset,
            fetched=self._fetched,
            resynchronizer=self._resynchronizer,
        )
        return next(iter(walk), None)
