"""Rows of tables as Arrow: read with conditions, and made from objects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_, attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from spark_jobs.lake.delta.tables.snapshots import latest_snapshot, pinned_rows
from spark_jobs.lake.delta.tables.table_location import reading, table_uri
from spark_jobs.lake.delta.tables.table_scan import scan
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import TABLES

KEPT_BYTES = 32 << 20
"""Rows of at most so many bytes are kept for the rest of a look."""


def open_dataset(lake: str, name: str, table: DeltaTable) -> ds.Dataset:
    """Return the table's files as an Arrow dataset, read through Arrow's own filesystem.

    Delta's default is a filesystem in Python: Arrow's threads may still be closing files through it when the
    interpreter ends, and then the process dies instead of ending with its exit code.
    """
    return table.to_pyarrow_dataset(filesystem=storage.arrow_filesystem(table_uri(lake, name)))


def read_rows(
    lake: str, name: str, columns: list[str] | None = None, where: Sequence[tuple[str, str, object]] | None = None
) -> pa.Table:
    """Return rows of a table as Arrow; empty with the table's columns if it was never created.

    Args:
        where: ANDed conditions ``(column, operator, value)`` as ``pyarrow.dataset`` filters.

    Raises:
        TableUnreadable: A file of the table is missing or damaged, or a column is of another type than ours.
        StorageError: The object store failed.
    """
    kept = pinned_rows()
    if kept is None:
        return _read_rows(lake, name, columns, where)
    conditions = tuple((column, operator, repr(value)) for column, operator, value in where or ())
    key = table_uri(lake, name), None if columns is None else tuple(columns), conditions
    rows = kept.get(key)
    if rows is None:
        rows = _read_rows(lake, name, columns, where)
        if rows.nbytes <= KEPT_BYTES:
            kept[key] = rows
    return rows


def table_of(rows: Sequence[object], schema: pa.Schema) -> pa.Table:
    """Return rows as Arrow, from objects that have an attribute for each column."""
    names = schema.names
    columns = zip(*map(attrgetter(*names), rows), strict=True) if rows else ((),) * len(names)
    return pa.table(
        [pa.array(values, field.type) for field, values in zip(schema, columns, strict=True)], schema=schema
    )


def _read_rows(
    lake: str, name: str, columns: list[str] | None, where: Sequence[tuple[str, str, object]] | None
) -> pa.Table:
    spec = TABLES[name]
    schema = spec.schema if columns is None else pa.schema([spec.schema.field(c) for c in columns])
    table = latest_snapshot(lake, name)
    if table is None:
        return schema.empty_table()
    condition = None
    with reading(lake, name):
        dataset = open_dataset(lake, name, table)
        # A column of a later version is null until the next commit adds it to the table.
        if more := [field for field in spec.schema if field.name not in dataset.schema.names]:
            dataset = dataset.replace_schema(pa.schema([*dataset.schema, *more]))  # type: ignore[func-returns-value, assignment]
        for column, operator, value in where or ():
            term = _term(spec, column, operator, value)
            condition = term if condition is None else condition & term
        taken = pa.schema([dataset.schema.field(column) for column in schema.names])
        return pa.Table.from_batches(scan(dataset, schema.names, condition), taken).cast(schema)


def _term(spec: TableSpec, column: str, operator: str, value: Any) -> ds.Expression:
    field = ds.field(column)
    if operator == "in":  # typed, because an empty list has no type of its own
        return field.isin(pa.array(value, spec.schema.field(column).type))
    if operator == "not in":  # null is in no list. Arrow excludes files by these comparisons, but not by `~isin`.
        others = [field.is_null() | (field < each) | (field > each) for each in value]
        return reduce(and_, others, ds.scalar(True))
    if operator == "is_null":
        return field.is_null() if value else field.is_valid()  # type: ignore[return-value]
    comparison: ds.Expression = {"==": field.__eq__, ">=": field.__ge__, "<": field.__lt__}[operator](value)
    return comparison
