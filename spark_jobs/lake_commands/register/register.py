"""``loglake register LAKE --in ENGINE``: the tables of a lake by name, in another engine.

    loglake register LAKE --in duckdb -o lake.duckdb      a file of DuckDB, with a view of each table
    loglake register LAKE --in spark                      statements of Spark SQL, on standard output
    loglake register LAKE --in unity --url URL            external tables of Unity Catalog

Only reads the lake. Running the command again is always right. The names are those of `loglake query`.

Exit codes: 0 done; 3 a table cannot be read, the file cannot be written, or the catalog refuses; 64 wrong usage.

Statements of Spark SQL that make tables of a catalog where the tables of a lake lie.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from logcore.exit_codes import ExitCode
from spark_jobs.errors import UsageError
from spark_jobs.lake_commands.outcome import guarded, lake_at
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


DUCKDB, SPARK, UNITY = "duckdb", "spark", "unity"
_OF_ENGINE = {"output": DUCKDB, "url": UNITY, "catalog": UNITY}
"""Options that one engine alone has."""


class RegisterCommand:
    """``loglake register LAKE``."""

    def add_parser(self, subparsers: Any) -> None:
        """Declare the command and its options."""
        parser = subparsers.add_parser(
            "register",
            help="the tables of a lake by name, in DuckDB, Spark or Unity Catalog",
            description="Give another engine the tables of a lake by name. For DuckDB it writes a file with a view of "
            "each table, which needs no extension and shows the rows of this moment. For Spark it prints statements. "
            "In Unity Catalog it makes external tables; a token is read from UNITY_CATALOG_TOKEN.",
        )
        parser.add_argument("lake", metavar="LAKE", help="a lake: a directory, or s3://bucket/prefix")
        parser.add_argument("--in", dest="engine", choices=(DUCKDB, SPARK, UNITY), required=True, help="where")
        parser.add_argument("-o", "--output", metavar="FILE", help="duckdb: the file; it is replaced in one step")
        parser.add_argument("--schema", metavar="NAME", help="spark, unity: the schema (database) of the tables")
        parser.add_argument("--url", metavar="URL", help="unity: the server, such as http://localhost:8080")
        parser.add_argument("--catalog", metavar="NAME", help="unity: the catalog (default: unity)")
        parser.set_defaults(func=lambda options: guarded(lambda: _register(options)))


register_command = RegisterCommand()


def _register(options: argparse.Namespace) -> int:
    _refuse_contradiction(options)
    lake = lake_at(options.lake)
    if options.engine == DUCKDB:
        return _in_duckdb(lake, options.output)
    from spark_jobs.lake_commands.register.registered_tables import registered_tables

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
    from spark_jobs.lake_commands.register import duckdb_file
    from spark_jobs.lake_commands.register.file_views import file_views

    _refuse_place(lake, output)
    views = duckdb_file.write(os.path.abspath(output), file_views(list(lake_views(lake))))
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
    from logcore.cli.reading.arguments import source_around
    from logcore.storage.discovery import shown
    from spark_jobs.lake.store import storage
    from spark_jobs.lake.view.registered_lakes import lake_around, named_sources

    if storage.is_remote(lake):
        raise UsageError(
            f"{lake} is on an object store, where DuckDB needs an extension to read. Use `loglake query`, or "
            f"delta_scan('{storage.join(lake, 'tables/records')}') of DuckDB's extension delta."
        )
    if storage.is_remote(target):
        raise UsageError("FILE must be on a local disk.")
    around = lake_around(target) or source_around(target, [lake, *named_sources(lake)])
    if around is not None:
        raise UsageError(f"{shown(target)} is inside {shown(around)}. Name a file outside of lakes and sources.")
