"""Claims on what removals make of ledger ranges: where they are cut, and what each side counts."""

from __future__ import annotations

import pytest

from logcore.logs.model.offset_ledger import OffsetState, RangeCounts, split
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.removals import Archived, Removal, _removals, archived_ranges

HELD, RETAINED, COMPACTED = Archived.HELD, Archived.RETAINED_AWAY, Archived.COMPACTED_AWAY


def segment(base: int, end: int, because: str, replaced_by: str | None = None) -> Segment:
    values = dict.fromkeys(Segment.__dataclass_fields__) | {"retired_ms": 1, "retired_because": because}
    return Segment(**values | {"base_offset": base, "next_offset": end, "replaced_by": replaced_by})


def retained(base: int, end: int) -> Removal:
    return Removal(segment(base, end, "retention"), None, 5, 0)


def compacted(base: int, end: int, before: int = 5, after: int = 3) -> Removal:
    return Removal(segment(base, end, "compaction", "other"), segment(base, end, ""), before, after)


def ledger(start: int, end: int, records: int, gaps: int) -> LedgerRow:
    return LedgerRow(
        log="a/0",
        topic="a",
        log_id="a",
        partition=0,
        start_offset=start,
        end_offset=end,
        state=OffsetState.PRESENT,
        records=records,
        gaps=gaps,
    )


def never(row: LedgerRow, at: int) -> RangeCounts:
    raise AssertionError("counted where counting is not needed")


def test_a_range_is_cut_only_where_what_is_held_changes():
    gone = [retained(0, 10), retained(10, 20)]
    assert archived_ranges(0, 30, gone) == [(0, 20, RETAINED), (20, 30, HELD)]
    assert archived_ranges(20, 30, gone) == [(20, 30, HELD)]
    assert archived_ranges(5, 15, gone) == [(5, 15, RETAINED)]
    assert archived_ranges(5, 15, []) == [(5, 15, HELD)]


def test_a_compacted_segment_that_lost_nothing_is_still_held():
    assert archived_ranges(0, 20, [compacted(0, 10), compacted(10, 20, 5, 5)]) == [(0, 10, COMPACTED), (10, 20, HELD)]


def test_what_was_compacted_and_then_retained_is_retained_away():
    assert archived_ranges(0, 20, [compacted(0, 10), compacted(10, 20), retained(0, 10)]) == [
        (0, 10, RETAINED),
        (10, 20, COMPACTED),
    ]


def test_a_dense_range_is_cut_without_counting():
    left, right = split(ledger(10, 30, 20, 0), 17, never)
    assert (left.start_offset, left.end_offset, left.records, left.gaps) == (10, 17, 7, 0)
    assert (right.start_offset, right.end_offset, right.records, right.gaps) == (17, 30, 13, 0)
    assert left.gap_state is right.gap_state is None


def test_a_range_that_no_batch_holds_counts_nothing_on_either_side():
    left, right = split(ledger(10, 30, 0, 0), 17, never)
    assert (left.records, left.gaps, right.records, right.gaps) == (0, 0, 0, 0)


def test_a_range_of_empty_batches_is_all_gaps_on_both_sides():
    left, right = split(ledger(10, 30, 0, 20), 17, never)
    assert (left.records, left.gaps, right.records, right.gaps) == (0, 7, 0, 13)


@pytest.mark.parametrize(("below", "expected"), [(0, (0, 7, 4, 9)), (3, (3, 4, 1, 12)), (4, (4, 3, 0, 13))])
def test_a_range_with_gaps_is_cut_by_count(below, expected):
    left, right = split(ledger(10, 30, 4, 16), 17, lambda row, at: RangeCounts(below, 0))
    assert (left.records, left.gaps, right.records, right.gaps) == expected
    assert left.gap_state == "compacted"


def test_cut_back_and_filled_segments_are_no_removals():
    retired, cleaned = segment(0, 5, "retention"), segment(5, 10, "compaction", "other")
    found = _removals([retired, cleaned, *(segment(10, 20, why) for why in ("cut-back", "filled"))], {})
    assert [(r.segment.base_offset, r.action) for r in found] == [
        (0, "retention"),
        (5, "compaction"),
    ]
