"""Which neighbours become one segment when a log is cleaned.

From the oldest on, the next segment joins for as long as

    bytes of the logs together              <= segment.bytes
    bytes of the offset indexes, as trimmed <= segment.index.bytes, and so those of the time indexes
    its last offset - the group's base      <= 2^31-1, unless it is empty

All sizes are those before cleaning: what a round makes small is put together a round later. The last offset is taken
to be the one in front of the next segment, for the last of them the one in front of the round's end.

Source: Kafka Cleaner.groupSegmentsBySize.
"""

from __future__ import annotations

from collections.abc import Sequence

from logcore.logs.compaction.cleaning_round import SourceSegment
from logcore.segments.scan import MAX_RELATIVE_OFFSET


def group_segments(
    segments: Sequence[SourceSegment], *, segment_bytes: int, segment_index_bytes: int, upper_bound_offset: int
) -> list[tuple[SourceSegment, ...]]:
    """All segments, oldest first, in groups of neighbours."""
    groups: list[list[SourceSegment]] = []
    size = offset_index = time_index = 0
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else upper_bound_offset
        joins = (
            bool(groups)
            and size + segment.size <= segment_bytes
            and offset_index + segment.offset_index_size <= segment_index_bytes
            and time_index + segment.time_index_size <= segment_index_bytes
            and (segment.size == 0 or following - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        )
        if not joins:
            groups.append([])
            size = offset_index = time_index = 0
        groups[-1].append(segment)
        size += segment.size
        offset_index += segment.offset_index_size
        time_index += segment.time_index_size
    return [tuple(group) for group in groups]
