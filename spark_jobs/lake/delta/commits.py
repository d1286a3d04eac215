"""Commits to a table: the guards of each are checked, Delta writes it, and it is on disk when it ends.

A commit may carry *versions*: pairs of application id and number that Delta records in the same commit
(:class:`Guard`). A commit that was planned at version ``n`` of an application id is refused if that version has changed
(:class:`ConcurrentChange`), with or without a lease. A job that depends on the whole content of a table uses
:class:`TableVersions`.

    rows    :func:`append`, :func:`replace` and :func:`delete` write rows of state tables as one file of our own kind
            (``parquet_files``: digest, page checksums, on disk before the commit)
    files   :func:`add_files`, and :func:`rewrite_files` as a replacement of others, commit files that workers wrote;
            Delta checks nothing about such files, so everything is checked here, and before that in the worker
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from logcore.storage.objects.answers import said
from spark_jobs.errors import CommitUnanswered, ConcurrentChange, JobError, OutputMismatch, is_disk_full
from spark_jobs.lake.delta.files import row_digest
from spark_jobs.lake.delta.files.carried_rows import Matching, Shrunk, as_declared, by_file, key_of
from spark_jobs.lake.delta.files.live_files import LiveFile, live_files
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.files.row_counts import new_count
from spark_jobs.lake.delta.tables import delta_log, table_features
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot, reading, table_uri
from spark_jobs.lake.delta.tables.table_creation import bring_up_to_date, open_or_create, spec_of
from spark_jobs.lake.field_ids import as_in_table
from spark_jobs.lake.store import disk_sync, storage
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import RECORD_TABLES, TABLES

FEW_IDS = 20
"""Up to this number, application ids are looked up one by one."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A version that a commit depends on, and the version that it records."""

    application_id: str
    planned: int | None
    """Version at the time of the plan; None: never recorded."""
    next_version: int


class TableVersions:
    """Versions of tables that a plan was made on. A commit that expects them succeeds only on exactly these versions.

    Our own commits advance them. Created before the first of these tables is read, they detect any concurrent write.
    """

    def __init__(self, versions: Mapping[str, int | None]) -> None:
        self._versions = dict(versions)

    @classmethod
    def of(cls, lake: str, *names: str) -> TableVersions:
        """Return the present versions of the tables."""
        return cls(table_versions(lake, *names))

    def check(self, table: DeltaTable, name: str) -> None:
        """Compare the version of an opened table with the expected one.

        Raises:
            ConcurrentChange: The table is not at that version.
        """
        planned, found = self._versions[name], table.version()
        if found != (planned or 0):  # a missing table is created, empty, by its first writer
            raise ConcurrentChange(f"Table {name}: it is at version {found}, the plan was made at {planned}.")

    def moved(self, name: str, commits: int = 1) -> None:
        """Record that we made commits."""
        self._versions[name] = (self._versions[name] or 0) + commits


def table_versions(lake: str, *names: str) -> dict[str, int | None]:
    """Return versions of tables; None for a table that was never created."""
    opened = {name: latest_snapshot(lake, name) for name in names}
    return {name: None if table is None else table.version() for name, table in opened.items()}


def versions(lake: str, name: str, application_ids: Sequence[str]) -> dict[str, int | None]:
    """Return recorded versions of application ids in table ``name``; None if there is none."""
    table = latest_snapshot(lake, name)
    return dict.fromkeys(application_ids) if table is None else versions_of(lake, name, table, application_ids)


def versions_of_logs(lake: str, name: str, logs: Iterable[str], prefix: str | None = None) -> dict[str, int | None]:
    """Return what table ``name`` records of logs, by log key; None if there is nothing.

    Args:
        prefix: Of the application id before the log key; None: the name of the table.
    """
    ids = {f"{prefix or name}/{log}": log for log in logs}
    return {ids[app]: version for app, version in versions(lake, name, list(ids)).items()}


def check_guards(lake: str, table: DeltaTable, name: str, guards: Sequence[Guard]) -> None:
    """Compare the versions that an opened table records with those that its guards planned.

    Raises:
        ConcurrentChange: One of them has changed.
    """
    found = versions_of(lake, name, table, [guard.application_id for guard in guards])
    for guard in guards:
        if found[guard.application_id] != guard.planned:
            raise ConcurrentChange(
                f"Table {name}: {guard.application_id} is at {found[guard.application_id]}, the plan was made at "
                f"{guard.planned}."
            )


def versions_of(lake: str, name: str, table: DeltaTable, application_ids: Sequence[str]) -> dict[str, int | None]:
    """Return the versions that the opened table records."""
    if len(application_ids) > FEW_IDS:
        every = delta_log.recorded_versions(lake, name, table.version())
        if every is not None:
            return {application: every.get(application) for application in application_ids}
    return {application: table.transaction_version(application) for application in application_ids}


APPEND_RETRIES = 15
"""Blind appends are rebased onto commits of others up to this many times; guarded commits never are."""

Action = AddAction | RemoveAction


