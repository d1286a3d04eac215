"""A decoded column as the type of its table: fields by name, null where the schema that wrote a row has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def aligned(values: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return the same rows as another type.

    Args:
        values: Of one schema.
        kind: A type that `merged_type` made of this schema's type without a conflict.
    """
    if values.type == kind:
        return values
    if pa.types.is_struct(kind):
        return _struct(values, kind)
    if pa.types.is_list(kind):
        return _list(values, kind)
    if pa.types.is_map(kind):
        return pa.array(values.to_pylist(), kind)
    return values.cast(kind)


def _struct(values: Any, kind: pa.DataType) -> pa.Array[Any]:
    there = {values.type.field(at).name: at for at in range(values.type.num_fields)}
    fields = [kind.field(at) for at in range(kind.num_fields)]
    columns = [
        aligned(values.field(there[field.name]), field.type)
        if field.name in there
        else pa.nulls(len(values), field.type)
        for field in fields
    ]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=values.is_null())


def _list(values: Any, kind: Any) -> pa.Array[Any]:
    lengths = np.asarray(pc.list_value_length(values).fill_null(0)).astype(np.int32)
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
    items = aligned(values.flatten(), kind.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets), items, type=kind, mask=values.is_null())
