"""Commits of files that workers wrote: :func:`add_files`, and :func:`rewrite_files` as a replacement of others.

Delta checks nothing about such files. So everything is checked here, and before that in the worker
(``parquet_files``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from deltalake import DeltaTable

from spark_jobs.errors import ConcurrentChange, OutputMismatch
from spark_jobs.lake.delta.commits.commit_guards import Guard, TableVersions
from spark_jobs.lake.delta.commits.table_commit import TableCommit
from spark_jobs.lake.delta.files.live_files import LiveFile, live_files
from spark_jobs.lake.delta.tables.table_location import table_uri
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import TABLES


def add_files(
    lake: str,
    name: str,
    files: Sequence[WrittenFile],
    run_id: str,
    guards: Sequence[Guard] = (),
    check: Callable[[DeltaTable], None] | None = None,
    expected: TableVersions | None = None,
) -> None:
    """Add worker-written files to table ``name`` in one commit together with the guards' new versions.

    Args:
        check: Called with the version of the table that the commit is based on, after its guards were compared. If it
            raises, the table stays unchanged. Only for guarded commits: others may be rebased onto later versions.

    Raises:
        OutputMismatch: A file has another table partition than reported; on a disk also: it is missing, or has another
            size.
        ConcurrentChange: A guarded version has changed since the plan.
        CommitUnanswered: It is not known whether the commit succeeded.
    """
    if not files and not guards:
        return
    for written in files:
        _check_file(lake, name, written, TABLES[name])
    commit = TableCommit(lake, name, run_id, guards, expected)
    if check is not None:
        check(commit.table)
    commit.add(files)


def rewrite_files(
    lake: str,
    name: str,
    removed: Sequence[str],
    written: Sequence[WrittenFile],
    run_id: str,
    guards: Sequence[Guard] = (),
    *,
    data_change: bool,
    check: Callable[[DeltaTable], None] | None = None,
    spec: TableSpec | None = None,
    whole: bool = False,
) -> None:
    """Replace live files by worker-written ones in one commit; if nothing is removed or added, nothing is written.

    Args:
        removed: Paths relative to the table, as files are named on disk.
        spec: Columns of a table of a topic; None: the table is one of ``TABLES``.
        whole: The written files are the whole table from now on, with the columns of ``spec``.
        data_change: False if the rows stay the same, so that streaming readers do not read them again.
        check: Called with the table that the commit is based on; raises :class:`ConcurrentChange` if the plan does not
            fit it.

    Raises:
        OutputMismatch: A written file is not as reported, or the number of rows changed although rows must stay.
        ConcurrentChange: A file to remove is no longer live, or the table or a guarded version has changed since the
            plan.
        CommitUnanswered: It is not known whether the commit succeeded.
    """
    if not removed and not written and not guards:
        return
    for file in written:
        _check_file(lake, name, file, TABLES[name] if spec is None else spec)
    commit = TableCommit(lake, name, run_id, guards, None, rewrites=True, spec=spec, whole=whole)
    if check is not None:
        check(commit.table)
    live: dict[str, LiveFile] = {file.path: file for file in live_files(commit.table)}
    gone = [path for path in removed if path not in live]
    if gone:
        raise ConcurrentChange(
            f"Table {name}: {len(gone)} of {len(removed)} files to be replaced are no longer live; {gone[0]} is one."
        )
    rows_before = sum(live[path].rows for path in removed)
    # A writer may leave statistics out; the job that rewrites such files has counted their rows.
    is_counted = all(live[path].rows >= 0 for path in removed)
    if not data_change and is_counted and rows_before != sum(file.rows for file in written):
        raise OutputMismatch(
            f"Table {name}: {sum(file.rows for file in written)} rows were written instead of {rows_before}; "
            "nothing was replaced."
        )
    commit.swap([live[path] for path in removed], written, data_change=data_change)


def _check_file(lake: str, name: str, written: WrittenFile, spec: TableSpec) -> None:
    full = storage.join(table_uri(lake, name), written.path)
    # An object store confirmed the whole upload to the worker. A request for each file would take minutes.
    if not storage.is_remote(lake):
        try:
            size = storage.stat(full).size
        except OSError as error:
            raise OutputMismatch(
                f"Table {name}: the file {full} that a worker reported can't be read: {error}."
            ) from error
        if size != written.size:
            raise OutputMismatch(f"Table {name}: {full} has {size} bytes, its writer reported {written.size}.")
    if set(written.partition_values) != set(spec.partition_by):
        raise OutputMismatch(f"Table {name}: {full} names table partitions {sorted(written.partition_values)}.")
    if json.loads(written.statistics)["numRecords"] != written.rows:
        raise OutputMismatch(f"Table {name}: statistics of {full} do not count its {written.rows} rows.")