class TableCommit:
    """One commit to a table. Its dependencies are checked when it begins, and again by Delta when it is written."""

    def __init__(
        self,
        lake: str,
        name: str,
        run_id: str,
        guards: Sequence[Guard],
        expected: TableVersions | None,
        *,
        rewrites: bool = False,
        spec: TableSpec | None = None,
        whole: bool = False,
    ) -> None:
        """Open the table; create it or bring it up to date if necessary.

        Args:
            rewrites: The commit removes files.
            spec: Columns of a table of a topic; None: the table is one of ``TABLES``.
            whole: The commit replaces all files, and the columns by those of ``spec``.
        """
        self._lake, self._name, self._run_id, self._guards, self._expected = lake, name, run_id, guards, expected
        self._whole, declared = whole, TABLES[name] if spec is None else spec
        with answered(lake, name):
            self.table = open_or_create(lake, name, declared)
        if spec is None:
            # Check again: another program may have changed the table since the job was planned.
            table_features.refuse_table(lake, name, self.table, rewrites=rewrites)
        self._begun = self.table.version()
        if expected is not None:
            expected.check(self.table, name)
        with answered(lake, name):
            described = 0 if whole else bring_up_to_date(self.table, declared)
        if expected is not None:
            expected.moved(name, described)
            expected.check(self.table, name)
        check_guards(lake, self.table, name, guards)
        self.spec = spec_of(name, self.table) if spec is None else spec

    def add(self, written: Sequence[WrittenFile]) -> None:
        """Commit with these files added; without a guard it may be rebased onto commits of others."""
        retries = 0 if self._guards or self._expected else APPEND_RETRIES
        self._land([_added(file) for file in written], (), written, retries)

    def swap(self, removed: Sequence[LiveFile], written: Sequence[WrittenFile], *, data_change: bool) -> None:
        """Commit with files replaced. It is never rebased: delta-rs does not notice that a file to remove was rewritten
        meanwhile, and its rows would be in the table twice.
        """
        added = [_added(file, data_change) for file in written]
        self._land([*_removals(removed, data_change=data_change), *added], removed, written, retries=0)

    def _land(
        self, actions: list[Action], removed: Sequence[LiveFile], written: Sequence[WrittenFile], retries: int
    ) -> None:
        # No automatic rebase for guarded commits: delta-rs records an application's version but does not compare it
        # with the planned one, so every attempt must check again.
        # An add action of deltalake has no tags, so the commit as a whole carries the digests of its files.
        digests = {file.path: file.digest for file in written if file.digest is not None}
        contents = {file.path: file.content for file in written if file.content is not None}
        metadata = {"run_id": self._run_id, "digests": digests, "contents": contents}
        recorded = {guard.application_id: guard.next_version for guard in self._guards}
        with answered(self._lake, self._name):
            if self._name not in RECORD_TABLES:
                recorded |= new_count(self._lake, self.table, self._name, removed, written, whole=self._whole)
            self.table.create_write_transaction(
                actions,
                mode="overwrite" if self._whole else "append",
                schema=Schema.from_arrow(as_in_table(self.spec.schema)) if self._whole else self.table.schema(),
                partition_by=list(self.spec.partition_by),
                commit_properties=CommitProperties(
                    custom_metadata={"userMetadata": json.dumps(metadata)},
                    max_commit_retries=retries,
                    app_transactions=[Transaction(name, recorded[name]) for name in recorded],
                ),
            )
            _kept(self._lake, self._name, self.table, self._begun)
        if self._expected is not None:
            self._expected.moved(self._name)


def _removals(files: Sequence[LiveFile], *, data_change: bool) -> list[RemoveAction]:
    now_ms = (
        time.time_ns() // 1_000_000
    )  # Delta counts the retention of removed files by the system clock, not by a run's
    # The action escapes its path itself. An escaped path would name no file, and the old rows would stay.
    return [RemoveAction(f.path, data_change, now_ms, f.size, dict(f.partition_values)) for f in files]


def _added(file: WrittenFile, data_change: bool = True) -> AddAction:
    values = dict(file.partition_values)
    return AddAction(file.path, file.size, values, file.modified_ms, data_change, file.statistics)


@contextlib.contextmanager
def answered(lake: str, name: str) -> Iterator[None]:
    """Turn Delta's errors of a commit into ours: another commit was first, or the outcome is unknown."""
    try:
        yield
    except CommitFailedError as error:
        raise ConcurrentChange(f"Table {name}: another commit came between plan and commit ({said(error)})") from error
    except JobError:
        raise
    except (DeltaError, OSError) as error:
        cause = f"The disk of {lake} is full. " if is_disk_full(error) else ""
        raise CommitUnanswered(
            f"{cause}Table {name}: a commit was not confirmed ({said(error)}) Remove the cause and run again: "
            "if it succeeded nevertheless, the next run finds it and writes nothing twice."
        ) from error


def _kept(lake: str, name: str, table: DeltaTable, planned: int) -> None:
    """Wait until the commits after version ``planned`` are on disk. Until then a power failure may remove them, while
    later commits stay. ``deltalake`` syncs nothing; the files that the commit adds are synced before it.
    """
    if storage.is_remote(lake):
        return
    table.update_incremental()
    for version in range(planned + 1 if planned else 0, table.version() + 1):
        with contextlib.suppress(FileNotFoundError):
            disk_sync.sync(delta_log.commit_file(lake, name, version))
    disk_sync.sync(delta_log.log_folder(lake, name))


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
