"""Offsets of the rows that ``records`` really has, read from the rows and not from statistics.

Rows are read by Delta's own reader, so rows that a deletion vector hides are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from spark_jobs.errors import JobError
from spark_jobs.groups import by_key
from spark_jobs.lake.delta.files.live_files import live_files
from spark_jobs.lake.published.held_offsets import HeldOffsets, OffsetRuns
from spark_jobs.lake.segments.archive import LogRow

ROWS_AT_ONCE = 50_000_000
"""Topics are read together up to about this many rows. Each query has a cost, and its logs need memory."""


def present_offsets(table: DeltaTable | None, logs: Sequence[LogRow]) -> Iterator[tuple[LogRow, HeldOffsets]]:
    """Yield the offsets of each log that have rows in this version of ``records``, or of ``records_uncommitted``; None:
    the table does not exist.

    Raises:
        JobError: The rows cannot be read.
    """
    by_topic = by_key(sorted(logs, key=lambda row: (row.topic, row.log)), lambda log: log.topic)
    for topics in _together(table, list(by_topic)):
        found = {} if table is None else _of_topics(table, topics)
        for topic in topics:
            for log in by_topic[topic]:
                yield log, HeldOffsets.of([found.pop((topic, log.partition, log.log_id), OffsetRuns())])


def _together(table: DeltaTable | None, topics: Sequence[str]) -> Iterator[list[str]]:
    rows: dict[str, int] = {}
    for file in live_files(table) if table is not None else ():
        topic = file.partition_values.get("topic", "")
        rows[topic] = rows.get(topic, 0) + max(file.rows, 0)
    some: list[str] = []
    total = 0
    for topic in topics:
        if some and total + rows.get(topic, 0) > ROWS_AT_ONCE:
            yield some
            some, total = [], 0
        some.append(topic)
        total += rows.get(topic, 0)
    if some:
        yield some


def _of_topics(table: DeltaTable, topics: Sequence[str]) -> dict[tuple[str, int, str], OffsetRuns]:
    quoted = ", ".join("'" + topic.replace("'", "''") + "'" for topic in topics)
    sql = f'SELECT topic, "partition", log_id, "offset" FROM records WHERE topic IN ({quoted})'  # noqa: S608 - quoted
    found: dict[tuple[str, int, str], OffsetRuns] = {}
    try:
        reader = pa.RecordBatchReader.from_stream(QueryBuilder().register("records", table).execute(sql))
        for chunk in reader:
            _collect(chunk, found)
    except (DeltaError, pa.ArrowException, OSError) as error:
        raise JobError(f"The rows of the table {table.table_uri} cannot be read: {error}.") from error
    return found


def _collect(chunk: pa.RecordBatch, found: dict[tuple[str, int, str], OffsetRuns]) -> None:
    """Collect rows of a chunk by their log; most chunks have one log."""
    chunk = chunk.drop_null()  # rows that another engine added without a log belong to no log
    if not chunk.num_rows:
        return
    codes = np.zeros(chunk.num_rows, dtype=np.int64)
    values: list[list[object]] = []
    for name in ("topic", "partition", "log_id"):
        column = chunk.column(name)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        values.append(column.dictionary.to_pylist())  # type: ignore[attr-defined]
        codes = codes * len(values[-1]) + column.indices.to_numpy(zero_copy_only=False)  # type: ignore[attr-defined]
    offsets = chunk.column("offset").to_numpy(zero_copy_only=False)
    for code in np.unique(codes).tolist():
        rest, log_id = divmod(code, len(values[2]))
        topic, partition = divmod(rest, len(values[1]))
        key = (str(values[0][topic]), int(str(values[1][partition])), str(values[2][log_id]))
        found.setdefault(key, OffsetRuns()).add(offsets[codes == code])
