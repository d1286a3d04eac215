"""The tables of a lake: their location, and how to create, open and read them.

Every table is Delta at reader version 1, writer version 2, without deletion vectors or column mapping, so that
every Delta reader can read it. Statistics are kept on the columns that plans filter by. ``table_specs`` declares the
content of each table.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from operator import and_, attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Field, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from logcore.storage.objects.answers import said
from spark_jobs.lake.delta.delta_location import LOG_DIRECTORY, delta_uri, prepare
from spark_jobs.lake.delta.table_scan import scan
from spark_jobs.lake.errors import JobError, TableUnreadable, UsageError
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import TABLES

__all__ = [
    "BATCHES",
    "FINDINGS",
    "LOGS",
    "LOG_ACTIONS",
    "OFFSET_LEDGER",
    "QUARANTINE",
    "READY_FILE",
    "RUNS",
    "SEGMENTS",
    "TABLES",
    "TRANSACTIONS",
    "VALIDATIONS",
    "WITHDRAWALS",
    "TableSpec",
    "bring_up_to_date",
    "ensure_table",
    "open_dataset",
    "open_or_create",
    "open_table",
    "read_rows",
    "reading",
    "rebuilding_folder",
    "spec_of",
    "table_uri",
]

LOGS = TABLES["logs"].schema
SEGMENTS = TABLES["segments"].schema
VALIDATIONS = TABLES["validations"].schema
BATCHES = TABLES["batches"].schema
FINDINGS = TABLES["findings"].schema
QUARANTINE = TABLES["quarantine"].schema
TRANSACTIONS = TABLES["transactions"].schema
OFFSET_LEDGER = TABLES["offset_ledger"].schema
WITHDRAWALS = TABLES["withdrawals"].schema
LOG_ACTIONS = TABLES["log_actions"].schema
RUNS = TABLES["runs"].schema

READY_FILE = "ready.json"
"""In the folder of a rebuild: the new table is complete."""

_BY_US = CommitProperties(custom_metadata={"userMetadata": json.dumps({"run_id": "tables"})})
"""Marks our commits that create or describe a table, to distinguish them from those of other programs."""
STATISTICS_PROPERTY = "delta.dataSkippingStatsColumns"
"""Delta's table property: the columns with statistics."""
COMMENT = "comment"
"""Key of a column's comment in its metadata, as Spark reads it."""


def table_uri(lake: str, name: str) -> str:
    """Return the location of table ``name`` of ``lake``: one of ``TABLES``, or kind and folder of a topic's table."""
    return storage.join(lake, "tables", name if "/" in name else TABLES[name].name)


def rebuilding_folder(lake: str, name: str) -> str:
    """Return the folder where ``loglake repair --rebuild`` writes the new table, as a lake of its own."""
    return storage.join(lake, "tables", f".{name}-rebuilding")


def _refuse_half_swapped(lake: str, name: str) -> None:
    """Refuse a table between the two renames of a rebuild: a job that takes it for one that was never created would
    publish everything again.

    Raises:
        JobError: A rebuild was interrupted there.
    """
    if not storage.is_remote(lake) and os.path.exists(os.path.join(rebuilding_folder(lake, name), READY_FILE)):
        raise JobError(
            f"Table {name}: a rebuild of it was interrupted when the new table was about to replace it. Finish it: "
            f"loglake repair {lake} --rebuild {name} --apply."
        )


