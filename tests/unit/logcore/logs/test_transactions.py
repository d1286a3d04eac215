"""Histories are written down as batches in offset order; nothing here reads or builds bytes."""

import pytest

from logcore.errors import InvalidRecordError
from logcore.logs.model.batch_facts import BatchFact
from logcore.logs.model.transactions import Ongoing, TransactionState, TransactionView
from tests.derived_transactions import derive_transactions

COMMITTED, ABORTED, OPEN = TransactionState.COMMITTED, TransactionState.ABORTED, TransactionState.OPEN
UNKNOWN = TransactionState.UNKNOWN


def data(
    producer: int, first: int, last: int | None = None, *, transactional: bool = True, epoch: int = 0
) -> BatchFact:
    last = first if last is None else last
    return BatchFact(
        first, last, last - first + 1, producer, epoch, transactional, False, None, "ok", "s", first, 70, 0
    )


def marker(producer: int, offset: int, kind: str | None, *, records: int = 1, epoch: int = 0) -> BatchFact:
    return BatchFact(offset, offset, records, producer, epoch, True, True, kind, "ok", "s", offset, 78, 0)


def stretch(expected: int) -> BatchFact:
    return BatchFact(expected, None, 0, -1, -1, False, False, None, "CRC", "s", expected, 70, -1)


def derive(*batches: BatchFact, high_watermark: int = 1000, **rules) -> TransactionView:
    return derive_transactions(batches, high_watermark=high_watermark, **rules)


def rows(view: TransactionView) -> list[tuple]:
    return [(t.producer_id, t.first_offset, t.last_offset, t.marker_offset, t.state) for t in view.transactions]


def test_a_commit_marker_commits_what_its_producer_wrote_since_its_last_marker() -> None:
    view = derive(data(1, 0, 2), data(1, 3), marker(1, 4, "COMMIT"), data(1, 5), marker(1, 6, "COMMIT"))
    assert rows(view) == [(1, 0, 3, 4, COMMITTED), (1, 5, 5, 6, COMMITTED)]


def test_an_abort_marker_decides_only_its_own_producer() -> None:
    view = derive(data(1, 0), data(2, 1), marker(1, 2, "ABORT"), data(2, 3), marker(2, 4, "COMMIT"))
    assert rows(view) == [(1, 0, 0, 2, ABORTED), (2, 1, 3, 4, COMMITTED)]


def test_the_last_stable_offset_is_the_first_offset_of_the_earliest_open_transaction() -> None:
    view = derive(data(1, 0), data(2, 1), data(3, 2), marker(1, 3, "COMMIT"), marker(3, 4, "COMMIT"), high_watermark=5)
    assert rows(view) == [(1, 0, 0, 3, COMMITTED), (2, 1, 1, None, OPEN), (3, 2, 2, 4, COMMITTED)]
    assert view.last_stable_offset == 1


def test_without_open_transactions_the_last_stable_offset_is_the_high_watermark() -> None:
    assert derive(data(1, 0), marker(1, 1, "ABORT"), data(-1, 2, 9, transactional=False), high_watermark=7) == (
        derive(data(1, 0), marker(1, 1, "ABORT"), high_watermark=7)
    )
    assert derive(data(1, 0), marker(1, 1, "ABORT"), high_watermark=7).last_stable_offset == 7
    assert derive(high_watermark=7).last_stable_offset == 7


@pytest.mark.parametrize(("high_watermark", "state", "stable"), [(4, OPEN, 0), (5, COMMITTED, 5)])
def test_a_marker_decides_once_it_is_below_the_high_watermark(high_watermark, state, stable) -> None:
    view = derive(data(1, 0, 3), marker(1, 4, "COMMIT"), high_watermark=high_watermark)
    assert [t.state for t in view.transactions] == [state]
    assert view.last_stable_offset == stable


