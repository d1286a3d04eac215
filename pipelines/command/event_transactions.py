"""Fewer transactions for the events of a run that is recorded after it ended.

Dagster's SQLite storage opens a connection and makes a transaction for each event, so that another process sees each
event of a running step at once: 6 ms. The events of a finished run come all together. They share a connection, and a
transaction for up to a second; materializations share statements too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dagster import DagsterEventType, EventLogEntry
from dagster._core.storage.event_log import SqlEventLogStorageTable, SqliteEventLogStorage
from dagster._core.storage.event_log.sqlite import sqlite_event_log as dagster_storage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS

_SQL: Any = dagster_storage
"""Has what Dagster takes from SQLAlchemy, which is no dependency of ours."""
STATEMENT_EVENTS = 500
"""Materializations that one statement stores."""
TRANSACTION_SECONDS = 1.0
"""Other processes that write events wait so long at most."""


@contextmanager
def few_transactions(storage: object) -> Iterator[None]:
    """Let events that this thread stores inside the block share transactions; they are all stored at its end.

    Args:
        storage: An event log storage. Only Dagster's SQLite storage is changed.
    """
    if not isinstance(storage, SqliteEventLogStorage):
        yield
        return
    shared = _SharedConnections(storage)
    waiting = _Materializations(storage, shared)
    storage._connect = shared.connect  # type: ignore[method-assign]
    storage.store_event = waiting.store  # type: ignore[method-assign]
    try:
        yield
    finally:
        try:
            waiting.flush()
            shared.close()
        finally:
            del storage._connect, storage.store_event  # the methods of the class again


class _Materializations:
    """Materializations that wait, so that one statement stores many of them. All other events are stored at once."""

    def __init__(self, storage: SqliteEventLogStorage, shared: _SharedConnections) -> None:
        self._storage = storage
        self._shared = shared
        self._store_one = storage.store_event
        self._waiting: list[EventLogEntry] = []

    def store(self, event: EventLogEntry) -> None:
        """Store an event after all earlier ones, as ``SqliteEventLogStorage.store_event``."""
        if not self._shared.is_for_this_thread():
            self._store_one(event)
            return
        if event.dagster_event_type is not DagsterEventType.ASSET_MATERIALIZATION:
            self.flush()
            self._store_one(event)
            return
        if len(self._waiting) >= STATEMENT_EVENTS or (self._waiting and self._waiting[0].run_id != event.run_id):
            self.flush()
        self._waiting.append(event)

    def flush(self) -> None:
        """Store what waits."""
        events, self._waiting = self._waiting, []
        if not events:
            return
        rows = [self._storage._event_to_row(event) for event in events]
        with self._storage.run_connection(events[0].run_id) as connection:
            connection.execute(SqlEventLogStorageTable.insert(), rows)
        with self._storage.index_connection() as connection:
            connection.execute(SqlEventLogStorageTable.insert(), rows)
            # Ids rise by one inside a transaction, because nothing else can write.
            last = connection.exec_driver_sql("SELECT MAX(id) FROM event_logs").scalar_one()
            ids = range(last - len(events) + 1, last + 1)
            self._storage._store_asset_event_tags(connection, events, ids)
            # The row of an asset has its latest event.
            latest = {_asset(event): (event, at) for event, at in zip(events, ids, strict=True)}
            for event, at in latest.values():
                self._storage._store_asset_event(connection, event, at)


@dataclass(slots=True)
class _Shard:
    engine: Any
    connection: Any
    begun: float


class _SharedConnections:
    """Connections to the shards of a storage, each open for all uses of one thread."""

    def __init__(self, storage: SqliteEventLogStorage) -> None:
        self._storage = storage
        self._original = storage._connect
        self._thread = threading.get_ident()
        self._shards: dict[str, _Shard] = {}

    def is_for_this_thread(self) -> bool:
        """Whether the calling thread is the one that opened the block."""
        return threading.get_ident() == self._thread

    @contextmanager
    def connect(self, shard: str) -> Iterator[Any]:
        """Yield a connection with an open transaction, as ``SqliteEventLogStorage._connect``."""
        if not self.is_for_this_thread():
            with self._original(shard) as connection:
                yield connection
            return
        if shard not in self._shards:
            # Creates the tables of a new shard, under a lock. Another thread may hold it and wait for our transaction.
            self._commit()
            with self._original(shard):
                pass
            engine = _SQL.create_engine(
                self._storage.conn_string_for_shard(shard),
                poolclass=_SQL.NullPool,
                connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS},
            )
            self._shards[shard] = _Shard(engine, engine.connect(), 0.0)
        opened = self._shards[shard]
        if not opened.connection.in_transaction():
            opened.connection.begin()
            opened.begun = time.monotonic()
        try:
            yield opened.connection
        except BaseException:
            opened.connection.rollback()
            raise
        if time.monotonic() - opened.begun > TRANSACTION_SECONDS:
            opened.connection.commit()

    def close(self) -> None:
        """Commit and close all connections."""
        try:
            self._commit()
        finally:
            for opened in self._shards.values():
                opened.connection.close()
                opened.engine.dispose()

    def _commit(self) -> None:
        for opened in self._shards.values():
            if opened.connection.in_transaction():
                opened.connection.commit()


def _asset(event: EventLogEntry) -> str:
    key = event.get_dagster_event().asset_key
    return "" if key is None else key.to_string()
