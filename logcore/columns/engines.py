"""One function for a segment's records as Arrow columns, and two engines with equal results.

    kernels     compiled by Numba: one pass over the bytes; the default where they work
    reference   one record at a time, in plain Python: the specification, used where the kernels do not work

The kernels accept only batches that are certainly valid. They stop at anything else. There the scan validates one batch
(or stretch of damage) slowly, and the kernels continue after it. So both engines give the same rows and the same
stretches for any bytes. Kernels that are too strict only cost time.
"""

from __future__ import annotations

import os
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from logcore.columns.checking.chunks import Chunk, Part, part_of
from logcore.columns.decoding.lanes import CarefulLane, FastLane, SegmentRows
from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import ENGINE_VARIABLE, is_available
from logcore.columns.reference import to_columns
from logcore.columns.wanted import EVERYTHING, Place, Wanted
from logcore.logs.checks.validation import SegmentValidation
from logcore.logs.compaction.cleaned_transactions import CleanedTransactionState
from logcore.logs.compaction.cleaner import Cleaner, PlainCleaner
from logcore.logs.recovery.segment_recovery import Recover, recover_segment
from logcore.logs.retention.retained_segments import ReadSegment, read_segment
from logcore.records.model import DEFAULT_LIMITS, BatchHeader, Limits, Record
from logcore.records.varint import Buffer
from logcore.segments.scanning.fetched_bytes import FetchedBytes

if TYPE_CHECKING:
    from logcore.columns.checking.checked import CheckedSegment


class Engine(StrEnum):
    """The engine that decodes."""

    REFERENCE = "reference"
    KERNELS = "kernels"


@cache
def available() -> tuple[Engine, ...]:
    """The engines that work on this machine, fastest first."""
    return (Engine.KERNELS, Engine.REFERENCE) if is_available() else (Engine.REFERENCE,)


def default_engine(work: Work = Work.WALK) -> Engine:
    """Return the engine that LOGLAKE_ENGINE names, else the fastest engine of this machine for a kind of work.

    If kernels for the work are not in the cache of this machine, they are compiled now, which takes seconds.

    Raises:
        ValueError: LOGLAKE_ENGINE names no engine.
    """
    named = os.environ.get(ENGINE_VARIABLE)
    if not named:
        return Engine.KERNELS if is_available(work) else Engine.REFERENCE
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
    """Iterate over the rows of good batches and the stretches of damage, in the order of the file.

    Rows are Arrow batches of the schema `wanted.schema`. Their size is the engine's choice, and none is empty. A
    damaged batch has no row. Memory is bounded by `limits` and does not grow with the segment.

    Args:
        buf: The segment's bytes.
        place: The values of the rows that are not in the bytes.
        base_offset: As in `logcore.segments.scanning.scan.SegmentScan`.
        sealed: As in `SegmentScan`.
        next_base_offset: As in `SegmentScan`.
        wanted: The columns and records to read.
        limits: Limits on decompression.
        engine: By default `default_engine`.
        start: As in `SegmentScan`.
        next_offset: As in `SegmentScan`.
        stop: Batches that begin at or after this position are not read.
        fetched: Loads the bytes of `buf` into memory. Then the walk may end before `stop`, and another call can
            continue at its `position` and `next_offset`. The reference engine fetches all bytes at once.

    Raises:
        KernelsUnavailable: `engine` names the kernels, and they do not work here.
    """
    engine = default_engine(Work.DECODE) if engine is None else engine
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
        shift = header.reader_shift if wanted.as_counted else 0
        return wanted.chosen(to_columns(records, place, header, position, shift))

    return SegmentRows(lane, careful, columns, start, begin, part.stop)


def check_segment(
    buf: Buffer,
    *,
    base_offset: int,
    sealed: bool,
    file: str,
    next_base_offset: int | None = None,
    checks_sequences: bool = True,
    fetched: FetchedBytes | None = None,
) -> SegmentValidation | CheckedSegment:
    """Validate a segment with the best engine. Iterate over the result: then it is a complete `SegmentVerdict`.

    It yields verdicts and stretches, and with the kernels also tables of good batches.

    Args:
        buf: The segment's bytes.
        base_offset: Base offset of the segment.
        sealed: Whether a later segment follows.
        file: Name of the file, for findings.
        next_base_offset: Base offset of the next segment.
        checks_sequences: Check the sequence numbers of producers.
        fetched: Loads the bytes of `buf` into memory; None if all of them are loaded.
    """
    validate: type[CheckedSegment | SegmentValidation] = SegmentValidation
    if default_engine(Work.CHECK) is Engine.KERNELS:
        from logcore.columns.checking.checked import CheckedSegment

        validate = CheckedSegment
    return validate(
        buf,
        base_offset=base_offset,
        sealed=sealed,
        file=file,
        next_base_offset=next_base_offset,
        checks_sequences=checks_sequences,
        fetched=fetched,
    )


def segment_recovery() -> Recover:
    """Return `recover_segment` of the best engine."""
    if default_engine(Work.RECOVER) is not Engine.KERNELS:
        return recover_segment
    from logcore.columns.recovery import recover_compiled

    return recover_compiled


def segment_reading() -> ReadSegment:
    """Return `read_segment` of the best engine."""
    if default_engine(Work.WALK) is not Engine.KERNELS:
        return read_segment
    from logcore.columns.checking.checked import checked_reading

    return checked_reading


def new_cleaner(
    engine: Engine | None = None,
    *,
    transactions: CleanedTransactionState | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Cleaner:
    """Return a cleaner for one round, by the best engine. All cleaners write the same bytes.

    Args:
        engine: By default `default_engine`.
        transactions: State of the transactions before the first group, unless it is the log's first.
        limits: Limits on decompression.

    Raises:
        KernelsUnavailable: `engine` names the kernels, and they do not work here.
        ValueError: It is not an engine.
    """
    if (default_engine(Work.CLEAN) if engine is None else Engine(engine)) is not Engine.KERNELS:
        return PlainCleaner(transactions, limits)
    from logcore.columns.cleaning.cleaning import CompiledCleaner

    return CompiledCleaner(transactions, limits)
