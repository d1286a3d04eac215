"""``loglake register LAKE --in ENGINE``: the tables of a lake by name, in another engine.

    loglake register LAKE --in duckdb -o lake.duckdb      a file of DuckDB, with a view of each table
    loglake register LAKE --in spark                      statements of Spark SQL, on standard output
    loglake register LAKE --in unity --url URL            external tables of Unity Catalog

Only reads the lake. Running the command again is always right. The names are those of `loglake query`.

Exit codes: 0 done; 3 a table cannot be read, the file cannot be written, or the catalog refuses; 64 wrong usage.

Statements of Spark SQL that make tables of a catalog where the tables of a lake lie.

A file of DuckDB with views over Parquet files. It needs neither Loglake nor an extension.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import duckdb
import pyarrow as pa

from logcore.exit_codes import ExitCode
from spark_jobs.errors import JobError, UsageError, guarded
from spark_jobs.lake_commands.outcome import lake_at, refuse_inside
from spark_jobs.lake_commands.query.connection import HEADER, quoted
from spark_jobs.lake_commands.register.file_views import FileGroup, FileView, file_views
from spark_jobs.lake_commands.register.registered_tables import RegisteredTable, registered_tables

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
            connection.execute(f"ATTACH {_literal(aside)} AS written (STORAGE_VERSION '{_STORAGE_VERSION}')")
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
    failed = "" if view.problem is None else f"(SELECT error({_literal(view.problem)}) AS problem)"
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
    yield f"COMMENT ON VIEW {quoted(view.name)} IS {_literal(view.one_row)}"
    for each in view.schema:
        comment = " ".join((each.metadata or {}).get(b"comment", b"").decode().split())
        if comment:
            yield f"COMMENT ON COLUMN {quoted(view.name)}.{quoted(each.name)} IS {_literal(comment)}"


def _of_group(group: FileGroup) -> str:
    files = ", ".join(_literal(_GLOB.sub(r"[\g<0>]", file)) for file in group.files)
    values = "".join(
        f", {'NULL' if value is None else _literal(value)} AS {quoted(name)}" for name, value in group.values
    )
    return f"SELECT *{values} FROM read_parquet([{files}], union_by_name = true, hive_partitioning = false)"  # noqa: S608 - the same


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


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


DUCKDB, SPARK, UNITY = "duckdb", "spark", "unity"
_OF_ENGINE = {"output": DUCKDB, "url": UNITY, "catalog": UNITY}
"""Options that one engine alone has."""


def register_command(parser: argparse.ArgumentParser) -> None:
    """``loglake register LAKE``."""
    parser.description = (
        "Give another engine the tables of a lake by name. For DuckDB it writes a file with a view of "
        "each table, which needs no extension and shows the rows of this moment. For Spark it prints statements. "
        "In Unity Catalog it makes external tables; a token is read from UNITY_CATALOG_TOKEN."
    )
    parser.add_argument("lake", metavar="LAKE", help="a lake: a directory, or s3://bucket/prefix")
    parser.add_argument("--in", dest="engine", choices=(DUCKDB, SPARK, UNITY), required=True, help="where")
    parser.add_argument("-o", "--output", metavar="FILE", help="duckdb: the file; it is replaced in one step")
    parser.add_argument("--schema", metavar="NAME", help="spark, unity: the schema (database) of the tables")
    parser.add_argument("--url", metavar="URL", help="unity: the server, such as http://localhost:8080")
    parser.add_argument("--catalog", metavar="NAME", help="unity: the catalog (default: unity)")
    parser.set_defaults(func=guarded(_register))


def _register(options: argparse.Namespace) -> int:
    _refuse_contradiction(options)
    lake = lake_at(options.lake)
    if options.engine == DUCKDB:
        return _in_duckdb(lake, options.output)

    tables, problems = registered_tables(lake)
    if options.engine == SPARK:
        for statement in statements(tables, options.schema):
            sys.stdout.write(f"{statement};\n")
    else:
        from spark_jobs.lake_commands.register.unity_catalog import UnityCatalog

        token = os.environ.get("UNITY_CATALOG_TOKEN")
        catalog = UnityCatalog(options.url, options.catalog or "unity", options.schema or "default", token)
        for table in tables:
            sys.stdout.write(f"{table.name}: {catalog.register(table)}\n")
    return _warned(problems)


def _in_duckdb(lake: str, output: str) -> int:
    from spark_jobs.lake_commands.query.lake_views import lake_views

    _refuse_place(lake, output)
    views = write(os.path.abspath(output), file_views(list(lake_views(lake))))
    sys.stdout.write(f"{output}: {sum(view.problem is None for view in views)} views\n")
    return _warned([f"The view {view.name} has no rows. {view.problem}" for view in views if view.problem is not None])


def _warned(problems: list[str]) -> int:
    for problem in problems:
        sys.stderr.write(f"warning: {problem}\n")
    return ExitCode.NOT_CHECKED if problems else ExitCode.CLEAN


def _refuse_contradiction(options: argparse.Namespace) -> None:
    """Refuse options of another engine, and an engine without its option.

    Raises:
        UsageError: The options contradict.
    """
    for name, engine in _OF_ENGINE.items():
        if getattr(options, name) is not None and options.engine != engine:
            raise UsageError(f"--{name} goes with --in {engine}.")
    if options.engine == DUCKDB and options.output is None:
        raise UsageError("--in duckdb needs -o FILE, the file to write.")
    if options.engine == DUCKDB and options.schema is not None:
        raise UsageError("--schema goes with --in spark and --in unity.")
    if options.engine == UNITY and options.url is None:
        raise UsageError("--in unity needs --url URL, the address of the server.")


def _refuse_place(lake: str, target: str) -> None:
    """Refuse a lake or a file that this way cannot have.

    Raises:
        UsageError: The lake is on an object store, or the file would be there or in a lake or source.
    """
    from spark_jobs.lake.store import storage

    if storage.is_remote(lake):
        raise UsageError(
            f"{lake} is on an object store, where DuckDB needs an extension to read. Use `loglake query`, or "
            f"delta_scan('{storage.join(lake, 'tables/records')}') of DuckDB's extension delta."
        )
    if storage.is_remote(target):
        raise UsageError("FILE must be on a local disk.")
    refuse_inside(target, [lake])
