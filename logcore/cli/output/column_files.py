"""Records as Arrow streams and Parquet files, with the columns of the lake's table `records`, and as CSV.

Only this module of the command line needs pyarrow. It is imported when one of its formats is requested.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from logcore.cli.output.record_lines import base64_text
from logcore.columns.records_columns import RECORDS_SCHEMA
from logcore.records.model import TimestampType
from logcore.texts import json_shown, utf8_text

ROWS = 65_536
"""Rows collected before a write, so that many small batches become few chunks."""

HELD_BYTES = 64 << 20


class ColumnSink:
    """Collects records into chunks and writes them as an Arrow stream, a Parquet file, or CSV.

    `as_text`: keys and values of CSV that are UTF-8 are text.
    """

    def __init__(self, out: BinaryIO, form: str, shows_committed: bool = False, *, as_text: bool = False) -> None:
        self._shows_committed, self._is_csv, self._as_text = shows_committed, form == "csv", as_text
        self._schema = RECORDS_SCHEMA.append(pa.field("committed", pa.bool_())) if shows_committed else RECORDS_SCHEMA
        if form == "parquet":
            self._writer: Any = pq.ParquetWriter(out, self._schema)
        elif form == "arrow":
            self._writer = pa.ipc.new_stream(out, self._schema)  # type: ignore[arg-type]
        else:
            empty = _csv_table(self._schema.empty_table(), as_text=as_text)
            out.write(f"{','.join(empty.schema.names)}\n".encode())
            options = pc_csv.WriteOptions(include_header=False, quoting_style="needed")
            self._writer = pc_csv.CSVWriter(out, empty.schema, write_options=options)
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
            table = pa.Table.from_batches(self._held, self._schema).combine_chunks()
            self._writer.write_table(_csv_table(table, as_text=self._as_text) if self._is_csv else table)
        self._held, self._rows, self._bytes = [], 0, 0


_TIMESTAMP_TYPES = {int(kind): kind.kafka_name for kind in TimestampType}


def _csv_table(rows: pa.Table, *, as_text: bool) -> pa.Table:
    """The columns of CSV: bytes in base64, headers as JSON. null becomes an empty cell, empty bytes two quotes."""
    kinds = [_TIMESTAMP_TYPES[kind] for kind in rows.column("timestampType").to_numpy().tolist()]
    columns: dict[str, object] = {
        **{name: rows.column(name) for name in ("topic", "partition", "offset")},
        "timestamp": rows.column("timestamp_ms"),
        "timestamp_type": pa.array(kinds, pa.string()),
    }
    for name in ("key", "value"):
        values = rows.column(name).to_pylist()
        texts = [utf8_text(value) if as_text else None for value in values]
        encoded = [base64_text(value) if text is None else None for value, text in zip(values, texts, strict=True)]
        if as_text:
            columns[name] = pa.array(texts, pa.string())
        columns[f"{name}_base64" if as_text else name] = pa.array(encoded, pa.string())
    columns["headers"] = pa.array([_headers(each) for each in rows.column("headers").to_pylist()], pa.string())
    columns["leader_epoch"] = rows.column("leader_epoch")
    if "committed" in rows.schema.names:
        columns["committed"] = rows.column("committed")
    return pa.table(columns)


def _headers(headers: Sequence[dict[str, Any]] | None) -> str:
    pairs = [[each["key"], base64_text(each["value"])] for each in headers or ()]
    return json_shown(json.dumps(pairs, ensure_ascii=False))
