"""The common type of two schemas, and how they differ.

Fields are matched by name. A field that only one of them has is null in rows of the other. Whole numbers of 32 bits fit
into 64 bits, and so do floating-point numbers. Every other difference is a conflict: no value is ever changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

_WIDER = {(pa.int16(), pa.int32()), (pa.int16(), pa.int64()), (pa.int32(), pa.int64()), (pa.float32(), pa.float64())}


@dataclass(frozen=True, slots=True)
class MergedType:
    """The common type of a known type and of another one, with the differences as phrases for people."""

    kind: pa.DataType
    """The fields of the known type in their order, then the new ones. Without meaning if there are conflicts."""
    added: tuple[str, ...] = ()
    """Fields that the known type does not have, such as ``+ value.note: string``."""
    widened: tuple[str, ...] = ()
    """Numbers of the known type that need more bits, such as ``value.id: int32 → int64``."""
    conflicts: tuple[str, ...] = ()
    """Differences that no common type covers, such as ``value.price: int64 → string``."""


def merged_type(known: pa.DataType, other: pa.DataType, place: str = "value") -> MergedType:
    """Return the common type of two types.

    Args:
        known: Type of a column that has rows already, or of earlier schemas.
        other: Type of one more schema.
        place: What the types are called in the phrases.
    """
    if pa.types.is_struct(known) and pa.types.is_struct(other):
        return _structs(known, other, place)
    if pa.types.is_list(known) and pa.types.is_list(other):
        inner = merged_type(known.value_type, other.value_type, f"{place}[]")
        return _around(pa.list_(known.value_field.with_type(inner.kind)), [inner])
    if pa.types.is_map(known) and pa.types.is_map(other) and known.key_type == other.key_type:
        inner = merged_type(known.item_type, other.item_type, f"{place}{{}}")
        return _around(pa.map_(known.key_type, inner.kind), [inner])
    if known == other or (other, known) in _WIDER:
        return MergedType(known)
    said = f"{place}: {_name(known)} → {_name(other)}"
    if (known, other) in _WIDER:
        return MergedType(other, widened=(said,))
    return MergedType(known, conflicts=(said,))


def _structs(known: pa.DataType, other: pa.DataType, place: str) -> MergedType:
    others = {field.name: field for field in _fields(other)}
    fields, inner, added, conflicts = [], [], [], []
    for field in _fields(known):
        twin = others.pop(field.name, None)
        if twin is None:
            fields.append(field.with_nullable(True))
            continue
        made = merged_type(field.type, twin.type, f"{place}.{field.name}")
        inner.append(made)
        fields.append(field.with_type(made.kind).with_nullable(field.nullable or twin.nullable))
    names = {field.name.casefold(): field.name for field in fields}
    for field in others.values():
        clash = names.get(field.name.casefold())
        if clash is not None:
            conflicts.append(f"{place}.{clash} and {place}.{field.name} differ by case only")
            continue
        added.append(f"+ {place}.{field.name}: {_name(field.type)}")
        fields.append(field.with_nullable(True))
    return _around(pa.struct(fields), inner, added, conflicts)


def _around(
    kind: pa.DataType, inner: Iterable[MergedType], added: Iterable[str] = (), conflicts: Iterable[str] = ()
) -> MergedType:
    parts = list(inner)
    return MergedType(
        kind,
        (*(each for part in parts for each in part.added), *added),
        tuple(each for part in parts for each in part.widened),
        (*(each for part in parts for each in part.conflicts), *conflicts),
    )


def _fields(kind: pa.DataType) -> list[pa.Field[Any]]:
    return [kind.field(at) for at in range(kind.num_fields)]


def _name(kind: pa.DataType) -> str:
    """The type in a word or two: a struct's fields could fill a page."""
    if pa.types.is_struct(kind):
        return f"struct of {kind.num_fields} fields"
    return "list" if pa.types.is_list(kind) else "map" if pa.types.is_map(kind) else str(kind)
