"""Tables at one of their versions: opened, shared while that version is the latest, or pinned for one look.

It says where the tables of a lake are, how an error while one is read becomes one of ours, and reads rows as Arrow.

Rows of a table's files that match a condition, in files of any engine.

delta-rs writes strings as views and records that in the Arrow schema of the Parquet file. Arrow has no comparisons of
strings with views: a condition on such a file raises ArrowNotImplementedError. So these files are first read with the
table's types and all columns, and the condition is applied afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import reduce
from operator import and_, attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from logcore.logs.rules.advice import made_again
from logcore.storage.objects.answers import said
from spark_jobs.errors import JobError, StorageError, TableUnreadable, UsageError
from spark_jobs.lake.delta.tables.delta_location import LOG_DIRECTORY, delta_uri
from spark_jobs.lake.repair_commands import rebuild_command, replace_command, topic_command
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.written_file import is_own_file
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import TABLES


def scan(
    dataset: ds.Dataset, columns: Sequence[str], condition: ds.Expression | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield chosen columns of the rows that match the condition, in the order of files within each of two groups."""
    plain: list[ds.Fragment] = []
    viewed: list[ds.Fragment] = []
    for fragment in dataset.get_fragments(filter=condition):
        (viewed if condition is not None and _has_views(fragment) else plain).append(fragment)
    if plain:
        files = ds.FileSystemDataset(plain, dataset.schema, plain[0].format, plain[0].filesystem)  # type: ignore[attr-defined]
        yield from files.scanner(columns=list(columns), filter=condition).to_batches()
    for fragment in viewed:
        yield from scan_file(dataset, fragment, columns, condition)  # type: ignore[arg-type]


def scan_file(
    dataset: ds.Dataset, fragment: ds.Fragment, columns: Sequence[str], condition: ds.Expression
) -> Iterator[pa.RecordBatch]:
    """Scan one file of the table in the same way."""
    if not _has_views(fragment):
        yield from fragment.scanner(schema=dataset.schema, columns=list(columns), filter=condition).to_batches()
        return
    whole = fragment.scanner(schema=dataset.schema).to_reader()
    yield from ds.Scanner.from_batches(whole, columns=list(columns), filter=condition).to_batches()


def _has_views(fragment: ds.Fragment) -> bool:
    if is_own_file(fragment.path):  # type: ignore[attr-defined]
        return False
    types = fragment.physical_schema.types
    return any(pa.types.is_string_view(each) or pa.types.is_binary_view(each) for each in types)


_DENIED = "(os error 13)"
"""Delta's library has no error class for a file that the user may not read, only this text."""
READY_FILE = "ready.json"
"""In the folder of a rebuild: the new table is complete."""


def table_uri(lake: str, name: str) -> str:
    """Return the location of table ``name`` of ``lake``: one of ``TABLES``, or kind and topic of a topic's table."""
    return storage.join(lake, "tables", table_folder(name))


def table_folder(name: str) -> str:
    """Return the directory of a table, below that of all tables."""
    kind, _, topic = name.partition("/")
    if not topic:
        return TABLES[name].name
    # A topic's name has no other characters than these two that a path would follow. A table in a directory with the
    # name of a log is taken for a log by Delta's library.
    return f"{kind}/{f'~{topic}' if topic in ('.', '..', LOG_DIRECTORY) else storage.folder_name(topic)}"


def rebuilding_folder(lake: str, name: str) -> str:
    """Return the folder where ``loglake repair --rebuild`` writes the new table, as a lake of its own."""
    return storage.join(lake, "tables", f".{name}-rebuilding")


def refuse_half_swapped(lake: str, name: str) -> None:
    """Refuse a table between the two renames of a rebuild: a job that takes it for one that was never created would
    publish everything again.

    Raises:
        JobError: A rebuild was interrupted there.
    """
    if not storage.is_remote(lake) and os.path.exists(os.path.join(rebuilding_folder(lake, name), READY_FILE)):
        raise JobError(
            f"Table {name}: a rebuild of it was interrupted when the new table was about to replace it. Finish it: "
            f"`{rebuild_command(lake, name)}`"
        )