@contextmanager
def reading(lake: str, name: str, path: str | None = None) -> Iterator[None]:
    """Turn errors of Arrow and Delta that occur while table ``name`` is read into ours.

    Args:
        path: The file that is read, relative to the table, if it is known.

    Raises:
        TableUnreadable: The table, or a file of it, is missing or damaged.
        StorageError: The object store failed.
    """
    uri = table_uri(lake, name)
    try:
        with storage.answers(uri):
            yield
    except (JobError, UsageError):  # the address of a store is not a damaged table
        raise
    except (pa.ArrowException, DeltaError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        where = uri if path is None else storage.join(uri, path)
        raise TableUnreadable(
            f"Table {name}: {where} can't be read ({said(error)[:300]}) To rebuild the table: "
            f"loglake repair {lake} --rebuild {name}"
        ) from error


def open_table(lake: str, name: str) -> DeltaTable | None:
    """Return the table at its latest version, or None if it was never created.

    Raises:
        TableUnreadable: The table's log is damaged.
        StorageError: The object store failed.
    """
    uri = table_uri(lake, name)
    with reading(lake, name):
        try:
            return DeltaTable(delta_uri(uri), storage_options=storage.delta_options(uri))
        except TableNotFoundError:
            _refuse_half_swapped(lake, name)
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


def _latest(lake: str, name: str, uri: str) -> DeltaTable | None:
    with reading(lake, name):
        known = _opened.get(uri)
        if known is not None and known.is_latest(uri):
            return known.table
    _opened.pop(uri, None)
    with reading(lake, name):
        before = _log_before(uri)  # before the table is opened: a later checkpoint may clean up its log
        if before is None:
            _refuse_half_swapped(lake, name)
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


def open_version(lake: str, name: str, version: int) -> DeltaTable | None:
    """Return the table at an earlier version, or None if it was never created.

    Raises:
        TableUnreadable: The table's log is damaged.
        StorageError: The object store failed.
    """
    uri = table_uri(lake, name)
    with reading(lake, name):
        try:
            return DeltaTable(delta_uri(uri), version=version, storage_options=storage.delta_options(uri))
        except TableNotFoundError:
            return None


KEPT_BYTES = 32 << 20
"""Rows of at most so many bytes are kept for the rest of a look."""
_MOST_OPENED = 64
"""Tables that stay open: those of a few lakes."""


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


def spec_of(name: str, table: DeltaTable) -> TableSpec:
    """Return the actual columns and layout of a table: ours, then the nullable columns that its user added."""
    spec = TABLES[name]
    added = [
        field.with_nullable(True).remove_metadata()
        for field in _schema_of(table)
        if field.name not in spec.schema.names
    ]
    return replace(spec, schema=pa.schema([*spec.schema, *added]))


def _schema_of(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())  # type: ignore[arg-type]


def ensure_table(lake: str, name: str) -> DeltaTable:
    """Return the table as this version declares it: created empty if it does not exist, otherwise brought up to date.

    Raises:
        TableUnreadable: It exists, and its log is damaged.
    """
    table = open_or_create(lake, name)
    bring_up_to_date(table, name)
    return table


def open_or_create(lake: str, name: str) -> DeltaTable:
    """Return the table as it is; create it empty if it does not exist.

    Raises:
        TableUnreadable: It exists, and its log is damaged.
    """
    spec = TABLES[name]
    uri = table_uri(lake, name)
    if not storage.is_remote(lake) and not os.path.isdir(uri):
        _refuse_half_swapped(lake, name)
    prepare(uri)
    return open_table(lake, name) or DeltaTable.create(
        delta_uri(uri),
        schema=Schema(list(_commented_fields(spec))),
        mode="ignore",
        partition_by=list(spec.partition_by),
        description=spec.one_row,
        storage_options=storage.delta_options(lake),
        configuration={
            "delta.enableDeletionVectors": "false",
            "delta.checkpointPolicy": "classic",
            STATISTICS_PROPERTY: ",".join(spec.statistics),
        },
        commit_properties=_BY_US,
    )


def bring_up_to_date(table: DeltaTable, name: str) -> int:
    """Add columns that later versions introduced, and our comments where the table or a column has none.

    A comment that a user wrote stays. Commits have no data files, and our mark.

    Returns:
        The number of commits; 0 if nothing was missing.
    """
    spec, made = TABLES[name], 0
    there = {field.name: field for field in table.schema().fields}
    due = [f for f in _commented_fields(spec) if f.name not in there or COMMENT not in there[f.name].metadata]
    if due:  # of columns that are there, only the comment is new
        table.alter.add_columns(due, commit_properties=_BY_US)
        made += 1
    if not table.metadata().description:
        table.alter.set_table_description(spec.one_row, commit_properties=_BY_US)
        made += 1
    return made


def separating_column(table: DeltaTable, name: str) -> str | None:
    """Return the column that separates the table's files; None if the table keeps no statistics of it.

    A table of an earlier version keeps none, and the property stays as it is: where Arrow finds no statistics of a
    column that the property names, it takes the file for one without matching rows.
    """
    column, stated = TABLES[name].separated_by, table.metadata().configuration.get(STATISTICS_PROPERTY)
    return column if stated is None or column in stated.split(",") else None


@lru_cache(maxsize=32)
def _commented_fields(spec: TableSpec) -> tuple[Field, ...]:
    return tuple(
        Field(field.name, field.type, nullable=field.nullable, metadata={COMMENT: spec.meaning(field.name)})
        for field in Schema.from_arrow(spec.schema).fields
    )


def open_dataset(lake: str, name: str, table: DeltaTable) -> ds.Dataset:
    """Return the table's files as an Arrow dataset, read through Arrow's own filesystem.

    Delta's default is a filesystem in Python: Arrow's threads may still be closing files through it when the
    interpreter ends, and then the process dies instead of ending with its exit code.
    """
    return table.to_pyarrow_dataset(filesystem=storage.arrow_filesystem(table_uri(lake, name)))


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
    pinned = _pinned.get()
    if pinned is None:
        return _read_rows(lake, name, columns, where)
    conditions = tuple((column, operator, repr(value)) for column, operator, value in where or ())
    key = table_uri(lake, name), None if columns is None else tuple(columns), conditions
    rows = pinned.rows.get(key)
    if rows is None:
        rows = _read_rows(lake, name, columns, where)
        if rows.nbytes <= KEPT_BYTES:
            pinned.rows[key] = rows
    return rows


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
        for column, operator, value in where or ():
            is_there = column in dataset.schema.names
            term = _term(spec, column, operator, value) if is_there else ds.scalar(_null_meets(operator, value))
            condition = term if condition is None else condition & term
        there = [column for column in schema.names if column in dataset.schema.names]
        taken = pa.schema([dataset.schema.field(column) for column in there])
        rows = pa.Table.from_batches(scan(dataset, there, condition), taken)
        for field in schema:
            if field.name not in there:  # a table of a version without this column
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        return rows.select(schema.names).cast(schema)


def table_of(rows: Sequence[object], schema: pa.Schema) -> pa.Table:
    """Return rows as Arrow, from objects that have an attribute for each column."""
    names = schema.names
    columns = zip(*map(attrgetter(*names), rows), strict=True) if rows else ((),) * len(names)
    return pa.table(
        [pa.array(values, field.type) for field, values in zip(schema, columns, strict=True)], schema=schema
    )


def _null_meets(operator: str, value: Any) -> bool:
    """Whether rows of a version without a column meet a condition on it."""
    return operator == "not in" or (operator == "is_null" and bool(value))


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