def test_what_follows_a_marker_above_the_high_watermark_is_another_transaction() -> None:
    view = derive(data(1, 0), marker(1, 1, "ABORT"), data(1, 2), marker(1, 3, "COMMIT"), high_watermark=1)
    assert rows(view) == [(1, 0, 0, None, OPEN), (1, 2, 2, None, OPEN)]


def test_an_open_transaction_above_the_high_watermark_does_not_lower_the_last_stable_offset() -> None:
    assert derive(data(-1, 0, transactional=False), data(1, 8), high_watermark=5).last_stable_offset == 5


def test_a_marker_without_data_is_a_transaction_that_wrote_nothing() -> None:
    view = derive(marker(1, 0, "COMMIT"), marker(1, 1, "ABORT"), high_watermark=2)
    assert rows(view) == []
    assert view.last_stable_offset == 2


@pytest.mark.parametrize("kind", ["UNKNOWN", "LEADER_CHANGE", None])
def test_a_control_batch_that_is_no_marker_decides_nothing(kind) -> None:
    view = derive(data(1, 0), marker(1, 1, kind, records=0 if kind is None else 1))
    assert rows(view) == [(1, 0, 0, None, OPEN)]


def test_a_marker_of_a_newer_epoch_than_its_data_decides_it() -> None:
    view = derive(data(1, 0, epoch=4), marker(1, 1, "COMMIT", epoch=5))
    assert rows(view) == [(1, 0, 0, 1, COMMITTED)]
    assert view.transactions[0].producer_epoch == 4


def test_a_batch_outside_of_its_producers_open_transaction_is_reported_and_belongs_to_none() -> None:
    view = derive(data(1, 0), data(1, 1, transactional=False), data(1, 2, transactional=False), marker(1, 3, "ABORT"))
    assert rows(view) == [(1, 0, 0, 3, ABORTED)]
    assert [(f.rule, f.start_offset, f.end_offset) for f in view.findings] == [("batch-outside-transaction", 1, 2)]


def test_idempotent_batches_without_a_transaction_cause_no_finding() -> None:
    view = derive(data(1, 0, transactional=False), data(1, 1, transactional=False))
    assert (view.transactions, view.findings) == ((), ())


def test_a_log_that_begins_inside_a_transaction_has_the_rest_decided_by_its_marker() -> None:
    view = derive(data(1, 50), marker(1, 51, "ABORT"))
    assert rows(view) == [(1, 50, 50, 51, ABORTED)]


def test_what_lies_below_the_log_start_is_part_of_no_transaction() -> None:
    view = derive(data(1, 0, 4), data(2, 5, 9), data(1, 10), high_watermark=11, log_start_offset=7)
    assert rows(view) == [(2, 7, 9, None, OPEN), (1, 10, 10, None, OPEN)]
    assert view.last_stable_offset == 7
    assert derive(data(1, 0, 4), high_watermark=11, log_start_offset=5).last_stable_offset == 11


@pytest.mark.parametrize("kind", ["COMMIT", "ABORT"])
def test_a_marker_after_a_corrupt_stretch_decides_only_what_follows_the_stretch(kind) -> None:
    view = derive(data(1, 0), stretch(1), data(1, 5), marker(1, 6, kind), high_watermark=7)
    decided = COMMITTED if kind == "COMMIT" else ABORTED
    assert rows(view) == [(1, 0, 0, None, UNKNOWN), (1, 5, 5, 6, decided)]
    assert [(f.rule, f.start_offset, f.end_offset) for f in view.findings] == [("transaction-outcome-lost", 0, 5)]
    assert "show that it has ended, but not how" in view.findings[0].message


def test_what_was_open_before_a_loss_stays_open_while_its_producer_may_still_end_it() -> None:
    view = derive(data(1, 0), stretch(1), data(1, 5), high_watermark=6)
    assert rows(view) == [(1, 0, 0, None, OPEN), (1, 5, 5, None, OPEN)]
    assert view.last_stable_offset == 0
    assert [f.rule for f in view.findings] == ["transaction-outcome-lost"]
    assert "counts as open" in view.findings[0].message
    assert rows(derive(data(1, 0), stretch(1), data(-1, 5, transactional=False))) == [(1, 0, 0, None, OPEN)]


