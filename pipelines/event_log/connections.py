"""Connections to the SQLite files of Dagster's event log that many events share.

Dagster's SQLite storage opens a connection and makes a transaction for each event, so that another process sees each
event of a running step at once: 6 ms. Events that come together share a connection, and a transaction for up to a
second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.event_log.sqlite import sqlite_event_log as dagster_storage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS

SQL: Any = dagster_storage
"""Has what Dagster takes from SQLAlchemy, which is no dependency of ours."""
TRANSACTION_SECONDS = 1.0
"""Other processes that write events wait so long at most."""


@dataclass(slots=True)
class _Shard:
    engine: Any
    connection: Any
    begun: float


class SharedConnections:
    """Connections to the shards of a storage, each open for all uses of one thread.

    Args:
        storage: The storage.
    """

    def __init__(self, storage: SqliteEventLogStorage) -> None:
        self._storage = storage
        self._original = storage._connect
        self._thread = threading.get_ident()
        self._shards: dict[str, _Shard] = {}

    def is_for_this_thread(self) -> bool:
        """Whether the calling thread is the one that made this object."""
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
            engine = SQL.create_engine(
                self._storage.conn_string_for_shard(shard),
                poolclass=SQL.NullPool,
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
