"""A walk over a segment in two lanes: a fast one as far as it goes, and the scan for what it leaves.

Belongs here: changing lanes, and the slow lane. The fast lanes are the engines' own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from logcore.columns.wanted import Wanted
from logcore.records.model import BatchHeader, Limits, Record
from logcore.records.record import read_records
from logcore.records.varint import Buffer
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.resynchronization import Resynchronizer
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET, ScannedBatch, Stretch, scan

Rows = TypeVar("Rows", covariant=True)


RECORDS_AT_ONCE = 1 << 15
"""Records that the slow lane holds as values."""


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
    """Iterates once over a segment's rows and stretches; `position` and `next_offset` say how far it has come.

    enough: asked where the fast lane ends; if it says so, the walk ends there, in front of `stop`.
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
                if self.position >= self._stop or (self._enough is not None and self._enough()):
                    return
            self.careful_steps += 1
            item = self._careful.step(self.position, self.next_offset)
            if item is None:
                self.padding, self.position = self._stop - self.position, self._stop
                return
            start, self.position = self.position, item.end
            if isinstance(item, Stretch):
                yield item
                continue
            self.next_offset = item.header.next_offset
            for records in self._careful.records(item):
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
        fetched: FetchedBytes | None = None,
    ) -> None:
        self._fetched = fetched
        self._buf, self._base_offset, self._sealed = buf, base_offset, sealed
        self._next_base_offset, self._wanted, self._limits = next_base_offset, wanted, limits
        self.ceiling = min(base_offset + MAX_RELATIVE_OFFSET, MAX_OFFSET - 1)
        """Last offset a batch of this segment may hold."""
        if next_base_offset is not None:
            self.ceiling = min(self.ceiling, next_base_offset - 1)
        self._resynchronizer = Resynchronizer(buf, self.ceiling, sealed, limits, fetched)

    def step(self, position: int, next_offset: int) -> ScannedBatch | Stretch | None:
        """What stands at a position; None where only padding is left. A batch that may hold wanted records is looked
        into."""
        item = self._judge(position, next_offset, decode=False)
        if isinstance(item, ScannedBatch) and self._wanted.may_hold(item.header):
            return self._judge(position, next_offset, decode=True)
        return item

    def records(self, batch: ScannedBatch) -> Iterator[list[Record]]:
        """The wanted records of a batch that `step` found good, some at a time: it may hold very many."""
        if not self._wanted.may_hold(batch.header):
            return
        held: list[Record] = []
        for record in read_records(self._buf, batch.position, batch.header, self._limits):
            if self._wanted.holds(record):
                held.append(record)
            if len(held) == RECORDS_AT_ONCE:
                yield held
                held = []
        if held:
            yield held

    def _judge(self, position: int, next_offset: int, *, decode: bool) -> ScannedBatch | Stretch | None:
        walk = scan(
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
