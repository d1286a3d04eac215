"""Writes one Parquet file of ``records``: decodes pieces of archived segments, and keeps the visible records.

Runs in a worker. Each CRC is checked again, because the archive may have been damaged on disk since validation.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from logcore.columns.engines import decode_segment
from logcore.columns.wanted import Place, Wanted
from logcore.errors import LogError
from logcore.remote.chunked.chunk_map import RegisteredObject
from logcore.segments.scanning.scan import Stretch
from spark_jobs.engine.executor import synced_late
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.store import mapped_file, storage
from spark_jobs.lake.store.written_file import WriteResult
from spark_jobs.lake.table_specs import PUBLISHED_AT, TABLES
from spark_jobs.policies.compression import DEFAULT, Compression
from spark_jobs.reads import Reads

CONSTANT = ("log_id", "segment_id")
"""Columns with the same value in every row of a piece."""

DECODED = tuple(field.name for field in TABLES["records"].content_schema if field.name not in CONSTANT)


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes [start, end) of an archived segment, and their offsets."""

    segment_id: str
    path: str
    file_start: int
    """Position of the segment in its file; not 0 where it is registered in place."""
    start: int
    end: int
    first_offset: int
    end_offset: int
    registered: RegisteredObject | None = None
    """The object, if it is registered in place."""


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Pieces of one log, in offset order, that become one file."""

    lake: str
    topic: str
    log_id: str
    partition: int
    pieces: tuple[Piece, ...]
    visible: tuple[tuple[int, int], ...]
    """Offset ranges [start, end) whose records are published."""
    published_ms: int | None = None
    """Clock of the run, for the column ``published_at``; None: the rows have no such column."""
    compression: Compression = DEFAULT

    @property
    def reads(self) -> Reads:
        """What it reads."""
        first = min((piece.first_offset for piece in self.pieces), default=None)
        last = max((piece.end_offset for piece in self.pieces), default=None)
        return Reads(f"{self.topic}-{self.partition}", None, first, last)

    @property
    def size(self) -> int:
        """Archived bytes to read."""
        return sum(piece.end - piece.start for piece in self.pieces)


@synced_late
def write_records(task: WriteTask) -> WriteResult:
    """Write one file; none where no row is visible."""
    root, spec = table_uri(task.lake, "records"), TABLES["records"]
    try:
        place = {"topic": task.topic}
        return WriteResult.of(write_file(root, spec, decoded(task), place, compression=task.compression))
    except (LogError, OSError) as error:
        return WriteResult(error=str(error))


def decoded(task: WriteTask) -> Iterator[pa.RecordBatch]:
    """Rows of ``records`` without their topic, in offset order.

    Raises:
        LogError: An archived file is gone, unreadable or too short.
    """
    for piece in task.pieces:
        bounds = (piece.file_start + piece.start, piece.file_start + piece.end)
        at_source = not storage.lies_below(task.lake, piece.path)
        with (
            mapped_file.mapped(piece.path, *bounds, at_source=at_source, registered=piece.registered) as mapped,
            memoryview(mapped) as whole,
        ):
            content = whole[piece.file_start : piece.file_start + piece.end]
            if len(content) < piece.end:
                message = f"the file ends {piece.end - len(content)} bytes before the end of the bytes to publish"
                raise LogError(message, file=piece.path)
            rows = decode_segment(
                content,
                place=Place(task.topic, task.partition, task.log_id, piece.segment_id),
                base_offset=piece.first_offset,
                next_base_offset=piece.end_offset,
                sealed=True,
                wanted=Wanted(columns=DECODED, visible=task.visible, as_counted=True),
                start=piece.start,
            )
            constants = _Constants(task.log_id, piece.segment_id, task.published_ms)
            # No offset is published that was damaged at validation. Later damage lowers the number of rows, which
            # publish compares with the ledger.
            yield from (constants.beside(item) for item in rows if not isinstance(item, Stretch))
            del rows
            content.release()


class _Constants:
    """The values that are the same in every row of a piece; texts as dictionaries with one entry.

    The Parquet writer copies such dictionaries. It would inspect every row of a text column.
    """

    def __init__(self, log_id: str, segment_id: str, published_ms: int | None) -> None:
        self._words = {name: _one_word(word) for name, word in zip(CONSTANT, (log_id, segment_id), strict=True)}
        self._published_us = None if published_ms is None else published_ms * 1000
        self._indices = self._times = pa.py_buffer(b"")

    def beside(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the constant columns appended."""
        rows = columns.num_rows
        if self._indices.size < 4 * rows:
            self._indices = pa.py_buffer(bytes(4 * rows))
        indices = pa.Array.from_buffers(pa.int32(), rows, [None, self._indices])
        for name, word in self._words.items():
            columns = columns.append_column(name, pa.DictionaryArray.from_arrays(indices, word))
        if self._published_us is not None:
            if self._times.size < 8 * rows:
                self._times = pa.py_buffer(np.full(rows, self._published_us, dtype="<i8").data)
            times = pa.Array.from_buffers(PUBLISHED_AT.type, rows, [None, self._times])
            columns = columns.append_column(PUBLISHED_AT.name, times)
        return columns


def _one_word(word: str) -> pa.Array[Any]:
    # Built from buffers: pa.array would import pandas, which no worker needs.
    text = word.encode()
    ends = array("i", (0, len(text)))
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(text)])
