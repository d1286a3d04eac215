"""One Parquet file of ``records``: pieces of archived segments decoded, what is visible kept.

Runs in a worker. Every crc is checked again on the way: between validation and here the archive lay on a disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from logcore.columns.engines import decode_segment
from logcore.columns.wanted import Place, Wanted
from logcore.errors import LogError
from logcore.segments.scan import Stretch
from logcore.storage.local import map_file
from spark_jobs.lake.tables import TABLES, table_uri
from spark_jobs.parquet_files import write_file


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


def write_records(value: dict[str, Any]) -> dict[str, Any]:
    """Write one file.

    Args:
        value: a :class:`WriteTask` as plain values.

    Returns:
        ``file`` (a :class:`~spark_jobs.lake.commits.WrittenFile` as plain values, None without rows), ``rows``,
        ``error`` (None, or why nothing was written).
    """
    pieces = tuple(Piece(**piece) for piece in value["pieces"])
    task = WriteTask(**(value | {"pieces": pieces, "visible": tuple((s, e) for s, e in value["visible"])}))
    try:
        written = write_file(table_uri(task.lake, "records"), TABLES["records"], _chunks(task), {"topic": task.topic})
    except (LogError, OSError) as error:
        return {"file": None, "rows": 0, "error": str(error)}
    if written is None:
        return {"file": None, "rows": 0, "error": None}
    return {"file": asdict(written), "rows": written.rows, "error": None}


def _chunks(task: WriteTask) -> Iterator[pa.RecordBatch]:
    for piece in task.pieces:
        with map_file(piece.path) as mapped, memoryview(mapped) as whole:
            content = whole[piece.file_start : piece.file_start + piece.end]
            if len(content) < piece.end:
                message = f"the file ends {piece.end - len(content)} bytes before what is to be published of it does"
                raise LogError(message, file=piece.path)
            rows = decode_segment(
                content,
                place=Place(task.topic, task.partition, task.log_id, piece.segment_id),
                base_offset=piece.first_offset,
                sealed=True,
                wanted=Wanted(visible=task.visible),
                start=piece.start,
            )
            # What was damaged when it was validated has no offsets that are published; what is since then is missing
            # in the number of rows, which publish compares.
            yield from (item for item in rows if not isinstance(item, Stretch))
            del rows
            content.release()
