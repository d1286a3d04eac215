"""One way to ask for a segment's records as Arrow columns, and three engines that answer it alike.

    reference   record by record, in plain Python: the specification
    lockstep    NumPy: one cursor a batch, all advanced together; needs no compiler
    kernels     Numba: one pass over the bytes; the default

The two fast ones take only batches that are good beyond doubt. In front of anything else they stop, the scan judges one
batch (or stretch of damage), slowly and by the book, and they go on behind it. So all three give the same rows and the
same stretches on any bytes; and a fast one can only be too strict, which costs time and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import cache
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from logcore.columns.reference import to_columns
from logcore.columns.wanted import EVERYTHING, Place, Wanted
from logcore.records.model import DEFAULT_LIMITS, BatchHeader, Limits, Record
from logcore.records.varint import Buffer
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scan import MAX_RELATIVE_OFFSET, ScannedBatch, Stretch, scan

ENGINE_VARIABLE = "LOGLAKE_ENGINE"


class Engine(StrEnum):
    """Who decodes."""

    REFERENCE = "reference"
    LOCKSTEP = "lockstep"
    KERNELS = "kernels"


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


@cache
def available() -> tuple[Engine, ...]:
    """The engines that work on this machine, fastest first."""
    from logcore.columns.kernels.library import KernelsUnavailable, library

    try:
        library()
    except KernelsUnavailable:
        return Engine.LOCKSTEP, Engine.REFERENCE
    return Engine.KERNELS, Engine.LOCKSTEP, Engine.REFERENCE


def default_engine() -> Engine:
    """The fastest engine there is, or the one that LOGLAKE_ENGINE names. ValueError if that is none."""
    named = os.environ.get(ENGINE_VARIABLE)
    return Engine(named) if named else available()[0]


def decode_segment(
    buf: Buffer,
    *,
    place: Place,
    base_offset: int,
    sealed: bool,
    next_base_offset: int | None = None,
    wanted: Wanted = EVERYTHING,
    limits: Limits = DEFAULT_LIMITS,
    engine: Engine | None = None,
    start: int = 0,
    next_offset: int | None = None,
    stop: int | None = None,
) -> SegmentRows[pa.RecordBatch]:
    """Rows of the good batches and stretches of damage, in the order of the file; iterate over the result.

    base_offset, sealed, next_base_offset, start, next_offset: as `logcore.segments.scan.scan` takes them. stop: no
    batch that begins there or behind is looked at. Rows are Arrow batches of the schema `wanted.schema`; how they are
    cut is the engine's choice, none is empty. Of a damaged batch there is no row. Memory is bounded by `limits` and
    does not grow with the segment.

    Raises KernelsUnavailable if `engine` names the kernels and they do not work here.
    """
    engine = default_engine() if engine is None else engine
    careful = CarefulLane(buf, base_offset, sealed, next_base_offset, wanted, limits)
    lane: FastLane[pa.RecordBatch] | None = None
    if engine is Engine.KERNELS:
        from logcore.columns.compiled import CompiledLane
        from logcore.columns.rows import RowBuffers

        output = RowBuffers(wanted, place)
        lane = CompiledLane(buf, careful.ceiling, wanted, limits, place.position_base, output)
    elif engine is Engine.LOCKSTEP:
        from logcore.columns.lockstep import LockstepLane

        lane = LockstepLane(buf, careful.ceiling, wanted, limits, place)

    def columns(header: BatchHeader, position: int, records: list[Record]) -> pa.RecordBatch:
        return wanted.chosen(to_columns(records, place, header.partition_leader_epoch, position))

    begin = base_offset if next_offset is None else next_offset
    return SegmentRows(lane, careful, columns, start, begin, len(buf) if stop is None else stop)


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
                self.position = self._stop
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
