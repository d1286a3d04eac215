"""Commits of rows to state tables: :func:`append`, :func:`replace` and :func:`delete`.

They write their rows as one file of our own kind (``parquet_files``: digest, page checksums, on disk before the
commit).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import pyarrow as pa

from spark_jobs.errors import OutputMismatch
from spark_jobs.lake.delta.commits.commit_guards import Guard, TableVersions
from spark_jobs.lake.delta.commits.table_commit import TableCommit
from spark_jobs.lake.delta.files import row_digest
from spark_jobs.lake.delta.files.carried_rows import Matching, Shrunk, as_declared, by_file, key_of
from spark_jobs.lake.delta.files.live_files import live_files
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.table_location import reading, table_uri
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import TABLES

Where = tuple[str, Sequence[str]]
"""A text column and values of it: selects the rows that have one of these values."""


def append(
    lake: str,
    name: str,
    rows: pa.Table,
    run_id: str,
    guards: Sequence[Guard] = (),
    expected: TableVersions | None = None,
) -> None:
    """Append rows in one commit; without rows and guards nothing is written.

    Raises:
        ConcurrentChange: A guarded version has changed since the plan.
        CommitUnanswered: It is not known whether the commit succeeded.
        TableRefused: Another program changed the table in a way that our commits would damage. All commits here raise
            it.
    """
    if rows.num_rows == 0 and not guards:
        return
    commit = TableCommit(lake, name, run_id, guards, expected)
    commit.add(_write(lake, commit.spec, rows, {}, {}))


def replace(
    lake: str,
    name: str,
    where: Where,
    rows: pa.Table,
    run_id: str,
    guards: Sequence[Guard] = (),
    expected: TableVersions | None = None,
) -> None:
    """Replace rows by others in one commit; without rows to remove, new rows and guards nothing is written.

    If a file loses some rows, its other rows are rewritten together with ``rows``, with all their columns.

    Args:
        where: A text column and its values: rows that have one of them are removed.

    Raises:
        ConcurrentChange: The table, or a guarded version, has changed since the plan.
        CommitUnanswered: It is not known whether the commit succeeded.
        TableUnreadable: A file that may have such rows is missing or damaged.
    """
    commit = TableCommit(lake, name, run_id, guards, expected)
    column, values = where
    matching = Matching(lake, commit.spec, column, values)
    with reading(lake, name):
        live = live_files(commit.table)
    shrunk = matching.shrunk(live)
    if not shrunk and not rows.num_rows and not guards:
        return
    sources: dict[str, tuple[str | None, list[Shrunk]]] = {}
    for each in shrunk:
        for separated, count in each.left.items():
            if count:
                key = key_of(each.file.partition_values, separated)
                sources.setdefault(key, (separated, []))[1].append(each)
    kept: dict[str, tuple[Mapping[str, str], Iterable[pa.RecordBatch]]] = {
        key: (files[0].file.partition_values, matching.left(files, separated))
        for key, (separated, files) in sources.items()
    }
    origins = {key: [each.file.path for each in files] for key, (_, files) in sources.items()}
    written = _write(lake, commit.spec, rows, kept, origins)
    belonging = rows.num_rows + sum(each.rows_left for each in shrunk)
    if belonging != sum(file.rows for file in written):
        raise OutputMismatch(
            f"Table {name}: {sum(file.rows for file in written)} rows were written instead of {belonging}; "
            "nothing was replaced."
        )
    commit.swap([each.file for each in shrunk], written, data_change=True)


def delete(lake: str, name: str, where: Where, run_id: str, expected: TableVersions | None = None) -> None:
    """Delete rows, selected as in :func:`replace`, in one commit; if there are none, nothing is written.

    Raises:
        ConcurrentChange: The table has changed meanwhile.
        CommitUnanswered: It is not known whether the commit succeeded.
        TableUnreadable: A file that may have such rows is missing or damaged.
    """
    replace(lake, name, where, TABLES[name].schema.empty_table(), run_id, expected=expected)


def _write(
    lake: str,
    spec: TableSpec,
    rows: pa.Table,
    kept: Mapping[str, tuple[Mapping[str, str], Iterable[pa.RecordBatch]]],
    origins: Mapping[str, Sequence[str]],
) -> list[WrittenFile]:
    """Write the files that :func:`~spark_jobs.lake.delta.files.carried_rows.by_file` names: first kept rows, then new.

    Args:
        origins: Files that the kept rows come from.
    """
    schema = pa.schema([spec.schema.field(column) for column in spec.schema.names if column in rows.schema.names])
    added = by_file(rows.select(schema.names).cast(schema), spec)
    written = []
    for key in dict.fromkeys((*kept, *added)):
        partition_values = (kept.get(key) or added[key])[0]
        before: Iterable[pa.RecordBatch] = kept[key][1] if key in kept else ()
        after = added[key][1].to_batches() if key in added else ()
        chunks = itertools.chain(before, (as_declared(batch, spec.file_schema) for batch in after))
        sources = origins.get(key, ()) if key in kept else ()
        root = table_uri(lake, spec.name)
        file = write_file(root, spec, chunks, partition_values, partial(row_digest.are_recorded, root, sources))
        if file is not None:
            written.append(file)
    return written
