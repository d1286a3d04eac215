"""Readers of the data source: of a batch, of a batch with pushed filters, and of a stream.

A task of Spark reads a part of a log. Filters that the data source applies exactly are pushed down.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from logcore.columns.records_columns import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from logcore.columns.wanted import Wanted
from logcore.errors import LogError
from logcore.library.damage import Reports
from logcore.library.record_columns import joined
from logcore.logs.model.sources import SegmentFile
from logcore.reading.consumer_log import ChosenRecords, ConsumerLog
from logcore.reading.read_options import OffsetRange
from logcore.reading.segment_reading import index_of
from logcore.reading.shown_segments import columns_of
from logcore.segments.filenames import MAX_OFFSET, TopicPartition
from logcore.segments.side_files import offset_index
from spark_jobs.data_source.log_ranges import (
    WARNINGS,
    LogRange,
    Losses,
    batch_ranges,
    known_ends,
    limited,
    opened_logs,
    sound_ranges,
    starts,
    stream_ranges,
)
from spark_jobs.data_source.source_columns import arrow_types, spark_types
from spark_jobs.data_source.source_options import LATEST, DataSourceOptions, JsonOffsets, json_of, offsets_of
from spark_jobs.errors import UsageError


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects for a schema of Spark.

    Raises:
        UsageError: A column is unknown, or has another type.
    """
    types = spark_types()
    for field in schema.fields:
        known = types.get(field.name)
        if known != field.dataType.simpleString():
            there = f"no column {field.name}" if known is None else f"the column {field.name} as {known}"
            columns = ", ".join(f"{name} {kind}" for name, kind in types.items())
            raise UsageError(f"the data source loglake has {there}. A schema chooses of: {columns}")
    in_arrow = arrow_types()
    return pa.schema([pa.field(field.name, in_arrow[field.name]) for field in schema.fields])


def wanted_of(schema: pa.Schema) -> Wanted:
    """Return what must be decoded for some columns; the offset, if it is none."""
    names = {"timestamp_ms" if name == "timestamp" else name for name in schema.names}
    return Wanted(columns=tuple(sorted(names)) or ("offset",))


