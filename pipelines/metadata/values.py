"""Metadata of steps and checks as plain values; :mod:`pipelines.events` turns them into Dagster's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

MAX_ROWS = 50

Cell: TypeAlias = str | int | None


@dataclass(frozen=True, slots=True)
class PathValue:
    """A file or directory."""

    path: str


@dataclass(frozen=True, slots=True)
class LinkValue:
    """The address of a page: with a scheme, or a path on the webserver that shows it."""

    address: str


@dataclass(frozen=True, slots=True)
class MarkdownValue:
    """A text in Markdown."""

    text: str


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A value that JSON can express."""

    content: Any


@dataclass(frozen=True, slots=True)
class TableValue:
    """A table for people; all columns are shown as text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


Value: TypeAlias = str | int | float | bool | PathValue | LinkValue | MarkdownValue | JsonValue | TableValue | None
Metadata: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Observation:
    """A remark about an asset although a run did not change it."""

    asset: str
    metadata: Metadata
    description: str | None = None


def table_value(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> TableValue:
    """A table with at most :data:`MAX_ROWS` rows; the last line says how many are not shown."""
    shown = [tuple("" if cell is None else cell for cell in row) for row in rows[:MAX_ROWS]]
    if len(rows) > MAX_ROWS:
        shown.append((f"and {len(rows) - MAX_ROWS:,} more", *["…"] * (len(columns) - 1)))
    return TableValue(tuple(columns), tuple(shown))
