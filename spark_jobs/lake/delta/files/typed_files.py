"""Parquet files of a topic's table: written, synced, and described for the commit."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from spark_jobs.lake.delta.files.parquet_files import OpenFile
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.policies.compression import Compression

FILE_BYTES = 256 << 20
"""Bytes of rows in memory after which the next file begins."""


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
    _file: OpenFile | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            OSError: A file can't be written.
        """
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        if self._file is None:
            self._file = OpenFile(self.root, self.spec, batch, {}, self.compression)
        self._file.write(batch)
        if self._file.size >= self.file_bytes:
            self.end_log()

    def end_log(self) -> None:
        """Close the file of a log; the next rows are in another file."""
        if self._file is not None:
            self.written.append(self._file.finish())
            self._file = None

    def abandon(self) -> None:
        """Remove an unfinished file after an error."""
        if self._file is not None:
            self._file.__exit__(OSError, OSError("abandoned"), None)
            self._file = None
