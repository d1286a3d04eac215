"""Files of a table read one after the other and written as fewer files, with the same rows in the same order.

Runs in a worker. Memory is bounded: rows are read and written by row groups. A merge of records relies on the
statistics: one log, rising offsets, a number of rows. These are checked again in the rows themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.lake.decoded.table_columns import with_columns
from spark_jobs.lake.delta.files import row_digest
from spark_jobs.lake.delta.files.carried_rows import as_declared, has_value
from spark_jobs.lake.delta.files.live_files import LiveFile, open_parquet
from spark_jobs.lake.delta.files.parquet_files import ROW_GROUP_ROWS, write_file
from spark_jobs.lake.delta.tables.snapshots import read_rows, table_uri
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.written_file import WriteResult, WrittenFile
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import FIRST_OF_SEGMENT
from spark_jobs.optimize.file_runs import Merge
from spark_jobs.policies.compression import DEFAULT, Compression
from spark_jobs.reads import Reads

CHUNK_BYTES = 32 << 20
"""Maximum bytes of a row group's rows in Arrow."""

READ_BYTES = 4 << 20
"""Approximate bytes of rows decoded at a time."""


@dataclass(frozen=True, slots=True)
class FileMergeTask:
    """Files to merge, and how the merged ones are written."""

    lake: str
    merge: Merge
    extra: str = ""
    """The table's additional columns, as ``table_columns`` writes them."""
    compression: Compression = DEFAULT

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(self.merge.table, self.merge.files[0].path)

    @property
    def spec(self) -> TableSpec:
        """The columns that are written."""
        return with_columns(self.merge.table, self.extra)


class NotMergeable(Exception):
    """The files contradict their statistics; the text says which and how."""


def merge_files(task: FileMergeTask) -> WriteResult:
    """Write the rows of the task's files to fewer files."""
    merge, spec = task.merge, task.spec
    root = table_uri(task.lake, merge.table)
    written: list[WrittenFile] = []
    try:
        proven = row_digest.are_recorded(root, (file.path for file in merge.files))
        for chunks in _separated(task):
            source = _Source(chunks, merge.size / merge.outputs)
            while not source.is_at_end:
                rows_of_file, is_proven = source.next_file(), partial(bool, proven)
                file = write_file(root, spec, rows_of_file, merge.partition_values, is_proven, task.compression)
                if file is not None:
                    written.append(file)
        rows = sum(file.rows for file in written)
        if rows != merge.rows:
            raise NotMergeable(f"the files hold {rows} rows where their statistics count {merge.rows}")
    except (NotMergeable, OSError, pa.ArrowException) as error:
        discard(root, [file.path for file in written])
        return WriteResult(error=str(error))
    return WriteResult(tuple(written))


def discard(root: str, paths: list[str]) -> None:
    """Delete files that will not be committed."""
    for path in paths:
        with contextlib.suppress(OSError):
            storage.delete(storage.join(root, path))


Weighed = tuple[pa.RecordBatch, float]
"""Rows, and their bytes in the source files."""


class _Source:
    """Distributes rows over the output files, about the same number of bytes to each."""

    def __init__(self, chunks: Iterator[Weighed], bytes_a_file: float) -> None:
        self._chunks = chunks
        self._bytes_a_file = bytes_a_file
        self._next = next(chunks, None)

    @property
    def is_at_end(self) -> bool:
        return self._next is None

    def next_file(self) -> Iterator[pa.RecordBatch]:
        """Chunks for the next file. The rest of the last chunk begins the file after it."""
        missing = self._bytes_a_file
        while missing >= 1 and self._next is not None:  # less than 1 is a rounding error
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


def _separated(task: FileMergeTask) -> Iterator[Iterator[Weighed]]:
    """All rows in chunks, separately for each value of the column that separates the table's files."""
    if task.merge.log_id is not None or not task.spec.row_order:
        yield _chunks(_checked(task))
        return
    rows, column = _sorted(task), task.merge.separated_by
    weight = task.merge.size / max(rows.num_rows, 1)
    for value in [None] if column is None else rows.column(column).unique().to_pylist():
        chosen = rows if column is None else rows.filter(has_value(rows.column(column), value))
        yield _chunks((batch, weight) for batch in chosen.to_batches())


