"""Every commit to a lake's tables, and the guards in it.

A state table is changed by :func:`append`, :func:`replace` and :func:`delete`. They write their rows as one file of our
own kind (``parquet_files``: digest, page checksums, on disk before the commit) and may carry *versions*: pairs of
application id and number that Delta records in the same commit. A commit whose plan stood on version ``n`` of an
application id is refused if that has moved (:class:`ConcurrentChange`), whether or not a lease was held. A job whose
commits stand on all that a table held when it was read says so by :class:`Standing`.

Files that workers wrote come in by :func:`add_files`, or by :func:`rewrite_files` in the place of others. Delta checks
nothing about such files, so everything is checked here and in the worker before (``parquet_files``).
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
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from spark_jobs.lake.delta import delta_log, row_digest, table_features
from spark_jobs.lake.delta.carried_rows import Matching, as_declared, by_partition, key_of
from spark_jobs.lake.delta.live_files import LiveFile, live_files
from spark_jobs.lake.delta.parquet_files import write_file
from spark_jobs.lake.delta.tables import TABLES, TableSpec, ensure_table, open_table, reading, spec_of, table_uri
from spark_jobs.lake.errors import CommitUnanswered, ConcurrentChange, OutputMismatch, said
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.written_file import WrittenFile as WrittenFile

FEW_IDS = 20
"""Up to so many application ids are looked up one by one."""
APPEND_RETRIES = 15
"""Blind appends may be rebased onto others' commits this often; guarded commits never are."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A version that a commit stands on, and the one it moves to."""

    application_id: str
    planned: int | None
    """Version seen when the plan was made; None: never recorded."""
    next_version: int


Action = AddAction | RemoveAction

Where = tuple[str, Sequence[str]]
"""A column of text and its values: the rows that have one of them."""


class Standing:
    """Versions of tables that a plan was made on: a commit that is given it lands only on exactly that version.

    Own commits move it on. Made before the first of these tables is read, it says that nobody else has written since.
    """

    def __init__(self, versions: Mapping[str, int | None]) -> None:
        self._versions = dict(versions)

    @classmethod
    def of(cls, lake: str, *names: str) -> Standing:
        """The tables as they are now."""
        return cls(table_versions(lake, *names))

    def check(self, table: DeltaTable, name: str) -> None:
        """Raises ConcurrentChange where the table, as opened, is not at that version."""
        planned, found = self._versions[name], table.version()
        if found != (planned or 0):  # one that was not there is made, empty, by whoever comes first
            raise ConcurrentChange(f"Table {name}: it stands at version {found}, the plan was made at {planned}.")

    def moved(self, name: str) -> None:
        """A commit of ours landed."""
        self._versions[name] = (self._versions[name] or 0) + 1


def table_versions(lake: str, *names: str) -> dict[str, int | None]:
    """Versions of tables; None where one was never created."""
    opened = {name: open_table(lake, name) for name in names}
    return {name: None if table is None else table.version() for name, table in opened.items()}


def versions(lake: str, name: str, application_ids: Sequence[str]) -> dict[str, int | None]:
    """Recorded versions of application ids in table ``name``; None where there is none."""
    table = open_table(lake, name)
    return dict.fromkeys(application_ids) if table is None else _versions(lake, name, table, application_ids)


def append(
    lake: str,
    name: str,
    rows: pa.Table,
    run_id: str,
    guards: Sequence[Guard] = (),
    standing: Standing | None = None,
) -> None:
    """Append rows in one commit; no rows and no guards write nothing.

    Raises:
        ConcurrentChange: a guarded version has moved since the plan.
        CommitUnanswered: it is not known whether the commit landed.
        TableRefused: another program made the table into what we would harm; so does every commit here.
    """
    if rows.num_rows == 0 and not guards:
        return
    table = _opened(lake, name, guards, standing)
    spec = spec_of(name, table)
    written = _write(lake, spec, rows, {}, {})
    retries = 0 if guards or standing else APPEND_RETRIES
    _commit(
        lake, table, spec, [_added(file) for file in written], _properties(run_id, guards, retries, written), standing
    )


