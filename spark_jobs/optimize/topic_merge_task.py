"""Files of a topic's table read one after the other and written as one, with the same rows in the same order.

Runs in a worker. The statistics say that the files have rows of one log in rising offsets; this is checked in the rows.
Fields that a schema added later are null in the rows of earlier files.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logcore.values.evolution.aligned import aligned
from logcore.values.form import PLAIN, ValueColumn
from spark_jobs.lake.decoded.topic_tables import written_spec
from spark_jobs.lake.delta.files.live_files import open_parquet
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.setup.compression import Compression
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.written_file import WriteResult
from spark_jobs.row_files.merged_file import NotMergeable, discard
from spark_jobs.row_files.typed_files import TypedFiles

_BATCH_ROWS = 8192


@dataclass(frozen=True, slots=True)
class TopicMergeTask:
    """Files of one log, in the order of their offsets, that become one file."""

    table: Table
    columns: str
    """The table's columns, serialized by Arrow, in base64."""
    paths: tuple[str, ...]
    """Paths relative to the table."""
    rows: int
    log_id: str
    partition: int
    compression: Compression

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.columns)))


def encoded(schema: pa.Schema) -> str:
    """Return columns as a task carries them."""
    return base64.b64encode(schema.serialize()).decode()


def merge_topic_files(task: TopicMergeTask) -> WriteResult:
    """Write the rows of the task's files to one file; never raise for what is in a file."""
    root, spec = task.table.uri, written_spec(task.table, task.schema)
    files = TypedFiles(root, spec, task.compression, sys.maxsize)
    try:
        for batch in _checked(task, spec.schema.remove_metadata()):
            files.write(batch)
        files.end_log()
        if files.rows != task.rows:
            raise NotMergeable(f"the files hold {files.rows} rows where their statistics count {task.rows}")
    except (NotMergeable, OSError, pa.ArrowException) as error:
        files.abandon()
        discard(root, [file.path for file in files.written])
        return WriteResult(error=str(error))
    return WriteResult(tuple(files.written))


def _checked(task: TopicMergeTask, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows file by file, as the table's columns.

    Raises:
        NotMergeable: They are not of one log, or their offsets do not rise.
    """
    reached = -1
    for path in task.paths:
        with open_parquet(storage.join(task.table.uri, path), page_checksum_verification=True) as parquet:
            for batch in parquet.iter_batches(_BATCH_ROWS, use_threads=False):
                for column, value in (("log_id", task.log_id), ("partition", task.partition)):
                    if column not in batch.schema.names or pc.unique(batch[column]).to_pylist() != [value]:
                        raise NotMergeable(f"{path} holds rows of another log than {task.log_id}/{task.partition}")
                offsets = np.asarray(batch["offset"])
                if offsets[0] <= reached or (np.diff(offsets) <= 0).any():
                    raise NotMergeable(f"{path} holds offsets that do not rise from row to row and file to file")
                reached = int(offsets[-1])
                yield _as_columns(path, batch, schema)


def _as_columns(path: str, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with the table's columns.

    Raises:
        NotMergeable: The file has a column that the table does not have.
    """
    strange = [name for name in batch.schema.names if name not in schema.names]
    if strange:
        raise NotMergeable(f"{path} has columns that the table does not have")
    there = set(batch.schema.names)
    return pa.RecordBatch.from_arrays(
        [
            aligned(batch[field.name], PLAIN, ValueColumn(field.type), "")
            if field.name in there
            else pa.nulls(batch.num_rows, field.type)
            for field in schema
        ],
        schema=schema,
    )
