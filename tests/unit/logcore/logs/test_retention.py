"""Segments are written as (base offset, size, largest timestamp). The time is 10,000."""

import pytest

from logcore.logs.retention.retention import RetentionFacts, RetentionRule, decide

NOW = 10_000
UNLIMITED = -1


def segment(base: int, size: int = 100, timestamp: int | None = 0, modified: int = 0) -> RetentionFacts:
    return RetentionFacts(f"s{base}", base, size, timestamp, modified)


def deleted(*segments: RetentionFacts, end: int = 100, **given) -> list[tuple[int, str]]:
    arguments = {
        "retention_ms": UNLIMITED,
        "retention_bytes": UNLIMITED,
        "as_of_ms": NOW,
        "high_watermark": end,
        "log_start_offset": 0,
        "log_end_offset": end,
    } | given
    return [(d.segment.base_offset, str(d.rule)) for d in decide(segments, **arguments).deletions]


def bases(found: list[tuple[int, str]]) -> list[int]:
    return [base for base, _ in found]


def test_without_limits_nothing_goes() -> None:
    assert deleted(segment(0), segment(10), segment(20)) == []


@pytest.mark.parametrize(("log_start", "gone"), [(9, []), (10, [0]), (19, [0]), (20, [0, 10]), (99, [0, 10])])
def test_a_segment_goes_once_the_next_one_begins_at_or_below_the_log_start(log_start, gone) -> None:
    found = deleted(segment(0), segment(10), segment(20), log_start_offset=log_start)
    assert found == [(base, "log-start-offset") for base in gone]


@pytest.mark.parametrize(
    ("limit", "gone"), [(301, []), (300, []), (201, []), (200, [0]), (101, [0]), (100, [0, 10]), (0, [0, 10, 20])]
)
def test_by_size_a_segment_goes_while_the_log_without_it_still_has_the_limit(limit, gone) -> None:
    found = deleted(segment(0), segment(10), segment(20), retention_bytes=limit)
    assert found == [(base, "retention.bytes") for base in gone]


@pytest.mark.parametrize(("limit", "gone"), [(2000, []), (1999, [0]), (1000, [0]), (999, [0, 10]), (0, [0, 10])])
def test_by_time_a_segment_goes_when_it_is_older_than_the_limit_and_not_at_it(limit, gone) -> None:
    segments = [segment(0, timestamp=NOW - 2000), segment(10, timestamp=NOW - 1000), segment(20, timestamp=NOW)]
    assert deleted(*segments, retention_ms=limit) == [(base, "retention.ms") for base in gone]


def test_a_segment_in_the_future_and_all_later_ones_are_kept() -> None:
    segments = [segment(0), segment(10, timestamp=NOW + 1), segment(20), segment(30)]
    assert bases(deleted(*segments, retention_ms=10)) == [0]


@pytest.mark.parametrize("timestamp", [None, -1])
def test_where_no_batch_has_a_timestamp_the_files_modification_time_is_used(timestamp) -> None:
    old, new = segment(0, timestamp=timestamp, modified=0), segment(0, timestamp=timestamp, modified=NOW)
    assert bases(deleted(old, segment(10, timestamp=NOW), retention_ms=10)) == [0]
    assert bases(deleted(new, segment(10, timestamp=NOW), retention_ms=10)) == []


def test_a_timestamp_of_zero_is_a_timestamp() -> None:
    assert bases(deleted(segment(0, timestamp=0, modified=NOW), segment(10, timestamp=NOW), retention_ms=10)) == [0]


def test_the_rules_run_one_after_the_other_each_on_the_remaining_segments() -> None:
    segments = [segment(base, timestamp=base * 100) for base in (0, 10, 20, 30, 40)]
    found = deleted(*segments, log_start_offset=10, retention_bytes=300, retention_ms=NOW - 2500)
    assert found == [(0, "log-start-offset"), (10, "retention.bytes"), (20, "retention.ms")]


def test_what_the_log_start_removed_no_longer_counts_for_the_size() -> None:
    assert deleted(segment(0, 1000), segment(10), segment(20), log_start_offset=10, retention_bytes=200) == [
        (0, "log-start-offset")
    ]