def replace(
    lake: str,
    name: str,
    where: Where,
    rows: pa.Table,
    run_id: str,
    guards: Sequence[Guard] = (),
    standing: Standing | None = None,
) -> None:
    """Replace rows by others in one commit; nothing to remove, no rows and no guards write nothing.

    The other rows of a file that loses some are written anew together with ``rows``, with all columns they have.

    Args:
        where: a column of text and its values: rows that have one of them go.

    Raises:
        ConcurrentChange: the table, or a guarded version, has moved since the plan.
        CommitUnanswered: it is not known whether the commit landed.
        TableUnreadable: a file that may hold such rows is missing or damaged.
    """
    table = _opened(lake, name, guards, standing)
    spec = spec_of(name, table)
    column, values = where
    matching = Matching(lake, spec, column, values)
    with reading(lake, name):
        live = live_files(table)
    shrunk = matching.shrunk(live)
    if not shrunk and not rows.num_rows and not guards:
        return
    kept: dict[str, tuple[Mapping[str, str], Iterable[pa.RecordBatch]]] = {}
    left = {key_of(each.file.partition_values): each.file.partition_values for each in shrunk if each.rows_left}
    for key, partition_values in left.items():
        kept[key] = partition_values, matching.left([s for s in shrunk if key_of(s.file.partition_values) == key])
    origins: dict[str, list[str]] = {}
    for each in shrunk:
        if each.rows_left:
            origins.setdefault(key_of(each.file.partition_values), []).append(each.file.path)
    written = _write(lake, spec, rows, kept, origins)
    expected = rows.num_rows + sum(each.rows_left for each in shrunk)
    if expected != sum(file.rows for file in written):
        raise OutputMismatch(
            f"Table {name}: {sum(file.rows for file in written)} rows were written where {expected} belong; "
            "nothing was replaced."
        )
    actions: list[Action] = [*_removed([each.file for each in shrunk], data_change=True), *map(_added, written)]
    # A commit that removes files must not be rebased: its removals were computed from this snapshot.
    _commit(lake, table, spec, actions, _properties(run_id, guards, retries=0, files=written), standing)


def delete(lake: str, name: str, where: Where, run_id: str, standing: Standing | None = None) -> None:
    """Delete rows, named as in :func:`replace`, in one commit; where there are none it writes nothing.

    Raises:
        ConcurrentChange: the table has moved meanwhile.
        CommitUnanswered: it is not known whether the commit landed.
        TableUnreadable: a file that may hold such rows is missing or damaged.
    """
    replace(lake, name, where, TABLES[name].schema.empty_table(), run_id, standing=standing)


