"""Replace a table by another, or move it aside, by renames only, so that a process can be killed at any moment.

    1  the new table is written in ``tables/.<name>-rebuilding``, a lake of its own
    2  ``ready.json`` is written beside it: the new table is complete, and readers of the table wait for 3 and 4
    3  the old one is renamed to ``tables/.<name>-before-<n>``, where it is kept
    4  the new one is renamed to its place; the folder is deleted

If the process ends in step 1, the next attempt deletes what is left. After step 2 the next attempt continues.
"""

from __future__ import annotations

import json
import os
import shutil

from spark_jobs.errors import ConcurrentChange, JobError
from spark_jobs.lake.delta.tables.delta_location import LOG_DIRECTORY
from spark_jobs.lake.delta.tables.snapshots import READY_FILE, open_table, rebuilding_folder, table_uri
from spark_jobs.lake.store import disk_sync, mapped_file, storage

_COPIED_AT_ONCE = 1 << 30


def is_half_done(lake: str, name: str) -> bool:
    """Return whether the new table is complete and the old one was already moved."""
    return _is_ready(lake, name) and not os.path.isdir(table_uri(lake, name))


def begin(lake: str, name: str) -> str:
    """Return an empty folder for the new table, as a lake of its own; files of an earlier attempt are deleted."""
    folder = rebuilding_folder(lake, name)
    if os.path.lexists(folder):
        ready = os.path.join(folder, READY_FILE)
        if os.path.exists(ready):
            os.unlink(ready)  # first: without it the rest means nothing
            disk_sync.sync(folder)
        shutil.rmtree(folder)
    os.makedirs(folder)
    return folder


def put_in_place(lake: str, name: str, version: int) -> str:
    """Replace the old table by the new one; return where the old one is kept, relative to the lake.

    Args:
        version: Version of the old table that was read.

    Raises:
        ConcurrentChange: The old table has changed since; nothing was touched.
    """
    folder = rebuilding_folder(lake, name)
    for directory, _, names in os.walk(folder):
        for each in names:
            disk_sync.sync(os.path.join(directory, each))
        disk_sync.sync(directory)
    table = open_table(lake, name)
    if table is None or table.version() != version:
        raise ConcurrentChange(f"Table {name}: it was changed while it was read; run again.")
    kept = _free_name(lake, name)
    storage.put(os.path.join(folder, READY_FILE), json.dumps({"kept": kept}).encode())
    return finish(lake, name)


def finish(lake: str, name: str) -> str:
    """Do the steps that are left after ``ready.json``; return where the old table is kept, relative to the lake.

    Raises:
        JobError: Another table was created in its place meanwhile.
    """
    folder, place, tables = rebuilding_folder(lake, name), table_uri(lake, name), os.path.join(lake, "tables")
    kept = str(json.loads(storage.read(os.path.join(folder, READY_FILE)))["kept"])
    new, old = table_uri(folder, name), os.path.join(lake, kept)
    if os.path.isdir(new):
        if os.path.isdir(place):
            if os.path.lexists(old):
                raise JobError(
                    f"Table {name}: {place} appeared while its rebuild was interrupted. Move it away, then run again."
                )
            os.rename(place, old)
            disk_sync.sync(tables)
        os.rename(new, place)
        disk_sync.sync(tables)
    shutil.rmtree(folder)
    return kept


def step_aside(lake: str, name: str) -> str | None:
    """Move a table away; return where it is kept, relative to the lake, or None if it does not exist.

    On an object store it is copied and then deleted, oldest commits first. The rest that a killed process leaves has no
    first commit, so no reader takes it for an earlier version.
    """
    place = table_uri(lake, name)
    if not storage.is_remote(lake):
        if not os.path.isdir(place):
            return None
        kept = _free_name(lake, name)
        os.rename(place, os.path.join(lake, kept))
        disk_sync.sync(os.path.join(lake, "tables"))
        return kept
    files = [file.path for file in storage.files_below(place)]
    if not files:
        return None
    kept = _free_name(lake, name)
    for path in files:
        target = storage.join(lake, kept, storage.relative(path, place))
        with storage.writing(target) as local, mapped_file.mapped(path) as content, open(local, "xb") as copy:
            for at in range(0, len(content), _COPIED_AT_ONCE):
                copy.write(content[at : at + _COPIED_AT_ONCE])
    for path in sorted(files, key=_deleted_in_order):
        storage.delete(path)
    return kept


def _deleted_in_order(path: str) -> tuple[int, str]:
    if f"/{LOG_DIRECTORY}/" not in path:
        return 2, path
    return (1 if path.endswith(".json") and "checkpoint" not in path else 0), path


def _is_ready(lake: str, name: str) -> bool:
    return not storage.is_remote(lake) and os.path.exists(os.path.join(rebuilding_folder(lake, name), READY_FILE))


def _free_name(lake: str, name: str) -> str:
    number = 1
    while True:
        kept = f"tables/.{name}-before-{number}"
        path = storage.join(lake, *kept.split("/"))
        taken = storage.has_files(path) if storage.is_remote(lake) else os.path.lexists(path)
        if not taken:
            return kept
        number += 1
