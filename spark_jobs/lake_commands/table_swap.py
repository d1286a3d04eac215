"""A table that takes the place of another, or steps aside: by renames, so that a process may be killed anywhere.

    1  the new table is made in ``tables/.<name>-rebuilding``, a lake of its own
    2  ``ready.json`` beside it: from here on it is complete, and whoever looks for the table waits for 3 and 4
    3  the old one is renamed to ``tables/.<name>-before-<n>``, where it is kept
    4  the new one gets its place; the folder goes

What is left of 1 is thrown away by the next attempt; from 2 on the next attempt goes on.
"""

from __future__ import annotations

import json
import os
import shutil

from spark_jobs.lake.delta.tables import READY_FILE, open_table, rebuilding_folder, table_uri
from spark_jobs.lake.errors import ConcurrentChange, JobError
from spark_jobs.lake.store import storage

_COPIED_AT_ONCE = 1 << 30


def is_half_done(lake: str, name: str) -> bool:
    """Whether the new table is complete and the old one not in its place any more."""
    return _is_ready(lake, name) and not os.path.isdir(table_uri(lake, name))


def begin(lake: str, name: str) -> str:
    """An empty folder to make the table in, as a lake of its own; what an earlier attempt left is gone."""
    folder = rebuilding_folder(lake, name)
    if os.path.lexists(folder):
        ready = os.path.join(folder, READY_FILE)
        if os.path.exists(ready):
            os.unlink(ready)  # first: without it the rest means nothing
            storage.sync(folder)
        shutil.rmtree(folder)
    os.makedirs(folder)
    return folder


def put_in_place(lake: str, name: str, version: int) -> str:
    """Give the table that was made its place; returns where the old one is kept, relative to the lake.

    Args:
        version: of the old table, as it was read.

    Raises:
        ConcurrentChange: the old table has moved since; nothing was touched.
    """
    folder = rebuilding_folder(lake, name)
    for directory, _, names in os.walk(folder):
        for each in names:
            storage.sync(os.path.join(directory, each))
        storage.sync(directory)
    table = open_table(lake, name)
    if table is None or table.version() != version:
        raise ConcurrentChange(f"Table {name}: it was changed while it was read; run again.")
    kept = _free_name(lake, name)
    storage.put(os.path.join(folder, READY_FILE), json.dumps({"kept": kept}).encode())
    return finish(lake, name)


def finish(lake: str, name: str) -> str:
    """Do what is left from ``ready.json`` on; returns where the old table is kept, relative to the lake.

    Raises:
        JobError: somebody made another table in its place meanwhile.
    """
    folder, place, tables = rebuilding_folder(lake, name), table_uri(lake, name), os.path.join(lake, "tables")
    kept = str(json.loads(storage.read(os.path.join(folder, READY_FILE)))["kept"])
    new, old = table_uri(folder, name), os.path.join(lake, kept)
    if os.path.isdir(new):
        if os.path.isdir(place):
            if os.path.lexists(old):
                raise JobError(
                    f"Table {name}: {place} was made while its rebuild was interrupted. Move it away, then run again."
                )
            os.rename(place, old)
            storage.sync(tables)
        os.rename(new, place)
        storage.sync(tables)
    shutil.rmtree(folder)
    return kept


def step_aside(lake: str, name: str) -> str | None:
    """Move a table out of its place; returns where it is kept, relative to the lake; None: it is not there.

    On an object store it is copied and then deleted, its oldest commits first: what is left of a process that was
    killed has no beginning, and nobody takes it for an earlier version.
    """
    place = table_uri(lake, name)
    if not storage.is_remote(lake):
        if not os.path.isdir(place):
            return None
        kept = _free_name(lake, name)
        os.rename(place, os.path.join(lake, kept))
        storage.sync(os.path.join(lake, "tables"))
        return kept
    files = [file.path for file in storage.files_below(place)]
    if not files:
        return None
    kept = _free_name(lake, name)
    for path in files:
        target = storage.join(lake, kept, storage.relative(path, place))
        with storage.writing(target) as local, storage.mapped(path) as content, open(local, "xb") as copy:
            for at in range(0, len(content), _COPIED_AT_ONCE):
                copy.write(content[at : at + _COPIED_AT_ONCE])
    for path in sorted(files, key=_deleted_in_order):
        storage.delete(path)
    return kept


def _deleted_in_order(path: str) -> tuple[int, str]:
    if "/_delta_log/" not in path:
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
