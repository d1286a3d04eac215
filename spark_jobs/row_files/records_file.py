"""One Parquet file of ``records``: pieces of archived segments decoded, what is visible kept.

Runs in a worker. Every crc is checked again on the way: between validation and here the archive lay on a disk.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from logcore.columns.engines import decode_segment
from logcore.columns.wanted import Place, Wanted
from logcore.errors import LogError
from logcore.segments.scanning.scan import Stretch
from spark_jobs.lake.delta.parquet_files import write_file
from spark_jobs.lake.delta.tables import TABLES, table_uri
from spark_jobs.lake.store import storage

CONSTANT = ("log_id", "segment_id")
"""Columns that say the same in every row of a piece."""

DECODED = tuple(field.name for field in TABLES["records"].file_schema if field.name not in CONSTANT)


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes [start, end) of an archived segment and the offsets they hold."""

    segment_id: str
    path: str
    file_start: int
    """Where the segment begins in its file: not 0 where it is registered in place."""
    start: int
    end: int
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Pieces of one log, in offset order, that make one file."""

    lake: str
    topic: str
    log_id: str
    partition: int
    pieces: tuple[Piece, ...]
    visible: tuple[tuple[int, int], ...]
    """Half-open offset ranges whose records are published."""

    @property
    def size(self) -> int:
        """Archived bytes to read."""
        return sum(piece.end - piece.start for piece in self.pieces)

    @classmethod
    def from_plain(cls, value: Mapping[str, Any]) -> WriteTask:
        """The reverse of ``dataclasses.asdict``, also through JSON."""
        pieces = tuple(Piece(**piece) for piece in value["pieces"])
        return cls(**(dict(value) | {"pieces": pieces, "visible": tuple((s, e) for s, e in value["visible"])}))


def write_records(value: dict[str, Any]) -> dict[str, Any]:
    """Write one file.

    Args:
        value: a :class:`WriteTask` as plain values.

    Returns:
        ``file`` (a :class:`~spark_jobs.lake.delta.commits.WrittenFile` as plain values, None without rows), ``rows``,
        ``error`` (None, or why nothing was written).
    """
    task = WriteTask.from_plain(value)
    try:
        written = write_file(table_uri(task.lake, "records"), TABLES["records"], decoded(task), {"topic": task.topic})
    except (LogError, OSError) as error:
        return {"file": None, "rows": 0, "error": str(error)}
    if written is None:
        return {"file": None, "rows": 0, "error": None}
    return {"file": asdict(written), "rows": written.rows, "error": None}


def decoded(task: WriteTask) -> Iterator[pa.RecordBatch]:
    """Rows of ``records`` without their topic, in offset order.

    Raises:
        LogError: an archived file is gone, unreadable or shorter than it was.
    """
    for piece in task.pieces:
        bounds = (piece.file_start + piece.start, piece.file_start + piece.end)
        at_source = not storage.lies_below(task.lake, piece.path)
        with storage.mapped(piece.path, *bounds, at_source=at_source) as mapped, memoryview(mapped) as whole:
            content = whole[piece.file_start : piece.file_start + piece.end]
            if len(content) < piece.end:
                message = f"the file ends {piece.end - len(content)} bytes before what is to be published of it does"
                raise LogError(message, file=piece.path)
            rows = decode_segment(
                content,
                place=Place(task.topic, task.partition, task.log_id, piece.segment_id),
                base_offset=piece.first_offset,
                sealed=True,
                wanted=Wanted(columns=DECODED, visible=task.visible),
                start=piece.start,
            )
            constants = _Constants(task.log_id, piece.segment_id)
            # What was damaged when it was validated has no offsets that are published; what is since then is missing
            # in the number of rows, which publish compares.
            yield from (constants.beside(item) for item in rows if not isinstance(item, Stretch))
            del rows
            content.release()


class _Constants:
    """What is the same in every row of a piece, as dictionaries of one word: the Parquet writer takes these as they
    are, where it would look at every row of a column of text."""

    def __init__(self, log_id: str, segment_id: str) -> None:
        self._words = {name: _one_word(word) for name, word in zip(CONSTANT, (log_id, segment_id), strict=True)}
        self._indices = pa.py_buffer(b"")

    def beside(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the constant columns appended."""
        rows = columns.num_rows
        if self._indices.size < 4 * rows:
            self._indices = pa.py_buffer(bytes(4 * rows))
        indices = pa.Array.from_buffers(pa.int32(), rows, [None, self._indices])
        for name, word in self._words.items():
            columns = columns.append_column(name, pa.DictionaryArray.from_arrays(indices, word))
        return columns


def _one_word(word: str) -> pa.Array:
    # From buffers: pa.array would import pandas, which no worker needs.
    text = word.encode()
    ends = array("i", (0, len(text)))
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(text)])
