"""The segments of a log of which something is wanted, and their records as Arrow columns.

`loglake dump` and the library read through here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logcore.cli.reading.shown_logs import Notes, cannot_read, padding_finding, segment_bytes, stretch_finding
from logcore.columns.wanted import Place, Wanted
from logcore.errors import LogError
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.records.varint import Buffer
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scanning.scan import Stretch
from logcore.storage.local import SourceChanged, SourceUnreadable, shown
from logcore.storage.source_bytes import SourceBytes

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_BYTES = 1 << 20
"""Bytes that a read with a known end looks at first; each following look is twice as long, up to `MOST_BYTES`."""
MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class ShownSegment:
    """A segment, its bytes, and what is wanted of it."""

    log: SourceLog
    segment: SegmentFile
    source: SourceBytes
    wanted: Wanted

    @property
    def content(self) -> Buffer:
        """The segment's bytes, of which only those that were fetched are there."""
        return self.source.content


def place_of(log: SourceLog, segment: SegmentFile) -> Place:
    """What rows of a segment say of where they are from."""
    topic, partition = log.topic_partition.topic, log.topic_partition.partition
    log_id = f"{topic}@{log.cluster_id or 'unknown'}.0" if log.topic_id is None else f"{log.topic_id}.0"
    return Place(topic, partition, log_id, f"{segment.base_offset:020d}")


def shown_segments(log: SourceLog, wanted: Wanted, notes: Notes) -> Iterator[ShownSegment]:
    """The segments that can hold a wanted offset, opened one by one. A file that cannot be opened is reported."""
    for segment in segments_among(log, wanted.visible):
        try:
            yield ShownSegment(log, segment, segment_bytes(log, segment), wanted)
        except LogError as error:
            cannot_read(segment, error, notes)


def segments_among(log: SourceLog, visible: tuple[tuple[int, int], ...] | None) -> Iterator[SegmentFile]:
    """The segments whose offsets may lie between the first and the last visible offset. No file is opened."""
    if visible is None:
        yield from log.segments
        return
    for segment in log.segments if visible else ():
        following = log.next_base_offset(segment)
        if segment.base_offset < visible[-1][1] and (following is None or following > visible[0][0]):
            yield segment


def columns_of(shows: ShownSegment, notes: Notes, *, to_the_end: bool = True) -> Iterator[pa.RecordBatch]:
    """The wanted records of a segment as Arrow columns, in order. What is wrong with the segment is reported.

    Args:
        to_the_end: Look at the whole segment, so that damage at its end is reported. Else the read ends after the last
            visible offset, and damage from there on is not reported.
    """
    from logcore.columns.engines import decode_segment

    log, segment, content, visible = shows.log, shows.segment, shows.content, shows.wanted.visible
    position, next_offset = 0, segment.base_offset
    is_bounded = not to_the_end and visible is not None
    end = visible[-1][1] if is_bounded and visible else MAX_OFFSET + 1
    nbytes = FIRST_BYTES
    try:
        while position < len(content) and next_offset < end:
            rows = decode_segment(
                content,
                place=place_of(log, segment),
                base_offset=segment.base_offset,
                sealed=log.is_sealed(segment),
                next_base_offset=log.next_base_offset(segment),
                wanted=shows.wanted,
                start=position,
                next_offset=next_offset,
                stop=min(position + nbytes, len(content)) if is_bounded else None,
                fetched=shows.source,
            )
            for item in rows:
                if not isinstance(item, Stretch):
                    yield item
                elif item.offset < end:
                    notes.say(stretch_finding(item, shown(segment.path)))
            position, next_offset = rows.position, rows.next_offset
            if rows.padding and next_offset < end:
                notes.say(padding_finding(log, segment, len(content), len(content) - (position - rows.padding)))
                break
            shows.source.release(position)
            nbytes = min(2 * nbytes, MOST_BYTES)
        shows.source.refuse_change()
    except (SourceChanged, SourceUnreadable) as error:
        cannot_read(segment, error, notes)
