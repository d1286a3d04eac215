"""A file of a table without the rows below the first kept offset of their logs.

Runs in a worker. Rows are streamed in their order, and other rows are copied unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_jobs.lake.delta.files import row_digest
from spark_jobs.lake.delta.files.carried_rows import as_declared
from spark_jobs.lake.delta.files.file_contents import LogKey, by_log, integers
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
    """Write the rows of a file that stay; no file if none stays.

    Raises:
        TableUnreadable: The file is missing or damaged.
    """
    root, spec = table_uri(task.lake, task.table), with_columns(task.table, task.extra)

    def kept() -> Iterator[pa.RecordBatch]:
        for rows in read_batches(task.lake, task.table, task.path):
            declared = as_declared(rows, spec.file_schema)
            yield declared.filter(pa.array(stays(declared, task.floors)))

    try:
        return WriteResult.of(
            write_file(
                root,
                spec,
                kept(),
                task.partition_values,
                lambda: row_digest.are_recorded(root, (task.path,)),
                task.compression,
            )
        )
    except (OSError, pa.ArrowException) as error:
        return WriteResult(error=f"{task.path}: {error}")


def stays(rows: pa.RecordBatch, floors: Mapping[LogKey, int]) -> np.ndarray:
    """Which rows are not below the first kept offset of their log."""
    offsets = integers(rows, "offset")
    found = np.ones(rows.num_rows, dtype=bool)
    for key, places in by_log(rows):
        if key in floors:
            found[places] = offsets[places] >= floors[key]
    return found
