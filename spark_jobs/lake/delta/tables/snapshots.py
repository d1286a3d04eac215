"""Tables at one of their versions: opened, shared while that version is the latest, or pinned for one look."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from spark_jobs.lake.delta.tables.delta_location import LOG_DIRECTORY, delta_uri
from spark_jobs.lake.delta.tables.table_location import reading, refuse_half_swapped, table_uri
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import TABLES

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
