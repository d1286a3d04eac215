"""An Avro type and the column that it shares with types of other schemas."""

from __future__ import annotations

from dataclasses import replace

from logcore.values.avro.schema import Again, Array, Fixed, Map, Primitive, RecordType, Type, Union, union_field
from logcore.values.form import EMPTY, ITEMS, JSON, NULL, UNION, Form, ValueColumn

_NULL = Primitive("null")


def avro_form(kind: Type) -> Form:
    """Return the form of the column that a type becomes."""
    match kind:
        case Array(inner) | Map(inner):
            return Form("", union_field(kind), {ITEMS: avro_form(inner)})
        case Union(branches):
            others = [each for each in branches if each != _NULL]
            if len(others) == 1:
                return avro_form(others[0])
            return Form(UNION if others else NULL, "", {union_field(each): avro_form(each) for each in others})
        case RecordType(_, fields):
            parts = {each.name: avro_form(each.type) for each in fields}
            return Form("" if fields else EMPTY, union_field(kind), parts)
        case Again():
            return Form(JSON, union_field(kind))
        case _:
            return Form(NULL if kind == _NULL else "", union_field(kind))


def as_stored(kind: Type, column: ValueColumn | None) -> Type:
    """Return a type without the logical types that its column does not have.

    Args:
        column: None: it has none of them.
    """
    is_several = isinstance(kind, Union) and sum(each != _NULL for each in kind.branches) > 1
    if column is not None and column.is_union and not is_several and not isinstance(kind, Union):
        column = column.parts.get(union_field(kind))
    match kind:
        case Array(items):
            return Array(as_stored(items, column and column.items))
        case Map(values):
            return Map(as_stored(values, column and column.items))
        case Union(branches) if is_several:
            return Union(tuple(as_stored(each, column and column.parts.get(union_field(each))) for each in branches))
        case Union(branches):
            return Union(tuple(as_stored(each, column) for each in branches))
        case RecordType(_, fields):
            stored = (as_stored(each.type, column and column.parts.get(each.name)) for each in fields)
            return replace(kind, fields=tuple(replace(each, type=of) for each, of in zip(fields, stored, strict=True)))
        case Primitive() | Fixed() if kind.logical and not (column and column.is_logical):
            return replace(kind, logical="", precision=0, scale=0)
        case _:
            return kind
