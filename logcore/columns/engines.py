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
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from typing import Protocol

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


class FastLane(Protocol):
    """An engine's inner part, on one segment."""

    position: int
    next_offset: int
    """Where it stands: behind the last batch it took."""

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Rows of batches from `position` on, for as long as all is beyond doubt; moves `position` behind them."""


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
) -> Iterator[pa.RecordBatch | Stretch]:
    """Rows of the good batches and stretches of damage, in the order of the file.

    base_offset, sealed, next_base_offset: as `logcore.segments.scan.scan` takes them. Rows have the schema
    `wanted.schema`; how they are cut into Arrow batches is the engine's choice, none is empty. Of a damaged batch there
    is no row. Memory is bounded by `limits` and does not grow with the segment.

    Raises KernelsUnavailable if `engine` names the kernels and they do not work here.
    """
    engine = default_engine() if engine is None else engine
    careful = _CarefulLane(buf, base_offset, sealed, next_base_offset, wanted, limits, place)
    lane = _fast_lane(engine, buf, base_offset, careful.ceiling, wanted, limits, place)
    position, next_offset = 0, base_offset
    while position < len(buf):
        if lane is not None:
            lane.position, lane.next_offset = position, next_offset
            yield from lane.rows()
            position, next_offset = lane.position, lane.next_offset
            if position >= len(buf):
                return
        item, rows = careful.step(position, next_offset)
        if item is None:
            return
        if isinstance(item, Stretch):
            yield item
        else:
            next_offset = item.header.next_offset
            if rows is not None and rows.num_rows:
                yield rows
        position = item.end


def _fast_lane(
    engine: Engine, buf: Buffer, base_offset: int, ceiling: int, wanted: Wanted, limits: Limits, place: Place
) -> FastLane | None:
    if engine is Engine.KERNELS:
        from logcore.columns.compiled import CompiledLane

        return CompiledLane(buf, ceiling, wanted, limits, place)
    if engine is Engine.LOCKSTEP:
        from logcore.columns.lockstep import LockstepLane

        return LockstepLane(buf, ceiling, wanted, limits, place)
    return None


class _CarefulLane:
    """One batch at a time, by the scan and the record reader."""

    def __init__(
        self,
        buf: Buffer,
        base_offset: int,
        sealed: bool,
        next_base_offset: int | None,
        wanted: Wanted,
        limits: Limits,
        place: Place,
    ) -> None:
        self._buf, self._base_offset, self._sealed = buf, base_offset, sealed
        self._next_base_offset, self._wanted, self._limits, self._place = next_base_offset, wanted, limits, place
        self.ceiling = min(base_offset + MAX_RELATIVE_OFFSET, MAX_OFFSET - 1)
        """Last offset a batch of this segment may hold."""
        if next_base_offset is not None:
            self.ceiling = min(self.ceiling, next_base_offset - 1)

    def step(self, position: int, next_offset: int) -> tuple[ScannedBatch | Stretch | None, pa.RecordBatch | None]:
        """What stands at a position, and its wanted rows; None where only padding is left."""
        item = self._judge(position, next_offset, None)
        if not isinstance(item, ScannedBatch) or not self._wanted.may_hold(item.header):
            return item, None
        records: list[Record] = []
        item = self._judge(position, next_offset, records)
        if not isinstance(item, ScannedBatch):
            return item, None
        rows = to_columns(records, self._place, item.header.partition_leader_epoch, position)
        return item, self._wanted.chosen(rows)

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
