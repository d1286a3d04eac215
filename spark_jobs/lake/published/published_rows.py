"""Rows of ``records`` of one log between two offsets, in batches: whatever the size of the table, memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_jobs.lake.delta.files.carried_rows import as_declared
from spark_jobs.lake.delta.files.file_contents import may_meet, within
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
            and file.may_have(self.log_id, self.partition, self.start, self.end)
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
                meta, offsets = parquet.metadata, (span.start, span.end)
                groups = [n for n in range(meta.num_row_groups) if may_meet(meta.row_group(n), offset=offsets)]
                there = [name for name in columns if name in parquet.schema_arrow.names]
                for batch in parquet.iter_batches(BATCH_ROWS, row_groups=groups, columns=there, use_threads=False):
                    rows = within(as_declared(batch, schema), (span.log_id, span.partition), span.start, span.end)
                    if rows.num_rows:
                        yield rows
