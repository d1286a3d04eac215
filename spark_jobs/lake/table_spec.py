"""What a table of a lake declares about itself: columns with their meanings, layout, row order, and what one row is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from logcore.columns.records_columns import Column, schema_of
from spark_jobs.lake.field_ids import with_field_ids


@dataclass(frozen=True, slots=True)
class TableSpec:
    """Columns and layout of one table."""

    name: str
    schema: pa.Schema
    statistics: tuple[str, ...]
    """Columns with minimum and maximum in the Delta log; plans filter by these."""
    partition_by: tuple[str, ...] = ()
    row_order: tuple[str, ...] = ()
    """Columns by which rows are sorted in a merged file; empty: files are joined one after the other."""
    one_row: str = ""
    """What the table holds, as one sentence."""
    meanings: tuple[tuple[str, str], ...] = ()
    """Name and meaning of each column."""
    in_summary: bool = False
    """Whether the summary of a run includes it."""
    of_validation: bool = False
    """Whether validation derives its rows from the archive alone."""
    run_columns: tuple[str, ...] = ()
    """Columns that say which run wrote a row, not what the row is: row digests and comparisons leave them out."""
    separated_by: str | None = None
    """A text column of which all rows of a file have the same value, or all null. So the statistics exclude files whose
    rows a plan does not need. Files of other engines may mix values until ``optimize`` runs."""

    @property
    def file_schema(self) -> pa.Schema:
        """Return the columns inside a Parquet file: all except those of the table partition."""
        return _file_schema(self)

    @property
    def content_schema(self) -> pa.Schema:
        """Return the columns inside a Parquet file that do not depend on the run that wrote it."""
        return _content_schema(self)

    def meaning(self, column: str) -> str:
        """Return the meaning of a column; empty for one that a user added."""
        return dict(self.meanings).get(column, "")


@lru_cache(maxsize=32)
def _file_schema(spec: TableSpec) -> pa.Schema:
    return pa.schema([f for f in spec.schema if f.name not in spec.partition_by])


@lru_cache(maxsize=32)
def _content_schema(spec: TableSpec) -> pa.Schema:
    return pa.schema([f for f in spec.file_schema if f.name not in spec.run_columns])


def table_of_columns(name: str, one_row: str, columns: Sequence[Column], **layout: Any) -> TableSpec:
    """Return the declaration of a table whose columns have meanings; ``layout`` has the other fields of `TableSpec`."""
    meanings = tuple((column.name, column.meaning) for column in columns)
    return TableSpec(name, with_field_ids(schema_of(columns)), one_row=one_row, meanings=meanings, **layout)
