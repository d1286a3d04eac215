"""Rows of the event log for many materializations of one asset that differ in partition and metadata only.

Dagster makes 2 ms of Python of each event: objects, checks, JSON. Here it makes one event of each kind, with marks in
place of the values, and every other event of that kind is its JSON with values in place of the marks. The rows are
those that Dagster would store. If they are not, for instance with another release, it makes every event itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import dagster as dg
from dagster import EventLogEntry
from dagster._core.storage.event_log import SqliteEventLogStorage

from pipelines.events import as_metadata
from pipelines.metadata.values import Metadata, PathValue, Value

Row: TypeAlias = dict[str, Any]
"""A row of the table ``event_logs``."""
_KIND: TypeAlias = tuple[Any, ...]
_FIRST_NUMBER = 7_310_592_648_000_000
"""Marks in place of numbers; larger than any number of a lake, and exact in JSON."""


@dataclass(frozen=True, slots=True)
class KeyEvent:
    """A materialization of one partition key, as plain values."""

    key: str
    metadata: Metadata


def repeated_rows(storage: SqliteEventLogStorage, entry: EventLogEntry, events: Iterable[KeyEvent]) -> Iterator[Row]:
    """Yield a row for each of the events, equal to ``entry`` but for key and metadata.

    Args:
        storage: Makes the rows of events that Dagster makes.
        entry: A materialization of the same asset, step and run.
        events: The events.
    """
    templates: dict[_KIND, _Template | None] = {}
    for event in events:
        kind = _kind_of(event.metadata)
        if kind not in templates:
            templates[kind] = _Template.of(storage, entry, event)
        template = templates[kind]
        yield storage._event_to_row(with_values(entry, event)) if template is None else template.row(event)


def with_values(entry: EventLogEntry, event: KeyEvent) -> EventLogEntry:
    """The entry with the key and the metadata of an event, made by Dagster's own classes."""
    dagster_event = entry.get_dagster_event()
    data: Any = dagster_event.event_specific_data
    old = data.materialization
    made = dg.AssetMaterialization(old.asset_key, partition=event.key, metadata=as_metadata(event.metadata))
    new = old._replace(partition=made.partition, metadata=made.metadata)
    return entry._replace(dagster_event=dagster_event._replace(event_specific_data=data._replace(materialization=new)))


@dataclass(frozen=True, slots=True)
class _Template:
    """The row of an event, and its JSON cut at each mark."""

    fields: Row
    pieces: tuple[str, ...]
    order: tuple[int, ...]
    """Which value follows each piece but the last."""

    @classmethod
    def of(cls, storage: SqliteEventLogStorage, entry: EventLogEntry, event: KeyEvent) -> _Template | None:
        """The template for events of this kind; None if it would not make the row that Dagster makes of this one."""
        marks = [_mark(at, value) for at, value in enumerate(_values(event))]
        filled = dict(zip(_open(event.metadata), marks[1:], strict=True))
        marked = KeyEvent(_plain(marks[0]), {name: filled.get(name, value) for name, value in event.metadata.items()})
        content: str = storage._event_to_row(with_values(entry, marked))["event"]
        texts = [json.dumps(_plain(mark)) for mark in marks]
        if any(content.count(text) != 1 for text in texts):
            return None
        order = sorted(range(len(texts)), key=lambda at: content.index(texts[at]))
        pieces = []
        for at in order:
            piece, _, content = content.partition(texts[at])
            pieces.append(piece)
        expected = storage._event_to_row(with_values(entry, event))
        made = cls(expected, (*pieces, content), tuple(order))
        return made if made.row(event) == expected else None

    def row(self, event: KeyEvent) -> Row:
        """The row of an event of this kind."""
        values = [json.dumps(_plain(value)) for value in _values(event)]
        parts = [self.pieces[0]]
        for piece, at in zip(self.pieces[1:], self.order, strict=True):
            parts += values[at], piece
        return {**self.fields, "event": "".join(parts), "partition": event.key}


def _kind_of(metadata: Metadata) -> _KIND:
    """Events of one kind have the same names, the same types, and the same values where no mark can be placed."""
    return tuple((name, type(value), None if _is_open(value) else repr(value)) for name, value in metadata.items())


def _is_open(value: Value) -> bool:
    """Whether a mark can take the place of a value."""
    return isinstance(value, str | PathValue) or (isinstance(value, int) and not isinstance(value, bool))


def _open(metadata: Mapping[str, Value]) -> list[str]:
    return [name for name, value in metadata.items() if _is_open(value)]


def _values(event: KeyEvent) -> list[Value]:
    return [event.key, *(value for value in event.metadata.values() if _is_open(value))]


def _mark(at: int, value: Value) -> Value:
    text = f"a mark in place of a value, number {at:04d}"
    if isinstance(value, int):
        return _FIRST_NUMBER + at
    return PathValue(text) if isinstance(value, PathValue) else text


def _plain(value: Value) -> Any:
    return value.path if isinstance(value, PathValue) else value
