"""How tables are created and brought up to date: columns, comments and the layout of their ``TableSpec``.

Every table is Delta at reader version 1, writer version 2, without deletion vectors or column mapping, so that
every Delta reader can read it. Statistics are kept on the columns that plans filter by.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema

from logcore.values.evolution.merged_type import merged_type
from spark_jobs.lake.delta.tables.delta_location import delta_uri, prepare
from spark_jobs.lake.delta.tables.snapshots import open_table, refuse_half_swapped, table_uri
from spark_jobs.lake.field_ids import as_in_table, with_entry
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import TABLES

_BY_US = CommitProperties(custom_metadata={"userMetadata": json.dumps({"run_id": "tables"})})
"""Marks our commits that create or describe a table, to distinguish them from those of other programs."""

STATISTICS_PROPERTY = "delta.dataSkippingStatsColumns"
"""Delta's table property: the columns with statistics."""

COMMENT = b"comment"
"""Key of a column's comment in its metadata, as Spark reads it."""


def ensure_table(lake: str, name: str) -> DeltaTable:
    """Return the table as this version declares it: created empty if it does not exist, otherwise brought up to date.

    Raises:
        TableUnreadable: It exists, and its log is damaged.
    """
    table = open_or_create(lake, name, TABLES[name])
    bring_up_to_date(table, TABLES[name])
    return table


def open_or_create(lake: str, name: str, spec: TableSpec) -> DeltaTable:
    """Return the table as it is; create it empty if it does not exist.

    Raises:
        TableUnreadable: It exists, and its log is damaged.
    """
    uri = table_uri(lake, name)
    if not storage.is_remote(lake) and not os.path.isdir(uri):
        refuse_half_swapped(lake, name)
    prepare(uri)
    return open_table(lake, name) or DeltaTable.create(
        delta_uri(uri),
        schema=Schema(list(_commented_fields(spec))),
        mode="ignore",
        partition_by=list(spec.partition_by),
        description=spec.one_row,
        storage_options=storage.delta_options(lake),
        configuration={
            "delta.enableDeletionVectors": "false",
            "delta.checkpointPolicy": "classic",
            STATISTICS_PROPERTY: ",".join(spec.statistics),
        },
        commit_properties=_BY_US,
    )


def bring_up_to_date(table: DeltaTable, spec: TableSpec) -> int:
    """Add columns and nested fields that only ``spec`` has.

    The commit has our mark, and no data files, which could not do it.

    Returns:
        The number of commits; 0 if nothing was missing.
    """
    there = {field.name: field for field in table.schema().fields}
    due = [f for f in _commented_fields(spec) if f.name not in there or _has_more(f, there[f.name])]
    if not due:
        return 0
    table.alter.add_columns(due, commit_properties=_BY_US)
    table.update_incremental()  # guards are compared with what others committed too
    return 1


def spec_of(name: str, table: DeltaTable) -> TableSpec:
    """Return the actual columns and layout of a table: ours, then the nullable columns that its user added."""
    spec = TABLES[name]
    added = [field.with_nullable(True) for field in schema_of_table(table) if field.name not in spec.schema.names]
    return replace(spec, schema=pa.schema([*spec.schema, *added]))


def separating_column(table: DeltaTable, name: str) -> str | None:
    """Return the column that separates the table's files; None if the table keeps no statistics of it.

    A user may have chosen other columns, and the property stays as it is: where Arrow finds no statistics of a column
    that the property names, it takes the file for one without matching rows.
    """
    column, stated = TABLES[name].separated_by, table.metadata().configuration.get(STATISTICS_PROPERTY)
    return column if stated is None or column in stated.split(",") else None


def schema_of_table(table: DeltaTable) -> pa.Schema:
    """Return the columns of an opened table."""
    return pa.schema(table.schema().to_arrow())  # type: ignore[arg-type]


def _has_more(wanted: Field, there: Field) -> bool:
    """Whether a struct in a column has fields that the table does not have."""
    if wanted.type == there.type:
        return False
    known, more = (pa.struct(list(pa.schema(Schema([each]).to_arrow()))) for each in (there, wanted))  # type: ignore[arg-type]
    return bool(merged_type(known, more).added)


@lru_cache(maxsize=128)
def _commented_fields(spec: TableSpec) -> tuple[Field, ...]:
    commented = [with_entry(field, COMMENT, spec.meaning(field.name)) for field in spec.schema]
    return tuple(Schema.from_arrow(as_in_table(pa.schema(commented))).fields)
