"""A state as a Parquet file or a Delta table: written under a temporary name, and renamed when it is complete.

What it is the state of, and whether it is complete, is beside the rows: in the metadata of the Parquet file, or in the
properties of the Delta table.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.transaction import AddAction

from spark_jobs.errors import UsageError
from spark_jobs.lake.delta.files.parquet_files import row_groups
from spark_jobs.lake.field_ids import as_in_table
from spark_jobs.lake.store import disk_sync, storage
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.policies.compression import DEFAULT
from spark_jobs.row_files.typed_files import TypedFiles

PARQUET, DELTA = "parquet", "delta"
Logs = Iterable[Iterable[pa.RecordBatch]]
"""The rows of one log after the other."""


def check_place(lake: str, path: str) -> str:
    """Return the absolute path of what is to be written.

    Raises:
        UsageError: Something is there, it is in the lake, or it is not on a local disk.
    """
    if storage.is_remote(path):
        raise UsageError("PATH must be on a local disk.")
    path = os.path.abspath(path)
    if os.path.lexists(path):
        raise UsageError(f"{path} exists already; nothing was written. Name a path that does not exist.")
    if not storage.is_remote(lake) and storage.lies_below(lake, path):
        raise UsageError(f"{path} is in the lake {lake}; nothing was written. Name a path outside of it.")
    return path


def write_parquet(path: str, spec: TableSpec, logs: Logs, described: Callable[[], Mapping[str, str]]) -> None:
    """Write one file.

    Args:
        described: Called after all rows; returns the metadata.

    Raises:
        OSError: It can't be written; then nothing is at its place.
    """
    with storage.writing(path) as local:
        with pq.ParquetWriter(
            local,
            spec.schema,
            compression=DEFAULT.codec,  # type: ignore[arg-type]
            compression_level=DEFAULT.writer_level,
            write_statistics=list(spec.statistics),
            write_page_checksum=True,
        ) as writer:
            for group in row_groups(itertools.chain.from_iterable(logs), spec.schema):
                writer.write_table(group)
            writer.add_key_value_metadata(dict(described()))
        if os.path.lexists(path):
            raise UsageError(f"{path} was made by another program meanwhile; nothing was written.")


def write_delta(path: str, spec: TableSpec, logs: Logs, described: Callable[[], Mapping[str, str]]) -> None:
    """Write a Delta table of one version with rows; the same arguments.

    Raises:
        OSError: It can't be written; then nothing is at its place.
    """
    folder = os.path.join(os.path.dirname(path), f".{uuid.uuid4().hex}.writing")
    files = TypedFiles(folder, spec, DEFAULT)
    try:
        os.makedirs(folder)
        try:
            for rows in logs:
                for batch in rows:
                    files.write(batch)
                files.end_log()
        except BaseException:
            files.abandon()
            raise
        table = DeltaTable.create(
            folder,
            schema=Schema.from_arrow(as_in_table(spec.schema)),
            description=spec.one_row,
            configuration={
                "delta.enableDeletionVectors": "false",
                "delta.dataSkippingStatsColumns": ",".join(spec.statistics),
                **described(),
            },
            raise_if_key_not_exists=False,
        )
        table.create_write_transaction(
            [AddAction(file.path, file.size, {}, file.modified_ms, True, file.statistics) for file in files.written],
            mode="append",
            schema=table.schema(),
            commit_properties=CommitProperties(max_commit_retries=0),
        )
        for name in os.listdir(os.path.join(folder, "_delta_log")):
            disk_sync.sync(os.path.join(folder, "_delta_log", name))
        if os.path.lexists(path):
            raise UsageError(f"{path} was made by another program meanwhile; nothing was written.")
        os.rename(folder, path)
        disk_sync.sync(os.path.dirname(path))
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
        raise