class _RowReader:
    """Reads parts of logs, as every reader of the data source does.

    Args:
        options: The options.
        schema: The columns.
    """

    def __init__(self, options: DataSourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = arrow_schema(schema)
        self._wanted = wanted_of(self._schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        # Spark hands over a part of its own where there is none.
        return rows_of(partition, self._schema, self._options) if isinstance(partition, LogSplit) else iter(())


class LogReader(_RowReader, DataSourceReader):
    """Reads a batch."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts of logs that tasks read."""
        _name_unused(self._options)
        return splits_of(batch_ranges(opened_logs(self._options), self._options), self._options, self._wanted)


class FilteringLogReader(LogReader):
    """Reads a batch with filters of a query. Spark refuses a reader with `pushFilters` unless a setting allows it."""

    def __init__(self, options: DataSourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._filters = PushedFilters()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the filters that are exact here; return the others."""
        left = []
        for each in filters:
            taken = self._filters.with_filter(each)
            if taken is None:
                left.append(each)
            else:
                self._filters = taken
        self._wanted = replace(self._wanted, since=self._filters.since, until=self._filters.until)
        return left

    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts of logs that tasks read."""
        _name_unused(self._options)
        wanted = batch_ranges(opened_logs(self._options), self._options, self._filters.may_hold)
        ranges = [self._filters.within(each) for each in wanted]
        return splits_of(ranges, self._options, self._wanted)


class LogStreamReader(_RowReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches. Offsets are those of Spark's Kafka source: ``{"orders": {"0": 23}}``."""

    def __init__(self, options: DataSourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._target: dict[TopicPartition, int] | None = None
        self._last_ms = 0

    def initialOffset(self) -> JsonOffsets:  # noqa: N802 - Spark's name
        """Return where the stream begins: at the latest offsets, unless an option says otherwise."""
        _name_unused(self._options)
        return json_of(starts(opened_logs(self._options), self._options, LATEST))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of `maxOffsetsPerTrigger`."""
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember the ends of the logs: the stream ends there."""
        self._target = dict(known_ends(self._logs()))

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:  # noqa: N802 - Spark's name
        """Return where a micro-batch ends."""
        before = offsets_of(start, "an offset of the stream")
        logs = self._logs()
        ends = known_ends(logs)
        if self._target is not None:
            ends = {name: min(ends[name], self._target[name]) for name in ends if name in self._target}
        else:
            now_ms = time.monotonic_ns() // 1_000_000
            few = sum(max(0, end - before.get(name, 0)) for name, end in ends.items()) < (
                self._options.min_offsets or 0
            )
            if few and now_ms - self._last_ms < self._options.max_delay_ms and self._last_ms:
                return start
            self._last_ms = now_ms
        ranges = stream_ranges(logs, before, {**before, **ends}, self._options)
        if isinstance(limit, ReadMaxRows):
            ranges = limited(ranges, limit.max_rows)
        reached = {each.name: each.end for each in sound_ranges(ranges, self._options)}
        return json_of({**before, **reached})

    def reportLatestOffset(self) -> JsonOffsets:  # noqa: N802 - Spark's name
        """Return the ends of the logs, for the progress of the query."""
        return json_of(known_ends(self._logs()))

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """Return the parts of logs that tasks of a micro-batch read."""
        before, after = offsets_of(start, "an offset of the stream"), offsets_of(end, "an offset of the stream")
        ranges = stream_ranges(self._logs(), before, after, self._options)
        return splits_of(ranges, self._options, self._wanted)

    def _logs(self) -> dict[TopicPartition, ConsumerLog]:
        return opened_logs(self._options, may_be_gone=not self._options.fail_on_data_loss)


def _name_unused(options: DataSourceOptions) -> None:
    if options.unused:
        WARNINGS.warning("there is no broker, so these options have no effect: %s", ", ".join(options.unused))


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
        schema: The columns to return: some of `arrow_types`.
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


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER_NULL = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """Filters, all of which a row meets.

    Attributes:
        topics: The topic is one of these.
        partitions: The partition is one of these.
        start: The offset is at least this.
        end: The offset is below this.
        since: The timestamp in milliseconds is at least this.
        until: The timestamp in milliseconds is below this.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start: int = 0
    end: int = MAX_OFFSET + 1
    since: int | None = None
    until: int | None = None

    def with_filter(self, given: Filter) -> PushedFilters | None:
        """Return these filters with one more; None if it cannot be applied exactly here."""
        match given:
            case IsNotNull((column,)) if column in _NEVER_NULL:
                return self
            case EqualTo(("topic",), str(value)):
                return self._of_topics({value})
            case In(("topic",), values):
                return self._of_topics(set(values))
            case EqualTo(("partition",), int(value)):
                return self._of_partitions({value})
            case In(("partition",), values):
                return self._of_partitions(set(values))
            case EqualTo(("offset",), int(value)):
                return self._of_offsets(value, value + 1)
            case GreaterThan(("offset",), int(value)):
                return self._of_offsets(value + 1, MAX_OFFSET + 1)
            case GreaterThanOrEqual(("offset",), int(value)):
                return self._of_offsets(value, MAX_OFFSET + 1)
            case LessThan(("offset",), int(value)):
                return self._of_offsets(0, value)
            case LessThanOrEqual(("offset",), int(value)):
                return self._of_offsets(0, value + 1)
            case GreaterThan(("timestamp",), datetime() as value):
                return self._of_times(_micros(value) // 1000 + 1, None)
            case GreaterThanOrEqual(("timestamp",), datetime() as value):
                return self._of_times(-(-_micros(value) // 1000), None)
            case LessThan(("timestamp",), datetime() as value):
                return self._of_times(None, -(-_micros(value) // 1000))
            case LessThanOrEqual(("timestamp",), datetime() as value):
                return self._of_times(None, _micros(value) // 1000 + 1)
        return None

    def may_hold(self, name: TopicPartition) -> bool:
        """Whether a log may have a wanted row."""
        is_topic = self.topics is None or name.topic in self.topics
        return is_topic and (self.partitions is None or name.partition in self.partitions)

    def within(self, reads: LogRange) -> LogRange:
        """Return the part of a range that may have wanted rows."""
        end = min(reads.end, self.end)
        return replace(reads, start=max(reads.start, self.start), end=end, is_open=reads.is_open and end == reads.end)

    def _of_topics(self, topics: set[str]) -> PushedFilters:
        return replace(self, topics=frozenset(topics if self.topics is None else self.topics & topics))

    def _of_partitions(self, numbers: set[int]) -> PushedFilters:
        return replace(self, partitions=frozenset(numbers if self.partitions is None else self.partitions & numbers))

    def _of_offsets(self, start: int, end: int) -> PushedFilters:
        return replace(self, start=max(self.start, start), end=min(self.end, end))

    def _of_times(self, since: int | None, until: int | None) -> PushedFilters:
        # A row without a time that the calendar has is null in `timestamp`, and meets no filter.
        low, high = self.since, self.until
        since = max(*(MIN_TIMESTAMP_MS if each is None else each for each in (low, since)))
        until = min(*(MAX_TIMESTAMP_MS + 1 if each is None else each for each in (high, until)))
        return replace(self, since=since, until=until)


def _micros(value: datetime) -> int:
    aware = value if value.tzinfo is not None else value.astimezone()
    return (aware - _EPOCH) // timedelta(microseconds=1)
