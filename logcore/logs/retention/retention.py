"""Retention: which segments a broker would delete from the old end of a log, by which rule, and why.

    rule              configuration     a segment is deleted if                                       off if
    log-start-offset  -                 the next segment's base is at or below the log start          no next segment
    retention.bytes   retention.bytes   the log without it still has at least the limit               < 0
    retention.ms      retention.ms      as_of - its largest timestamp is more than the limit          < 0

With tiered storage the limits are `local.retention.*`, and a segment that is due stays until remote storage has all of
its offsets. If the last segment is due, a broker rolls a new one, so that the segment can be copied.

The rules run in this order, each on the segments that the one before left. Each begins with the oldest segment and ends
at the first that stays: a segment with a timestamp in the future keeps all after it. The largest timestamp is the
greatest max timestamp of a batch (markers included). If no batch has one, the file's mtime is used, as in Kafka.

Some segments always stay: a segment whose end is above the high watermark, and an empty last segment. `cleanup.policy`
decides which rules run: with `delete` all, else only the first.

All segments may be deleted. A broker first rolls a new, empty segment then. Here the caller decides what to keep.

If a segment's bytes are damaged, its largest timestamp may be unknown. If the last segment is damaged, the log end may
be unknown. Then the segment stays. So damage never causes more deletions.

Source: Kafka UnifiedLog.deleteOldSegments, isSegmentEligibleForDeletion, deletableSegments;
LogSegment.largestTimestamp. Belongs here: the decision. Not here: what remote storage has, reading of policies and of
segments, and the files (`retention_plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Generic, Protocol, TypeVar

from logcore.texts import milliseconds

CLEANUP_DELETE = "delete"
CLEANUP_COMPACT = "compact"
"""The values of `cleanup.policy`."""


class RetentionRule(StrEnum):
    """The rule that deletes a segment."""

    LOG_START_OFFSET = "log-start-offset"
    RETENTION_BYTES = "retention.bytes"
    RETENTION_MS = "retention.ms"
    LOCAL_RETENTION_BYTES = "local.retention.bytes"
    LOCAL_RETENTION_MS = "local.retention.ms"


class RetainedSegment(Protocol):
    """The input of the rules. They are read in this order, and only as far as a decision needs them."""

    @property
    def base_offset(self) -> int:
        """Of the segment."""

    @property
    def size(self) -> int:
        """Bytes of batches in the log file."""

    @property
    def largest_timestamp(self) -> int | None:
        """Milliseconds; None if unknown."""


_LIMITS = RetentionRule.RETENTION_BYTES, RetentionRule.RETENTION_MS
_LOCAL_LIMITS = RetentionRule.LOCAL_RETENTION_BYTES, RetentionRule.LOCAL_RETENTION_MS

SegmentT = TypeVar("SegmentT", bound=RetainedSegment)


@dataclass(frozen=True, slots=True)
class RetentionFacts:
    """The facts about a segment that maintenance needs.

    Attributes:
        segment_id: Its id.
        base_offset: Its base offset.
        size: Bytes of the log file.
        max_timestamp: Greatest max timestamp of its batches in milliseconds; None or negative if no batch has one.
        modified_ms: The mtime of the log file.
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
    """A segment to delete. `why` is one sentence for a person."""

    segment: SegmentT
    rule: RetentionRule
    why: str


@dataclass(frozen=True, slots=True)
class Stay(Generic[SegmentT]):
    """A segment that stays. `why` has one sentence from each rule that ran and kept it."""

    segment: SegmentT
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision(Generic[SegmentT]):
    """Every segment, once: first those to delete, then those that stay, oldest first.

    `rolls`: With tiered storage the last segment is due and stays, and a new one follows it.
    """

    deletions: tuple[Deletion[SegmentT], ...]
    stays: tuple[Stay[SegmentT], ...]
    rolls: bool = False


@dataclass(frozen=True, slots=True)
class _Verdict:
    goes: bool
    why: str


