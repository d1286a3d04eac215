"""Files of a table read one after the other and written as fewer, with the same rows in the same order.

Runs in a worker. Memory stays flat: rows come and go by row groups. What a merge of records stands on (one log, rising
offsets, as many rows as the statistics count) is looked at again in the rows themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.lake.delta import row_digest
from spark_jobs.lake.delta.commits import WrittenFile
from spark_jobs.lake.delta.live_files import open_parquet
from spark_jobs.lake.delta.parquet_files import ROW_GROUP_ROWS, write_file
from spark_jobs.lake.delta.tables import TableSpec, read_rows, table_uri
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import FIRST_OF_SEGMENT
from spark_jobs.row_files.table_columns import with_columns

CHUNK_BYTES = 32 << 20
"""A row group is cut where its rows, as Arrow holds them, take more than this."""

READ_BYTES = 4 << 20
"""About so many bytes of rows are decoded at a time."""


@dataclass(frozen=True, slots=True)
class FileMergeTask:
    """Files of one table, in the order of their rows, and how many files they become."""

    lake: str
    table: str
    partition_values: dict[str, str]
    paths: tuple[str, ...]
    """Relative to the table."""
    sizes: tuple[int, ...]
    """Bytes of each."""
    rows: int
    outputs: int
    log_id: str | None
    """Of a table of records: the log that all rows have to be of, with ``partition``."""
    partition: int | None
    extra: str = ""
    """The table's columns besides ours, as ``table_columns`` says them."""

    @property
    def spec(self) -> TableSpec:
        """The columns that are written."""
        return with_columns(self.table, self.extra)


class NotMergeable(Exception):
    """The files are not what their statistics say; the text says which and why."""


def merge_files(value: dict[str, Any]) -> dict[str, Any]:
    """Write the files anew.

    Args:
        value: a :class:`FileMergeTask` as plain values.

    Returns:
        ``files`` (:class:`~spark_jobs.lake.delta.commits.WrittenFile` as plain values) and ``error`` (None, or why
        nothing was written).
    """
    task = FileMergeTask(**(value | {"paths": tuple(value["paths"]), "sizes": tuple(value["sizes"])}))
    root, spec = table_uri(task.lake, task.table), task.spec
    written: list[WrittenFile] = []
    try:
        proven = row_digest.are_recorded(root, task.paths)
        source = _Source(_chunks(task), sum(task.sizes) / task.outputs)
        while not source.is_at_end:
            file = write_file(root, spec, source.next_file(), task.partition_values, partial(bool, proven))
            if file is not None:
                written.append(file)
        rows = sum(file.rows for file in written)
        if rows != task.rows:
            raise NotMergeable(f"the files hold {rows} rows where their statistics count {task.rows}")
    except (NotMergeable, OSError, pa.ArrowException) as error:
        discard(root, [file.path for file in written])
        return {"files": [], "error": str(error)}
    return {"files": [asdict(file) for file in written], "error": None}


def discard(root: str, paths: list[str]) -> None:
    """Delete files that no commit will name."""
    for path in paths:
        with contextlib.suppress(OSError):
            storage.delete(storage.join(root, path))


Weighed = tuple[pa.RecordBatch, float]
"""Rows, and the bytes that they took in the files they come from."""


class _Source:
    """Rows handed out for one file after the other, to each those of as many bytes."""

    def __init__(self, chunks: Iterator[Weighed], bytes_a_file: float) -> None:
        self._chunks = chunks
        self._bytes_a_file = bytes_a_file
        self._next = next(chunks, None)

    @property
    def is_at_end(self) -> bool:
        return self._next is None

    def next_file(self) -> Iterator[pa.RecordBatch]:
        """Chunks until the file has its share; what is left of the last one begins the next file."""
        missing = self._bytes_a_file
        while missing >= 1 and self._next is not None:  # less is what rounding left
            chunk, weight = self._next
            if weight >= missing + 1 and chunk.num_rows > 1:
                cut = min(max(round(chunk.num_rows * missing / weight), 1), chunk.num_rows - 1)
                left = weight * (chunk.num_rows - cut) / chunk.num_rows
                self._next = chunk.slice(cut), left
                yield chunk.slice(0, cut)
                return
            self._next = next(self._chunks, None)
            missing -= weight
            yield chunk