def add_files(
    lake: str,
    name: str,
    files: Sequence[WrittenFile],
    run_id: str,
    guards: Sequence[Guard] = (),
    check: Callable[[DeltaTable], None] | None = None,
    standing: Standing | None = None,
) -> None:
    """Add worker-written files to table ``name`` in one commit together with the guards' new versions.

    Args:
        check: called with the version of the table that the commit stands on, its guards compared; what it raises
            leaves the table as it is. For guarded commits: others may be rebased onto versions it did not see.

    Raises:
        OutputMismatch: a file is missing, or is not of the size or the table partition it was announced with.
        ConcurrentChange: a guarded version has moved since the plan.
        CommitUnanswered: it is not known whether the commit landed.
    """
    if not files and not guards:
        return
    for written in files:
        _check_file(lake, name, written)
    table = _opened(lake, name, guards, standing)
    if check is not None:
        check(table)
    properties = _properties(run_id, guards, 0 if guards or standing else APPEND_RETRIES, files)
    _commit(lake, table, spec_of(name, table), [_added(file) for file in files], properties, standing)


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
) -> None:
    """Put worker-written files in the place of live ones, in one commit; nothing removed and added writes nothing.

    Args:
        removed: paths relative to the table, as files are named on disk.
        data_change: False where the rows stay the same, so that nobody who follows the table reads them again.
        check: called with the table that the commit stands on; raises :class:`ConcurrentChange` where the plan does
            not hold for it.

    Raises:
        OutputMismatch: a written file is not what it was announced as, or rows were to stay and their number does not.
        ConcurrentChange: a file to remove is not live any more, the table has moved meanwhile, or a guarded version
            has moved since the plan.
        CommitUnanswered: it is not known whether the commit landed.
    """
    if not removed and not written and not guards:
        return
    for file in written:
        _check_file(lake, name, file)
    table = _opened(lake, name, guards, None, rewrites=True)
    if check is not None:
        check(table)
    live: dict[str, LiveFile] = {file.path: file for file in live_files(table)}
    gone = [path for path in removed if path not in live]
    if gone:
        raise ConcurrentChange(
            f"Table {name}: {len(gone)} of {len(removed)} files to be replaced are not live any more; {gone[0]} is one."
        )
    rows_before = sum(live[path].rows for path in removed)
    # A writer may leave statistics out; whoever rewrites such files has counted the rows in them.
    is_counted = all(live[path].rows >= 0 for path in removed)
    if not data_change and is_counted and rows_before != sum(file.rows for file in written):
        raise OutputMismatch(
            f"Table {name}: {sum(file.rows for file in written)} rows were written in the place of {rows_before}; "
            "nothing was replaced."
        )
    actions: list[Action] = [
        *_removed([live[path] for path in removed], data_change),
        *(_added(f, data_change) for f in written),
    ]
    # Never rebased: delta-rs does not see that a file to remove was rewritten meanwhile, and its rows would be there
    # twice.
    properties = _properties(run_id, guards, retries=0, files=written)
    _commit(lake, table, spec_of(name, table), actions, properties, None)


def _write(
    lake: str,
    spec: TableSpec,
    rows: pa.Table,
    kept: Mapping[str, tuple[Mapping[str, str], Iterable[pa.RecordBatch]]],
    origins: Mapping[str, Sequence[str]],
) -> list[WrittenFile]:
    """One file for each table partition: first the rows that are kept in it, then the new ones.

    Args:
        origins: files that the kept rows come from, by table partition.
    """
    schema = pa.schema([spec.schema.field(column) for column in spec.schema.names if column in rows.schema.names])
    added = by_partition(rows.select(schema.names).cast(schema), spec)
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


def _added(file: WrittenFile, data_change: bool = True) -> AddAction:
    values = dict(file.partition_values)
    return AddAction(file.path, file.size, values, file.modified_ms, data_change, file.statistics)


def _removed(files: Sequence[LiveFile], data_change: bool) -> list[RemoveAction]:
    now_ms = time.time_ns() // 1_000_000  # when readers may lose the file is counted by Delta's clock, not a run's
    # The action escapes its path itself: an escaped one would name no file, and the old rows would stay.
    return [RemoveAction(f.path, data_change, now_ms, f.size, dict(f.partition_values)) for f in files]


def _commit(
    lake: str,
    table: DeltaTable,
    spec: TableSpec,
    actions: Sequence[Action],
    properties: CommitProperties,
    standing: Standing | None,
) -> None:
    with _landing(lake, spec.name, table, standing):
        table.create_write_transaction(
            list(actions),
            mode="append",
            schema=spec.schema,
            partition_by=list(spec.partition_by),
            commit_properties=properties,
        )


def _check_file(lake: str, name: str, written: WrittenFile) -> None:
    full = storage.join(table_uri(lake, name), written.path)
    try:
        size = storage.stat(full).size
    except OSError as error:
        raise OutputMismatch(f"Table {name}: the file {full} that a worker reported can't be read: {error}.") from error
    if size != written.size:
        raise OutputMismatch(f"Table {name}: {full} has {size} bytes, its writer reported {written.size}.")
    if set(written.partition_values) != set(TABLES[name].partition_by):
        raise OutputMismatch(f"Table {name}: {full} names table partitions {sorted(written.partition_values)}.")
    if json.loads(written.statistics)["numRecords"] != written.rows:
        raise OutputMismatch(f"Table {name}: statistics of {full} do not count its {written.rows} rows.")


