"""Retention: which segments a broker would delete from the old end of a log, by which rule, and why.

    rule              configuration     a segment goes when                                           off when
    log-start-offset  -                 the next segment's base is at or below the log start          no next segment
    retention.bytes   retention.bytes   the log without it still has at least the limit               < 0
    retention.ms      retention.ms      as_of - its largest timestamp is more than the limit          < 0

The rules run in this order, each on what the one before left, each from the oldest segment up to the first that stays:
a segment in the future of the clock keeps all behind it. The largest timestamp is the greatest max timestamp of a batch
(markers included); where no batch has one, the modification time of the file stands for it, as in Kafka.

Never goes, whatever the rules say: a segment whose end lies above the high watermark; an empty last segment. Which
rules run follows from `cleanup.policy`: with `delete` all, else the first alone.

All segments may go. A broker rolls a new, empty segment first then; what to keep instead is the caller's to decide.

A segment whose bytes are damaged may not know its largest timestamp, and a damaged last one not its end: what is not
known stays. So damage never makes more go than would have gone without it.

Source: Kafka UnifiedLog.deleteOldSegments, LogSegment.largestTimestamp. Belongs here: the decision. Does not: tiered
storage, reading of policies and of segments, what becomes of files (`retention_plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Generic, Protocol, TypeVar

CLEANUP_DELETE = "delete"
CLEANUP_COMPACT = "compact"
"""The values of `cleanup.policy`."""


class RetentionRule(StrEnum):
    """What a segment is deleted by."""

    LOG_START_OFFSET = "log-start-offset"
    RETENTION_BYTES = "retention.bytes"
    RETENTION_MS = "retention.ms"


class RetainedSegment(Protocol):
    """What the rules look at. Asked for in this order, and only as far as a decision needs it."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes of batches in the log file."""

    @property
    def largest_timestamp(self) -> int | None:
        """Milliseconds; None if it cannot be known."""


SegmentT = TypeVar("SegmentT", bound=RetainedSegment)


@dataclass(frozen=True, slots=True)
class RetentionFacts:
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
class Deletion(Generic[SegmentT]):
    """A segment to delete. why: one sentence for a person."""

    segment: SegmentT
    rule: RetentionRule
    why: str


@dataclass(frozen=True, slots=True)
class Stay(Generic[SegmentT]):
    """A segment that stays. why: one sentence from each rule that was asked and let it stay."""

    segment: SegmentT
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision(Generic[SegmentT]):
    """Every segment, once: those that go, then those that stay, oldest first."""

    deletions: tuple[Deletion[SegmentT], ...]
    stays: tuple[Stay[SegmentT], ...]


@dataclass(frozen=True, slots=True)
class _Verdict:
    goes: bool
    why: str


_Judge = Callable[[SegmentT, SegmentT | None], _Verdict]


def decide(
    segments: Sequence[SegmentT],
    *,
    retention_ms: int,
    retention_bytes: int,
    as_of_ms: int,
    high_watermark: int,
    log_start_offset: int,
    log_end_offset: int | None,
    cleanup_policy: Collection[str] = (CLEANUP_DELETE,),
) -> Decision[SegmentT]:
    """What one round of retention makes of all segments of a log.

    Limits below 0: without limit. high_watermark: nothing that ends above it goes; for an archive no higher than what
    is published. log_end_offset: None if it cannot be told; the last segment stays then.

    Raises ValueError for segments whose base offsets do not rise, or a cleanup.policy that is not known.
    """
    check_cleanup_policy(cleanup_policy)
    check_order(segments)
    deletions: list[Deletion[SegmentT]] = []
    reasons: list[str] = []

    def sweep(rule: RetentionRule, judge: _Judge[SegmentT]) -> None:
        for number in range(len(deletions), len(segments)):
            segment = segments[number]
            following = segments[number + 1] if number + 1 < len(segments) else None
            guarded = _guard(segment, following, log_end_offset, high_watermark)
            verdict = _Verdict(False, guarded) if guarded else judge(segment, following)
            if not verdict.goes:
                if verdict.why not in reasons:
                    reasons.append(verdict.why)
                return
            deletions.append(Deletion(segment, rule, verdict.why))
            reasons.clear()  # they were of a segment that goes now

    sweep(RetentionRule.LOG_START_OFFSET, _below(log_start_offset))
    if CLEANUP_DELETE not in cleanup_policy:
        reasons.append("cleanup.policy has no delete: neither size nor age matters")
    else:
        if retention_bytes >= 0:
            sweep(RetentionRule.RETENTION_BYTES, _beyond(segments[len(deletions) :], retention_bytes))
        if retention_ms >= 0:
            sweep(RetentionRule.RETENTION_MS, _older(as_of_ms, retention_ms))
    left = segments[len(deletions) :]
    behind = f"the segment of base offset {left[0].base_offset} stays, and so do all behind it" if left else ""
    stays = (Stay(segment, (behind,) if number else tuple(reasons)) for number, segment in enumerate(left))
    return Decision(tuple(deletions), tuple(stays))


