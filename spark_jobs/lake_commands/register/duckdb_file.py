"""A file of DuckDB with views over Parquet files. It needs neither Loglake nor an extension."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import duckdb
import pyarrow as pa

from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake_commands.query.connection import HEADER, quoted
from spark_jobs.lake_commands.register.file_views import FileGroup, FileView

_NOT_WRITTEN_HERE = """
    SELECT DISTINCT name FROM (
        SELECT schema_name, table_name AS name FROM duckdb_tables()
        WHERE NOT internal AND (schema_name, table_name) <> ('main', 'loglake_views')
        UNION ALL SELECT schema_name, view_name FROM duckdb_views() AS found
        WHERE NOT internal AND NOT EXISTS (FROM main.loglake_views AS ours
            WHERE schema_name = 'main' AND ours.view_name = found.view_name AND found.comment = ours.one_row)
        UNION ALL SELECT schema_name, function_name FROM duckdb_functions()
        WHERE NOT internal AND (schema_name, function_name) <> ('main', 'header')
        UNION ALL SELECT schema_name, type_name FROM duckdb_types() WHERE NOT internal
        UNION ALL SELECT schema_name, sequence_name FROM duckdb_sequences()
        UNION ALL SELECT schema_name, schema_name FROM duckdb_schemas() WHERE NOT internal)
    ORDER BY ALL
"""
"""A view that a user made in place of ours has not its comment."""
_STORAGE_VERSION = "v1.2.0"
"""The format of the file: what reads it is DuckDB 1.2 or newer."""
_GLOB = re.compile(r"[*?\[]")


def write(path: str, views: Sequence[FileView]) -> list[FileView]:
    """Write the file complete under another name, then give it its name; an older one is replaced in one step.

    Returns:
        The views as they are in the file: some may have an error in place of their rows.

    Raises:
        UsageError: There is no such folder, or what this command did not write would be lost.
        JobError: The file can't be written.
    """
    _refuse_others(path)
    aside = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{uuid.uuid4().hex}")
    try:
        with duckdb.connect(":memory:") as connection:
            connection.execute(f"ATTACH {_text(aside)} AS written (STORAGE_VERSION '{_STORAGE_VERSION}')")
            connection.execute("USE written")
            made = [_made(connection, view) for view in views]
            connection.execute(HEADER)
            connection.execute(
                "CREATE TABLE loglake_views (view_name VARCHAR, table_name VARCHAR, version BIGINT, one_row VARCHAR, "
                "problem VARCHAR)"
            )
            for view in made:
                row = [view.name, view.of.table, view.version, view.one_row, view.problem]
                connection.execute("INSERT INTO loglake_views VALUES (?, ?, ?, ?, ?)", row)
        os.replace(aside, path)
        return made
    except duckdb.Error as error:
        raise JobError(f"{path} can't be written: {_line(error)}") from None
    finally:
        for name in (aside, f"{aside}.wal"):
            with suppress(FileNotFoundError):
                os.unlink(name)


def _refuse_others(path: str) -> None:
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise UsageError(f"{folder} is no folder: the views can't be written there.")
    if not os.path.lexists(path):
        return
    try:
        with duckdb.connect(path, read_only=True) as connection:
            added = [name for (name,) in connection.execute(_NOT_WRITTEN_HERE).fetchall()]
    except duckdb.Error:
        raise UsageError(
            f"{path} exists, and `loglake register` did not write it, or it is in use. Name another."
        ) from None
    if added:
        names = ", ".join(map(quoted, added[:5])) + (f" and {len(added) - 5} more" if len(added) > 5 else "")
        raise UsageError(
            f"{path} has what `loglake register` did not write, and it would be lost: {names}. Name another file. "
            "DuckDB reads both with ATTACH."
        )


def _made(connection: duckdb.DuckDBPyConnection, view: FileView) -> FileView:
    """Make the view. If DuckDB refuses it, make one whose error is the reason, and return that."""
    if view.problem is None:
        try:
            _execute(connection, view)
            return view
        except duckdb.Error as error:
            view = view.without_rows(ValueError(_line(error)))
    try:
        _execute(connection, view)
        return view
    except duckdb.Error:  # names or types of its columns are the reason
        unknown = replace(view, schema=pa.schema([]))
        _execute(connection, unknown)
        return unknown


def _execute(connection: duckdb.DuckDBPyConnection, view: FileView) -> None:
    connection.execute(_create(connection, view))
    for comment in _comments(view):
        connection.execute(comment)


def _line(error: duckdb.Error) -> str:
    return " ".join(str(error).split("\n\nLINE ", 1)[0].split())


def _create(connection: duckdb.DuckDBPyConnection, view: FileView) -> str:
    begin = f"CREATE OR REPLACE VIEW {quoted(view.name)} AS SELECT"
    # No column is constant, and there is a filter: so DuckDB evaluates the error, whatever a query selects or counts.
    failed = "" if view.problem is None else f"(SELECT error({_text(view.problem)}) AS problem)"
    if not len(view.schema):
        return f"{begin} problem::VARCHAR AS problem FROM {failed} WHERE problem IS NULL"
    # DuckDB itself says its types of the columns. A file may lack columns that the table has gained: they are null.
    described = connection.from_arrow(view.schema.empty_table()).types
    typed = ", ".join(
        f"{'problem' if failed else 'NULL'}::{kind} AS {quoted(name)}"
        for name, kind in zip(view.schema.names, described, strict=True)
    )
    none = f"FROM {failed} WHERE problem IS NULL" if failed else "WHERE false"
    rows = "".join(f" UNION ALL BY NAME {_of_group(group)}" for group in view.groups)
    return f"{begin} * FROM (SELECT {typed} {none}{rows})"


def _comments(view: FileView) -> Iterator[str]:
    """Statements that describe the view and its columns."""
    yield f"COMMENT ON VIEW {quoted(view.name)} IS {_text(view.one_row)}"
    for each in view.schema:
        comment = " ".join((each.metadata or {}).get(b"comment", b"").decode().split())
        if comment:
            yield f"COMMENT ON COLUMN {quoted(view.name)}.{quoted(each.name)} IS {_text(comment)}"


def _of_group(group: FileGroup) -> str:
    files = ", ".join(_text(_GLOB.sub(r"[\g<0>]", file)) for file in group.files)
    values = "".join(f", {'NULL' if value is None else _text(value)} AS {quoted(name)}" for name, value in group.values)
    return f"SELECT *{values} FROM read_parquet([{files}], union_by_name = true, hive_partitioning = false)"  # noqa: S608 - the same


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
