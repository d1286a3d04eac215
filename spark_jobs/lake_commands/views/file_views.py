"""The files, columns and version of each table of a lake, as its views need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_jobs.lake.decoded.view_columns import ViewColumn
from spark_jobs.lake.delta.files.live_files import live_files
from spark_jobs.lake.store import storage
from spark_jobs.lake_commands.query.lake_views import LakeView


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files with the same values of the columns that are not in the files."""

    values: tuple[tuple[str, str | None], ...]
    """Name and value of each of these columns."""
    files: tuple[str, ...]
    """Full paths."""


@dataclass(frozen=True, slots=True)
class FileView:
    """A view, and the version of the table that it shows."""

    name: str
    table: str
    version: int
    one_row: str
    schema: pa.Schema
    columns: tuple[ViewColumn, ...]
    uri: str
    groups: tuple[FileGroup, ...]
    """Empty: the version has no file."""


def file_views(views: Sequence[LakeView]) -> list[FileView]:
    """Return the views whose tables exist, each at the latest version of its table.

    Raises:
        TableUnreadable: A table is damaged.
        StorageError: The object store failed.
    """
    found = []
    for view in views:
        table = view.open()
        if table is None:
            continue
        with view.reading():
            schema = pa.schema(table.schema().to_arrow())  # type: ignore[arg-type]
            groups: dict[tuple[tuple[str, str | None], ...], list[str]] = {}
            for file in live_files(table):
                values: Mapping[str, str | None] = file.partition_values
                groups.setdefault(tuple(sorted(values.items())), []).append(storage.join(view.uri, file.path))
        found.append(
            FileView(
                view.name,
                view.table,
                table.version(),
                view.one_row.replace("`", ""),
                schema,
                view.columns(schema),
                view.uri,
                tuple(FileGroup(values, tuple(files)) for values, files in sorted(groups.items(), key=str)),
            )
        )
    return found
