"""A stretch of a log's offsets in ``records``, compared with the archive, or written again with ranges of it replaced.

Runs in a worker. A stretch is [start, end) with the files that hold rows of it; in its ranges rows come from the
archive, outside of them they are carried over as they are. Rows stream by in offset order, so memory does not grow with
the stretch, unless somebody else left a file of it out of order: that is sorted first.

Belongs here: the rows. Which stretches there are and what is committed is ``replace``'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from logcore.errors import LogError
from spark_jobs.lake import storage
from spark_jobs.lake.tables import TABLES, table_uri
from spark_jobs.parquet_files import write_file
from spark_jobs.records_file import WriteTask, decoded

TABLE = "records"
CHUNK_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets [start, end) of one log."""

    source: WriteTask
    """What of the archive has the visible offsets of the ranges."""
    start: int
    end: int
    ranges: tuple[tuple[int, int], ...]
    """What is replaced; the rows of other offsets are carried over."""
    files: tuple[str, ...]
    """Live files with rows of the stretch, relative to the table, by their least offset."""

    @classmethod
    def from_plain(cls, value: Mapping[str, Any]) -> Stretch:
        """The reverse of ``dataclasses.asdict``, also through JSON."""
        return cls(
            source=WriteTask.from_plain(value["source"]),
            start=value["start"],
            end=value["end"],
            ranges=tuple((start, end) for start, end in value["ranges"]),
            files=tuple(value["files"]),
        )


def compare_rows(value: dict[str, Any]) -> dict[str, Any]:
    """Compare what the table has in the ranges with what the archive has, column by column.

    Args:
        value: a :class:`Stretch` as plain values.

    Returns:
        ``equal``; ``before`` and ``after``: rows in the ranges; ``error``: None, or why nothing could be compared.
    """
    stretch = Stretch.from_plain(value)
    before, after = _Stream(_inside(_old_rows(stretch), stretch)), _Stream(_new_rows(stretch))
    try:
        equal = _are_equal(before, after)
        before.drain()
        after.drain()
    except (LogError, OSError) as error:
        return {"equal": False, "before": 0, "after": 0, "error": str(error)}
    return {"equal": equal, "before": before.rows, "after": after.rows, "error": None}


def rewrite_rows(value: dict[str, Any]) -> dict[str, Any]:
    """Write the stretch as one file, its ranges replaced.

    Args:
        value: a :class:`Stretch` as plain values.

    Returns:
        ``file`` (None where no row is left) and ``error`` (None, or why nothing was written).
    """
    stretch = Stretch.from_plain(value)
    try:
        written = write_file(
            table_uri(stretch.source.lake, TABLE), TABLES[TABLE], _woven(stretch), {"topic": stretch.source.topic}
        )
    except (LogError, OSError) as error:
        return {"file": None, "error": str(error)}
    return {"file": None if written is None else asdict(written), "error": None}


class _Stream:
    """Rows in offset order, taken in parts."""

    def __init__(self, chunks: Iterable[pa.RecordBatch]) -> None:
        self._chunks = iter(chunks)
        self._rest: pa.RecordBatch | None = None
        self.rows = 0
        """Rows taken so far."""

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
        """The next rows as long as their offsets are below ``offset``."""
        while (chunk := self._next()) is not None:
            count = int(np.searchsorted(_offsets(chunk), offset))
            self._rest = chunk
            if count == 0:
                return
            taken = self.up_to(count)
            if taken is not None:
                yield taken

    def drain(self) -> None:
        """Count what is left."""
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


def _woven(stretch: Stretch) -> Iterator[pa.RecordBatch]:
    kept, new = _Stream(_outside(_old_rows(stretch), stretch)), _Stream(_new_rows(stretch))
    for start, end in stretch.ranges:
        yield from kept.below(start)
        yield from new.below(end)
    yield from kept.below(stretch.end)


def _new_rows(stretch: Stretch) -> Iterator[pa.RecordBatch]:
    schema = TABLES[TABLE].file_schema
    for chunk in decoded(stretch.source):
        yield chunk.select(schema.names).cast(schema)


def _old_rows(stretch: Stretch) -> Iterator[pa.RecordBatch]:
    if _is_in_order(stretch):
        yield from _read(stretch, TABLES[TABLE].file_schema)
        return
    rows = pa.Table.from_batches(_read(stretch, TABLES[TABLE].file_schema), TABLES[TABLE].file_schema)
    yield from rows.sort_by("offset").to_batches(max_chunksize=CHUNK_ROWS)


def _is_in_order(stretch: Stretch) -> bool:
    schema = TABLES[TABLE].file_schema
    at = -1
    for chunk in _read(stretch, pa.schema([schema.field(name) for name in ("partition", "offset", "log_id")])):
        offsets = _offsets(chunk)
        if offsets[0] <= at or (np.diff(offsets) <= 0).any():
            return False
        at = int(offsets[-1])
    return True


def _read(stretch: Stretch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The log's rows in the stretch, file by file; none of the chunks is empty."""
    source = stretch.source
    files = storage.arrow_filesystem(table_uri(source.lake, TABLE))
    for path in stretch.files:
        with files.open_input_file(path) as opened:
            file = pq.ParquetFile(opened)
            groups = [at for at in range(file.num_row_groups) if _may_meet(file.metadata.row_group(at), stretch)]
            for chunk in file.iter_batches(CHUNK_ROWS, row_groups=groups, columns=schema.names):
                rows = chunk.select(schema.names).cast(schema)
                offsets = _offsets(rows)
                rows = rows.filter(
                    pc.and_(
                        pc.and_(pc.equal(rows["partition"], source.partition), pc.equal(rows["log_id"], source.log_id)),
                        pa.array((offsets >= stretch.start) & (offsets < stretch.end)),
                    )
                )
                if rows.num_rows:
                    yield rows


def _may_meet(group: pq.RowGroupMetaData, stretch: Stretch) -> bool:
    for at in range(group.num_columns):
        column = group.column(at)
        if column.path_in_schema == "offset":
            told = column.statistics
            if told is None or not told.has_min_max:
                return True
            return bool(told.min < stretch.end and told.max >= stretch.start)
    return True


def _inside(chunks: Iterable[pa.RecordBatch], stretch: Stretch) -> Iterator[pa.RecordBatch]:
    for chunk in chunks:
        yield chunk.filter(pa.array(_is_inside(chunk, stretch)))


def _outside(chunks: Iterable[pa.RecordBatch], stretch: Stretch) -> Iterator[pa.RecordBatch]:
    for chunk in chunks:
        yield chunk.filter(pa.array(~_is_inside(chunk, stretch)))


def _is_inside(chunk: pa.RecordBatch, stretch: Stretch) -> np.ndarray:
    offsets = _offsets(chunk)
    if not stretch.ranges:
        return np.zeros(len(offsets), dtype=bool)
    starts, ends = (np.array(bounds, dtype=np.int64) for bounds in zip(*stretch.ranges, strict=True))
    at = np.searchsorted(starts, offsets, side="right") - 1
    return (at >= 0) & (offsets < ends[np.maximum(at, 0)])


def _offsets(chunk: pa.RecordBatch) -> np.ndarray:
    offsets: np.ndarray = chunk.column("offset").to_numpy(zero_copy_only=False)
    return offsets
