"""Compares a stretch of a log's offsets in ``records`` with the archive, or rewrites it with some ranges replaced.

Runs in a worker. A stretch is [start, end) with the files that have rows of it. Rows in its ranges are read from the
archive; other rows are copied unchanged. Rows are streamed in offset order, so memory does not grow with the stretch.
If another writer left a file out of order, that file is sorted first.

This module handles the rows. ``replace`` selects the stretches and commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from logcore.errors import LogError
from spark_jobs.archived_rows.records_file import WriteTask, decoded
from spark_jobs.lake.decoded.table_columns import with_columns
from spark_jobs.lake.delta.files import row_digest
from spark_jobs.lake.delta.files.carried_rows import as_declared
from spark_jobs.lake.delta.files.file_contents import (
    COLUMNS,
    FileUnreadable,
    batches_of,
    in_offset_order,
    may_meet,
    opened,
    within,
)
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.written_file import WriteResult
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.reads import Reads

TABLE = "records"
CHUNK_ROWS = 65_536
OURS = TABLES[TABLE].file_schema
"""Our columns; users may have added others."""
CONTENT = TABLES[TABLE].content_schema
"""Columns that the archive provides, and that are compared."""


@dataclass(frozen=True, slots=True)
class RowStretch:
    """Offsets [start, end) of one log."""

    source: WriteTask
    """The archived bytes of the visible offsets of the ranges."""
    start: int
    end: int
    ranges: tuple[tuple[int, int], ...]
    """Ranges that are replaced. Rows of other offsets are copied."""
    files: tuple[str, ...]
    """Live files with rows of the stretch, relative to the table, by their lowest offset."""
    extra: str = ""
    """Columns that users added to the table, as ``table_columns`` writes them."""

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(self.source.reads.what, None, self.start, self.end)

    @property
    def spec(self) -> TableSpec:
        """The columns of the table."""
        return with_columns(TABLE, self.extra)


@dataclass(frozen=True, slots=True)
class RowDifference:
    """How the table differs from the archive in the ranges of a stretch."""

    equal: bool = False
    before: int = 0
    """Rows that the table has in the ranges."""
    after: int = 0
    """Rows that the archive has in them."""
    error: str | None = None
    """Why the comparison failed."""
    lost: str | None = None
    """Path of the table's file that cannot be read, if that is the reason."""


def compare_rows(stretch: RowStretch) -> RowDifference:
    """Compare the table with the archive in the ranges, column by column."""
    before = _Stream(_inside(_old_rows(stretch, CONTENT), stretch))
    after = _Stream(_new_rows(stretch, CONTENT))
    try:
        equal = _are_equal(before, after)
        before.drain()
        after.drain()
    except (LogError, OSError, FileUnreadable, pa.ArrowException) as error:
        reason, lost = _said(error)
        return RowDifference(error=reason, lost=lost)
    return RowDifference(equal, before.rows, after.rows)


def rewrite_rows(stretch: RowStretch) -> WriteResult:
    """Write the stretch as one file with its ranges replaced; no file if no row is left."""
    root = table_uri(stretch.source.lake, TABLE)
    try:
        kept = _Stream(_outside(_old_rows(stretch, stretch.spec.file_schema), stretch))
        written = write_file(
            root,
            stretch.spec,
            _woven(stretch, kept),
            {"topic": stretch.source.topic},
            lambda: not kept.rows or row_digest.are_recorded(root, stretch.files),
            stretch.source.compression,
        )
    except (LogError, OSError, FileUnreadable, pa.ArrowException) as error:
        reason, lost = _said(error)
        return WriteResult(error=reason, lost=lost)
    return WriteResult.of(written)


def _said(error: Exception) -> tuple[str, str | None]:
    """The reason, and the path of the table's file that cannot be read, if there is one."""
    return (error.reason, error.path) if isinstance(error, FileUnreadable) else (str(error), None)


class _Stream:
    """A stream of rows in offset order, read in parts."""

    def __init__(self, chunks: Iterable[pa.RecordBatch]) -> None:
        self._chunks = iter(chunks)
        self._rest: pa.RecordBatch | None = None
        self.rows = 0
        """Number of rows read so far."""

    def up_to(self, count: int) -> pa.RecordBatch | None:
        """The next rows, at most ``count``; None at the end."""
        chunk = self._next()
        if chunk is None:
            return None
        self._rest = chunk.slice(count) if chunk.num_rows > count else None
        taken = chunk.slice(0, count)
        self.rows += taken.num_rows
        return taken

    def below(self, offset: int) -> Iterator[pa.RecordBatch]:
        """The next rows whose offsets are below ``offset``."""
        while (chunk := self._next()) is not None:
            count = int(np.searchsorted(_offsets(chunk), offset))
            self._rest = chunk
            if count == 0:
                return
            taken = self.up_to(count)
            if taken is not None:
                yield taken

    def drain(self) -> None:
        """Count the remaining rows."""
        while self.up_to(CHUNK_ROWS) is not None:
            pass

    def _next(self) -> pa.RecordBatch | None:
        chunk, self._rest = self._rest, None
        while chunk is None or not chunk.num_rows:
            chunk = next(self._chunks, None)
            if chunk is None:
                return None
        return chunk


