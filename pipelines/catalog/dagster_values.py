"""Plain values of the metadata, and the columns of a table, as Dagster's values."""

from __future__ import annotations

from typing import Any

import dagster as dg

from spark_jobs.lake.view.shown_tables import columns_of

from ..metadata.values import JsonValue, LinkValue, MarkdownValue, Metadata, PathValue, TableValue, Value


def as_metadata(metadata: Metadata) -> dict[str, Any]:
    """Metadata as Dagster's values."""
    return {name: _metadata_value(value) for name, value in metadata.items()}


def table_schema(name: str) -> dg.TableSchema:
    """The columns of a table of the lake, as the UI shows them."""
    return dg.TableSchema(
        [
            dg.TableColumn(
                column.name,
                column.type,
                description=column.meaning,
                tags={"table partition": ""} if column.is_partition else {},
            )
            for column in columns_of(name)
        ]
    )


def _metadata_value(value: Value) -> Any:
    match value:
        case PathValue(path):
            return dg.MetadataValue.path(path)
        case LinkValue(address):
            return dg.MetadataValue.url(address)
        case MarkdownValue(text):
            return dg.MetadataValue.md(text)
        case JsonValue(content):
            return dg.MetadataValue.json(content)
        case TableValue(columns, rows):
            records = [dg.TableRecord(dict(zip(columns, row, strict=True))) for row in rows]
            return dg.MetadataValue.table(
                records, dg.TableSchema([dg.TableColumn(column, "string") for column in columns])
            )
        case _:
            return value
