"""Fewer transactions and statements for events that come together.

The events of a run that is recorded after it ended come all together, and so do the materializations of many partition
keys. They share transactions (``connections``). Materializations share statements too, and those of many keys are
copies of one event (``repeated_events``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import dagster as dg
from dagster import DagsterEventType, EventLogEntry
from dagster._core.storage.event_log import SqlEventLogStorageTable, SqliteEventLogStorage

from pipelines.event_log.connections import SharedConnections
from pipelines.event_log.repeated_events import KeyEvent, Row, repeated_rows, with_values
from pipelines.events import as_metadata

STATEMENT_EVENTS = 500
"""Materializations that one statement stores."""


def log_materializations(
    context: dg.AssetExecutionContext | dg.OpExecutionContext, asset: dg.AssetKey, events: Sequence[KeyEvent]
) -> None:
    """Log a materialization of an asset for each of many keys.

    Args:
        context: Of the step that made them.
        asset: The asset.
        events: At least one.
    """
    first, *others = events
    with few_transactions(context.instance.event_log_storage) as waiting:
        context.log_event(_materialization(asset, first))
        if waiting is None:
            for event in others:
                context.log_event(_materialization(asset, event))
        else:
            waiting.repeat_last(others)


def _materialization(asset: dg.AssetKey, event: KeyEvent) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(asset, partition=event.key, metadata=as_metadata(event.metadata))


@contextmanager
def few_transactions(storage: object) -> Iterator[WaitingMaterializations | None]:
    """Let events that this thread stores inside the block share transactions; they are all stored at its end.

    Args:
        storage: An event log storage. Only Dagster's SQLite storage is changed.

    Yields:
        The materializations that wait to be stored; None for another storage.
    """
    if not isinstance(storage, SqliteEventLogStorage):
        yield None
        return
    outer = getattr(storage.store_event, "__self__", None)
    if isinstance(outer, WaitingMaterializations) and outer.is_for_this_thread():
        yield outer
        return
    shared = SharedConnections(storage)
    waiting = WaitingMaterializations(storage, shared)
    storage._connect = shared.connect  # type: ignore[method-assign]
    storage.store_event = waiting.store  # type: ignore[method-assign]
    try:
        yield waiting
    finally:
        try:
            waiting.flush()
            shared.close()
        finally:
            del storage._connect, storage.store_event  # the methods of the class again


def store_waiting(storage: object) -> None:
    """Store the materializations that wait inside :func:`few_transactions`, so that a query finds them."""
    waiting = getattr(getattr(storage, "store_event", None), "__self__", None)
    if isinstance(waiting, WaitingMaterializations) and waiting.is_for_this_thread():
        waiting.flush()


class WaitingMaterializations:
    """Materializations that wait, so that one statement stores many of them. All other events are stored at once.

    Args:
        storage: Dagster's storage.
        shared: The connections to its files.
    """

    def __init__(self, storage: SqliteEventLogStorage, shared: SharedConnections) -> None:
        self._storage = storage
        self._shared = shared
        self._store_one = storage.store_event
        self._waiting: list[EventLogEntry] = []
        self._last: EventLogEntry | None = None

    def is_for_this_thread(self) -> bool:
        """Whether events of the calling thread wait here."""
        return self._shared.is_for_this_thread()

    def store(self, event: EventLogEntry) -> None:
        """Store an event after all earlier ones, as ``SqliteEventLogStorage.store_event``."""
        if not self.is_for_this_thread():
            self._store_one(event)
            return
        if event.dagster_event_type is not DagsterEventType.ASSET_MATERIALIZATION:
            self.flush()
            self._store_one(event)
            return
        if len(self._waiting) >= STATEMENT_EVENTS or (self._waiting and self._waiting[0].run_id != event.run_id):
            self.flush()
        self._waiting.append(event)
        self._last = event

    def repeat_last(self, events: Sequence[KeyEvent]) -> None:
        """Store the materialization that was stored last once more for each of these keys, with other metadata.

        Args:
            events: The keys and their metadata.

        Raises:
            ValueError: No materialization was stored.
        """
        if self._last is None:
            raise ValueError("no materialization was stored that could be repeated")
        if self._last.get_dagster_event().step_materialization_data.materialization.tags:  # have rows of their own
            for event in events:
                self.store(with_values(self._last, event))
            return
        self.flush()
        rows = repeated_rows(self._storage, self._last, events)
        for at in range(0, len(events), STATEMENT_EVENTS):
            latest = with_values(self._last, events[min(at + STATEMENT_EVENTS, len(events)) - 1])
            self._insert(list(itertools.islice(rows, STATEMENT_EVENTS)), [latest])

    def flush(self) -> None:
        """Store what waits."""
        events, self._waiting = self._waiting, []
        if events:
            self._insert([self._storage._event_to_row(event) for event in events], events)

    def _insert(self, rows: Sequence[Row], events: Sequence[EventLogEntry]) -> None:
        """Insert rows; ``events`` are those of the last ones, and no earlier one has tags."""
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


def _asset(event: EventLogEntry) -> str:
    key = event.get_dagster_event().asset_key
    return "" if key is None else key.to_string()
