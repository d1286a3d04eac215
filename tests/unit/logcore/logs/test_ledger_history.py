"""Ledgers rebuilt over earlier ones; every range is written out."""

from __future__ import annotations

import pytest

from logcore.logs.ledger.ledger_history import (
    changed_findings,
    published_boundaries,
    published_spans,
    rebuild_offset,
    rebuilt_ledger,
)
from logcore.logs.model.offset_ledger import LedgerRange, OffsetState


def held(start: int, end: int, state: str = "present", gaps: int = 0, markers: int = 0, **given: object) -> LedgerRange:
    """`markers` are among the gaps."""
    return LedgerRange(start, end, OffsetState(state), end - start - gaps, gaps, markers, **given)  # type: ignore[arg-type]


def lost(start: int, end: int, state: str = "missing", **given: object) -> LedgerRange:
    return LedgerRange(start, end, OffsetState(state), **given)  # type: ignore[arg-type]


def none_in_progress(offset: int) -> int:
    return offset


LEDGER = [held(0, 10), lost(10, 20), held(20, 30), lost(30, 40, "corrupt"), held(40, 60, gaps=5), held(60, 70, "open")]


@pytest.mark.parametrize(
    ("changed", "at"),
    [
        (None, 60),
        (65, 60),
        (5, 5),
        (10, 10),
        (14, 10),  # what a loss means depends on where it begins
        (20, 20),
        (33, 30),
        (50, 40),  # its gaps are only counted
        (0, 0),
    ],
)
def test_a_ledger_is_made_again_from_what_is_undecided_or_has_changed(changed, at) -> None:
    assert rebuild_offset(LEDGER, changed, none_in_progress) == at


def test_a_log_without_a_ledger_begins_at_its_beginning() -> None:
    assert rebuild_offset([], None, none_in_progress) == 0


def test_transactions_that_may_end_otherwise_are_looked_at_whole_and_those_of_a_log_that_grew_are_not() -> None:
    begun = {60: 45, 40: 25, 25: 3, 3: 3}
    ledger = [held(0, 30), lost(30, 40), *LEDGER[4:]]
    assert rebuild_offset(ledger, None, begun.__getitem__) == 60
    assert rebuild_offset(ledger, 60, begun.__getitem__) == 3


def test_what_is_published_stays_and_what_was_filled_in_is_due() -> None:
    before = [
        held(0, 10, published=True),
        lost(10, 20, published=True),
        held(20, 30, published=True),
        held(30, 40, "unknown", published=True),
        held(40, 50, published=True),
        held(50, 60, "open"),
    ]
    assert published_spans(before, 5) == [(5, 10), (20, 30), (40, 50)]
    assert published_boundaries(before, 10, 50) == [20, 30, 40, 50]
    made = [held(10, 20), held(20, 30), held(30, 40, "aborted"), held(40, 50), held(50, 55), held(55, 60, "open")]
    after = rebuilt_ledger(before, made, 10, 50)
    assert after == [
        held(0, 10, published=True),
        held(10, 20, evidence="filled-late"),
        held(20, 30, published=True),
        held(30, 40, "aborted", published=True),
        held(40, 50, published=True),
        held(50, 55),
        held(55, 60, "open"),
    ]
    assert changed_findings(before, after) == ()
    again = rebuilt_ledger(after, made, 10, 50)
    assert again == after


def test_what_stays_missing_below_the_frontier_stays_passed() -> None:
    before = [held(0, 10, published=True), lost(10, 20, published=True), held(20, 30, published=True)]
    made = [held(10, 13), lost(13, 20), held(20, 30)]
    assert rebuilt_ledger(before, made, 10, 30)[1:] == [
        held(10, 13, evidence="filled-late"),
        lost(13, 20, published=True),
        held(20, 30, published=True),
    ]