def test_an_unknown_transaction_does_not_hold_the_last_stable_offset() -> None:
    assert derive(data(1, 0), stretch(1), data(1, 5), marker(1, 6, "COMMIT"), high_watermark=7).last_stable_offset == 7


def test_a_marker_right_after_a_loss_shows_that_the_transaction_before_it_is_over() -> None:
    view = derive(data(1, 0), data(2, 1), stretch(2), marker(1, 6, "ABORT"), high_watermark=7)
    assert rows(view) == [(1, 0, 0, None, UNKNOWN), (2, 1, 1, None, OPEN)]
    assert view.last_stable_offset == 1


def test_a_marker_after_a_loss_shows_nothing_until_it_is_below_the_high_watermark() -> None:
    batches = data(1, 0), stretch(1), data(1, 5), marker(1, 6, "COMMIT")
    assert rows(derive(*batches, high_watermark=6)) == [(1, 0, 0, None, OPEN), (1, 5, 5, None, OPEN)]


def test_data_of_a_newer_epoch_after_a_loss_shows_that_the_transaction_before_it_is_over() -> None:
    assert rows(derive(data(1, 0, epoch=3), stretch(1), data(1, 5, epoch=4))) == [
        (1, 0, 0, None, UNKNOWN),
        (1, 5, 5, None, OPEN),
    ]
    assert rows(derive(data(1, 0, epoch=3), stretch(1), data(1, 5, epoch=3)))[0] == (1, 0, 0, None, OPEN)
    above = derive(data(1, 0, epoch=3), stretch(1), data(1, 5, epoch=4), high_watermark=5)
    assert rows(above)[0] == (1, 0, 0, None, OPEN)


def test_one_marker_shows_that_everything_before_several_losses_is_over() -> None:
    view = derive(data(1, 0), stretch(1), data(1, 5), stretch(6), data(1, 9), marker(1, 10, "COMMIT"))
    assert rows(view) == [(1, 0, 0, None, UNKNOWN), (1, 5, 5, None, UNKNOWN), (1, 9, 9, 10, COMMITTED)]


def test_a_source_cleaned_stretch_hides_markers_like_a_corrupt_one() -> None:
    batches = data(1, 0), data(1, 9), marker(1, 10, "COMMIT")
    view = derive(*batches, cleaner_checkpoint=9, gap_evidence=[(4, 9, "source-cleaned"), (0, 1, "elsewhere")])
    assert rows(view) == [(1, 0, 0, None, UNKNOWN), (1, 9, 9, 10, COMMITTED)]


def test_a_transaction_in_a_snapshot_is_decided_from_its_first_offset_by_its_marker() -> None:
    ongoing = [Ongoing(1, 3, 80, 95), Ongoing(2, 0, 90, 91)]
    view = derive(data(1, 100), marker(1, 101, "ABORT"), marker(2, 102, "COMMIT"), ongoing=ongoing)
    assert rows(view) == [(1, 80, 100, 101, ABORTED), (2, 90, 91, 102, COMMITTED)]


def test_a_transaction_in_a_snapshot_keeps_the_last_stable_offset_at_the_log_start() -> None:
    batches = (data(-1, 100, 109, transactional=False),)
    given = {"ongoing": [Ongoing(1, 3, 80, 95)], "log_start_offset": 104}
    assert derive(*batches, **given).last_stable_offset == 104
    assert rows(derive(*batches, **given)) == [(1, 80, 95, None, OPEN)]
    assert derive(*batches, log_start_offset=104, high_watermark=110).last_stable_offset == 110