_Check = Callable[[SegmentT, SegmentT | None], _Verdict]


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
    copied_to: int | None = None,
) -> Decision[SegmentT]:
    """Decide on all segments of a log for one round of retention.

    Args:
        segments: Oldest first.
        retention_ms: Below 0 for no limit. With tiered storage that of the local segments.
        retention_bytes: Below 0 for no limit. With tiered storage that of the local segments.
        as_of_ms: The clock.
        high_watermark: Nothing that ends above it is deleted. For an archive at most what is published.
        log_start_offset: The log start.
        log_end_offset: None if unknown; then the last segment stays.
        cleanup_policy: The values of `cleanup.policy`.
        copied_to: With tiered storage the offset up to which remote storage has the segments. None without it, and if
            nothing is copied any more.

    Raises:
        ValueError: The base offsets do not increase, or cleanup.policy has an unknown value.
    """
    check_cleanup_policy(cleanup_policy)
    check_order(segments)
    deletions: list[Deletion[SegmentT]] = []
    reasons: list[str] = []
    rolls = False

    def sweep(rule: RetentionRule, check: _Check[SegmentT], copied_to: int | None = None) -> None:
        nonlocal rolls
        for number in range(len(deletions), len(segments)):
            segment = segments[number]
            following = segments[number + 1] if number + 1 < len(segments) else None
            guarded = _guard(segment, following, log_end_offset, high_watermark)
            verdict = _Verdict(False, guarded) if guarded else check(segment, following)
            if verdict.goes and copied_to is not None:
                rolls = rolls or following is None
                verdict = _copied(verdict, log_end_offset if following is None else following.base_offset, copied_to)
            if not verdict.goes:
                if verdict.why not in reasons:
                    reasons.append(verdict.why)
                return
            deletions.append(Deletion(segment, rule, verdict.why))
            reasons.clear()  # they belong to a segment that is deleted now

    sweep(RetentionRule.LOG_START_OFFSET, _below(log_start_offset))
    if CLEANUP_DELETE not in cleanup_policy:
        reasons.append("cleanup.policy has no delete: neither size nor age matters")
    else:
        of_size, of_age = _LIMITS if copied_to is None else _LOCAL_LIMITS
        if retention_bytes >= 0:
            sweep(of_size, _beyond(segments[len(deletions) :], retention_bytes, of_size), copied_to)
        if retention_ms >= 0:
            sweep(of_age, _older(as_of_ms, retention_ms, of_age), copied_to)
    left = segments[len(deletions) :]
    reason = f"the segment of base offset {left[0].base_offset} stays, and so do all after it" if left else ""
    stays = (Stay(segment, (reason,) if number else tuple(reasons)) for number, segment in enumerate(left))
    return Decision(tuple(deletions), tuple(stays), rolls and bool(left))


def check_cleanup_policy(names: Collection[str]) -> None:
    """Check values of Kafka's `cleanup.policy`. None at all is valid.

    Raises:
        ValueError: A value is unknown.
    """
    for name in names:
        if name not in (CLEANUP_DELETE, CLEANUP_COMPACT):
            raise ValueError(f"cleanup.policy may contain {CLEANUP_COMPACT!r} and {CLEANUP_DELETE!r}, not {name!r}")


def check_order(segments: Sequence[RetainedSegment]) -> None:
    """Check the order of segments.

    Raises:
        ValueError: The base offsets do not increase.
    """
    for before, after in pairwise(segments):
        if after.base_offset <= before.base_offset:
            raise ValueError(f"the segment of base offset {after.base_offset} follows {before.base_offset}")


def _guard(
    segment: RetainedSegment, following: RetainedSegment | None, log_end_offset: int | None, high_watermark: int
) -> str | None:
    """Why a segment stays whatever the rules decide; None if the rules decide."""
    end = log_end_offset if following is None else following.base_offset
    if end is None:
        return "it is the last segment and damaged: the log end is unknown"
    if end > high_watermark:
        return f"it ends at offset {end}, and only offsets below the high watermark {high_watermark} are committed"
    if following is None and segment.size == 0:
        return "it is the last segment and empty"
    return None


def _copied(verdict: _Verdict, end: int | None, copied_to: int) -> _Verdict:
    """The verdict about a segment that is due, with tiered storage."""
    if end is not None and end <= copied_to:
        return verdict
    return _Verdict(False, f"{verdict.why}, but its offsets from {copied_to} on are not known to be in remote storage")


def _below(log_start_offset: int) -> _Check[RetainedSegment]:
    def check(segment: RetainedSegment, following: RetainedSegment | None) -> _Verdict:
        if following is None:
            return _Verdict(False, "it is the last segment: the log start offset alone deletes none")
        if following.base_offset > log_start_offset:
            return _Verdict(False, f"it has offsets at or above the log start offset {log_start_offset}")
        return _Verdict(True, f"all its offsets are below the log start offset {log_start_offset}")

    return check


def _beyond(segments: Sequence[RetainedSegment], limit: int, rule: RetentionRule) -> _Check[RetainedSegment]:
    left = sum(segment.size for segment in segments)

    def check(segment: RetainedSegment, _: RetainedSegment | None) -> _Verdict:
        nonlocal left
        after, states = left - segment.size, f"and {rule} is {limit} bytes"
        if after < limit:
            return _Verdict(False, f"without it the log would have {after} bytes, {states}")
        left = after
        return _Verdict(True, f"without it the log still has {after} bytes, {states}")

    return check


def _older(as_of_ms: int, limit: int, rule: RetentionRule) -> _Check[RetainedSegment]:
    def check(segment: RetainedSegment, _: RetainedSegment | None) -> _Verdict:
        largest = segment.largest_timestamp
        if largest is None:
            return _Verdict(False, "it is damaged: the age of its latest record is unknown")
        age = as_of_ms - largest
        if age < 0:
            return _Verdict(False, f"its latest record is {milliseconds(-age)} later than the clock")
        why = f"its latest record is {milliseconds(age)} old, and {rule} is {milliseconds(limit)}"
        return _Verdict(age > limit, why)

    return check
