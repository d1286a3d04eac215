"""Parquet files of a topic's table: written, synced, and described for the commit."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.lake.delta.files.parquet_files import ROW_GROUP_ROWS, TableFileWriter, layout, statistics
from spark_jobs.lake.delta.files.row_digest import of_bytes
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.written_file import WrittenFile, new_file_name
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.policies.compression import Compression

FILE_BYTES = 256 << 20
"""Bytes of rows in memory after which the next file begins."""
GROUP_BYTES = 32 << 20
"""Bytes of rows that wait to become a row group."""


@dataclass(slots=True)
class TypedFiles:
    """Writes rows of one log after the other. Each file has rows of one log in offset order."""

    root: str
    """Directory of the Delta table."""
    spec: TableSpec
    compression: Compression
    file_bytes: int = FILE_BYTES
    """Bytes of rows in memory after which the next file begins."""
    written: list[WrittenFile] = field(default_factory=list)
    rows: int = 0
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _waiting_rows: int = 0
    _waiting_bytes: int = 0
    _file: _OpenFile | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            OSError: A file can't be written.
        """
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= ROW_GROUP_ROWS or self._waiting_bytes >= GROUP_BYTES:
            self._flush()

    def end_log(self) -> None:
        """Close the file of a log; the next rows are in another file."""
        self._flush()
        if self._file is not None:
            self.written.append(self._file.close())
            self._file = None

    def abandon(self) -> None:
        """Remove an unfinished file after an error."""
        if self._file is not None:
            self._file.remove()
            self._file = None

    def _flush(self) -> None:
        if not self._waiting:
            return
        group = pa.Table.from_batches(self._waiting, self.spec.schema.remove_metadata())
        self._waiting, self._waiting_rows, size = [], 0, self._waiting_bytes
        self._waiting_bytes = 0
        if self._file is None:
            self._file = _OpenFile(self.root, self.spec, self.compression)
        self._file.write(group, size)
        if self._file.size >= self.file_bytes:
            self.written.append(self._file.close())
            self._file = None


class _OpenFile:
    def __init__(self, root: str, spec: TableSpec, compression: Compression) -> None:
        self._root, self._spec, self._name = root, spec, new_file_name()
        self._stack = ExitStack()
        self._local = self._stack.enter_context(storage.writing(storage.join(root, self._name)))
        self._footers: list[pq.FileMetaData] = []
        self._writer = TableFileWriter(
            self._local,
            spec.schema.remove_metadata(),
            metadata_collector=self._footers,
            **layout(spec, compression),
        )
        self._stack.push(self._writer)
        self.size = 0

    def write(self, rows: pa.Table, size: int) -> None:
        self._writer.write_table(rows)
        self.size += size

    def close(self) -> WrittenFile:
        self._writer.close()
        status = os.stat(self._local)
        content = of_bytes(self._local)
        self._stack.close()
        footer = self._footers[0]
        return WrittenFile(
            path=self._name,
            size=status.st_size,
            partition_values={},
            statistics=statistics(footer, self._spec),
            modified_ms=status.st_mtime_ns // 1_000_000,
            rows=footer.num_rows,
            content=content,
        )

    def remove(self) -> None:
        error = OSError("abandoned")
        self._stack.__exit__(OSError, error, None)
