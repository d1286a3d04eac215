"""Rows of ``records`` of one log between two offsets, in batches: whatever the size of the table, memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.lake.delta.files.carried_rows import as_declared
from spark_jobs.lake.delta.files.live_files import LiveFile, open_parquet
from spark_jobs.lake.delta.tables.snapshots import reading, table_uri
from spark_jobs.lake.segments.archive import log_key
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.reads import Reads

BATCH_ROWS = 8192
COLUMNS = ("log_id", "partition", "offset", "timestamp", "headers", "published_at", "key", "value")
_SCHEMA = pa.schema([TABLES["records"].schema.field(name) for name in COLUMNS])


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets ``[start, end)`` of a log."""

    topic: str
    log_id: str
    partition: int
    start: int
    end: int

    @property
    def log(self) -> str:
        """Log key."""
        return log_key(self.log_id, self.partition)

    @property
    def reads(self) -> Reads:
        """What a task of these offsets reads."""
        return Reads(f"{self.topic}-{self.partition}", None, self.start, self.end)

    def may_be_in(self, file: LiveFile) -> bool:
        """Return whether a file of ``records`` can have rows of the span."""
        return (
            self.start < self.end
            and file.partition_values["topic"] == self.topic
            and file.may_hold("partition", self.partition)
            and file.may_hold("log_id", self.log_id)
            and file.may_reach("offset", self.start)
            and (file.min_offset is None or file.min_offset < self.end)
        )

    def part_of(self, file: LiveFile) -> tuple[int, int, int]:
        """Return where the offsets that a file may have of the span begin and end, and about their bytes."""
        least, greatest = file.min_offset, file.max_offset
        if least is None or greatest is None:
            return self.start, self.end, file.size
        first, end = max(self.start, least), min(self.end, greatest + 1)
        return first, end, file.size * (end - first) // (greatest + 1 - least)


def published_rows(
    lake: str, files: Sequence[LiveFile], span: Span, columns: Sequence[str] = COLUMNS
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a span, file by file in the order of their first offsets.

    Args:
        files: The live files of ``records``.
        columns: Which columns the batches have; ``log_id``, ``partition`` and ``offset`` among them.

    Raises:
        TableUnreadable: A file is missing or damaged.
    """
    schema = pa.schema([_SCHEMA.field(name) for name in columns])
    chosen = [file for file in files if span.may_be_in(file)]
    for file in sorted(chosen, key=lambda each: (each.min_offset or 0, each.path)):
        with reading(lake, "records", file.path):
            path = storage.join(table_uri(lake, "records"), file.path)
            parquet = open_parquet(path, page_checksum_verification=True)
            with parquet:
                groups = [n for n in range(parquet.num_row_groups) if _may_be_in(parquet.metadata.row_group(n), span)]
                there = [name for name in columns if name in parquet.schema_arrow.names]
                for batch in parquet.iter_batches(BATCH_ROWS, row_groups=groups, columns=there, use_threads=False):
                    rows = _within(batch, span, schema)
                    if rows.num_rows:
                        yield rows


def _may_be_in(group: pq.RowGroupMetaData, span: Span) -> bool:
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == "offset":
            bounds = column.statistics
            if bounds is None or bounds.min is None or bounds.max is None:
                return True
            return bool(bounds.max >= span.start and bounds.min < span.end)
    return True


def _within(batch: pa.RecordBatch, span: Span, schema: pa.Schema) -> pa.RecordBatch:
    rows = as_declared(batch, schema)
    offsets, partitions = np.asarray(rows["offset"]), np.asarray(rows["partition"])
    of_log = np.asarray(pc.equal(rows["log_id"], pa.scalar(span.log_id)).fill_null(False))
    inside = (partitions == span.partition) & of_log & (offsets >= span.start) & (offsets < span.end)
    return rows if inside.all() else rows.filter(pa.array(inside))
