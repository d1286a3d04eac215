"""The files, columns and version of each table of a lake, as its views need them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from deltalake import DeltaTable

from spark_jobs.errors import TableUnreadable
from spark_jobs.lake.delta.files.live_files import LiveFile, live_files
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

    of: LakeView
    version: int | None
    """None: the table's log cannot be read."""
    schema: pa.Schema
    """Empty: the columns are not known."""
    groups: tuple[FileGroup, ...]
    """Empty: the version has no file."""
    problem: str | None = None
    """Why the view has no rows, and what to do: the error of a query that reads it."""

    @property
    def name(self) -> str:
        """Its name in SQL."""
        return self.of.name

    @property
    def one_row(self) -> str:
        """What one row is."""
        return self.of.one_row.replace("`", "")

    def without_rows(self, error: Exception) -> FileView:
        """Return the view with an error in place of its rows.

        Args:
            error: What an engine said about its columns or files.
        """
        file = next((file for group in self.groups for file in group.files if file in str(error)), None)
        path = None if file is None else storage.relative(file, self.of.uri)
        return replace(self, groups=(), problem=self.of.problem(error, path))


def file_views(views: Sequence[LakeView]) -> list[FileView]:
    """Return the views whose tables exist, each at the latest version of its table.

    Raises:
        StorageError: The object store failed.
    """
    return list(_file_views(views))


def _file_views(views: Sequence[LakeView]) -> Iterator[FileView]:
    for view in views:
        table = None
        try:
            table = view.table_now()
            if table is not None:
                yield _file_view(view, table)
        except Exception as error:  # noqa: BLE001 - libraries raise any class for what another engine wrote
            version = None if table is None else table.version()
            yield FileView(view, version, pa.schema([]), (), view.problem(error))


def _file_view(view: LakeView, table: DeltaTable) -> FileView:
    with view.reading(None):
        schema = pa.schema(table.schema().to_arrow())  # type: ignore[arg-type]
        files = live_files(table)
    groups: dict[tuple[tuple[str, str | None], ...], list[str]] = {}
    for file in files:
        values: Mapping[str, str | None] = file.partition_values
        groups.setdefault(tuple(sorted(values.items())), []).append(storage.join(view.uri, file.path))
    ordered = tuple(FileGroup(values, tuple(paths)) for values, paths in sorted(groups.items(), key=str))
    made = FileView(view, table.version(), schema, ordered)
    try:
        _refuse_lost(view, files)
    except TableUnreadable as error:
        return replace(made, groups=(), problem=str(error))
    return made


def _refuse_lost(view: LakeView, files: Sequence[LiveFile]) -> None:
    """Refuse a table of which a file is not there: an engine would not make the view, or any after it.

    Raises:
        TableUnreadable: A file is lost.
    """
    if storage.is_remote(view.uri):
        there = {storage.relative(file.path, view.uri) for file in storage.files_below(view.uri)}
        lost = next((file.path for file in files if file.path not in there), None)
    else:
        lost = next((file.path for file in files if not os.path.exists(storage.join(view.uri, file.path))), None)
    if lost is not None:
        with view.reading(lost):
            raise FileNotFoundError(errno.ENOENT, "there is no such file")
