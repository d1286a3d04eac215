"""A walk over a segment in two lanes: a fast one as far as it goes, and the scan for what it leaves.

Belongs here: changing lanes, and the slow lane. The fast lanes are the engines' own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from logcore.columns.wanted import Wanted
from logcore.records.model import BatchHeader, Limits, Record
from logcore.records.varint import Buffer
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scan import MAX_RELATIVE_OFFSET, ScannedBatch, Stretch, scan

Rows = TypeVar("Rows", covariant=True)


class FastLane(Protocol[Rows]):
    """An engine's inner part, on one segment."""

    position: int
    next_offset: int
    """Where it stands: behind the last batch it took."""
    stop: int

    def rows(self) -> Iterator[Rows]:
        """Rows of batches from `position` on, for as long as all is beyond doubt and no further than `stop`; moves
        `position` behind them."""


class SegmentRows(Generic[Rows]):
    """Iterates once over a segment's rows and stretches; `position` and `next_offset` say how far it has come."""

    def __init__(
        self,
        lane: FastLane[Rows] | None,
        careful: CarefulLane,
        of_records: Callable[[BatchHeader, int, list[Record]], Rows],
        position: int,
        next_offset: int,
        stop: int,
    ) -> None:
        self._lane, self._careful, self._of_records, self._stop = lane, careful, of_records, stop
        self.position, self.next_offset = position, next_offset
        self.padding = 0
        """Zeros at the end."""
        self.careful_steps = 0
        """Batches and stretches that were judged slowly."""
        self._walk = self._steps()

    def __iter__(self) -> Iterator[Rows | Stretch]:
        return self._walk

    def _steps(self) -> Iterator[Rows | Stretch]:
        lane = self._lane
        while self.position < self._stop:
            if lane is not None:
                lane.position, lane.next_offset, lane.stop = self.position, self.next_offset, self._stop
                yield from lane.rows()
                self.position, self.next_offset = lane.position, lane.next_offset
                if self.position >= self._stop:
                    return
            self.careful_steps += 1
            item, records = self._careful.step(self.position, self.next_offset)
            if item is None:
                self.padding, self.position = self._stop - self.position, self._stop
                return
            start, self.position = self.position, item.end
            if isinstance(item, Stretch):
                yield item
            else:
                self.next_offset = item.header.next_offset
                if records:
                    yield self._of_records(item.header, start, records)


class CarefulLane:
    """One batch at a time, by the scan and the record reader."""

    def __init__(
        self,
        buf: Buffer,
        base_offset: int,
        sealed: bool,
        next_base_offset: int | None,
        wanted: Wanted,
        limits: Limits,
    ) -> None:
        self._buf, self._base_offset, self._sealed = buf, base_offset, sealed
        self._next_base_offset, self._wanted, self._limits = next_base_offset, wanted, limits
        self.ceiling = min(base_offset + MAX_RELATIVE_OFFSET, MAX_OFFSET - 1)
        """Last offset a batch of this segment may hold."""
        if next_base_offset is not None:
            self.ceiling = min(self.ceiling, next_base_offset - 1)

    def step(self, position: int, next_offset: int) -> tuple[ScannedBatch | Stretch | None, list[Record]]:
        """What stands at a position, and its wanted records; None where only padding is left."""
        item = self._judge(position, next_offset, None)
        if not isinstance(item, ScannedBatch) or not self._wanted.may_hold(item.header):
            return item, []
        records: list[Record] = []
        return self._judge(position, next_offset, records), records

    def _judge(self, position: int, next_offset: int, records: list[Record] | None) -> ScannedBatch | Stretch | None:
        """One step of a scan that decodes into `records`, if they are asked for."""

        def collect(_: BatchHeader, record: Record) -> None:
            if records is not None and self._wanted.holds(record):
                records.append(record)

        walk = scan(
            self._buf,
            base_offset=self._base_offset,
            sealed=self._sealed,
            decode=records is not None,
            limits=self._limits,
            next_base_offset=self._next_base_offset,
            inspect=None if records is None else collect,
            start=position,
            next_offset=next_offset,
        )
        return next(iter(walk), None)
