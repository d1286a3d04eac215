"""Retention: which segments a broker would delete from the old end of a log, by which rule, and why.

    rule              configuration     a segment goes when                                           off when
    log-start-offset  -                 the next segment's base is at or below the log start          no next segment
    retention.bytes   retention.bytes   the log without it still has at least the limit               < 0
    retention.ms      retention.ms      as_of - its largest timestamp is more than the limit          < 0

The rules run in this order, each on what the one before left, each from the oldest segment up to the first that stays:
a segment in the future of the clock keeps all behind it. The largest timestamp is the greatest max timestamp of a batch
(markers included); where no batch has one, the modification time of the file stands for it, as in Kafka.

Never goes, whatever the rules say: a segment whose end lies above the high watermark; one whose end lies above the
limit that the caller names (here: what is published); an empty last segment. Which rules run follows from
`cleanup.policy`: with `delete` all, else the first alone.

All segments may go. A broker rolls a new, empty segment first then; what to keep instead is the caller's to decide.

Source: Kafka UnifiedLog.deleteOldSegments, LogSegment.largestTimestamp. Belongs here: the decision. Does not: tiered
storage, reading of policies, deleting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

CLEANUP_DELETE = "delete"
CLEANUP_COMPACT = "compact"
"""The values of `cleanup.policy`."""


class RetentionRule(StrEnum):
    """What a segment is deleted by."""

    LOG_START_OFFSET = "log-start-offset"
    RETENTION_BYTES = "retention.bytes"
    RETENTION_MS = "retention.ms"


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """What maintenance needs to know of a segment.

    size: bytes of the log file. max_timestamp: greatest max timestamp of its batches in milliseconds, None or negative
    if no batch has one. modified_ms: of the log file.
    """

    segment_id: str
    base_offset: int
    size: int
    max_timestamp: int | None
    modified_ms: int

    @property
    def largest_timestamp(self) -> int:
        """Kafka's LogSegment.largestTimestamp, in milliseconds."""
        if self.max_timestamp is not None and self.max_timestamp >= 0:
            return self.max_timestamp
        return self.modified_ms


@dataclass(frozen=True, slots=True)
class Deletion:
    """A segment to delete. why: one sentence for a person."""

    segment: SegmentFacts
    rule: RetentionRule
    why: str


def segments_to_delete(
    segments: Sequence[SegmentFacts],
    *,
    retention_ms: int,
    retention_bytes: int,
    as_of_ms: int,
    high_watermark: int,
    log_start_offset: int,
    log_end_offset: int,
    limit_offset: int,
    cleanup_policy: Collection[str] = (CLEANUP_DELETE,),
) -> tuple[Deletion, ...]:
    """What one round of retention deletes, oldest first.

    segments: all live ones. limit_offset: nothing at or above it goes (the frontier). Limits below 0: without limit.

    Raises ValueError for segments whose base offsets do not rise, or a cleanup.policy that is not known.
    """
    check_cleanup_policy(cleanup_policy)
    check_order(segments)
    remaining = list(segments)
    deletions: list[Deletion] = []
    ceiling = min(high_watermark, limit_offset)

    def sweep(rule: RetentionRule, goes: Callable[[SegmentFacts, SegmentFacts | None], str | None]) -> None:
        while remaining:
            segment, following = remaining[0], remaining[1] if len(remaining) > 1 else None
            end = log_end_offset if following is None else following.base_offset
            if end > ceiling or (following is None and segment.size == 0):
                return
            why = goes(segment, following)
            if why is None:
                return
            deletions.append(Deletion(remaining.pop(0), rule, why))

    sweep(RetentionRule.LOG_START_OFFSET, _below(log_start_offset))
    if CLEANUP_DELETE in cleanup_policy:
        total = sum(segment.size for segment in remaining)
        if retention_bytes >= 0:
            sweep(RetentionRule.RETENTION_BYTES, _beyond(total, retention_bytes))
        if retention_ms >= 0:
            sweep(RetentionRule.RETENTION_MS, _older(as_of_ms, retention_ms))
    return tuple(deletions)


def check_cleanup_policy(names: Collection[str]) -> None:
    """ValueError unless these are values of Kafka's `cleanup.policy`; none at all is legal."""
    for name in names:
        if name not in (CLEANUP_DELETE, CLEANUP_COMPACT):
            raise ValueError(f"cleanup.policy is made of {CLEANUP_COMPACT!r} and {CLEANUP_DELETE!r}, not {name!r}")


def check_order(segments: Sequence[SegmentFacts]) -> None:
    """ValueError unless the base offsets of the segments rise."""
    for before, after in pairwise(segments):
        if after.base_offset <= before.base_offset:
            raise ValueError(f"the segment of base offset {after.base_offset} stands behind {before.base_offset}")


def _below(log_start_offset: int) -> Callable[[SegmentFacts, SegmentFacts | None], str | None]:
    def goes(segment: SegmentFacts, following: SegmentFacts | None) -> str | None:
        if following is None or following.base_offset > log_start_offset:
            return None
        return f"all its offsets are below the log start offset {log_start_offset}"

    return goes


def _beyond(total: int, limit: int) -> Callable[[SegmentFacts, SegmentFacts | None], str | None]:
    excess = total - limit

    def goes(segment: SegmentFacts, following: SegmentFacts | None) -> str | None:
        nonlocal excess
        if excess - segment.size < 0:
            return None
        excess -= segment.size
        return f"{limit + excess} bytes are left without it, retention.bytes is {limit}"

    return goes


def _older(as_of_ms: int, limit: int) -> Callable[[SegmentFacts, SegmentFacts | None], str | None]:
    def goes(segment: SegmentFacts, following: SegmentFacts | None) -> str | None:
        age = as_of_ms - segment.largest_timestamp
        return f"its newest record is {age} ms old, retention.ms is {limit}" if age > limit else None

    return goes