@contextmanager
def reading(lake: str, name: str, path: str | None = None) -> Iterator[None]:
    """Turn errors of Arrow and Delta that occur while table ``name`` is read into ours.

    Args:
        path: The file that is read, relative to the table, if it is known.

    Raises:
        TableUnreadable: The table, or a file of it, is missing or damaged.
        StorageError: The object store failed, or the user may not read a file.
    """
    uri = table_uri(lake, name)
    try:
        with storage.answers(uri):
            yield
    except (JobError, UsageError):  # the address of a store is not a damaged table
        raise
    except (pa.ArrowException, DeltaError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        where = uri if path is None else storage.join(uri, path)
        if isinstance(error, PermissionError) or _DENIED in str(error):
            text = (
                f"Table {name}: {where} can't be read: permission denied. Give this user permission to read the lake."
            )
            raise StorageError(text) from error
        is_row_file = path is not None and not path.startswith(LOG_DIRECTORY)
        kind, _, topic = name.partition("/")
        way_out = f"To rebuild the table: `{rebuild_command(lake, name)}`"
        if name in ("logs", "segments") and path is None and isinstance(error, FileNotFoundError):
            way_out = made_again(name, rebuild_command(lake, name))
        if topic:
            job = "latest" if kind == "latest" else "decode"
            is_gone = path is None and isinstance(error, FileNotFoundError)
            first = "To write it again:" if is_gone else "Remove its directory, then:"
            way_out = f"{first} `{topic_command(lake, job, topic)}`"
        elif name == "records" and is_row_file:
            way_out = f"To write its rows again: `{replace_command(lake)}`"
        raise TableUnreadable(f"Table {name}: {where} can't be read ({said(error)[:300]}) {way_out}") from error


_MOST_OPENED = 64
"""Tables that stay open: those of a few lakes."""


def open_table(lake: str, name: str, version: int | None = None) -> DeltaTable | None:
    """Return the table at a version, or None if it was never created.

    Args:
        version: None: the latest.

    Raises:
        TableUnreadable: The table's log is damaged.
        StorageError: The object store failed.
    """
    uri = table_uri(lake, name)
    with reading(lake, name):
        try:
            return DeltaTable(delta_uri(uri), version=version, storage_options=storage.delta_options(uri))
        except TableNotFoundError:
            refuse_half_swapped(lake, name)
            return None


def latest_snapshot(lake: str, name: str) -> DeltaTable | None:
    """Return the table at its latest version for one look; None if it was never created.

    The same object is returned while its last commit is the latest: opening a table costs 2 ms, and a round of all jobs
    looks at tables some 180 times. So the caller must not commit through it, nor keep it: a commit moves the object on,
    and a plan that holds it would no longer see that another commit came between. For that, use :func:`open_table`.
    On an object store the look costs one listing of the table's log, instead of a request for each commit.

    Raises:
        TableUnreadable: The table's log is damaged.
        StorageError: The object store failed.
    """
    uri, pinned = table_uri(lake, name), _pinned.get()
    if pinned is None:
        return _latest(lake, name, uri)
    if uri not in pinned.tables:
        pinned.tables[uri] = _latest(lake, name, uri)
    return pinned.tables[uri]


@contextmanager
def pinned_snapshots(lake: str) -> Iterator[None]:
    """Until the end, look at each table of a lake at the version that it has at the first look.

    Each table is opened once, its log is not listed again, and rows that were read are not read again. Only for looks
    that commit nothing: a plan that is applied must find out that another commit came between.
    """
    forget_snapshots(lake)
    token = _pinned.set(_Pinned())
    try:
        yield
    finally:
        _pinned.reset(token)


def pinned_rows() -> dict[tuple[object, ...], pa.Table] | None:
    """Return the rows that this look has read, by location, columns and conditions; None if nothing is pinned."""
    pinned = _pinned.get()
    return None if pinned is None else pinned.rows


def _latest(lake: str, name: str, uri: str) -> DeltaTable | None:
    with reading(lake, name):
        known = _opened.get(uri)
        if known is not None and known.is_latest(uri):
            return known.table
    _opened.pop(uri, None)
    with reading(lake, name):
        before = _log_before(uri)  # before the table is opened: a later checkpoint may clean up its log
        if before is None:
            refuse_half_swapped(lake, name)
            return None
    table = open_table(lake, name)
    opened = None if table is None else _OpenedTable.of(table, uri, before)
    if opened is not None:
        if len(_opened) >= _MOST_OPENED:
            _opened.clear()
        _opened[uri] = opened
    return table


def forget_snapshots(lake: str) -> None:
    """Let the next look at each table of a lake open it. A round begins so: it opens each table once, and damage of an
    earlier commit is noticed, which :func:`latest_snapshot` does not look at.
    """
    for name in TABLES:
        _opened.pop(table_uri(lake, name), None)


_LogState = tuple[object, ...]
"""What distinguishes the log of a table from the same log after a commit or a checkpoint."""


@dataclass(frozen=True, slots=True)
class _OpenedTable:
    """A table, and the state of its log when it was opened.

    A table reads files of its log later too. A new checkpoint allows everyone to remove them.
    """

    table: DeltaTable
    version: int
    log: _LogState

    @classmethod
    def of(cls, table: DeltaTable, uri: str, before: _LogState) -> _OpenedTable | None:
        """The table as it is now; None if its last commit has no file of its own, or the log changed meanwhile.

        Args:
            table: The table.
            uri: Its location.
            before: The state of the log before it was opened, as :func:`_log_before` returned it.
        """
        if storage.is_remote(uri):
            return cls(table, table.version(), before)
        last_commit = _identity(commit_file(uri, table.version()))
        return None if last_commit is None else cls(table, table.version(), (last_commit, *before))

    def is_latest(self, uri: str) -> bool:
        """Whether neither a commit nor a checkpoint followed, nor was the last one replaced, nor the object moved."""
        if self.table.version() != self.version:
            return False
        if storage.is_remote(uri):
            return _log_before(uri) == self.log
        return (
            _identity(commit_file(uri, self.version)),
            _identity(_checkpoint_file(uri)),
        ) == self.log and not os.path.lexists(commit_file(uri, self.version + 1))


def _log_before(uri: str) -> _LogState | None:
    """The state of a table's log, as far as it is known before the table is opened: of a local log the checkpoint, of
    one on an object store all of its files. None if there is no log, so that nothing has to be opened.
    """
    if not storage.is_remote(uri):
        try:
            os.stat(os.path.join(uri, LOG_DIRECTORY))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            pass  # opening the table says what is wrong
        return (_identity(_checkpoint_file(uri)),)
    return storage.objects_below(storage.join(uri, LOG_DIRECTORY)) or None


_opened: dict[str, _OpenedTable] = {}


@dataclass(frozen=True, slots=True)
class _Pinned:
    """What a look has opened and read."""

    tables: dict[str, DeltaTable | None] = field(default_factory=dict)
    """By location."""
    rows: dict[tuple[object, ...], pa.Table] = field(default_factory=dict)
    """By location, columns and conditions."""


_pinned: ContextVar[_Pinned | None] = ContextVar("_pinned", default=None)
"""Set in :func:`pinned_snapshots`."""


def commit_file(uri: str, version: int) -> str:
    """Path of a commit of a local table."""
    return os.path.join(uri, "_delta_log", f"{version:020d}.json")


def _checkpoint_file(uri: str) -> str:
    return os.path.join(uri, "_delta_log", "_last_checkpoint")


def _identity(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


KEPT_BYTES = 32 << 20
"""Rows of at most so many bytes are kept for the rest of a look."""


def open_dataset(lake: str, name: str, table: DeltaTable) -> ds.Dataset:
    """Return the table's files as an Arrow dataset, read through Arrow's own filesystem.

    Delta's default is a filesystem in Python: Arrow's threads may still be closing files through it when the
    interpreter ends, and then the process dies instead of ending with its exit code.
    """
    return checked_dataset(table, table_uri(lake, name))


def checked_dataset(table: DeltaTable, uri: str) -> ds.FileSystemDataset:
    """Return a table's files as an Arrow dataset that checks the sum of each page: a flipped bit is an error, no row.

    deltalake offers no option for it, so its fragments are made again with the same paths and conditions.
    """
    filesystem = storage.arrow_filesystem(uri)
    plain = table.to_pyarrow_dataset(filesystem=filesystem)
    options = ds.ParquetFragmentScanOptions(pre_buffer=True, page_checksum_verification=True)
    form = ds.ParquetFileFormat(default_fragment_scan_options=options)
    fragments = [
        form.make_fragment(each.path, each.filesystem, each.partition_expression) for each in plain.get_fragments()
    ]
    return ds.FileSystemDataset(fragments, plain.schema, form, filesystem)


def read_rows(
    lake: str, name: str, columns: list[str] | None = None, where: Sequence[tuple[str, str, object]] | None = None
) -> pa.Table:
    """Return rows of a table as Arrow; empty with the table's columns if it was never created.

    Args:
        where: ANDed conditions ``(column, operator, value)`` as ``pyarrow.dataset`` filters.

    Raises:
        TableUnreadable: A file of the table is missing or damaged, or a column is of another type than ours.
        StorageError: The object store failed.
    """
    kept = pinned_rows()
    if kept is None:
        return _read_rows(lake, name, columns, where)
    conditions = tuple((column, operator, repr(value)) for column, operator, value in where or ())
    key = table_uri(lake, name), None if columns is None else tuple(columns), conditions
    rows = kept.get(key)
    if rows is None:
        rows = _read_rows(lake, name, columns, where)
        if rows.nbytes <= KEPT_BYTES:
            kept[key] = rows
    return rows


def table_of(rows: Sequence[object], schema: pa.Schema) -> pa.Table:
    """Return rows as Arrow, from objects that have an attribute for each column."""
    names = schema.names
    columns = zip(*map(attrgetter(*names), rows), strict=True) if rows else ((),) * len(names)
    return pa.table(
        [pa.array(values, field.type) for field, values in zip(schema, columns, strict=True)], schema=schema
    )


def _read_rows(
    lake: str, name: str, columns: list[str] | None, where: Sequence[tuple[str, str, object]] | None
) -> pa.Table:
    spec = TABLES[name]
    schema = spec.schema if columns is None else pa.schema([spec.schema.field(c) for c in columns])
    table = latest_snapshot(lake, name)
    if table is None:
        return schema.empty_table()
    condition = None
    with reading(lake, name):
        dataset = open_dataset(lake, name, table)
        # A column of a later version is null until the next commit adds it to the table.
        if more := [field for field in spec.schema if field.name not in dataset.schema.names]:
            dataset = dataset.replace_schema(pa.schema([*dataset.schema, *more]))  # type: ignore[func-returns-value, assignment]
        for column, operator, value in where or ():
            term = _term(spec, column, operator, value)
            condition = term if condition is None else condition & term
        taken = pa.schema([dataset.schema.field(column) for column in schema.names])
        return pa.Table.from_batches(scan(dataset, schema.names, condition), taken).cast(schema)


def _term(spec: TableSpec, column: str, operator: str, value: Any) -> ds.Expression:
    field = ds.field(column)
    if operator == "in":  # typed, because an empty list has no type of its own
        return field.isin(pa.array(value, spec.schema.field(column).type))
    if operator == "not in":  # null is in no list. Arrow excludes files by these comparisons, but not by `~isin`.
        others = [field.is_null() | (field < each) | (field > each) for each in value]
        return reduce(and_, others, ds.scalar(True))
    if operator == "is_null":
        return field.is_null() if value else field.is_valid()  # type: ignore[return-value]
    comparison: ds.Expression = {"==": field.__eq__, ">=": field.__ge__, "<": field.__lt__}[operator](value)
    return comparison