def test_rows_that_are_published_stay_whatever_becomes_of_their_bytes_and_the_ledger_says_so() -> None:
    before = [held(0, 20, published=True), held(20, 30)]
    damaged = [held(0, 12), lost(12, 15, "corrupt"), held(15, 20), held(20, 30)]
    after = rebuilt_ledger(before, damaged, 0, 20)
    assert after == [
        held(0, 12, published=True),
        held(12, 15, published=True, evidence="changed-after-publishing"),
        held(15, 20, published=True),
        held(20, 30),
    ]
    findings = changed_findings(before, after)
    assert [(f.rule, f.start_offset, f.end_offset) for f in findings] == [("changed-after-publishing", 12, 15)]
    assert changed_findings(after, after) == ()
    assert rebuilt_ledger(after, damaged, 0, 20) == after
    assert rebuilt_ledger(after, [held(0, 20), held(20, 30)], 0, 20) == before, "the bytes are back"


def test_a_change_among_counted_gaps_is_marked_from_the_first_to_the_last_offset_that_changed() -> None:
    before = [held(0, 40, gaps=10, markers=10, published=True)]
    made = [
        held(0, 8, gaps=2, markers=2),
        held(8, 11, "aborted"),
        held(11, 12, "control"),
        held(12, 20, gaps=2, markers=2),
        held(20, 23, "aborted"),
        held(23, 24, "control"),
        held(24, 40, gaps=4, markers=4),
    ]
    assert rebuilt_ledger(before, made, 0, 40) == [
        held(0, 8, gaps=2, markers=2, published=True),
        held(8, 24, gaps=4, markers=4, published=True, evidence="changed-after-publishing"),
        held(24, 40, gaps=4, markers=4, published=True),
    ]


def test_a_change_whose_neighbours_were_counted_otherwise_marks_the_whole_range() -> None:
    before = [held(0, 40, gaps=2, markers=2, published=True)]
    made = [held(0, 8, gaps=8), lost(8, 11), held(11, 40, gaps=1, markers=1)]
    assert rebuilt_ledger(before, made, 0, 40) == [
        held(0, 40, gaps=2, markers=2, published=True, evidence="changed-after-publishing")
    ]


def test_markers_that_come_late_have_no_records_to_publish() -> None:
    before = [held(0, 10, published=True), lost(10, 12, published=True), held(12, 20, published=True)]
    assert rebuilt_ledger(before, [held(10, 12, gaps=2, markers=2), held(12, 20)], 10, 20) == [
        held(0, 20, gaps=2, markers=2, published=True)
    ]


def test_neighbours_that_were_published_one_after_the_other_become_one_range() -> None:
    before = [held(0, 4, published=True), held(4, 10, gaps=2, markers=1, published=True), held(10, 12)]
    assert rebuilt_ledger(before, [held(10, 12), held(12, 14)], 10, 10) == [
        held(0, 10, gaps=2, markers=1, published=True),
        held(10, 12),
        held(12, 14),
    ]


def test_neighbours_that_were_cut_elsewhere_say_the_same() -> None:
    before = [held(0, 4, published=True), held(4, 10, published=True)]
    assert rebuilt_ledger(before, [held(0, 10)], 0, 10) == [held(0, 10, published=True)]


def test_a_cut_log_ends_where_it_was_cut_and_goes_on_with_what_came_instead() -> None:
    before = [held(0, 10, published=True), held(10, 40), held(40, 50, "open")]
    assert rebuilt_ledger(before, [held(25, 28), held(28, 30, "open")], 25, 10) == [
        held(0, 10, published=True),
        held(10, 25),
        held(25, 28),
        held(28, 30, "open"),
    ]
    assert rebuilt_ledger(before, [], 10, 10) == [held(0, 10, published=True)]


@pytest.mark.parametrize("made", [[held(10, 30)], [held(10, 12), held(12, 30)]])
def test_a_ledger_that_was_made_for_another_frontier_is_refused(made) -> None:
    with pytest.raises(ValueError, match="not cut"):
        rebuilt_ledger([held(0, 10, published=True), held(10, 20, published=True)], made, 10, 20)
    with pytest.raises(ValueError, match="not cut"):
        rebuilt_ledger([held(0, 10, published=True), lost(10, 20, published=True)], made, 10, 20)
