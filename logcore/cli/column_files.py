"""Records as Arrow streams and Parquet files, in the columns that the lake's table `records` has.

The only module of the command line that needs pyarrow; it is imported when one of its formats is asked for.
"""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from logcore.cli.bulk import place_of
from logcore.columns.reference import to_columns
from logcore.columns.schema import RECORDS_SCHEMA
from logcore.logs.sources import SegmentFile, SourceLog
from logcore.records.record import Record
from logcore.segments.scan import ScannedBatch

ROWS = 65_536
"""Rows held back, so that many small batches become few chunks."""

HELD_BYTES = 64 << 20


class ColumnSink:
    """Collects records into chunks and writes them as an Arrow stream or a Parquet file."""

    def __init__(self, out: BinaryIO, form: str) -> None:
        self._writer = (
            pq.ParquetWriter(out, RECORDS_SCHEMA) if form == "parquet" else pa.ipc.new_stream(out, RECORDS_SCHEMA)
        )
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, log: SourceLog, segment: SegmentFile, batch: ScannedBatch, records: list[Record]) -> None:
        """Take records of one batch."""
        place = place_of(log, segment)
        self.add(to_columns(records, place, batch.header.partition_leader_epoch, batch.position))

    def add(self, columns: pa.RecordBatch) -> None:
        """Take rows of RECORDS_SCHEMA."""
        self._held.append(columns)
        self._rows += columns.num_rows
        self._bytes += columns.nbytes
        if self._rows >= ROWS or self._bytes >= HELD_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is still held, and the end."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held, RECORDS_SCHEMA).combine_chunks())
        self._held, self._rows, self._bytes = [], 0, 0