def _opened(
    lake: str, name: str, guards: Sequence[Guard], standing: Standing | None, *, rewrites: bool = False
) -> DeltaTable:
    """The table, made if need be, with all that a commit stands on compared."""
    with answered(name):
        known = None if standing is None else open_table(lake, name)
        table = ensure_table(lake, name)
    # Once more: another program may have changed the table since the job was planned.
    table_features.refuse_table(lake, name, table, rewrites=rewrites)
    _check(lake, table, name, guards)
    if standing is not None:
        if known is not None and table.version() > known.version():  # columns that came later were added just now
            standing.check(known, name)
            standing.moved(name)
        standing.check(table, name)
    return table


@contextlib.contextmanager
def _landing(lake: str, name: str, table: DeltaTable, standing: Standing | None) -> Iterator[None]:
    """A commit under way: on disk when this ends, and `standing` moved on."""
    planned = table.version()
    with answered(name):
        yield
        _kept(lake, name, table, planned)
    if standing is not None:
        standing.moved(name)


@contextlib.contextmanager
def answered(name: str) -> Iterator[None]:
    """What Delta says where it did not commit: another was first, or nobody knows."""
    try:
        yield
    except CommitFailedError as error:
        raise ConcurrentChange(f"Table {name}: another commit came between plan and commit ({said(error)})") from error
    except (DeltaError, OSError) as error:
        raise CommitUnanswered(
            f"Table {name}: a commit was not confirmed ({said(error)}) Remove the cause and run again: "
            "if it landed all the same, the next run finds it and writes nothing twice."
        ) from error


def _check(lake: str, table: DeltaTable, name: str, guards: Sequence[Guard]) -> None:
    found = _versions(lake, name, table, [guard.application_id for guard in guards])
    for guard in guards:
        if found[guard.application_id] != guard.planned:
            raise ConcurrentChange(
                f"Table {name}: {guard.application_id} stands at {found[guard.application_id]}, the plan was made at "
                f"{guard.planned}."
            )


def _versions(lake: str, name: str, table: DeltaTable, application_ids: Sequence[str]) -> dict[str, int | None]:
    """Versions that the table as opened records."""
    if len(application_ids) > FEW_IDS:
        every = delta_log.recorded_versions(lake, name, table.version())
        if every is not None:
            return {application: every.get(application) for application in application_ids}
    return {application: table.transaction_version(application) for application in application_ids}


def _kept(lake: str, name: str, table: DeltaTable, planned: int) -> None:
    """Return when what was committed after version ``planned`` is on disk: until then the power may fail and take it
    back, while commits made after it stay. ``deltalake`` syncs nothing; the files that the commit adds are synced
    before it."""
    root = table_uri(lake, name)
    if storage.is_remote(root):
        return
    table.update_incremental()
    for version in range(planned + 1 if planned else 0, table.version() + 1):
        with contextlib.suppress(FileNotFoundError):
            storage.sync(storage.join(root, "_delta_log", f"{version:020d}.json"))
    storage.sync(storage.join(root, "_delta_log"))


def _properties(
    run_id: str, guards: Sequence[Guard], retries: int, files: Sequence[WrittenFile] = ()
) -> CommitProperties:
    # No automatic rebase for guarded commits: delta-rs records an application's version but does not compare it
    # with the one the plan stood on, so every attempt must look again.
    # An add action of deltalake has no tags, so the commit as a whole carries the digests of its files.
    digests = {file.path: file.digest for file in files if file.digest is not None}
    contents = {file.path: file.content for file in files if file.content is not None}
    metadata = {"run_id": run_id, "digests": digests, "contents": contents}
    return CommitProperties(
        custom_metadata={"userMetadata": json.dumps(metadata)},
        max_commit_retries=retries,
        app_transactions=[Transaction(guard.application_id, guard.next_version) for guard in guards],
    )
