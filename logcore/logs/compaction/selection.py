"""The part of a log that a round of cleaning may rewrite, and whether it is dirty enough.

Source: Kafka LogCleanerManager, LogToClean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from logcore.logs.retention.retention import RetentionFacts, check_order


class RefusalReason(StrEnum):
    """Why a log is not cleaned: a broker would fail, or there is nothing to do."""

    NOT_REBUILDABLE = "not-rebuildable"
    NOTHING_CLEANABLE = "nothing-cleanable"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason, and one sentence for a person."""

    reason: RefusalReason
    message: str


@dataclass(frozen=True, slots=True)
class CleanableRange:
    """The range to clean.

    A segment with first_dirty in its middle counts in both clean_bytes and cleanable_bytes, as in Kafka.

    Attributes:
        segments: All below `end_offset`, from the oldest: those to rewrite.
        first_dirty: The uncleaned part is [first_dirty, end_offset).
        end_offset: Its end.
        clean_bytes: Bytes of segments below first_dirty.
        cleanable_bytes: Bytes of segments in the uncleaned part.
    """

    segments: tuple[RetentionFacts, ...]
    first_dirty: int
    end_offset: int
    clean_bytes: int
    cleanable_bytes: int

    @property
    def dirty_ratio(self) -> float:
        """Cleanable share of the bytes; 0 for an empty log."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def cleanable_range(
    segments: Sequence[RetentionFacts],
    *,
    first_dirty: int | None,
    limit_offset: int,
    log_start_offset: int,
    log_end_offset: int,
    as_of_ms: int,
    min_compaction_lag_ms: int = 0,
) -> CleanableRange:
    """Choose the range to clean as Kafka does (LogCleanerManager.cleanableOffsets), below `limit_offset`.

    Args:
        segments: All live ones. The last counts as the active one and is never cleaned.
        first_dirty: Where the last cleaning ended; None if there was none. One outside the log counts as none.
        limit_offset: Nothing at or above it is changed (the frontier).
        log_start_offset: The log start.
        log_end_offset: The log end.
        as_of_ms: The clock.
        min_compaction_lag_ms: `min.compaction.lag.ms`.

    Raises:
        ValueError: The base offsets of the segments do not increase.
    """
    check_order(segments)
    if first_dirty is None or not log_start_offset <= first_dirty <= log_end_offset:
        first_dirty = log_start_offset
    if not segments:
        return CleanableRange((), first_dirty, first_dirty, 0, 0)
    limit = min(limit_offset, segments[-1].base_offset)
    if min_compaction_lag_ms > 0:
        young = as_of_ms - min_compaction_lag_ms
        dirty = segments[_holding(segments, first_dirty) : -1]
        limit = min([limit, *(s.base_offset for s in dirty if s.largest_timestamp > young)])
    # Rounded down to the base of its segment: that whole segment stays.
    holding = _holding(segments, max(first_dirty, limit))
    end_offset = segments[holding].base_offset
    start = _holding(segments, min(first_dirty, end_offset))
    return CleanableRange(
        segments=tuple(segments[:holding]),
        first_dirty=first_dirty,
        end_offset=end_offset,
        clean_bytes=sum(s.size for s in segments if s.base_offset < first_dirty),
        cleanable_bytes=sum(s.size for s in segments[start:holding]),
    )


def _holding(segments: Sequence[RetentionFacts], offset: int) -> int:
    """Index of the segment of an offset; the first one if the offset is before all."""
    return max(sum(segment.base_offset <= offset for segment in segments) - 1, 0)


def why_not_now(chosen: CleanableRange, *, min_cleanable_dirty_ratio: float) -> Refusal | None:
    """Refuse if there is nothing to clean, or too little by `min.cleanable.dirty.ratio`."""
    if not chosen.cleanable_bytes:
        return Refusal(RefusalReason.NOTHING_CLEANABLE, f"no whole segment at or above offset {chosen.first_dirty}")
    if chosen.dirty_ratio > min_cleanable_dirty_ratio:
        return None
    ratio = f"{chosen.dirty_ratio:.3f} of its bytes are dirty, min.cleanable.dirty.ratio is {min_cleanable_dirty_ratio}"
    return Refusal(RefusalReason.NOTHING_CLEANABLE, ratio)


def is_overdue(first_timestamps: Sequence[int], *, as_of_ms: int, max_compaction_lag_ms: int) -> bool:
    """Whether a log must be cleaned at any dirty ratio (`max.compaction.lag.ms`).

    Args:
        first_timestamps: The max timestamp of the first batch of each dirty segment except the active one. Values of 0
            and below are ignored.
        as_of_ms: The clock.
        max_compaction_lag_ms: The limit.
    """
    oldest = min((timestamp for timestamp in first_timestamps if timestamp > 0), default=None)
    return oldest is not None and oldest < as_of_ms - max(max_compaction_lag_ms, 0)
