"""Columns of the view of a table: each field of a decoded key or value becomes a column.

Field ``a`` of ``value`` is the column ``value_a``. SQL compares names without case. So where fields differ by case
only, the first keeps this name. The next ones end with ``_2``, ``_3`` and so on, the lowest number that is
free.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

FLATTENED = ("key", "value")
"""Columns of a decoded table whose structs become columns."""


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of a view."""

    name: str
    column: str
    """Column of the table that it comes from."""
    field: str | None = None
    """Field of that struct; None: the whole column."""
    position: int = 0
    """Position of the field in its struct, from 1."""
    comment: str = ""
    """What the schema says about it, on one line."""


def view_columns(schema: pa.Schema, flattened: Iterable[str] = FLATTENED) -> tuple[ViewColumn, ...]:
    """Return the columns of the view of a table; fields of structs in the columns ``flattened`` become columns."""
    chosen = frozenset(flattened)
    taken = {field.name.casefold() for field in schema if not _is_split(field, chosen)}
    found: list[ViewColumn] = []
    for field in schema:
        if not _is_split(field, chosen):
            found.append(ViewColumn(field.name, field.name, comment=_comment(field)))
            continue
        for position in range(field.type.num_fields):
            inner = field.type.field(position)
            name = _free(f"{field.name}_{inner.name}", taken)
            taken.add(name.casefold())
            found.append(ViewColumn(name, field.name, inner.name, position + 1, _comment(inner)))
    return tuple(found)


def _is_split(field: pa.Field[pa.DataType], chosen: frozenset[str]) -> bool:
    return field.name in chosen and pa.types.is_struct(field.type)


def _comment(field: pa.Field[pa.DataType]) -> str:
    return " ".join((field.metadata or {}).get(b"comment", b"").decode().split())


def _free(name: str, taken: set[str]) -> str:
    found, number = name, 1
    while found.casefold() in taken:
        number += 1
        found = f"{name}_{number}"
    return found
