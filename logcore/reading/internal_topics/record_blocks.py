"""Records of Kafka's own topics in blocks, by the decoding engine: for logs with very many records.

`internal_logs` reads the same records one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logcore.columns.checking.chunks import Chunk
from logcore.columns.decoding.lanes import SegmentRows
from logcore.columns.engines import decode_segment
from logcore.columns.wanted import Place, Wanted
from logcore.errors import LogError
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.read_options import Notes
from logcore.reading.segment_reading import cannot_read, rows_of_segment, segment_bytes
from logcore.records.model import CONTROL_BIT, MAGIC_V2, TRANSACTIONAL_BIT
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.side_files.proved_entries import ReadingStart
from logcore.storage.source_bytes import SourceBytes

_COLUMNS = ("offset", "key", "value", "timestamp_ms", "position")
_MAGIC, _ATTRIBUTES, _PRODUCER_ID = 16, 21, 43
"""Places in the header of a batch of format v2."""

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Some records that follow each other.

    Attributes:
        rows: The columns offset, key, value and timestamp_ms of `logcore.columns.records_columns`, and position.
        is_control: Of each row: whether it is a control record.
        is_transactional: Of each row: whether its batch is part of a transaction.
        producer_ids: Of each row; -1 without a producer.
    """

    rows: pa.RecordBatch
    is_control: Flags
    is_transactional: Flags
    producer_ids: Numbers


def record_blocks(
    log: SourceLog,
    notes: Notes,
    start: int = 0,
    end: int | None = None,
    *,
    visible: tuple[tuple[int, int], ...] | None = None,
    control: bool = True,
    progress: list[int] | None = None,
) -> Iterator[RecordBlock]:
    """Yield records of a log in order, and report damage.

    Args:
        log: The log.
        notes: Gets the findings.
        start: The first offset.
        end: The offset after the last one; None: the end of the log.
        visible: Ascending half-open ranges of the offsets that are yielded, from start to end; None: all.
        control: Whether control records are yielded too.
        progress: Gets the offset after the last batch of each segment that was read.
    """
    after = MAX_OFFSET if end is None else end
    if visible is None and (start, end) != (0, None):
        visible = ((start, max(start, after)),)
    wanted = Wanted(_COLUMNS, visible, control=control)
    for segment in log.segments:
        following = log.next_base_offset(segment)
        if segment.base_offset >= after or (following is not None and following <= start):
            continue
        try:
            source = segment_bytes(log, segment)
        except LogError as error:
            cannot_read(segment, error, notes)
            continue
        yield from _blocks(log, segment, source, wanted, notes, progress)


def _blocks(
    log: SourceLog,
    segment: SegmentFile,
    source: SourceBytes,
    wanted: Wanted,
    notes: Notes,
    progress: list[int] | None,
) -> Iterator[RecordBlock]:
    place = Place(log.topic_partition.topic, log.topic_partition.partition, "", "")

    def decode(chunk: Chunk) -> SegmentRows[pa.RecordBatch]:
        return decode_segment(
            source.content,
            place=place,
            base_offset=segment.base_offset,
            sealed=log.is_sealed(segment),
            next_base_offset=log.next_base_offset(segment),
            wanted=wanted,
            start=chunk.start,
            next_offset=chunk.next_offset,
            stop=chunk.stop,
            fetched=source,
        )

    start = ReadingStart(0, segment.base_offset)
    content = np.frombuffer(source.content, np.uint8) if len(source.content) else np.zeros(1, np.uint8)
    for rows in rows_of_segment(log, segment, source, decode, notes, start, progress=progress):
        yield _block(rows, content)


def _block(rows: pa.RecordBatch, content: npt.NDArray[np.uint8]) -> RecordBlock:
    """A block of rows, with what the headers of their batches say."""
    positions = rows.column("position").to_numpy()
    first = np.flatnonzero(np.diff(positions, prepend=-1))
    batches = positions[first]
    counts = np.diff(first, append=len(positions))

    def read(at: int, nbytes: int) -> Any:
        # A batch of format v2 has all of these bytes; what a shorter one has is not used.
        places = np.minimum(batches[:, None] + np.arange(at, at + nbytes), len(content) - 1)
        return content[places].reshape(-1)

    is_modern = read(_MAGIC, 1) >= MAGIC_V2
    attributes = np.where(is_modern, read(_ATTRIBUTES, 2).view(">u2"), 0)
    producer_ids = np.where(is_modern, read(_PRODUCER_ID, 8).view(">i8"), -1)
    return RecordBlock(
        rows,
        np.repeat(attributes & CONTROL_BIT != 0, counts),
        np.repeat(attributes & TRANSACTIONAL_BIT != 0, counts),
        np.repeat(producer_ids, counts),
    )


def bytes_of(column: pa.Array[Any]) -> list[bytes | None]:
    """Return the values of a column of bytes. `to_pylist` takes several times as long."""
    if column.null_count == len(column):
        return [None] * len(column)
    _, ends, data = column.buffers()
    assert ends is not None
    bounds = np.frombuffer(memoryview(ends), np.int32)[column.offset : column.offset + len(column) + 1].tolist()
    content = memoryview(b"" if data is None else data)[bounds[0] : bounds[-1]].tobytes()
    first = bounds[0]
    values: list[bytes | None] = [content[start - first : end - first] for start, end in pairwise(bounds)]
    if column.null_count:
        for at in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            values[at] = None
    return values
