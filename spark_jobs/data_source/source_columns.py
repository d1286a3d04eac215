"""The columns of the data source: those of `records`, with their types in Spark and in Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a session that only looks for data sources loads no Arrow
    import pyarrow as pa

KAFKA_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""Those of Spark's Kafka source, in its order; with `includeHeaders` then `headers`."""


def arrow_types() -> Mapping[str, pa.DataType]:
    """Return the type of each column in Arrow, as Spark expects it."""
    import pyarrow as pa

    from logcore.columns.records_columns import RECORDS_SCHEMA

    def named(kind: pa.DataType) -> pa.DataType:
        return pa.list_(pa.field("element", kind.value_type)) if pa.types.is_list(kind) else kind

    return {field.name: named(field.type) for field in RECORDS_SCHEMA}


def spark_types() -> Mapping[str, str]:
    """Return the type of each column in Spark, as a schema in text names it."""
    return {name: _spark_type(kind) for name, kind in arrow_types().items()}


def _spark_type(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_list(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{_spark_type(field.type)}' for field in kind)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return {"int32": "int", "int64": "bigint"}.get(str(kind), str(kind))
