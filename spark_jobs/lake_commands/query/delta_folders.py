"""Delta tables in a folder that is no lake, as views for SQL."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from logcore.storage.objects.answers import said
from logcore.texts import shown
from spark_jobs.errors import JobError, TableUnreadable, UsageError
from spark_jobs.lake.delta.tables.delta_location import LOG_DIRECTORY, delta_uri
from spark_jobs.lake.store import storage
from spark_jobs.lake_commands.query.lake_views import LakeView


def delta_folders(folder: str) -> list[LakeView]:
    """Return a view for each Delta table in a folder, or for the folder itself.

    A view has the name of the table's folder. Where several folders have one name, it is the path below `folder`, with
    `_` for each `/`.

    Args:
        folder: Absolute path or address.

    Raises:
        UsageError: There is no Delta table.
    """
    paths = sorted(_tables(folder))
    if not paths:
        raise UsageError(f"{shown(folder)} is no lake, and there is no Delta table in it.")
    names = Counter(path.rpartition("/")[2].lower() for path in paths)
    return [_view(folder, path, names[path.rpartition("/")[2].lower()] > 1) for path in paths]


def _tables(folder: str) -> Iterator[str]:
    """Addresses of folders with a Delta log; nothing is looked for below one."""
    if storage.is_remote(folder):
        marked = f"/{LOG_DIRECTORY}/"
        yield from {file.path.partition(marked)[0] for file in storage.files_below(folder) if marked in file.path}
        return
    for path, names, _ in os.walk(folder):
        if LOG_DIRECTORY in names:
            names.clear()
            yield path.rstrip("/")


def _view(folder: str, path: str, is_shared: bool) -> LakeView:
    name = path.rpartition("/")[2]
    below = path[len(folder.rstrip("/")) + 1 :]
    return LakeView(
        (below.replace("/", "_") if is_shared and below else name).lower(),
        below or name,
        f"A row of the Delta table {shown(below or name)}.",
        path,
        lambda: _opened(path),
        lambda file: _reading(path, file),
    )


def _opened(path: str) -> DeltaTable | None:
    with _reading(path, None):
        try:
            return DeltaTable(delta_uri(path), storage_options=storage.delta_options(path))
        except TableNotFoundError:
            return None


@contextmanager
def _reading(path: str, file: str | None) -> Iterator[None]:
    """Turn errors of Arrow and Delta into ours.

    Raises:
        TableUnreadable: The table, or a file of it, is missing, damaged, or of a kind that is not read here.
    """
    try:
        with storage.answers(path):
            yield
    except (JobError, UsageError):
        raise
    except (pa.ArrowException, DeltaError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        where = path if file is None else storage.join(path, file)
        raise TableUnreadable(f"{shown(where)} can't be read: {shown(said(error)[:300]).rstrip('.')}.") from error
