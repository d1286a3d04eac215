"""The number of rows that our commits left in a table, which each of them records, and the number that is there now.

The number of a commit is that of the one before, with the rows that it adds and without those that it removes. So rows
that another program removed are missing until the table is written again, whatever we add meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from spark_jobs.errors import TableRefused
from spark_jobs.lake.delta.files.live_files import LiveFile, live_files
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot, reading
from spark_jobs.lake.delta.tables.table_features import features_beyond_files
from spark_jobs.lake.repair_commands import rebuild_command
from spark_jobs.lake.store.written_file import WrittenFile

WITHOUT_PROOF = ("segments", "logs")
"""Tables that say what the lake has: their rows are compared with nothing else."""


def recorded_as(name: str) -> str:
    """Return the application id under which the commits of a table record the number."""
    return f"{name}/rows-written"


def _others_as(name: str) -> str:
    """The application id under which the commits of a table of a topic record that it has rows of other programs."""
    return f"{name}/rows-of-others"


def row_counts(table: DeltaTable, name: str) -> tuple[int, int]:
    """Return how many rows our commits left in a table, and how many Delta's reader sees now.

    The second number is lower if another program removed rows, with a deletion vector too. Where the log of the table
    has lost the first number, all rows of its files count.
    """
    rows = [file.rows for file in live_files(table)]
    written, there = table.transaction_version(recorded_as(name)), sum(rows)
    if -1 in rows or features_beyond_files(table):
        query = QueryBuilder().register("t", table).execute("SELECT count(*) AS n FROM t")
        there = pa.RecordBatchReader.from_stream(query).read_all()["n"][0].as_py()
    return max(sum(rows), 0) if written is None else written, there


def has_rows_of_others(lake: str, table: DeltaTable, name: str) -> bool:
    """Return whether another program wrote rows into a table of a topic since it was last written as a whole.

    A commit that only rewrites files with the same rows, such as an OPTIMIZE of another engine, does not count.

    Raises:
        TableUnreadable: A commit is damaged.
        StorageError: The object store failed.
    """
    return bool(table.transaction_version(_others_as(name))) or version_before_others(lake, name) is not None


def version_before_others(lake: str, name: str) -> int | None:
    """Return our newest version of a table, if another program wrote rows into the table after it; else None.

    Raises:
        TableUnreadable: A commit is damaged.
        StorageError: The object store failed.
    """
    wrote = False
    newest = delta_log.newest_version(lake, name)
    for version in range(-1 if newest is None else newest, -1, -1):
        commit = delta_log.read_commit(lake, name, version)
        if commit is None or commit.is_ours:
            return version if commit is not None and wrote else None
        wrote |= bool(commit.data_change and commit.added)
    return None


def refuse_foreign_rows(lake: str) -> None:
    """Check the tables that say what the lake has: a run with wrong rows of them would make it worse.

    Raises:
        TableRefused: Another program removed or wrote rows; the text says what to do.
        TableUnreadable: A table is damaged.
    """
    for name in WITHOUT_PROOF:
        table = latest_snapshot(lake, name)
        if table is None:
            continue
        with reading(lake, name):
            written, there = row_counts(table, name)
        if there < written:
            raise TableRefused(
                f"Table {name} has {there:,} rows, and {written:,} were written: another program removed some. "
                f"Put them back: `{rebuild_command(lake, name)}`. Nothing was written."
            )
        before = version_before_others(lake, name)
        if before is not None:
            raise TableRefused(
                f"Table {name}: another program wrote rows after version {before}, and nothing proves them. Put that "
                f"version back: `{rebuild_command(lake, name)}`. Nothing was written."
            )


def new_count(
    lake: str,
    table: DeltaTable,
    name: str,
    removed: Iterable[LiveFile],
    written: Iterable[WrittenFile],
    *,
    whole: bool = False,
) -> dict[str, int]:
    """Return the number that a commit records, by its application id; nothing if the number stays as it is recorded.

    Commits of tables of topics also record whether rows of other programs are among the rows.

    Args:
        lake: Path or URI of the lake.
        table: The table before the commit.
        name: Its name.
        removed: Files that the commit removes.
        written: Files that it adds.
        whole: Whether these are the whole table from now on.
    """
    before = 0 if whole else row_counts(table, name)[0]
    rows = max(before + sum(file.rows for file in written) - sum(file.rows for file in removed), 0)
    recorded = {} if rows == (table.transaction_version(recorded_as(name)) or 0) else {recorded_as(name): rows}
    if "/" in name:  # the files of the other tables have digests of their rows
        had = table.transaction_version(_others_as(name)) or 0
        has = 0 if whole else int(has_rows_of_others(lake, table, name))
        recorded |= {} if has == had else {_others_as(name): has}
    return recorded
