"""The tables of a lake as pages show them: where they are, and what their columns mean."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.lake.cluster import last_reading
from spark_jobs.lake.decoded.topic_tables import remembered_tables
from spark_jobs.lake.delta.tables.delta_log import log_folder, newest_version
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot, reading, table_uri
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.lake.view.cluster_tables import cluster_tables


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column of a table, for users."""

    name: str
    type: str
    """Arrow's name of the type."""
    meaning: str
    """Plain text, without Markdown."""
    is_partition: bool
    """Whether the table is partitioned by it."""


@dataclass(frozen=True, slots=True)
class TableFigures:
    """The latest version of a table in figures, from its log alone."""

    version: int
    rows: int | None
    """Number of rows; None if the log does not count those of every file."""
    size: int
    """Bytes of its data files."""
    files: int


def description_of(table: str) -> str:
    """Return what one row of a table is, as plain text.

    Raises:
        KeyError: There is no such table.
    """
    return _plain(TABLES[table].one_row)


def table_version(lake: str, table: str) -> int | None:
    """Return the latest version of a table; None if it was never created.

    Raises:
        TableUnreadable: The table is damaged.
    """
    return newest_version(lake, table)


def table_figures(lake: str, table: str) -> TableFigures | None:
    """Return the latest version of a table in figures; None if it was never created.

    Raises:
        TableUnreadable: The table is damaged.
    """
    opened = latest_snapshot(lake, table)
    if opened is None:
        return None
    with reading(lake, table):
        files = pa.table(opened.get_add_actions())
    rows = files["num_records"] if "num_records" in files.column_names else None
    is_counted = files.num_rows == 0 or (rows is not None and rows.null_count == 0)
    total = pc.sum(rows).as_py() if rows is not None else None
    return TableFigures(
        opened.version(),
        (total or 0) if is_counted else None,
        pc.sum(files["size_bytes"]).as_py() or 0,
        files.num_rows,
    )


def columns_of(table: str) -> tuple[ShownColumn, ...]:
    """Return the columns of a table, in their order.

    Raises:
        KeyError: There is no such table.
    """
    spec = TABLES[table]
    return tuple(
        ShownColumn(field.name, str(field.type), _plain(spec.meaning(field.name)), field.name in spec.partition_by)
        for field in spec.schema
    )


def table_address(lake: str, table: str) -> str:
    """Return the location of a table of a lake: a directory, or ``s3://bucket/prefix``."""
    return table_uri(lake, table)


def tables_to_query(lake: str) -> dict[str, str]:
    """Return addresses of the tables that users query and that the lake has, those that are queried most first.

    Raises:
        StorageError: The object store did not answer.
    """
    names = [spec.name for spec in TABLES.values() if spec.in_summary]
    names += cluster_tables(lake) if last_reading.recall(lake) is not None else ()
    there = {name: table_uri(lake, name) for name in names if storage.has_files(log_folder(lake, name))}
    return there | {folder: storage.join(lake, "tables", folder) for folder in sorted(remembered_tables(lake))}


def _plain(text: str) -> str:
    """A text without marks of Markdown. Pages take `<topic>` for HTML and do not show it, so it becomes TOPIC."""
    return re.sub(r"<(\w+)>", lambda name: name[1].upper(), text.replace("`", ""))
