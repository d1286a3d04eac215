"""Small reads of sources on object stores, kept in the operator's home for the next plan.

``<home>/source_reads/<lake>.arrow`` is a cache: a plan looks at the checkpoint files and at one batch header of each
log, and an object with the same ETag has the same bytes. So a plan that finds nothing new reads no object. The next
plan writes the file again if it is lost or damaged. Only this user can read the folder.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import pyarrow as pa

from logcore.storage.objects.remembered_reads import RememberedRead, RememberedReads
from spark_jobs.lake.setup import registry
from spark_jobs.lake.setup.lake_names import key_of
from spark_jobs.lake.store import storage

FOLDER = "source_reads"
_FIELDS: list[pa.Field[Any]] = [
    pa.field("url", pa.string()),
    pa.field("etag", pa.string()),
    pa.field("start", pa.int64()),
    pa.field("end", pa.int64()),
    pa.field("content", pa.binary()),
]
_SCHEMA = pa.schema(_FIELDS)


def recall_reads(lake: str) -> RememberedReads:
    """Return what earlier plans of this lake read; nothing if the file is missing or damaged."""
    try:
        content = storage.read(_file(lake))
        with pa.ipc.open_stream(content) as stream:
            if stream.schema != _SCHEMA:
                return RememberedReads()
            rows = stream.read_all().to_pylist()
    except (OSError, pa.ArrowException, ValueError):
        return RememberedReads()
    return RememberedReads.of(RememberedRead(**row) for row in rows)


def keep_reads(lake: str, reads: RememberedReads) -> None:
    """Keep the reads that a plan used, if some of them are new. A home that cannot be written keeps none."""
    if not reads.is_changed:
        return
    rows = [{name: getattr(read, name) for name in _SCHEMA.names} for read in reads]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA))
    with suppress(OSError):
        os.makedirs(os.path.dirname(_file(lake)), mode=0o700, exist_ok=True)
        storage.put(_file(lake), sink.getvalue().to_pybytes())


def _file(lake: str) -> str:
    return os.path.join(registry.home(), FOLDER, f"{key_of(lake)}.arrow")