def _chunks(task: FileMergeTask) -> Iterator[Weighed]:
    """All rows in chunks that make row groups: full ones, or as many rows as fit in memory well."""
    rows = _sorted(task) if task.log_id is None and task.spec.row_order else _checked(task)
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    weight = 0.0
    for batch, weight_of_row in rows:
        while batch.num_rows:
            part = batch.slice(0, ROW_GROUP_ROWS - count)
            batch = batch.slice(part.num_rows)
            waiting.append(part)
            count, size, weight = count + part.num_rows, size + part.nbytes, weight + part.num_rows * weight_of_row
            if count == ROW_GROUP_ROWS or size >= CHUNK_BYTES:
                yield pa.concat_batches(waiting), weight
                waiting, count, size, weight = [], 0, 0, 0.0
    if waiting:
        yield pa.concat_batches(waiting), weight


def _checked(task: FileMergeTask) -> Iterator[Weighed]:
    """Rows file by file; those of records must be of the one log, with rising offsets. With each row's bytes."""
    reached = -1
    for path, size in zip(task.paths, task.sizes, strict=True):
        for batch, weight_of_row in _rows_of(task, path, size):
            if task.log_id is not None and batch.num_rows:
                for column, value in (("log_id", task.log_id), ("partition", task.partition)):
                    if not pc.all(pc.equal(batch.column(column), value).fill_null(False)).as_py():
                        raise NotMergeable(f"{path} holds rows of another log than {task.log_id}/{task.partition}")
                offsets = batch.column("offset").to_numpy()
                if offsets[0] <= reached or (np.diff(offsets) <= 0).any():
                    raise NotMergeable(f"{path} holds offsets that do not rise from row to row and file to file")
                reached = int(offsets[-1])
            yield batch, weight_of_row


def _sorted(task: FileMergeTask) -> Iterator[Weighed]:
    """All rows at once, in the table's order; such tables are cut into tasks by rows."""
    schema, order = task.spec.file_schema, task.spec.row_order
    batches = [b for path in task.paths for b, _ in _rows_of(task, path, 0)]
    rows = pa.Table.from_batches(batches, schema)
    keys = rows.select([column for column in order if column != FIRST_OF_SEGMENT])
    if FIRST_OF_SEGMENT in order:
        keys = keys.append_column(FIRST_OF_SEGMENT, _first_of_segment(task.lake, rows))
    indices = pc.sort_indices(keys, sort_keys=[(column, "ascending") for column in order])
    for batch in rows.take(indices).to_batches():
        yield batch, sum(task.sizes) / max(rows.num_rows, 1)


def _first_of_segment(lake: str, rows: pa.Table) -> pa.Array:
    """For each row the offset that its segment begins at: not told by its batches, whose headers may lie."""
    ids = rows.column("segment_id").combine_chunks().dictionary_encode()
    names = ids.dictionary.to_pylist()
    found = read_rows(lake, "segments", ["segment_id", "base_offset"], [("segment_id", "in", names)]).to_pylist()
    base = {row["segment_id"]: row["base_offset"] for row in found}
    return pa.array(np.array([base.get(name, 0) for name in names])[ids.indices.to_numpy()])


def _rows_of(task: FileMergeTask, path: str, size: int) -> Iterator[Weighed]:
    """Rows of one file with the table's columns and types; a column that came later is null."""
    schema = task.spec.file_schema
    root = table_uri(task.lake, task.table)
    try:
        with open_parquet(storage.join(root, path), page_checksum_verification=True) as file:
            meta = file.metadata
            for group in range(meta.num_row_groups):
                for batch in file.iter_batches(rows_at_a_time(meta.row_group(group)), row_groups=[group]):
                    yield as_declared(batch, schema), size / max(meta.num_rows, 1)
    except pa.ArrowException as error:
        raise NotMergeable(f"{path} can't be read: {error}") from error


def rows_at_a_time(group: pq.RowGroupMetaData) -> int:
    """How many rows of a row group are decoded at once."""
    rows, nbytes = int(group.num_rows), int(group.total_byte_size)
    return min(max(READ_BYTES * max(rows, 1) // max(nbytes, 1), 1), ROW_GROUP_ROWS)


def as_declared(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with these columns and types; a column that is not there is null."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
