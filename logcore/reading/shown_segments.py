"""The segments of a log of which something is wanted, and their records as Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from logcore.columns.wanted import Place, Wanted
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.read_options import Notes
from logcore.reading.segment_reading import rows_of_segment
from logcore.records.varint import Buffer
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.side_files.proved_entries import ReadingStart
from logcore.storage.source_bytes import SourceBytes
from logcore.texts import id_part

if TYPE_CHECKING:
    import pyarrow as pa

    from logcore.columns.checking.chunks import Chunk
    from logcore.columns.decoding.lanes import SegmentRows

Rows = TypeVar("Rows")

FIRST_BYTES = 1 << 16
"""Bytes that a read with a known end looks at first: more could touch another chunk of a remote segment. A batch that
begins there may be longer; each following look is twice as long, up to `MOST_BYTES`."""
MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class ShownSegment:
    """A segment, its bytes, and what is wanted of it.

    Attributes:
        log: Its log.
        segment: The segment.
        source: Its bytes.
        wanted: The wanted records.
        start: Where reading begins.
        end: The offset at which reading may end; None: at the end of the file, so that damage there is reported.
    """

    log: SourceLog
    segment: SegmentFile
    source: SourceBytes
    wanted: Wanted
    start: ReadingStart
    end: int | None = None

    @property
    def content(self) -> Buffer:
        """The segment's bytes, of which only those that were fetched are there."""
        return self.source.content


def place_of(log: SourceLog, segment: SegmentFile) -> Place:
    """What rows of a segment say of where they are from."""
    topic, partition = log.topic_partition.topic, log.topic_partition.partition
    log_id = f"{topic}@{id_part(log.cluster_id or 'unknown')}.0" if log.topic_id is None else f"{log.topic_id}.0"
    return Place(topic, partition, log_id, f"{segment.base_offset:020d}")


def segments_among(log: SourceLog, visible: tuple[tuple[int, int], ...] | None) -> Iterator[SegmentFile]:
    """The segments whose offsets may lie between the first and the last visible offset. No file is opened."""
    if visible is None:
        yield from log.segments
        return
    for segment in log.segments if visible else ():
        following = log.next_base_offset(segment)
        # A file whose name is the largest offset holds none, but its bytes are checked.
        is_before_end = segment.base_offset < visible[-1][1] or visible[-1][1] == MAX_OFFSET
        if is_before_end and (following is None or following > visible[0][0]):
            yield segment


def columns_of(shows: ShownSegment, notes: Notes, *, in_steps: bool = False) -> Iterator[pa.RecordBatch]:
    """The wanted records of a segment as Arrow columns, in order. What is wrong with the segment is reported.

    Args:
        shows: The segment.
        notes: Reports damage.
        in_steps: Few records may be read: look at few bytes at first.
    """
    from logcore.columns.engines import decode_segment

    log, segment = shows.log, shows.segment

    def decode(chunk: Chunk) -> SegmentRows[pa.RecordBatch]:
        return decode_segment(
            shows.content,
            place=place_of(log, segment),
            base_offset=segment.base_offset,
            sealed=log.is_sealed(segment),
            next_base_offset=log.next_base_offset(segment),
            wanted=shows.wanted,
            start=chunk.start,
            next_offset=chunk.next_offset,
            stop=chunk.stop,
            fetched=shows.source,
        )

    yield from rows_of(shows, notes, decode, in_steps=in_steps)


def rows_of(
    shows: ShownSegment, notes: Notes, decode: Callable[[Chunk], SegmentRows[Rows]], *, in_steps: bool = False
) -> Iterator[Rows]:
    """The wanted rows of a segment, in order. What is wrong with the segment is reported.

    Args:
        shows: The segment.
        notes: Reports damage.
        decode: Begins a walk over a part of the segment; the walk may end before the end of the part.
        in_steps: Few rows may be read: look at few bytes at first.
    """
    yield from rows_of_segment(
        shows.log,
        shows.segment,
        shows.source,
        decode,
        notes,
        shows.start,
        end=shows.end,
        first_bytes=FIRST_BYTES if in_steps or shows.end is not None else None,
        most_bytes=MOST_BYTES,
    )