def _are_equal(left: _Stream, right: _Stream) -> bool:
    while (chunk := left.up_to(CHUNK_ROWS)) is not None:
        at = 0
        while at < chunk.num_rows:
            other = right.up_to(chunk.num_rows - at)
            if other is None or not chunk.slice(at, other.num_rows).equals(other):
                return False
            at += other.num_rows
    return right.up_to(1) is None


def _woven(stretch: RowStretch, kept: _Stream) -> Iterator[pa.RecordBatch]:
    new = _Stream(_with_extra_columns(stretch) if stretch.extra else _new_rows(stretch, OURS))
    for start, end in stretch.ranges:
        yield from kept.below(start)
        yield from new.below(end)
    yield from kept.below(stretch.end)


def _new_rows(stretch: RowStretch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for chunk in decoded(stretch.source):
        yield as_declared(chunk, schema)


def _with_extra_columns(stretch: RowStretch) -> Iterator[pa.RecordBatch]:
    """The new rows, with the values that the table has at their offsets in columns added by users.

    Such a value is null where the table has no row. Of several rows with the same offset the first is used.
    """
    schema = stretch.spec.file_schema
    added = pa.schema([schema.field("offset"), *(field for field in schema if field.name not in OURS.names)])
    needed = pa.schema([*(OURS.field(name) for name in COLUMNS), *list(added)[1:]])
    old = _Stream(_inside(_old_rows(stretch, needed), stretch))
    for chunk in _new_rows(stretch, OURS):
        if not chunk.num_rows:
            continue
        offsets = _offsets(chunk)
        there = pa.Table.from_batches(list(old.below(int(offsets[-1]) + 1)), needed).combine_chunks()
        known = _offsets(there)
        at = np.searchsorted(known, offsets)
        is_there = np.zeros(len(offsets), dtype=bool)
        within = at < len(known)
        is_there[within] = known[at[within]] == offsets[within]
        places = pa.array(at, pa.int64(), mask=~is_there)
        for field in list(added)[1:]:
            column = there.column(field.name).take(places)
            chunk = chunk.append_column(field, column.combine_chunks() if len(column) else pa.nulls(0, field.type))
        yield chunk.select(schema.names)


def _old_rows(stretch: RowStretch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The log's rows in the stretch, in offset order. Raises as :func:`_read`."""
    return in_offset_order(partial(_read, stretch), schema)


def _read(stretch: RowStretch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The log's rows in the stretch, file by file; no chunk is empty.

    Raises:
        FileUnreadable: A file is lost.
        OSError: A file cannot be read now.
    """
    for path in stretch.files:
        yield from _rows_of(stretch, path, schema)


def _rows_of(stretch: RowStretch, path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    source, start, end = stretch.source, stretch.start, stretch.end
    bounds = {"offset": (start, end), "partition": (source.partition, source.partition + 1)}
    full = storage.join(table_uri(source.lake, TABLE), path)
    with opened(full, path) as file:
        groups = [at for at in range(file.num_row_groups) if may_meet(file.metadata.row_group(at), **bounds)]
        there = [name for name in schema.names if name in file.schema_arrow.names]
        for chunk in batches_of(file, full, path, CHUNK_ROWS, row_groups=groups, columns=there):
            rows = within(as_declared(chunk, schema), (source.log_id, source.partition), start, end)
            if rows.num_rows:
                yield rows


def _inside(chunks: Iterable[pa.RecordBatch], stretch: RowStretch) -> Iterator[pa.RecordBatch]:
    for chunk in chunks:
        yield chunk.filter(pa.array(_is_inside(chunk, stretch)))


def _outside(chunks: Iterable[pa.RecordBatch], stretch: RowStretch) -> Iterator[pa.RecordBatch]:
    for chunk in chunks:
        yield chunk.filter(pa.array(~_is_inside(chunk, stretch)))


def _is_inside(chunk: pa.RecordBatch, stretch: RowStretch) -> np.ndarray:
    offsets = _offsets(chunk)
    if not stretch.ranges:
        return np.zeros(len(offsets), dtype=bool)
    starts, ends = (np.array(bounds, dtype=np.int64) for bounds in zip(*stretch.ranges, strict=True))
    at = np.searchsorted(starts, offsets, side="right") - 1
    return (at >= 0) & (offsets < ends[np.maximum(at, 0)])


def _offsets(chunk: pa.RecordBatch | pa.Table) -> np.ndarray:
    column = chunk.column("offset")
    offsets: np.ndarray = column.to_numpy() if isinstance(chunk, pa.Table) else column.to_numpy(zero_copy_only=False)
    return offsets
