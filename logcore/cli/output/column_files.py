"""Records as Arrow streams and Parquet files, with the columns of the lake's table `records`.

Only this module of the command line needs pyarrow. It is imported when one of its formats is requested.
"""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from logcore.columns.schema import RECORDS_SCHEMA

ROWS = 65_536
"""Rows collected before a write, so that many small batches become few chunks."""

HELD_BYTES = 64 << 20


class ColumnSink:
    """Collects records into chunks and writes them as an Arrow stream or a Parquet file."""

    def __init__(self, out: BinaryIO, form: str, shows_committed: bool = False) -> None:
        self._shows_committed = shows_committed
        self._schema = RECORDS_SCHEMA.append(pa.field("committed", pa.bool_())) if shows_committed else RECORDS_SCHEMA
        self._writer = (
            pq.ParquetWriter(out, self._schema) if form == "parquet" else pa.ipc.new_stream(out, self._schema)  # type: ignore[arg-type]
        )
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def add(self, columns: pa.RecordBatch, committed_end: int | None = None) -> None:
        """Add rows of RECORDS_SCHEMA. `committed_end`: the end of committed offsets in KRaft's metadata log."""
        if self._shows_committed:
            values = pa.nulls(columns.num_rows, pa.bool_())
            if committed_end is not None:
                values = pc.less(columns.column("offset"), pa.scalar(committed_end))
            columns = pa.RecordBatch.from_arrays([*columns.columns, values], schema=self._schema)
        self._held.append(columns)
        self._rows += columns.num_rows
        self._bytes += columns.nbytes
        if self._rows >= ROWS or self._bytes >= HELD_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the collected rows, and the end of the file."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held, self._schema).combine_chunks())
        self._held, self._rows, self._bytes = [], 0, 0