def test_a_loss_before_the_first_batch_hides_the_marker_of_a_transaction_in_a_snapshot() -> None:
    view = derive(data(1, 105), marker(1, 106, "COMMIT"), ongoing=[Ongoing(1, 0, 80, 95)], start_offset=100)
    assert rows(view) == [(1, 80, 95, None, UNKNOWN), (1, 105, 105, 106, COMMITTED)]


def test_batches_of_formats_without_producers_are_in_no_transaction() -> None:
    old = BatchFact(0, 7, 8, -1, -1, False, False, None, "ok", "s", 0, 70, -1)
    view = derive(old, data(1, 8), marker(1, 9, "ABORT"), high_watermark=10)
    assert (rows(view), view.last_stable_offset) == ([(1, 8, 8, 9, ABORTED)], 10)


def test_a_transaction_decided_before_a_corrupt_stretch_stays_decided() -> None:
    view = derive(data(1, 0), marker(1, 1, "COMMIT"), stretch(2), data(2, 5), high_watermark=6)
    assert rows(view) == [(1, 0, 0, 1, COMMITTED), (2, 5, 5, None, OPEN)]


def test_a_stretch_that_takes_no_offsets_hides_no_marker() -> None:
    view = derive(data(1, 0), stretch(1), marker(1, 1, "COMMIT"))
    assert rows(view) == [(1, 0, 0, 1, COMMITTED)]
    assert view.findings == ()


def test_a_cleaned_gap_long_after_a_corrupt_stretch_hides_no_marker() -> None:
    view = derive(stretch(0), data(1, 5), marker(1, 9, "COMMIT"), cleaner_checkpoint=9)
    assert rows(view) == [(1, 5, 5, 9, COMMITTED)]


def test_several_stretches_in_a_row_are_one_loss() -> None:
    view = derive(data(1, 0), stretch(1), stretch(1), stretch(4), marker(1, 6, "COMMIT"))
    assert rows(view) == [(1, 0, 0, None, UNKNOWN)]
    assert len(view.findings) == 1


def test_a_marker_after_an_unexplained_gap_decides_nothing_before_it() -> None:
    view = derive(data(1, 0), marker(1, 5, "COMMIT"))
    assert rows(view) == [(1, 0, 0, None, UNKNOWN)]


@pytest.mark.parametrize("rules", [{"cleaner_checkpoint": 5}, {"compacted_by_policy": True}])
def test_a_gap_left_by_cleaning_hides_no_marker(rules) -> None:
    assert rows(derive(data(1, 0), marker(1, 5, "ABORT"), **rules)) == [(1, 0, 0, 5, ABORTED)]


def test_a_gap_that_ends_above_the_cleaner_checkpoint_is_a_loss() -> None:
    assert rows(derive(data(1, 0), marker(1, 5, "ABORT"), cleaner_checkpoint=4)) == [(1, 0, 0, None, UNKNOWN)]


def test_a_gap_that_ingest_saw_open_up_is_a_loss_even_below_the_cleaner_checkpoint() -> None:
    view = derive(data(1, 0), marker(1, 5, "ABORT"), cleaner_checkpoint=9, gap_evidence=[(1, 9, "source-cleaned")])
    assert rows(view) == [(1, 0, 0, None, UNKNOWN)]


def test_an_empty_batch_that_cleaning_left_still_opens_its_transaction() -> None:
    empty = BatchFact(0, 4, 0, 1, 0, True, False, None, "ok", "s", 0, 61, 0)
    assert derive(empty, high_watermark=5).last_stable_offset == 0
    assert rows(derive(empty, marker(1, 5, "ABORT"))) == [(1, 0, 4, 5, ABORTED)]


@pytest.mark.parametrize("second", [data(1, 2), data(1, 3, 9)])
def test_offsets_that_do_not_rise_are_refused(second) -> None:
    with pytest.raises(InvalidRecordError, match="begins at offset"):
        derive(data(1, 0, 3), second)