def _chunks(rows: Iterable[Weighed]) -> Iterator[Weighed]:
    """Rows in chunks that become row groups: as many rows as allowed, or as fit in memory."""
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
                yield pa.concat_batches(waiting), weight  # type: ignore[attr-defined]
                waiting, count, size, weight = [], 0, 0, 0.0
    if waiting:
        yield pa.concat_batches(waiting), weight  # type: ignore[attr-defined]


def _checked(task: FileMergeTask) -> Iterator[Weighed]:
    """Rows file by file, with their bytes. Rows of records must belong to one log and have rising offsets."""
    merge, reached = task.merge, -1
    for file in merge.files:
        for batch, weight_of_row in _rows_of(task, file):
            if merge.log_id is not None and batch.num_rows:
                for column, value in (("log_id", merge.log_id), ("partition", merge.partition)):
                    if not pc.all(pc.equal(batch.column(column), pa.scalar(value)).fill_null(False)).as_py():  # type: ignore[arg-type]
                        raise NotMergeable(f"{file.path} holds rows of another log than {merge.log}")
                offsets = batch.column("offset").to_numpy()
                if offsets[0] <= reached or (np.diff(offsets) <= 0).any():
                    raise NotMergeable(f"{file.path} holds offsets that do not rise from row to row and file to file")
                reached = int(offsets[-1])
            yield batch, weight_of_row


def _sorted(task: FileMergeTask) -> pa.Table:
    """All rows at once, in the table's order. Tasks of such tables are limited by rows."""
    schema, order = task.spec.file_schema, task.spec.row_order
    batches = [batch for file in task.merge.files for batch, _ in _rows_of(task, file)]
    rows = pa.Table.from_batches(batches, schema)
    keys = rows.select([column for column in order if column != FIRST_OF_SEGMENT])
    if FIRST_OF_SEGMENT in order:
        keys = keys.append_column(FIRST_OF_SEGMENT, _first_of_segment(task.lake, rows))
    indices = pc.sort_indices(keys, sort_keys=[(column, "ascending") for column in order])
    return rows.take(indices)


def _first_of_segment(lake: str, rows: pa.Table) -> pa.Array[Any]:
    """For each row the base offset of its segment. It is not taken from batch headers, which may be wrong."""
    ids = rows.column("segment_id").combine_chunks().dictionary_encode()
    names = ids.dictionary.to_pylist()
    found = read_rows(lake, "segments", ["segment_id", "base_offset"], [("segment_id", "in", names)]).to_pylist()
    base = {row["segment_id"]: row["base_offset"] for row in found}
    return pa.array(np.array([base.get(name, 0) for name in names])[ids.indices.to_numpy()])  # type: ignore[no-any-return]


def _rows_of(task: FileMergeTask, file: LiveFile) -> Iterator[Weighed]:
    """Rows of one file with the table's columns and types. A column or field that was added later is null."""
    schema = task.spec.file_schema
    path = storage.join(table_uri(task.lake, task.merge.table), file.path)
    try:
        with open_parquet(path, page_checksum_verification=True) as opened:
            meta = opened.metadata
            for group in range(meta.num_row_groups):
                for batch in opened.iter_batches(rows_at_a_time(meta.row_group(group)), row_groups=[group]):
                    yield as_declared(batch, schema), file.size / max(meta.num_rows, 1)
    except pa.ArrowException as error:
        raise NotMergeable(f"{file.path} can't be read: {error}") from error


def rows_at_a_time(group: pq.RowGroupMetaData) -> int:
    """Number of rows of a row group that are decoded at once."""
    rows, nbytes = int(group.num_rows), int(group.total_byte_size)
    return min(max(READ_BYTES * max(rows, 1) // max(nbytes, 1), 1), ROW_GROUP_ROWS)
