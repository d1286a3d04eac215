"""Ranges of a ledger: whether they tile the log, what publishing passes, and where a frontier cuts them."""

import pytest

from logcore.logs.model.offset_ledger import (
    LedgerRange,
    OffsetState,
    RangeCounts,
    check_tiling,
    first_hole,
    joined,
    ledger_findings,
    mark_published,
    offsets_by_state,
    publish_end,
    restart_offset,
    split,
)
from tests.unit.logcore.logs.ledger_facts import plain


@pytest.mark.parametrize(
    ("ranges", "complaint"),
    [
        ([plain(0, 4), plain(5, 9)], r"covers the offsets \[4, 5\)"),
        ([plain(0, 4), plain(3, 9)], "two ranges cover offset 3"),
        ([plain(1, 9)], r"covers the offsets \[0, 1\)"),
        ([plain(0, 8)], "ends at offset 8, the log at 9"),
        ([plain(0, 4), plain(4, 4), plain(4, 9)], "at offset 4 covers no offset"),
        ([plain(0, 9, records=10)], "more than its 9 offsets"),
        ([plain(0, 9, records=8, gaps=1, markers=2)], "2 markers in 1 gaps"),
        ([], "ends at offset 0, the log at 9"),
    ],
)
def test_ranges_that_do_not_tile_the_log_are_reported_with_their_offset(ranges, complaint) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_tiling(ranges, 0, 9)
    check_tiling([plain(0, 4), plain(4, 9)], 0, 9)


@pytest.mark.parametrize(
    ("ranges", "end", "hole"),
    [
        ([plain(0, 4), plain(4, 9)], 9, None),
        ([plain(0, 4), plain(4, 9)], None, None),
        ([], None, None),
        ([plain(2, 9)], 9, (0, 2, "no range covers the offsets [0, 2)")),
        ([plain(0, 4), plain(6, 9)], 9, (4, 6, "no range covers the offsets [4, 6)")),
        ([plain(0, 4), plain(3, 9)], 9, (3, 4, "two ranges cover offset 3")),
        ([plain(0, 9), plain(3, 5)], 9, (3, 5, "two ranges cover offset 3")),
        ([plain(0, 4), plain(3, 3)], 4, (3, 4, "two ranges cover offset 3")),
        ([plain(0, 4), plain(4, 4)], 4, (4, 4, "a range at offset 4 covers no offset")),
        ([plain(0, 8)], 9, (8, 9, "the ledger ends at offset 8, the log at 9")),
        ([plain(0, 9)], 8, (8, 9, "the ledger ends at offset 9, the log at 8")),
    ],
)
def test_the_first_hole_of_a_ledger_names_its_offsets_and_what_is_wrong(ranges, end, hole) -> None:
    found = first_hole(ranges, end)
    assert (found and (found.start_offset, found.end_offset, found.what)) == hole


def test_the_ledger_goes_on_at_its_first_open_offset_or_its_end() -> None:
    assert restart_offset([plain(0, 4), plain(4, 6, OffsetState.OPEN), plain(6, 9, OffsetState.MISSING)]) == 4
    assert restart_offset([plain(0, 4), plain(4, 9, OffsetState.MISSING)]) == 9


@pytest.mark.parametrize("state", ["open", "missing", "corrupt", "unknown"])
def test_publishing_stops_before_every_state_that_blocks(state) -> None:
    ranges = [plain(0, 4), plain(4, 6, OffsetState(state)), plain(6, 9)]
    assert publish_end(ranges, 0) == 4
    assert publish_end(ranges, 4) == 4
    assert publish_end(ranges, 6) == 9


@pytest.mark.parametrize("state", ["aborted", "control", "compacted", "empty", "trimmed"])
def test_publishing_passes_what_has_nothing_to_publish(state) -> None:
    assert publish_end([plain(0, 4), plain(4, 6, OffsetState(state)), plain(6, 9)], 0) == 9


@pytest.mark.parametrize("state", ["missing", "corrupt", "unknown"])
def test_salvage_passes_what_is_damaged_where_something_follows_it_and_never_ends_in_it(state) -> None:
    ranges = [plain(0, 4), plain(4, 6, OffsetState(state)), plain(6, 9), plain(9, 12, OffsetState(state))]
    assert publish_end(ranges, 0, permissive=True) == 9
    assert publish_end(ranges, 9, permissive=True) == 9
    assert publish_end(ranges, 0) == 4
    behind = [*ranges, plain(12, 14, OffsetState.CONTROL), plain(14, 15, OffsetState.OPEN)]
    assert publish_end(behind, 0, permissive=True) == 14
    undecided = [plain(0, 4), plain(4, 6, OffsetState.OPEN), plain(6, 9, OffsetState(state)), plain(9, 12)]
    assert publish_end(undecided, 0, permissive=True) == 4


def test_published_is_what_lies_below_the_frontier() -> None:
    marked = mark_published([plain(0, 4), plain(4, 9)], 4)
    assert [r.published for r in marked] == [True, False]