def check_cleanup_policy(names: Collection[str]) -> None:
    """ValueError unless these are values of Kafka's `cleanup.policy`; none at all is legal."""
    for name in names:
        if name not in (CLEANUP_DELETE, CLEANUP_COMPACT):
            raise ValueError(f"cleanup.policy is made of {CLEANUP_COMPACT!r} and {CLEANUP_DELETE!r}, not {name!r}")


def check_order(segments: Sequence[RetainedSegment]) -> None:
    """ValueError unless the base offsets of the segments rise."""
    for before, after in pairwise(segments):
        if after.base_offset <= before.base_offset:
            raise ValueError(f"the segment of base offset {after.base_offset} stands behind {before.base_offset}")


def _guard(
    segment: RetainedSegment, following: RetainedSegment | None, log_end_offset: int | None, high_watermark: int
) -> str | None:
    """Why a segment stays whatever the rules say; None if nothing keeps it from going."""
    end = log_end_offset if following is None else following.base_offset
    if end is None:
        return "it is the last segment and damaged: where the log ends is not known"
    if end > high_watermark:
        return f"it ends at offset {end}, above {high_watermark}, and what is not committed stays"
    if following is None and segment.size == 0:
        return "it is the last segment and empty"
    return None


def _below(log_start_offset: int) -> _Judge[RetainedSegment]:
    def judge(segment: RetainedSegment, following: RetainedSegment | None) -> _Verdict:
        if following is None:
            return _Verdict(False, "it is the last segment: the log start offset alone removes none")
        if following.base_offset > log_start_offset:
            return _Verdict(False, f"it holds offsets at or above the log start offset {log_start_offset}")
        return _Verdict(True, f"all its offsets are below the log start offset {log_start_offset}")

    return judge


def _beyond(segments: Sequence[RetainedSegment], limit: int) -> _Judge[RetainedSegment]:
    left = sum(segment.size for segment in segments)

    def judge(segment: RetainedSegment, _: RetainedSegment | None) -> _Verdict:
        nonlocal left
        if left - segment.size < limit:
            return _Verdict(False, f"without it {left - segment.size} bytes were left, retention.bytes is {limit}")
        left -= segment.size
        return _Verdict(True, f"{left} bytes are left without it, retention.bytes is {limit}")

    return judge


def _older(as_of_ms: int, limit: int) -> _Judge[RetainedSegment]:
    def judge(segment: RetainedSegment, _: RetainedSegment | None) -> _Verdict:
        largest = segment.largest_timestamp
        if largest is None:
            return _Verdict(False, "it is damaged: how old its newest record is cannot be known")
        age = as_of_ms - largest
        if age < 0:
            return _Verdict(False, f"its newest record lies {-age} ms in the future of the clock")
        return _Verdict(age > limit, f"its newest record is {age} ms old, retention.ms is {limit}")

    return judge
