"""``loglake query LAKE [SQL]``: SQL over the tables of a lake, by DuckDB in this process.

    loglake query LAKE                          the views and what their rows are
    loglake query LAKE "select count(*) from records"
    loglake query LAKE --format csv < report.sql > report.csv
    loglake query FOLDER "select * from sales"      a folder of any Delta tables

Each table is a view of its name; tables of topics are `decoded_orders` and `undecoded_orders`. Only reads. The SQL sees
the views and nothing else: no files, no network, no extensions. A table that cannot be a view leaves the others as they
are: a warning has the reason, or the error of a query that names it.

Exit codes: 0 done; 3 a table that the SQL names, or that the list should have, cannot be read; 64 wrong usage, also a
mistake in the SQL.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from logcore.cli.reading.arguments import natural
from logcore.exit_codes import ExitCode
from spark_jobs.errors import UsageError
from spark_jobs.lake_commands.outcome import guarded

if TYPE_CHECKING:
    from spark_jobs.lake_commands.query.connection import LakeConnection, OpenView
    from spark_jobs.lake_commands.query.lake_views import LakeView

MEMORY_MIB = 1024
LEAST_MEMORY_MIB = 16
"""With less DuckDB cannot sort or group a few thousand rows."""
MOST_MEMORY_MIB = 1 << 30
"""A pebibyte; DuckDB refuses numbers that are far larger."""


class QueryCommand:
    """``loglake query LAKE``."""

    def add_parser(self, subparsers: Any) -> None:
        """Declare the command and its options."""
        parser = subparsers.add_parser(
            "query",
            help="SQL over the tables of a lake",
            description="Run SQL over the tables of a lake, by DuckDB in this process. Each table is a view of its "
            "name; tables of topics are views such as decoded_orders. Without SQL it lists the views. Only reads; the "
            "SQL sees no files and no network.",
        )
        parser.add_argument(
            "lake", metavar="LAKE", help="a lake, or any folder of Delta tables: a directory, or s3://bucket/prefix"
        )
        parser.add_argument("sql", metavar="SQL", nargs="?", help="the query; - or a pipe: from standard input")
        parser.add_argument("--format", choices=("text", "csv", "jsonl"), default="text")
        parser.add_argument("--limit", type=natural, metavar="N", help="at most N rows; default: all, as text 100")
        parser.add_argument(
            "--memory",
            type=_memory_mib,
            default=MEMORY_MIB,
            metavar="MIB",
            help=f"memory of the query, at least {LEAST_MEMORY_MIB}; above that it uses temporary files (default: "
            f"{MEMORY_MIB})",
        )
        parser.set_defaults(func=lambda options: guarded(lambda: _query(options)))


query_command = QueryCommand()


def _memory_mib(text: str) -> int:
    given = natural(text)
    if given < LEAST_MEMORY_MIB:
        raise argparse.ArgumentTypeError(f"{text} is too little: a query needs at least {LEAST_MEMORY_MIB} MiB")
    if given > MOST_MEMORY_MIB:
        raise argparse.ArgumentTypeError(f"{text} is too much: at most {MOST_MEMORY_MIB} MiB")
    return given


def _query(options: argparse.Namespace) -> int:
    from spark_jobs.lake.setup.identity import read_identity
    from spark_jobs.lake.store import storage
    from spark_jobs.lake_commands.query.connection import connected
    from spark_jobs.lake_commands.query.delta_folders import delta_folders
    from spark_jobs.lake_commands.query.lake_views import lake_views
    from spark_jobs.lake_commands.query.printed_rows import printed

    path = storage.absolute(options.lake)
    views = delta_folders(path) if read_identity(path) is None else list(lake_views(path))
    sql = options.sql
    if sql == "-" or (sql is None and not sys.stdin.isatty()):
        sql = _text_of_pipe()
        if options.sql is None and not sql.strip():  # a service without a terminal gives an empty standard input
            sql = None
    if sql is None:
        with connected(path, views, options.memory << 20) as lake:
            sys.stdout.writelines(_listed(lake.views))
            _warn(lake)
            return ExitCode.NOT_CHECKED if lake.absent else ExitCode.CLEAN
    if any("\ud800" <= each <= "\udfff" for each in sql):
        raise UsageError("The SQL is not UTF-8 text.")
    with connected(path, _named(views, sql), options.memory << 20, views) as lake:
        sys.stdout.writelines(printed(lake.rows_of(sql), options.format, options.limit))
        _warn(lake)
    return ExitCode.CLEAN


def _text_of_pipe() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"The SQL is not UTF-8 text (byte {error.start}).") from error


def _warn(lake: LakeConnection) -> None:
    for view in lake.absent:
        sys.stderr.write(f"warning: There is no view {view.name}. {view.why}\n")


def _named(views: Sequence[LakeView], sql: str) -> Sequence[LakeView]:
    """The views that the SQL may name: opening a table takes time. All of them if it names none, as `show tables`."""
    words = set(re.findall(r"[a-z0-9_]+", sql.lower()))
    return [view for view in views if view.name in words] or views


def _listed(views: Sequence[OpenView]) -> list[str]:
    """A line for each table that exists."""
    there = [(view.name, f"version {view.version}", view.one_row.replace("`", "")) for view in views]
    if not there:
        return ["no table yet\n"]
    widths = [max(len(row[at]) for row in there) for at in range(2)]
    return [f"{name.ljust(widths[0])}  {version.ljust(widths[1])}  {one_row}\n" for name, version, one_row in there]
