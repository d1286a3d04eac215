"""A decoded column as the type of its table: fields by name, null where the schema that wrote a row has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logcore.values.evolution.merged_type import fits
from logcore.values.form import ITEMS, UNION, Form, ValueColumn


def aligned(values: Any, form: Form, column: ValueColumn, format: str) -> Any:
    """Return the same rows as another type.

    Args:
        values: Of one schema.
        form: Of the same schema's column.
        column: What `merged_column` made of this schema's column without a conflict.
        format: Of the schema.

    Raises:
        pa.ArrowInvalid: A whole number is beyond those that a double holds exactly.
    """
    kind: Any = column.kind
    maps: Any = pa.MapArray
    if values.type == kind:
        return values
    if values.null_count == len(values):
        return pa.nulls(len(values), kind)
    if column.is_union and not ValueColumn(values.type, form).is_union:
        name = _branch(ValueColumn(values.type, form), column, format)
        fields = [pa.field(name, values.type)]
        values = pa.StructArray.from_arrays([values], fields=fields, mask=values.is_null())
        form = Form(UNION, "", {name: form})
    if pa.types.is_struct(kind):
        return _struct(values, form, column, format)
    items = column.items
    if items is None:
        return (values.cast(pa.int16()) if pa.types.is_boolean(values.type) else values).cast(kind)
    if not pa.types.is_list(values.type) and not pa.types.is_map(values.type):  # one value becomes a list of one
        one = aligned(values.drop_null(), form, items, format)
        return pa.ListArray.from_arrays(_offsets(np.asarray(values.is_valid())), one, type=kind)
    if isinstance(kind, pa.MapType):
        own: Any = values.type
        listed = values.cast(pa.list_(pa.struct([own.key_field, own.item_field])))
        keys, inner = listed.flatten().flatten()
        inner = aligned(inner, form.of(ITEMS), items, format)
        offsets = _offsets(pc.list_value_length(listed).fill_null(0))
        return maps.from_arrays(offsets, keys.cast(kind.key_type), inner, type=kind, mask=values.is_null())
    inner = aligned(values.flatten(), form.of(ITEMS), items, format)
    offsets = _offsets(pc.list_value_length(values).fill_null(0))
    return pa.ListArray.from_arrays(offsets, inner, type=kind, mask=values.is_null())


def _struct(values: Any, form: Form, column: ValueColumn, format: str) -> Any:
    there = ValueColumn(values.type).parts  # none of a record without fields: its values are text
    kind: Any = column.kind
    columns = [
        aligned(values.field(name) if name in there else pa.nulls(len(values)), form.of(name), part, format)
        for name, part in column.parts.items()
    ]
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=values.is_null())


def _branch(column: ValueColumn, union: ValueColumn, format: str) -> str:
    """The field of a union that takes the values of a column, that of its name before others."""
    for name, part in sorted(union.parts.items(), key=lambda each: each[0] != column.form.branch):
        if fits(part, column, format):
            return name
    raise pa.ArrowInvalid("no type of the union takes the values")


def _offsets(lengths: Any) -> Any:
    found = np.cumsum(np.asarray(lengths), dtype=np.int32)
    return pa.array(np.concatenate([np.zeros(1, np.int32), found]))
