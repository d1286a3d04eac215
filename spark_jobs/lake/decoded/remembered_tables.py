"""Which tables of topics there were: ``topic_tables.json``, written by the jobs that write these tables.

The file is only a memory, for ``loglake verify``: without it, a table that is gone with its directory leaves no trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.store import storage

FILE = "topic_tables.json"
_VERSION = 1


def remembered(lake: str) -> frozenset[str]:
    """Return the directories of tables that there were, such as ``decoded/orders``.

    Raises:
        StorageError: The object store failed.
    """
    try:
        content = json.loads(storage.read(storage.join(lake, FILE)))
        return frozenset(map(str, content["tables"])) if content["version"] == _VERSION else frozenset()
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return frozenset()


def remember(lake: str, tables: Iterable[Table]) -> None:
    """Record that there are these tables. Call it with the lease of the lake.

    Raises:
        StorageError: The object store failed.
        OSError: The file can't be written.
    """
    before = remembered(lake)
    now = before | {table.folder for table in tables}
    if now != before:
        content = {"version": _VERSION, "tables": sorted(now)}
        storage.put(storage.join(lake, FILE), json.dumps(content, indent=1).encode())
