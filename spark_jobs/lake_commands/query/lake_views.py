"""The tables of a lake as views for SQL: their names, and their rows as Arrow datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

import pyarrow.dataset as ds
from deltalake import DeltaTable, QueryBuilder

from logcore.storage.objects.answers import said
from spark_jobs.errors import JobError, StorageError, TableUnreadable, UsageError
from spark_jobs.lake.decoded.topic_tables import (
    DECODED,
    LATEST,
    UNDECODED,
    remembered_tables,
    topic_table,
    topics_with_tables,
)
from spark_jobs.lake.delta.state.tables_file import read_state, refuse_gone
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.delta.tables.snapshots import checked_dataset
from spark_jobs.lake.delta.tables.table_features import features_beyond_files
from spark_jobs.lake.segments import archive
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.lake.view.decoded.topic_asset import view_name

READER_FEATURES = frozenset({"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of Delta's readers that `loglake query` reads. Source: tests/spark/test_foreign_tables.py."""


@dataclass(frozen=True, slots=True)
class DeltaRows:
    """Rows of a table whose files alone do not say them, such as one with deletion vectors. Each scan reads them."""

    table: DeltaTable

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as Arrow's stream, by delta-rs's own engine."""
        rows = QueryBuilder().register("rows", self.table).execute("select * from rows")
        return rows.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True)
class LakeView:
    """A table that exists, and its name in SQL."""

    name: str
    table: str
    """Name of the table for people, such as `decoded/orders`."""
    one_row: str
    """What one row is."""
    uri: str
    open: Callable[[], DeltaTable | None]
    reading: Callable[[str | None], AbstractContextManager[None]]
    """Turns errors of Arrow and Delta into ours; takes the file that is read, relative to the table, if it is known."""

    def table_now(self) -> DeltaTable | None:
        """Return the latest version; None if the table does not exist.

        Raises:
            TableUnreadable: The table is damaged, or its files alone do not say which rows it has.
        """
        table = self.open()
        if table is not None:
            with self.reading(None):
                features = features_beyond_files(table)
                if features:
                    raise ValueError(
                        f"it uses {', '.join(features)}: its files may have other rows or columns than the table"
                    )
        return table

    def rows(self) -> tuple[ds.Dataset | DeltaRows, int] | None:
        """Return what DuckDB scans of the latest version, and the version; None if the table does not exist.

        Raises:
            TableUnreadable: The table is damaged, or has a feature that nobody here reads.
        """
        table = self.open()
        if table is None:
            return None
        with self.reading(None):
            features = {*(table.protocol().reader_features or ())}
            if features - READER_FEATURES:
                unread = ", ".join(sorted(features - READER_FEATURES))
                raise ValueError(f"it uses {unread}, which Loglake does not read")
            if features - {"timestampNtz"} or features_beyond_files(table) or _has_decimal_partitions(table):
                return DeltaRows(table), table.version()
            return checked_dataset(table, self.uri), table.version()

    def problem(self, error: Exception, path: str | None = None) -> str:
        """Return why the table cannot be a view, and what to do.

        Args:
            error: What was raised on the way to the view: ours, or one of a library.
            path: The file that was read, relative to the table, if it is known.

        Raises:
            StorageError, UsageError: This is the error. It is not about one table.
        """
        if isinstance(error, StorageError | UsageError):
            raise error
        try:
            with self.reading(path):
                raise error if isinstance(error, JobError) else ValueError(said(error).rstrip("."))
        except JobError as ours:
            return str(ours)


def _has_decimal_partitions(table: DeltaTable) -> bool:
    """Whether a column of partitions is a decimal: deltalake 1.6 makes `-12.-50` of -12.50 for Arrow's dataset."""
    kinds = {field.name: str(field.type.to_json()) for field in table.schema().fields}
    return any("decimal" in kinds[name] for name in table.metadata().partition_columns)


def lake_views(lake: str) -> Iterator[LakeView]:
    """Yield a view for each table that a lake can have, tables of topics last; a table may not exist yet."""
    seen = read_state(lake).tables
    for name, spec in TABLES.items():
        yield _view(name, Table(lake, name), spec.one_row, was_there=name in seen)
    were_there = remembered_tables(lake)
    for topic in _topics(lake):
        kinds = (
            (DECODED, "whose key and value were decoded"),
            (UNDECODED, "that could not be decoded"),
            (LATEST, "that is the newest of its key in one log"),
        )
        for kind, what in kinds:
            table = topic_table(lake, kind, topic)
            one_row = f"A record of the topic {topic} {what}."
            yield _view(view_name(kind, topic), table, one_row, was_there=table.folder in were_there)


def _view(name: str, table: Table, one_row: str, *, was_there: bool) -> LakeView:
    return LakeView(name, table.name, one_row, table.uri, lambda: _opened(table, was_there), table.reading)


def _opened(place: Table, was_there: bool) -> DeltaTable | None:
    """Return the table; None if no run has seen it either.

    Raises:
        TableUnreadable: The table is damaged, or an earlier run saw it and it is gone.
    """
    table = place.open()
    if table is None and was_there:
        refuse_gone(place.lake, place.name)
    return table


def _topics(lake: str) -> list[str]:
    with suppress(TableUnreadable):  # the view `logs` says so
        topics = sorted({log.topic for log in archive.read_logs(lake).values()})
        if topics:
            return topics
    # without `logs`, tables of topics are still there
    return topics_with_tables(lake, (DECODED, UNDECODED, LATEST))
