"""Readers of the data source: of a batch, of a batch with pushed filters, and of a stream."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from logcore.columns.wanted import Wanted
from logcore.reading.consumer_log import ConsumerLog
from logcore.segments.filenames import TopicPartition
from spark_jobs.data_source.log_ranges import (
    WARNINGS,
    batch_ranges,
    known_ends,
    limited,
    opened_logs,
    sound_ranges,
    starts,
    stream_ranges,
)
from spark_jobs.data_source.log_splits import LogSplit, rows_of, splits_of
from spark_jobs.data_source.pushed_filters import PushedFilters
from spark_jobs.data_source.source_columns import HEADERS, TYPES
from spark_jobs.data_source.source_options import LATEST, DataSourceOptions, JsonOffsets, json_of, offsets_of
from spark_jobs.errors import UsageError

_ARROW: dict[str, pa.DataType] = {
    "binary": pa.binary(),
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    HEADERS: pa.list_(
        pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
    ),
}


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects for a schema of Spark.

    Raises:
        UsageError: A column is unknown, or has another type.
    """
    for field in schema.fields:
        known = TYPES.get(field.name)
        if known != field.dataType.simpleString():
            there = f"no column {field.name}" if known is None else f"the column {field.name} as {known}"
            columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
            raise UsageError(f"the data source loglake has {there}. A schema chooses of: {columns}")
    return pa.schema([pa.field(field.name, _ARROW[TYPES[field.name]]) for field in schema.fields])


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
