"""The tables of a lake as pages show them: where they are, and what their columns mean."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.lake.delta.delta_log import log_folder
from spark_jobs.lake.delta.tables import TABLES, table_uri
from spark_jobs.lake.store import storage


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


def columns_of(table: str) -> tuple[ShownColumn, ...]:
    """Return the columns of a table, in their order.

    Raises:
        KeyError: There is no such table.
    """
    spec = TABLES[table]
    return tuple(
        ShownColumn(
            field.name, str(field.type), spec.meaning(field.name).replace("`", ""), field.name in spec.partition_by
        )
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
    addresses = {spec.name: table_uri(lake, spec.name) for spec in TABLES.values() if spec.in_summary}
    return {name: uri for name, uri in addresses.items() if storage.has_files(log_folder(lake, name))}
