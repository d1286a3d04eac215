"""What the job saw when it last read the sources: a run after an intake that found nothing new does not read them.

``<home>/cluster_readings/<lake>.json`` is a cache: if it is lost, the sources are read again. It counts only while the
sources, the state of the logs in the lake and the tables of the cluster are those that it names.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from logcore.topics.placement import SourceDirectory
from spark_jobs.contracts import ClusterConfig, as_json
from spark_jobs.lake.cluster_columns import CLUSTER_TABLES
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot
from spark_jobs.lake.setup import registry
from spark_jobs.lake.store import storage
from spark_jobs.outlines import ClusterOutline

FOLDER = "cluster_readings"
VERSION = 3
"""Of the file and of the rows: with another one the sources are read again."""
READ_TABLES = ("logs", "transactions")
"""Tables that the rows of the cluster depend on, beside the sources."""

Basis = Mapping[str, Any]
"""What a reading depends on and what it wrote: values for JSON."""


def basis_of(config: ClusterConfig) -> Basis:
    """Return the sources, and the state of the tables now.

    Raises:
        TableUnreadable: A table is damaged.
    """
    tables = {name: _state_of(config.lake, name) for name in (*READ_TABLES, *_TABLES)}
    version = None if tables["logs"] is None else tables["logs"][0]
    commit = None if version is None else delta_log.read_content(config.lake, "logs", int(version))
    return {
        "version": VERSION,
        "lake": config.lake,
        "sources": list(config.sources),
        "cluster": config.cluster,
        # A lake that was restored from a copy can have equal versions of other commits.
        "commit": None if commit is None else hashlib.sha256(commit).hexdigest(),
        "tables": tables,
    }


def written_basis(read: Basis, config: ClusterConfig) -> Basis:
    """Return the basis of a reading after its rows were written.

    Args:
        read: The basis before the sources were read.
        config: The job.

    Raises:
        TableUnreadable: A table is damaged.
    """
    return {**read, "tables": {**read["tables"], **{name: _state_of(config.lake, name) for name in _TABLES}}}


def recall(lake: str, basis: Basis | None = None) -> ClusterOutline | None:
    """Return what the last reading found; None if it is not known, or had another basis.

    Args:
        lake: The lake.
        basis: The present one; None: any.
    """
    try:
        content = json.loads(storage.read(registry.home_file(FOLDER, lake)))
        kept, found = content["basis"], content["found"]
        if kept["lake"] != lake or basis not in (None, kept):
            return None
        return ClusterOutline(
            logs=tuple(found["logs"]),
            waits=found["waits"],
            beyond_log_end=tuple(found["beyond_log_end"]),
            directories=tuple(SourceDirectory(**each) for each in found["directories"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def keep(lake: str, basis: Basis, found: ClusterOutline) -> None:
    """Keep what a reading found. A home that cannot be written keeps nothing."""
    content = as_json({"basis": basis, "found": found}, ensure_ascii=True) + "\n"
    path = registry.home_file(FOLDER, lake)
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        storage.put(path, content.encode())


_TABLES = tuple(table.name for table in CLUSTER_TABLES)


def _state_of(lake: str, name: str) -> list[int | str] | None:
    table = latest_snapshot(lake, name)
    return None if table is None else [table.version(), str(table.metadata().id)]