@pytest.mark.parametrize(("at", "gone"), [(0, []), (9, []), (10, [0]), (29, [0, 10]), (30, [0, 10, 20])])
def test_nothing_goes_that_ends_above_the_high_watermark(at, gone) -> None:
    limits = {"retention_bytes": 0, "retention_ms": 0, "log_start_offset": 30, "high_watermark": at}
    segments = [segment(0), segment(10), segment(20)]
    assert bases(deleted(*segments, end=30, **limits)) == gone


def test_an_empty_last_segment_stays_and_a_full_one_goes() -> None:
    assert bases(deleted(segment(0), segment(10, size=0), end=10, retention_ms=0)) == [0]
    assert bases(deleted(segment(0), segment(10, size=1), end=11, retention_ms=0)) == [0, 10]


def test_an_empty_segment_that_is_not_the_last_goes_as_any_other() -> None:
    assert bases(deleted(segment(0, size=0), segment(10), retention_ms=0, high_watermark=10)) == [0]


@pytest.mark.parametrize("policy", [("compact",), ()])
def test_without_delete_only_what_is_below_the_log_start_goes(policy) -> None:
    limits = {"retention_ms": 0, "retention_bytes": 0, "log_start_offset": 10}
    assert deleted(segment(0), segment(10), segment(20), cleanup_policy=policy, **limits) == [(0, "log-start-offset")]


def test_with_compact_and_delete_all_rules_run() -> None:
    assert deleted(segment(0), segment(10, timestamp=NOW), retention_ms=1, cleanup_policy=("compact", "delete")) == [
        (0, "retention.ms")
    ]


@pytest.mark.parametrize(
    ("limit", "rule"), [({"retention_bytes": 0}, "local.retention.bytes"), ({"retention_ms": 0}, "local.retention.ms")]
)
@pytest.mark.parametrize(
    ("copied_to", "gone"), [(0, []), (9, []), (10, [0]), (19, [0]), (20, [0, 10]), (29, [0, 10]), (30, [0, 10, 20])]
)
def test_a_local_segment_goes_once_remote_storage_has_all_its_offsets(limit, rule, copied_to, gone) -> None:
    found = deleted(segment(0), segment(10), segment(20), end=30, copied_to=copied_to, **limit)
    assert found == [(base, rule) for base in gone]


def test_the_log_start_removes_segments_that_remote_storage_does_not_have() -> None:
    assert deleted(segment(0), segment(10), log_start_offset=10, copied_to=0) == [(0, "log-start-offset")]


@pytest.mark.parametrize(
    ("copied_to", "last", "rolls"), [(10, 0, True), (10, NOW, False), (20, 0, False), (None, 0, False)]
)
def test_a_last_segment_rolls_if_it_is_due_and_not_copied_yet(copied_to, last, rolls) -> None:
    decision = decide(
        [segment(0), segment(10, timestamp=last)],
        retention_ms=60,
        retention_bytes=UNLIMITED,
        as_of_ms=NOW,
        high_watermark=20,
        log_start_offset=0,
        log_end_offset=20,
        copied_to=copied_to,
    )
    assert decision.rolls is rolls


def test_a_log_without_segments_has_nothing_to_delete() -> None:
    assert deleted(retention_ms=0, retention_bytes=0) == []


def test_a_deletion_says_why_in_kafkas_names_and_numbers() -> None:
    decision = decide(
        [segment(0, timestamp=NOW - 70), segment(10, timestamp=NOW)],
        retention_ms=60,
        retention_bytes=UNLIMITED,
        as_of_ms=NOW,
        high_watermark=20,
        log_start_offset=0,
        log_end_offset=20,
    )
    assert [(d.rule, d.why) for d in decision.deletions] == [
        (RetentionRule.RETENTION_MS, "its latest record is 70 ms old, and retention.ms is 60 ms")
    ]


def test_an_unknown_cleanup_policy_and_unordered_segments_are_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match=r"cleanup\.policy"):
        deleted(segment(0), cleanup_policy=("deleted",))
    with pytest.raises(ValueError, match="follows"):
        deleted(segment(10), segment(0))
