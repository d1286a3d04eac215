"""The cheap checks: they compare tables and archive with what the last run saw, and with their own logs.

A check costs one listing of each table and one of the archive and opens no data file. So harm that leaves size and time
of a file unchanged is only found by ``loglake verify LAKE``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltalake import DeltaTable

from logcore.logs.model.findings import Finding, found
from spark_jobs.errors import TableUnreadable
from spark_jobs.lake.delta.files.live_files import LiveFile, files_of
from spark_jobs.lake.delta.files.row_counts import JUDGED_BY_LEDGER, row_counts
from spark_jobs.lake.delta.state.archive_check import FINDINGS_A_TABLE, look_at_files, present_files
from spark_jobs.lake.delta.state.foreign_commits import commits_since
from spark_jobs.lake.delta.state.tables_file import TablesFile, TableState, digest_of_commit, read_state, state_of
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot, reading, table_uri
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES


def cheap_check(lake: str) -> tuple[Finding, ...]:
    """Compare tables and archive with the records of the last run and with their own logs.

    Raises:
        StorageError: The object store failed.
    """
    state = read_state(lake)
    return *check_tables(lake, state), *look_at_files(lake, state).findings


def check_tables(lake: str, state: TablesFile) -> tuple[Finding, ...]:
    """The part of :func:`cheap_check` that is about tables."""
    findings: list[Finding] = []
    for name in TABLES:
        try:
            findings += _check_table(lake, name, state)
        except TableUnreadable as error:
            findings.append(found("table-went-back", str(error), file=table_uri(lake, name)))
    return tuple(findings)


def _check_table(lake: str, name: str, state: TablesFile) -> Iterator[Finding]:
    before = state.tables.get(name)
    uri = table_uri(lake, name)
    table = latest_snapshot(lake, name)
    if table is None:
        if before is not None:
            yield found(
                "table-missing",
                f"table {name}: it was at version {before.version} with {before.rows} rows after an earlier run, and "
                "is gone",
                file=uri,
            )
        return
    files = files_of(lake, name, table)
    if before is not None:
        yield from _compared(lake, name, before, state_of(lake, name, table, files))
    yield from _foreign(lake, name, state.since(name))
    yield from _files_on_disk(lake, name, files)
    yield from _removed_rows(lake, name, table)


def _removed_rows(lake: str, name: str, table: DeltaTable) -> Iterator[Finding]:
    with reading(lake, name):
        written, there = (0, 0) if name in JUDGED_BY_LEDGER else row_counts(table, name)
    if there < written:
        message = f"table {name}: it has {there:,} rows, and {written:,} were written: another program removed some"
        yield found("rows-removed", message, file=table_uri(lake, name))


def _compared(lake: str, name: str, before: TableState, now: TableState) -> Iterator[Finding]:
    uri = table_uri(lake, name)
    version = now.version
    if before.table_id is not None and before.table_id != now.table_id:
        message = (
            f"table {name}: the table of version {before.version} was lost, and another one was created in its place"
        )
        yield found("table-missing", message, file=uri)
        return
    if version < before.version:
        message = f"table {name}: it is at version {version} and was at {before.version}: commits were lost"
        yield found("table-went-back", message, file=uri)
        return
    digest, recorded = digest_of_commit(lake, name, before.version), before.commits.get(str(before.version))
    if digest is not None and recorded is not None and digest != recorded:
        message = f"table {name}: version {before.version} is another commit than it was: its history was replaced"
        yield found("table-went-back", message, file=uri)
    elif version == before.version and (now.rows, now.files, now.bytes) != (before.rows, before.files, before.bytes):
        yield found(
            "table-went-back",
            f"table {name}: version {version} has {now.rows} rows in {now.files} files ({now.bytes} bytes) and "
            f"had {before.rows} in {before.files} ({before.bytes} bytes)",
            file=uri,
        )


def _foreign(lake: str, name: str, since: int) -> Iterator[Finding]:
    since_then = commits_since(lake, name, since)
    commits = since_then.foreign
    if since >= 0 and since_then.missing_to is not None:
        yield found(
            "commits-not-kept",
            f"table {name}: the commits of versions {since + 1} to {since_then.missing_to} are gone from its log. "
            "No run has seen them, so another program may have changed rows.",
            file=table_uri(lake, name),
        )
    for commit in commits[:FINDINGS_A_TABLE]:
        what = "rows may have changed" if commit.data_change else "no rows changed"
        yield found(
            "foreign-commit",
            f"table {name}: version {commit.version} is a commit {commit.operation or 'without a name'} of "
            f"{commit.engine or 'an unknown program'}; {what}",
            file=table_uri(lake, name),
        )
    if len(commits) > FINDINGS_A_TABLE:
        more = len(commits) - FINDINGS_A_TABLE
        yield found(
            "foreign-commit", f"table {name}: {more} more commits of other programs", file=table_uri(lake, name)
        )


def _files_on_disk(lake: str, name: str, files: Sequence[LiveFile]) -> Iterator[Finding]:
    root = table_uri(lake, name)
    listed = {path: file.size for path, file in present_files(root, [file.path for file in files], root).items()}
    harmed: list[tuple[str, LiveFile, str]] = []
    for file in files:
        if file.path not in listed:
            harmed.append(("table-file-missing", file, "is not there"))
        elif listed[file.path] != file.size:
            harmed.append(("table-file-size", file, f"has {listed[file.path]} bytes and was written with {file.size}"))
    for rule, file, what in harmed[:FINDINGS_A_TABLE]:
        yield found(
            rule,
            f"table {name}: {file.path}, {max(file.rows, 0)} rows{_place(file)}, {what}",
            file=storage.join(root, file.path),
            start_offset=file.min_offset,
            end_offset=None if file.max_offset is None else file.max_offset + 1,
        )
    if len(harmed) > FINDINGS_A_TABLE:
        more = len(harmed) - FINDINGS_A_TABLE
        yield found(harmed[FINDINGS_A_TABLE][0], f"table {name}: {more} more files are missing or cut", file=root)


def _place(file: LiveFile) -> str:
    topic, partition = file.partition_values.get("topic"), file.partition
    if topic is None:
        return ""
    return f" of {topic}" if partition is None else f" of {topic}-{partition}"
