"""Parts of logs that one task of Spark reads each, and their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from logcore.columns.schema import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from logcore.columns.wanted import Wanted
from logcore.errors import LogError
from logcore.library.damage import Reports
from logcore.library.record_columns import joined
from logcore.logs.model.sources import SegmentFile
from logcore.reading.consumer_log import ChosenRecords
from logcore.reading.read_options import OffsetRange
from logcore.reading.segment_reading import index_of
from logcore.reading.shown_segments import columns_of
from logcore.segments.side_files import offset_index
from spark_jobs.data_source.log_ranges import LogRange, Losses
from spark_jobs.data_source.source_options import DataSourceOptions

SPLIT_BYTES = 64 << 20
"""A log is split into parts of about so many bytes."""


@dataclass(frozen=True)
class LogSplit(InputPartition):
    """A part of a log that one task reads.

    Attributes:
        chosen: The records.
        fails: Whether damage ends the read.
    """

    chosen: ChosenRecords
    fails: bool


def splits_of(ranges: Iterable[LogRange], options: DataSourceOptions, wanted: Wanted) -> list[LogSplit]:
    """Divide ranges of logs at offsets that lie about `SPLIT_BYTES` apart; closer if `minPartitions` asks for it.

    Args:
        ranges: The ranges.
        options: The options of the read.
        wanted: The columns and records.
    """
    reads = [each for each in ranges if each.start < each.end]
    sizes = [_Positions.of(each) for each in reads]
    total = sum(each.size for each in sizes)
    nbytes = min(SPLIT_BYTES, max(1, total // (options.min_partitions or 1)))
    return [
        _split(each, bounds, wanted, options.fail_on_data_loss)
        for each, positions in zip(reads, sizes, strict=True)
        for bounds in positions.parts(nbytes)
    ]


@dataclass(frozen=True, slots=True)
class _Positions:
    """Where offsets of a range lie: ascending offsets, and bytes from the beginning of the range."""

    offsets: Sequence[int]
    at: Sequence[int]

    @classmethod
    def of(cls, reads: LogRange) -> _Positions:
        known: list[tuple[int, int]] = []
        after = 0
        for segment in reads.log.choose(OffsetRange(reads.start, reads.end)).files():
            known += [(offset, after + position) for offset, position in _entries(segment)]
            after += segment.log_bytes
        offsets, places = [offset for offset, _ in known], [at for _, at in known]
        if not known:
            return cls((reads.start, reads.end), (0, 1))
        first, last = np.interp((reads.start, reads.end), [*offsets, max(offsets[-1] + 1, reads.end)], [*places, after])
        inside = [(offset, at) for offset, at in known if reads.start < offset < reads.end and first < at < last]
        return cls(
            [reads.start, *(offset for offset, _ in inside), reads.end],
            [int(first), *(at for _, at in inside), max(int(last), int(first) + 1)],
        )

    @property
    def size(self) -> int:
        """Bytes of the range, about."""
        return self.at[-1] - self.at[0]

    def parts(self, nbytes: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of offsets of about so many bytes."""
        count = min(max(1, round(self.size / nbytes)), self.offsets[-1] - self.offsets[0])
        bounds = np.interp(np.linspace(self.at[0], self.at[-1], count + 1), self.at, self.offsets).astype(np.int64)
        bounds[0], bounds[-1] = self.offsets[0], self.offsets[-1]
        distinct = np.unique(bounds).tolist()
        yield from pairwise(distinct)


def _entries(segment: SegmentFile) -> list[tuple[int, int]]:
    """The beginning of a segment, and the entries of its index. They need no proof: any offset may begin a part."""
    entries: Iterable[tuple[int, int]] = ()
    if segment.log_bytes > SPLIT_BYTES // 4:
        try:
            found = offset_index.parse(index_of(segment), segment.base_offset)
            entries = ((each.offset, each.position) for each in found if 0 < each.position < segment.log_bytes)
        except LogError:
            entries = ()
    return [(segment.base_offset, 0), *entries]


def _split(reads: LogRange, bounds: tuple[int, int], wanted: Wanted, fails: bool) -> LogSplit:
    start, end = bounds
    is_open = reads.is_open and end == reads.end
    chosen = reads.log.choose(OffsetRange(start, None if is_open else end), wanted)
    files = tuple(chosen.files())
    following = (
        [] if not files else [each for each in reads.log.log.segments if each.base_offset > files[-1].base_offset]
    )
    return LogSplit(replace(chosen, log=replace(chosen.log, segments=(*files, *following))), fails)


def rows_of(split: LogSplit, schema: pa.Schema, options: DataSourceOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part.

    Args:
        split: The part.
        schema: The columns to return: those of `SPARK_COLUMNS`.
        options: The options of the read.

    Raises:
        DamageFound: Bytes are damaged, or offsets are missing; and failOnDataLoss is true.
    """
    notes = Losses(options).notes()
    read = split.chosen.wanted.schema
    for rows in joined(_rows(split.chosen, notes), read):
        yield pa.RecordBatch.from_arrays([_column(rows, field) for field in schema], schema=schema)


def _rows(chosen: ChosenRecords, notes: Reports) -> Iterator[pa.RecordBatch]:
    for shows in chosen.segments(notes):
        yield from columns_of(shows, notes)


def _column(rows: pa.RecordBatch, field: pa.Field[Any]) -> pa.Array[Any]:
    if field.name != "timestamp":
        return rows.column(field.name).cast(field.type)
    written = rows.column("timestamp_ms")
    low, high = (pa.scalar(bound, pa.int64()) for bound in (MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS))
    inside = pc.and_(pc.greater_equal(written, low), pc.less_equal(written, high))
    known: pa.Array[Any] = pc.if_else(inside, written, pa.scalar(None, pa.int64()))
    micros: pa.Array[Any] = pc.multiply(known, pa.scalar(1000, pa.int64()))
    return micros.cast(field.type)
