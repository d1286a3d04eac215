"""Fewer transactions for the events of a run that is recorded after it ended.

Dagster's SQLite storage opens a connection and makes a transaction for each event, so that another process sees each
event of a running step at once: 6 ms. The events of a finished run come all together. They share a connection, and a
transaction for up to a second. The row of an asset, which has its latest event, is updated once in a transaction.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dagster import EventLogEntry
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.event_log.sqlite import sqlite_event_log as dagster_storage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS

_SQL: Any = dagster_storage
"""Has what Dagster takes from SQLAlchemy, which is no dependency of ours."""
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
    storage._connect = shared.connect  # type: ignore[method-assign]
    storage._store_asset_event = shared.keep_latest  # type: ignore[method-assign]
    try:
        yield
    finally:
        try:
            shared.close()
        finally:
            del storage._connect, storage._store_asset_event  # the methods of the class again


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
        self._store_latest = storage._store_asset_event
        self._thread = threading.get_ident()
        self._shards: dict[str, _Shard] = {}
        self._latest: dict[tuple[str, str], tuple[Any, EventLogEntry, int]] = {}
        """By asset and type: connection, event and its id."""

    @contextmanager
    def connect(self, shard: str) -> Iterator[Any]:
        """Yield a connection with an open transaction, as ``SqliteEventLogStorage._connect``."""
        if threading.get_ident() != self._thread:
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
            self._latest = {key: kept for key, kept in self._latest.items() if kept[0] is not opened.connection}
            opened.connection.rollback()
            raise
        if time.monotonic() - opened.begun > TRANSACTION_SECONDS:
            self._store_assets(opened.connection)
            opened.connection.commit()

    def keep_latest(self, conn: Any, event: EventLogEntry, event_id: int) -> None:
        """Keep an event for the row of its asset, as ``SqlEventLogStorage._store_asset_event``."""
        dagster_event = event.dagster_event
        if threading.get_ident() != self._thread or dagster_event is None or dagster_event.asset_key is None:
            self._store_latest(conn, event, event_id)
            return
        key = (dagster_event.asset_key.to_string(), dagster_event.event_type_value)
        self._latest.pop(key, None)  # the order stays the order of the latest events
        self._latest[key] = conn, event, event_id

    def _store_assets(self, connection: Any) -> None:
        of_shard = [key for key, (its, _, _) in self._latest.items() if its is connection]
        for key in of_shard:
            self._store_latest(*self._latest.pop(key))

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
                self._store_assets(opened.connection)
                opened.connection.commit()
