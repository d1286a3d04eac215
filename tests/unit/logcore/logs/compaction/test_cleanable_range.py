"""Which part of a log a round of cleaning may work on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from logcore.logs.compaction.selection import CleanableRange, RefusalReason, cleanable_range, is_overdue, why_not_now
from logcore.logs.retention.retention import RetentionFacts


def facts(*bases: int, size: int = 100, timestamp: int = 0) -> list[RetentionFacts]:
    return [RetentionFacts(f"s{base}", base, size, timestamp, 0) for base in bases]


def chosen(segments: list[RetentionFacts], **given):
    arguments = {
        "first_dirty": None,
        "limit_offset": 1000,
        "log_start_offset": 0,
        "log_end_offset": 1000,
        "as_of_ms": 10_000,
    } | given
    found = cleanable_range(segments, **arguments)
    return [s.base_offset for s in found.segments], found.end_offset, found.clean_bytes, found.cleanable_bytes


def test_all_but_the_last_segment_may_be_cleaned() -> None:
    assert chosen(facts(0, 10, 20)) == ([0, 10], 20, 0, 200)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(20, ([0, 10], 20, 0, 200)), (19, ([0], 10, 0, 100)), (10, ([0], 10, 0, 100)), (9, ([], 0, 0, 0))],
)
def test_only_segments_wholly_below_the_frontier_may_be_cleaned(limit, expected) -> None:
    assert chosen(facts(0, 10, 20, 30), limit_offset=limit) == expected


@pytest.mark.parametrize(
    ("first_dirty", "expected"),
    [
        (10, ([0, 10, 20], 30, 100, 200)),
        (15, ([0, 10, 20], 30, 200, 200)),
        (30, ([0, 10, 20], 30, 300, 0)),
        (1000, ([0, 10, 20], 30, 400, 0)),
        (1001, ([0, 10, 20], 30, 0, 300)),
    ],
)
def test_a_segment_with_the_first_dirty_offset_inside_counts_as_clean_and_as_dirty(first_dirty, expected) -> None:
    assert chosen(facts(0, 10, 20, 30), first_dirty=first_dirty) == expected


def test_a_first_dirty_offset_below_the_log_start_counts_as_none() -> None:
    assert chosen(facts(10, 20, 30), first_dirty=4, log_start_offset=10) == ([10, 20], 30, 0, 200)


def test_a_dirty_segment_younger_than_the_lag_and_all_later_ones_are_kept() -> None:
    segments = facts(0, 10, 20, 30)
    segments[1] = replace(segments[1], max_timestamp=9_001)
    assert chosen(segments, min_compaction_lag_ms=1_000) == ([0], 10, 0, 100)
    segments[1] = replace(segments[1], max_timestamp=9_000)
    assert chosen(segments, min_compaction_lag_ms=1_000) == ([0, 10, 20], 30, 0, 300)


def test_a_log_of_one_segment_or_none_has_nothing_to_clean() -> None:
    assert chosen(facts(0)) == ([], 0, 0, 0)
    assert chosen([]) == ([], 0, 0, 0)


def test_the_dirty_ratio_is_the_dirty_share_and_must_be_above_the_limit() -> None:
    ratios = [CleanableRange((), 0, 0, *nbytes).dirty_ratio for nbytes in ((300, 100), (0, 0), (0, 5))]
    assert ratios == [0.25, 0.0, 1.0]
    found = cleanable_range(
        facts(0, 10, 20, 30), first_dirty=10, limit_offset=30, log_start_offset=0, log_end_offset=40, as_of_ms=0
    )
    assert found.dirty_ratio == pytest.approx(2 / 3)
    assert why_not_now(found, min_cleanable_dirty_ratio=0.6) is None
    refusal = why_not_now(replace(found, cleanable_bytes=100), min_cleanable_dirty_ratio=0.5)
    assert refusal is not None
    assert refusal.reason is RefusalReason.NOTHING_CLEANABLE
    assert why_not_now(replace(found, cleanable_bytes=0), min_cleanable_dirty_ratio=0.0) is not None


def test_a_log_is_overdue_by_the_oldest_first_batch_that_has_a_time() -> None:
    assert is_overdue([500, 300], as_of_ms=1000, max_compaction_lag_ms=600)
    assert not is_overdue([500, 400], as_of_ms=1000, max_compaction_lag_ms=600)
    assert not is_overdue([0, -1], as_of_ms=1000, max_compaction_lag_ms=600)
    assert not is_overdue([], as_of_ms=1000, max_compaction_lag_ms=0)
