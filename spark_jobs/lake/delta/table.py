"""The handle of one Delta table of a lake: open it, read it, commit to it.

Tables of state have the columns that ``TABLES`` declares. A table of a topic has columns of its own, so its commits
name them. Everything else is the same for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.files.live_files import BATCH_ROWS, LiveFile, files_of, read_batches
from spark_jobs.lake.delta.files.row_counts import has_rows_of_others, row_counts
from spark_jobs.lake.delta.tables.snapshots import (
    latest_snapshot,
    open_dataset,
    open_table,
    reading,
    scan,
    table_folder,
    table_uri,
)
from spark_jobs.lake.delta.tables.table_creation import schema_of_table
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_spec import TableSpec


@dataclass(frozen=True, slots=True)
class Table:
    """Where a table is. Each call looks at its latest version."""

    lake: str
    name: str
    """One of ``TABLES``, or kind and topic: ``decoded/orders``."""

    @property
    def kind(self) -> str:
        """``decoded``, ``undecoded`` or ``latest``; of a table of state its name."""
        return self.name.partition("/")[0]

    @property
    def topic(self) -> str:
        """Topic that the table is of; empty for a table of state."""
        return self.name.partition("/")[2]

    @property
    def folder(self) -> str:
        """Directory below that of all tables."""
        return table_folder(self.name)

    @property
    def uri(self) -> str:
        """Location of the table."""
        return table_uri(self.lake, self.name)

    def application_id(self, what: str) -> str:
        """Return the application id of a log, or of something else that the table records."""
        return f"{self.name}/{what}"

    def reading(self, path: str | None = None) -> AbstractContextManager[None]:
        """See :func:`~spark_jobs.lake.delta.tables.snapshots.reading`."""
        return reading(self.lake, self.name, path)

    def open(self) -> DeltaTable | None:
        """Return the table; None if it was never created.

        Raises:
            TableUnreadable: Its log is damaged. All methods here raise it.
        """
        return open_table(self.lake, self.name)

    def files(self) -> list[LiveFile]:
        """Return its live files, by path; none if it was never created."""
        table = self.open()
        return [] if table is None else files_of(self.lake, self.name, table)

    def batches(self, file: LiveFile, columns: Sequence[str], most_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """See :func:`~spark_jobs.lake.delta.files.live_files.read_batches`."""
        return read_batches(self.lake, self.name, file.path, columns, most_rows)

    def scan(self, columns: Sequence[str], condition: ds.Expression) -> Iterator[pa.RecordBatch]:
        """Yield chosen columns of the rows that match a condition; none if it was never created."""
        table = latest_snapshot(self.lake, self.name)
        if table is not None:
            with self.reading():
                yield from scan(open_dataset(self.lake, self.name, table), columns, condition)

    def columns(self) -> pa.Schema:
        """Return its columns, also those that its user added; none if it was never created."""
        table = self.open()
        with self.reading():
            return pa.schema([]) if table is None else schema_of_table(table)

    def versions(self, what: Sequence[str]) -> dict[str, int | None]:
        """Return the version that it records for each of :meth:`application_id`; None if there is none."""
        table = self.open()
        if table is None:
            return dict.fromkeys(what)
        with self.reading():
            ids = [self.application_id(each) for each in what]
            return dict(zip(what, commits.versions_of(self.lake, self.name, table, ids).values(), strict=True))

    def row_counts(self) -> tuple[int, int]:
        """See :func:`~spark_jobs.lake.delta.files.row_counts.row_counts`; 0 and 0 if it was never created."""
        table = self.open()
        with self.reading():
            return (0, 0) if table is None else row_counts(table, self.name)

    def has_rows_of_others(self) -> bool:
        """See :func:`~spark_jobs.lake.delta.files.row_counts.has_rows_of_others`; false if it was never created."""
        table = self.open()
        return table is not None and has_rows_of_others(self.lake, table, self.name)

    def commit(
        self,
        spec: TableSpec,
        files: Sequence[WrittenFile],
        run_id: str,
        guards: Sequence[Guard],
        *,
        whole: bool,
        removed: Sequence[LiveFile] = (),
    ) -> None:
        """Add files in one commit together with the guards' new versions; see
        :func:`~spark_jobs.lake.delta.commits.rewrite_files`.

        Args:
            spec: The columns. Fields that the table does not have yet are added before.
            removed: Files that are no longer part of the table.
            whole: The files are the whole table from now on, with the columns of ``spec``.
        """
        gone = [file.path for file in removed]
        commits.rewrite_files(
            self.lake, self.name, gone, files, run_id, guards, data_change=True, spec=spec, whole=whole
        )
