"""The segments of a log that may have wanted records, and their records as Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logcore.columns.wanted import Place, Wanted
from logcore.errors import LogError
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.notes import Notes
from logcore.reading.segment_reading import cannot_read, padding_finding, segment_bytes, stretch_finding
from logcore.records.varint import Buffer
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scanning.scan import Stretch
from logcore.storage.local import SourceChanged, SourceUnreadable, shown
from logcore.storage.source_bytes import SourceBytes

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_BYTES = 1 << 20
"""Size of the first piece of a read with a known end. Each next piece has twice the size, up to `MOST_BYTES`."""
MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class ShownSegment:
    """A segment whose wanted records are read.

    Attributes:
        log: The log of the segment.
        segment: The segment.
        source: Its bytes.
        wanted: Which records and columns are wanted.
    """

    log: SourceLog
    segment: SegmentFile
    source: SourceBytes
    wanted: Wanted

    @property
    def content(self) -> Buffer:
        """The segment's bytes; only the fetched ones are present."""
        return self.source.content


def place_of(log: SourceLog, segment: SegmentFile) -> Place:
    """Return the origin of a segment's rows, for their columns."""
    topic, partition = log.topic_partition.topic, log.topic_partition.partition
    log_id = f"{topic}@{log.cluster_id or 'unknown'}.0" if log.topic_id is None else f"{log.topic_id}.0"
    return Place(topic, partition, log_id, f"{segment.base_offset:020d}")


def shown_segments(log: SourceLog, wanted: Wanted, notes: Notes) -> Iterator[ShownSegment]:
    """Yield the segments that may contain a wanted offset, opened one by one.

    Args:
        log: The log.
        wanted: Which records and columns are wanted.
        notes: Gets a finding for each file that cannot be opened.
    """
    for segment in segments_among(log, wanted.visible):
        try:
            yield ShownSegment(log, segment, segment_bytes(log, segment), wanted)
        except LogError as error:
            cannot_read(segment, error, notes)


def segments_among(log: SourceLog, visible: tuple[tuple[int, int], ...] | None) -> Iterator[SegmentFile]:
    """Yield the segments that may contain an offset from the first to the last visible one. No file is opened.

    Args:
        log: The log.
        visible: Ascending half-open ranges of offsets; None: all offsets.
    """
    if visible is None:
        yield from log.segments
        return
    for segment in log.segments if visible else ():
        following = log.next_base_offset(segment)
        if segment.base_offset < visible[-1][1] and (following is None or following > visible[0][0]):
            yield segment


def columns_of(shows: ShownSegment, notes: Notes, *, to_the_end: bool = True) -> Iterator[pa.RecordBatch]:
    """Yield the wanted records of a segment as Arrow columns, in order, and report damage.

    Args:
        shows: The segment.
        notes: Gets the findings.
        to_the_end: Read the whole segment, so that damage at its end is reported. Else the read ends after the last
            visible offset, and later damage is not reported.
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
