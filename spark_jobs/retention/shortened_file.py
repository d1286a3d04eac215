"""A file of a table without the rows below the first kept offset of their logs.

Runs in a worker. Other rows are copied unchanged. Rows are streamed; those of a log are sorted in memory if another
engine left them out of order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_jobs.lake.delta.files import row_digest
from spark_jobs.lake.delta.files.carried_rows import as_declared
from spark_jobs.lake.delta.files.file_contents import (
    CHUNK_ROWS,
    COLUMNS,
    FileUnreadable,
    LogKey,
    by_log,
    integers,
    read_contents,
)
from spark_jobs.lake.delta.files.live_files import read_batches
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.store.written_file import WriteResult
from spark_jobs.policies.compression import Compression
from spark_jobs.reads import Reads
from spark_jobs.row_files.table_columns import with_columns


@dataclass(frozen=True, slots=True)
class ShortenTask:
    """A file that loses rows."""

    lake: str
    table: str
    path: str
    """Path relative to the table."""
    size: int
    """Bytes."""
    partition_values: dict[str, str]
    floors: Mapping[LogKey, int]
    """First kept offset by log. Logs that it does not name keep all rows."""
    extra: str
    """The table's additional columns, as ``table_columns`` writes them."""
    compression: Compression

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(self.table, self.path)


def shorten_file(task: ShortenTask) -> WriteResult:
    """Write the rows of a file that stay: a file for each log, in the order of offsets; none if no row stays.

    Raises:
        TableUnreadable: The file is damaged.
    """
    root, spec = table_uri(task.lake, task.table), with_columns(task.table, task.extra)
    try:
        contents = read_contents(task.lake, task.table, task.path)
        written = [
            write_file(
                root,
                spec,
                _rows_that_stay(task, spec.file_schema, key, is_ordered=contents.is_ordered),
                task.partition_values,
                lambda: row_digest.are_recorded(root, (task.path,)),
                task.compression,
            )
            for key in contents.logs
        ]
    except (OSError, FileUnreadable, pa.ArrowException) as error:
        return WriteResult(error=f"{task.path}: {error}")
    return WriteResult(tuple(file for file in written if file is not None))


def _rows_that_stay(task: ShortenTask, schema: pa.Schema, key: LogKey, *, is_ordered: bool) -> Iterator[pa.RecordBatch]:
    kept = _of_log(task, schema, key)
    if is_ordered or _rises(_of_log(task, pa.schema([schema.field(name) for name in COLUMNS]), key)):
        yield from kept
    else:
        yield from pa.Table.from_batches(kept, schema).sort_by("offset").to_batches(max_chunksize=CHUNK_ROWS)


def _rises(chunks: Iterator[pa.RecordBatch]) -> bool:
    reached = -1
    for chunk in chunks:
        offsets = integers(chunk, "offset")
        if len(offsets) and (offsets[0] <= reached or (np.diff(offsets) <= 0).any()):
            return False
        reached = int(offsets[-1]) if len(offsets) else reached
    return True


def _of_log(task: ShortenTask, schema: pa.Schema, key: LogKey) -> Iterator[pa.RecordBatch]:
    """The rows of a log that are not below its first kept offset."""
    floor = task.floors.get(key, 0)
    for rows in read_batches(task.lake, task.table, task.path):
        places = dict(by_log(rows)).get(key)
        if places is not None:
            chosen = rows.take(places[integers(rows, "offset")[places] >= floor])
            yield as_declared(chosen, schema)
