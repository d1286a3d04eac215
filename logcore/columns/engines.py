"""One way to ask for a segment's records as Arrow columns, and two engines that answer it alike.

    kernels     compiled by Numba: one pass over the bytes; the default where they work
    reference   record by record, in plain Python: the specification, and what is used where the kernels do not work

The kernels take only batches that are valid beyond doubt. Before anything else they stop, the scan validates one batch
(or stretch of damage), slowly and by the book, and they continue after it. So both engines give the same rows and the
same stretches on any bytes. The kernels can only be too strict, which costs time and nothing else.
"""

from __future__ import annotations

import os
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from logcore.columns.checking.chunks import Chunk, Part, part_of
from logcore.columns.decoding.lanes import CarefulLane, FastLane, SegmentRows
from logcore.columns.kernels.library import ENGINE_VARIABLE, is_available
from logcore.columns.reference import to_columns
from logcore.columns.wanted import EVERYTHING, Place, Wanted
from logcore.logs.checks.validation import SegmentValidation, validate_segment
from logcore.logs.compaction.cleaned_transactions import CleanedTransactionState
from logcore.logs.compaction.cleaner import Cleaner, PlainCleaner
from logcore.logs.recovery.segment_recovery import Recover, recover_segment
from logcore.logs.retention.retained_segments import ReadSegment, read_segment
from logcore.records.model import DEFAULT_LIMITS, BatchHeader, Limits, Record
from logcore.records.varint import Buffer
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.scan import ScannedBatch, scan

if TYPE_CHECKING:
    from logcore.columns.checking.checked import CheckedSegment


class Engine(StrEnum):
    """Who decodes."""

    REFERENCE = "reference"
    KERNELS = "kernels"


@cache
def available() -> tuple[Engine, ...]:
    """The engines that work on this machine, fastest first."""
    return (Engine.KERNELS, Engine.REFERENCE) if is_available() else (Engine.REFERENCE,)


def default_engine() -> Engine:
    """The engine that LOGLAKE_ENGINE names, else the fastest engine of this machine.

    Raises ValueError if LOGLAKE_ENGINE names no engine.
    """
    named = os.environ.get(ENGINE_VARIABLE)
    if not named:
        return available()[0]
    if named not in set(Engine):
        raise ValueError(f"{ENGINE_VARIABLE} is {named!r}; it may be {' or '.join(sorted(Engine))}")
    return Engine(named)


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
    fetched: FetchedBytes | None = None,
) -> SegmentRows[pa.RecordBatch]:
    """Rows of the good batches and stretches of damage, in the order of the file; iterate over the result.

    base_offset, sealed, next_base_offset, start, next_offset: as `logcore.segments.scanning.scan.scan` takes them.
    stop: no batch that begins there or behind is looked at. fetched: whoever brings the bytes of `buf` into memory;
    then the walk may end in front of `stop`, and another one goes on from its `position` and `next_offset`. The
    reference engine fetches all bytes at once.

    Rows are Arrow batches of the schema `wanted.schema`; how they are cut is the engine's choice, none is empty. Of a
    damaged batch there is no row. Memory is bounded by `limits` and does not grow with the segment.

    Raises KernelsUnavailable if `engine` names the kernels and they do not work here.
    """
    engine = default_engine() if engine is None else engine
    careful = CarefulLane(buf, base_offset, sealed, next_base_offset, wanted, limits, fetched)
    begin = base_offset if next_offset is None else next_offset
    part = Part(buf, len(buf) if stop is None else stop, False)
    if engine is Engine.KERNELS:
        part = part_of(buf, Chunk(start, begin, part.stop), fetched)
    elif fetched is not None:
        fetched.fetch(start, len(buf))
    lane: FastLane[pa.RecordBatch] | None = None
    if engine is Engine.KERNELS:
        from logcore.columns.decoding.compiled import CompiledLane
        from logcore.columns.decoding.rows import RowBuffers

        output = RowBuffers(wanted, place)
        lane = CompiledLane(part.content, careful.ceiling, wanted, limits, place.position_base, output, part.goes_on)

    def columns(header: BatchHeader, position: int, records: list[Record]) -> pa.RecordBatch:
        return wanted.chosen(to_columns(records, place, header.partition_leader_epoch, position))

    return SegmentRows(lane, careful, columns, start, begin, part.stop)


def judge_segment(
    buf: Buffer,
    *,
    base_offset: int,
    sealed: bool,
    file: str,
    next_base_offset: int | None = None,
    checks_sequences: bool = True,
    fetched: FetchedBytes | None = None,
) -> SegmentValidation | CheckedSegment:
    """The validation of a segment by the best engine there is: iterate over it, and it is a complete
    `SegmentJudgement`. It gives verdicts and stretches, and where the kernels work tables of good batches too. fetched:
    whoever brings the bytes of `buf` into memory; None if they are all there."""
    if default_engine() is not Engine.KERNELS:
        return validate_segment(
            buf,
            base_offset=base_offset,
            sealed=sealed,
            file=file,
            next_base_offset=next_base_offset,
            checks_sequences=checks_sequences,
            fetched=fetched,
        )
    from logcore.columns.checking.checked import CheckedSegment

    return CheckedSegment(
        buf,
        base_offset=base_offset,
        sealed=sealed,
        file=file,
        next_base_offset=next_base_offset,
        checks_sequences=checks_sequences,
        fetched=fetched,
    )


def segment_recovery() -> Recover:
    """`recover_segment` by the best engine there is."""
    if default_engine() is not Engine.KERNELS:
        return recover_segment
    from logcore.columns.recovery import recover_compiled

    return recover_compiled


def segment_extent(
    buf: Buffer,
    *,
    base_offset: int,
    sealed: bool,
    next_base_offset: int | None = None,
    fetched: FetchedBytes | None = None,
) -> tuple[int, int | None, ScannedBatch | None]:
    """(offset behind the last good batch, greatest max timestamp or None, last good batch) of a segment, by headers and
    checksums, with the best engine there is. fetched: whoever brings the bytes into memory; raises as it does."""
    if default_engine() is Engine.KERNELS:
        from logcore.columns.checking.checked import checked_extent

        return checked_extent(
            buf, base_offset=base_offset, sealed=sealed, next_base_offset=next_base_offset, fetched=fetched
        )
    walk = scan(
        buf,
        base_offset=base_offset,
        sealed=sealed,
        decode=False,
        next_base_offset=next_base_offset,
        fetched=fetched,
    )
    greatest = -1
    for item in walk:
        if isinstance(item, ScannedBatch):
            greatest = max(greatest, item.header.max_timestamp)
        if fetched is not None:
            fetched.release(item.position)
    return walk.next_offset, None if greatest < 0 else greatest, walk.last_batch


def segment_reading() -> ReadSegment:
    """`read_segment` of retention by the best engine there is."""
    if default_engine() is not Engine.KERNELS:
        return read_segment
    from logcore.columns.checking.checked import checked_reading

    return checked_reading


def new_cleaner(
    engine: Engine | None = None,
    *,
    transactions: CleanedTransactionState | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Cleaner:
    """A way of cleaning for one round, by the best engine there is: all leave the same bytes. transactions: what is
    known of them in front of the first group, if that is not the log's first.

    Raises KernelsUnavailable if `engine` names the kernels and they do not work here, ValueError if it is no engine.
    """
    if (default_engine() if engine is None else Engine(engine)) is not Engine.KERNELS:
        return PlainCleaner(transactions, limits)
    from logcore.columns.cleaning.cleaning import CompiledCleaner

    return CompiledCleaner(transactions, limits)