def test_a_range_filled_below_the_frontier_is_not_marked_as_published() -> None:
    ranges = [plain(0, 4, published=True), plain(4, 6), plain(6, 9, published=True), plain(9, 12)]
    assert [r.published for r in mark_published(ranges, 12)] == [True, False, True, True]
    at_its_end = [plain(0, 4, published=True), plain(4, 6, evidence="filled-late")]
    assert [r.published for r in mark_published(at_its_end, 6)] == [True, False]
    assert [r.published for r in mark_published([plain(0, 4, published=True), plain(4, 6)], 6)] == [True, True]


def test_a_range_the_frontier_cuts_is_split_where_its_counts_allow_it() -> None:
    marked = mark_published([plain(0, 10), plain(10, 20, OffsetState.COMPACTED, records=0)], 3)
    assert [(r.start_offset, r.end_offset, r.records, r.published) for r in marked] == [
        (0, 3, 3, True),
        (3, 10, 7, False),
        (10, 20, 0, False),
    ]
    assert [r.records for r in mark_published([plain(0, 4, OffsetState.TRIMMED, records=0)], 1)] == [0, 0]
    with pytest.raises(ValueError, match="frontier 3"):
        mark_published([plain(0, 10, records=8, gaps=2)], 3)


def test_a_range_whose_gaps_are_only_counted_is_split_by_the_record_counter() -> None:
    asked = []

    def count_below(each: LedgerRange, at: int) -> RangeCounts:
        asked.append((each.start_offset, at))
        return RangeCounts(2, 1)

    marked = mark_published([plain(4, 14, records=7, gaps=3, markers=2, published=True)], 8, count_below)
    assert marked == [
        plain(4, 8, records=2, gaps=2, markers=1, published=True),
        plain(8, 14, records=5, gaps=1, markers=1),
    ]
    assert asked == [(4, 8)]
    only_markers = plain(4, 14, records=0, gaps=10, markers=10)
    assert [each.markers for each in split(only_markers, 7, count_below)] == [3, 7]
    assert len(asked) == 1


def test_records_whose_markers_are_all_gaps_are_counted_where_a_range_is_split() -> None:
    both = plain(0, 10, records=4, gaps=6, markers=6)
    left, right = split(both, 5, lambda each, at: RangeCounts(1, 4))
    assert (left, right) == (plain(0, 5, records=1, gaps=4, markers=4), plain(5, 10, records=3, gaps=2, markers=2))


def test_lost_offsets_that_are_split_count_no_gaps() -> None:
    lost = plain(0, 10, OffsetState.MISSING, records=0)
    assert [each.gaps for each in split(lost, 4, lambda each, at: RangeCounts(0, 0))] == [0, 0]


def test_nothing_at_or_above_the_frontier_is_published() -> None:
    """Another engine restored an earlier version of the table: the frontier went back."""
    ranges = [plain(0, 1), plain(1, 4, published=True), plain(4, 9, published=True)]
    assert [each.published for each in mark_published(ranges, 4)] == [False, True, False]
    assert [each.published for each in mark_published(ranges[:1], 1)] == [True]


def test_published_neighbours_that_differ_in_nothing_else_are_joined() -> None:
    ranges = [
        plain(0, 4, published=True),
        plain(4, 9, records=3, gaps=2, markers=1, published=True),
        plain(9, 12),
        plain(12, 15),
        plain(15, 16, OffsetState.ABORTED, published=True),
        plain(16, 17, OffsetState.ABORTED, published=True, evidence="filled-late"),
        plain(18, 19, OffsetState.ABORTED, published=True, evidence="filled-late"),
    ]
    assert joined(ranges) == [plain(0, 9, records=7, gaps=2, markers=1, published=True), *ranges[2:]]


def test_ranges_across_a_frontier_stay_apart() -> None:
    """A publication that was planned before may end at their border, and gaps would hide which records lie below it."""
    ranges = [plain(0, 4, published=True), plain(4, 9), plain(9, 12)]
    assert joined(ranges) == ranges


def test_offsets_are_counted_by_what_they_are() -> None:
    ranges = [
        plain(0, 10, records=4, gaps=6, markers=5),
        plain(10, 11, OffsetState.CONTROL),
        plain(11, 13, OffsetState.EMPTY, records=0, gaps=2),
    ]
    assert offsets_by_state(ranges) == {"present": 4, "control": 6, "compacted": 3}


def test_lost_offsets_are_findings_and_nothing_else_is() -> None:
    ranges = [plain(0, 4), plain(4, 6, OffsetState.MISSING, records=0, evidence="no-explanation")]
    ranges += [plain(6, 7, OffsetState.CORRUPT, records=0, evidence="CRC"), plain(7, 9, OffsetState.COMPACTED)]
    assert [(f.rule, f.start_offset, f.end_offset) for f in ledger_findings(ranges)] == [
        ("missing-offsets", 4, 6),
        ("corrupt-offsets", 6, 7),
    ]
