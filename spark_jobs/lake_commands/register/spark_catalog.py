"""Statements of Spark SQL that make tables of a catalog where the tables of a lake lie."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from spark_jobs.lake_commands.register.registered_tables import RegisteredTable


def statements(tables: Sequence[RegisteredTable], schema: str | None) -> Iterator[str]:
    """Yield one statement after the other. A table that the catalog has already stays as it is.

    Args:
        schema: Where the tables go; None: the session's current one.
    """
    if schema is not None:
        yield f"CREATE SCHEMA IF NOT EXISTS {_quoted(schema)}"
    for table in tables:
        name = _quoted(table.name) if schema is None else f"{_quoted(schema)}.{_quoted(table.name)}"
        place = re.sub("^s3://", "s3a://", table.uri)
        yield f"CREATE TABLE IF NOT EXISTS {name} USING delta LOCATION {_text(place)}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
