"""``loglake views LAKE``: views over the Parquet files of a lake's tables, for programs that read no Delta.

    loglake views LAKE -o lake.duckdb       a file of DuckDB
    loglake views LAKE --spark-sql          statements of Spark SQL, on standard output

A view shows the version that its table has now; `loglake_views` lists them. Running the command again renews the views.
Only reads the lake. A table that cannot be a view leaves the others as they are: a warning has the reason, and so has
the error of a query that reads the view.

Exit codes: 0 done; 3 a table cannot be read, or the file cannot be written; 64 wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from logcore.exit_codes import ExitCode
from spark_jobs.lake_commands.outcome import guarded, lake_at

if TYPE_CHECKING:
    from spark_jobs.lake_commands.views.file_views import FileView


class ViewsCommand:
    """``loglake views LAKE``."""

    def add_parser(self, subparsers: Any) -> None:
        """Declare the command and its options."""
        parser = subparsers.add_parser(
            "views",
            help="views over the files of a lake's tables, for DuckDB or Spark SQL",
            description="Make views over the Parquet files of the latest version of each table. No Delta extension is "
            "needed to read them. Fields of decoded keys and values are columns such as value_id. Run it again to "
            "renew the views.",
        )
        parser.add_argument("lake", metavar="LAKE", help="a lake: a directory, or s3://bucket/prefix")
        wanted = parser.add_mutually_exclusive_group(required=True)
        wanted.add_argument("-o", "--output", metavar="FILE", help="a file of DuckDB; it is replaced in one step")
        wanted.add_argument("--spark-sql", action="store_true", help="print statements of Spark SQL")
        parser.set_defaults(func=lambda options: guarded(lambda: _views(options)))


views_command = ViewsCommand()


def _views(options: argparse.Namespace) -> int:
    from spark_jobs.lake_commands.query.lake_views import lake_views
    from spark_jobs.lake_commands.views.file_views import file_views

    lake = lake_at(options.lake)
    if options.spark_sql:
        from spark_jobs.lake_commands.views.spark_sql import statements, with_names

        views = [with_names(view) for view in file_views(list(lake_views(lake)))]
        for statement in statements(views):
            sys.stdout.write(f"{statement};\n")
        return _warned(views)
    _refuse_place(lake, options.output)
    from spark_jobs.lake_commands.views import duckdb_file

    views = duckdb_file.write(os.path.abspath(options.output), file_views(list(lake_views(lake))))
    sys.stdout.write(f"{options.output}: {sum(view.problem is None for view in views)} views\n")
    return _warned(views)


def _warned(views: Sequence[FileView]) -> int:
    """Warn of views without rows; return the exit code."""
    without = [view for view in views if view.problem is not None]
    for view in without:
        sys.stderr.write(f"warning: The view {view.name} has no rows. {view.problem}\n")
    return ExitCode.NOT_CHECKED if without else ExitCode.CLEAN


def _refuse_place(lake: str, target: str) -> None:
    """Refuse a lake or a file that this way cannot have.

    Raises:
        UsageError: The lake is on an object store, or the file would be there or in a lake or source.
    """
    from logcore.cli.reading.arguments import source_around
    from logcore.storage.discovery import shown
    from spark_jobs.errors import UsageError
    from spark_jobs.lake.store import storage
    from spark_jobs.lake.view.registered_lakes import lake_around, named_sources

    if storage.is_remote(lake):
        raise UsageError(
            f"{lake} is on an object store, where DuckDB needs an extension to read. Use `loglake query`, or "
            "--spark-sql."
        )
    if storage.is_remote(target):
        raise UsageError("FILE must be on a local disk.")
    around = lake_around(target) or source_around(target, [lake, *named_sources(lake)])
    if around is not None:
        raise UsageError(f"{shown(target)} is inside {shown(around)}. Name a file outside of lakes and sources.")
