"""The layout of Kafka's LocalTieredStorage: plain copies of a segment's files in a directory.

    <topic>-<partition>-<topic UUID>/                          a directory for each partition
        <start offset, 20 digits>-<segment UUID>.log           the segment
        <start offset, 20 digits>-<segment UUID>.index         its offset index, trimmed
        <start offset, 20 digits>-<segment UUID>.timeindex     its time index, trimmed
        <start offset, 20 digits>-<segment UUID>.txnindex      its transaction index; absent if it has none
        <start offset, 20 digits>-<segment UUID>.leader_epoch_checkpoint
                                                               epochs of the log that begin at or below its last offset
        <start offset, 20 digits>-<segment UUID>.snapshot      producer state AFTER the segment, not before it

UUIDs have 22 characters, and may contain `-`. A topic may contain `-` too, so names are read from their ends.

Kafka's tests use this storage; so does everyone who tries tiered storage without a plugin.
Source: Kafka LocalTieredStorage, RemoteLogSegmentFileset, RemoteTopicPartitionDirectory.
"""

from __future__ import annotations

import re

from logcore.remote.remote_segment import UUID
from logcore.remote.stored_part import RemoteLayout, SegmentPart, StoredPart, stored_part

SUFFIXES: dict[SegmentPart, str] = {
    SegmentPart.LOG: ".log",
    SegmentPart.OFFSET_INDEX: ".index",
    SegmentPart.TIME_INDEX: ".timeindex",
    SegmentPart.TRANSACTION_INDEX: ".txnindex",
    SegmentPart.LEADER_EPOCHS: ".leader_epoch_checkpoint",
    SegmentPart.PRODUCER_SNAPSHOT: ".snapshot",
}
REQUIRED = frozenset(SUFFIXES) - {SegmentPart.TRANSACTION_INDEX}
"""Parts without which a copy is not complete."""

_PARTS = {suffix: part for part, suffix in SUFFIXES.items()}
_NAME = re.compile(
    rf"(?:.*/)?([A-Za-z0-9._-]{{1,249}})-(0|[1-9][0-9]{{0,9}})-({UUID})/([0-9]{{20}})-({UUID})(\.[a-z_]+)",
    re.ASCII | re.DOTALL,
)


def part_of(path: str) -> StoredPart | None:
    """What the path of a file says; None if this layout has no such names.

    Args:
        path: A path, or the name of an object, with at least the directory that contains it.
    """
    match = _NAME.fullmatch(path)
    part = None if match is None else _PARTS.get(match[6])
    if match is None or part is None:
        return None
    return stored_part(RemoteLayout.LOCAL_TIERED_STORAGE, match[1], match[3], match[2], match[4], match[5], part)
