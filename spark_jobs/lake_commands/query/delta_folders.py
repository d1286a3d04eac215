"""Delta tables in a folder that is no lake, as views for SQL."""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from logcore.storage.objects.answers import said
from logcore.texts import shown
from spark_jobs.errors import JobError, StorageError, TableUnreadable, UsageError
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
        UsageError: There is no such folder, or no Delta table in it, or two tables would be one view.
        StorageError: A folder cannot be read.
    """
    paths = sorted(_remote_tables(folder) if storage.is_remote(folder) else _local_tables(folder))
    if not paths:
        is_there = storage.has_files(folder) if storage.is_remote(folder) else os.path.isdir(folder)
        why = "there is no Delta table in it" if is_there else "there is no such folder"
        raise UsageError(f"{shown(folder)} is no lake{', and ' if is_there else ': '}{why}.")
    names = Counter(path.rpartition("/")[2].lower() for path in paths)
    views: dict[str, LakeView] = {}
    for path in paths:
        view = _view(folder, path, names[path.rpartition("/")[2].lower()] > 1)
        other = views.setdefault(view.name, view)
        if other is not view:
            both = f"{shown(other.uri)} and {shown(path)}"
            raise UsageError(f"{both} would both be the view {shown(view.name)}. Name one of the folders instead.")
    return list(views.values())


def _remote_tables(folder: str) -> list[str]:
    """Addresses with a Delta log; nothing is looked for below one."""
    marked = f"/{LOG_DIRECTORY}/"
    found = {file.path.partition(marked)[0] for file in storage.files_below(folder) if marked in file.path}
    return [path for path in found if found.isdisjoint(_parents(path))]


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _local_tables(folder: str) -> Iterator[str]:
    """Folders with a Delta log; nothing is looked for below one.

    A link to a table is one too, unless the folder has that table. Other links are not followed.

    Raises:
        StorageError: A folder cannot be read.
    """
    links: list[str] = []
    seen: set[str] = set()
    for path, names, _ in os.walk(folder, onerror=_unread):
        if LOG_DIRECTORY in names:
            names.clear()
            seen.add(os.path.realpath(path))
            yield path.rstrip("/")
        links += [link for name in names if os.path.islink(link := os.path.join(path, name))]
    for link in sorted(links):
        if _is_table(link) and os.path.realpath(link) not in seen:
            seen.add(os.path.realpath(link))
            yield link


def _is_table(link: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(os.path.join(link, LOG_DIRECTORY)).st_mode)
    except OSError as error:
        _unread(error)
        return False


def _unread(error: OSError) -> None:
    """Raise an error, unless there is no folder.

    Raises:
        StorageError: A folder cannot be read.
    """
    if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        why = f"can't be read: {error.strerror}. It may have Delta tables"
        raise StorageError(f"{shown(str(error.filename))} {why}.") from error


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
