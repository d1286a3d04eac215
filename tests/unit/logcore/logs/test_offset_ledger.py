"""Every expectation is written out: (start, end, state, records, gaps, evidence), then markers if there are any."""

import pytest

from logcore.errors import InvalidRecordError
from logcore.logs.model.batch_facts import BatchFact
from logcore.logs.model.offset_ledger import (
    LedgerRange,
    OffsetState,
)
from logcore.logs.model.transactions import Transaction, TransactionState
from tests.unit.logcore.logs.ledger_facts import batch, ledger, plain


def control(offset: int, kind: str = "COMMIT", producer: int = 1) -> BatchFact:
    return BatchFact(offset, offset, 1, producer, 0, True, True, kind, "ok", "s", offset, 78, 0)


def stretch(expected: int, reason: str = "CRC") -> BatchFact:
    return BatchFact(expected, None, 0, -1, -1, False, False, None, reason, "s", expected, 70, -1)


def decided(producer: int, first: int, last: int, state: TransactionState) -> Transaction:
    return Transaction(producer, 0, first, last, last + 1, state)


def test_neighbours_of_one_state_are_one_range() -> None:
    assert ledger(batch(0, 3), batch(4, 9), end=10) == [(0, 10, "present", 10, 0, None)]


def test_a_log_without_offsets_has_no_ranges() -> None:
    assert ledger(end=0) == []


def test_batches_of_a_transaction_take_its_outcome_and_a_commit_marker_is_a_gap_among_present_records() -> None:
    committed = decided(1, 0, 2, TransactionState.COMMITTED)
    aborted = decided(1, 4, 5, TransactionState.ABORTED)
    assert ledger(
        batch(0, 2, producer=1, transactional=True),
        control(3),
        batch(4, 5, producer=1, transactional=True),
        control(6, "ABORT"),
        end=7,
        transactions=[committed, aborted],
    ) == [
        (0, 4, "present", 3, 1, None, 1),
        (4, 6, "aborted", 2, 0, None),
        (6, 7, "control", 1, 0, None),
    ]


def test_committed_transactions_are_one_range_however_many_there_are() -> None:
    batches, transactions = [], []
    for number in range(1000):
        batches += [batch(2 * number, 2 * number, producer=number % 3, transactional=True)]
        batches += [control(2 * number + 1, producer=number % 3)]
        transactions += [decided(number % 3, 2 * number, 2 * number, TransactionState.COMMITTED)]
    assert ledger(*batches, end=2000, transactions=transactions) == [(0, 2000, "present", 1000, 1000, None, 1000)]


def test_a_marker_has_the_same_state_whatever_is_beside_it() -> None:
    """So a ledger that is built in parts has the states of one that is built at once."""
    aborted = decided(1, 1, 1, TransactionState.ABORTED)
    assert ledger(
        control(0, producer=2),
        batch(1, 1, producer=1, transactional=True),
        control(2, producer=2),
        control(3, "ABORT"),
        control(4, producer=2),
        control(5, "LEADER_CHANGE", producer=-1),
        end=6,
        transactions=[aborted],
    ) == [
        (0, 1, "present", 0, 1, None, 1),
        (1, 2, "aborted", 1, 0, None),
        (2, 3, "present", 0, 1, None, 1),
        (3, 4, "control", 1, 0, None),
        (4, 5, "present", 0, 1, None, 1),
        (5, 6, "control", 1, 0, None),
    ]


def test_one_range_distinguishes_markers_from_cleaned_offsets() -> None:
    committed = decided(1, 10, 19, TransactionState.COMMITTED)
    batches = [batch(10, 19, 3, producer=1, transactional=True), control(20)]
    found = ledger(*batches, end=21, transactions=[committed], start_offset=10)
    assert found == [(10, 21, "present", 3, 8, None, 1)]
    assert LedgerRange(10, 21, OffsetState.PRESENT, 3, 8, 1).gap_state == "compacted, control"
    assert LedgerRange(10, 21, OffsetState.PRESENT, 3, 8).gap_state == "compacted"
    assert LedgerRange(0, 2, OffsetState.PRESENT, 1, 1, 1).gap_state == "control"


def test_a_commit_marker_that_cleaning_emptied_is_an_empty_batch() -> None:
    emptied = BatchFact(1, 1, 0, 1, 0, True, True, None, "ok", "s", 1, 61, 0)
    assert ledger(batch(0, 0), emptied, batch(2, 2), end=3)[1] == (1, 2, "empty", 0, 1, None)


def test_a_batch_beside_an_aborted_transaction_of_its_producer_is_present() -> None:
    assert ledger(
        batch(0, 0, producer=1, transactional=True),
        batch(1, 1, producer=1),
        control(2, "ABORT"),
        end=3,
        transactions=[decided(1, 0, 0, TransactionState.ABORTED)],
    )[1] == (1, 2, "present", 1, 0, None)


def test_batches_of_a_transaction_whose_outcome_is_lost_are_unknown_and_say_so() -> None:
    lost = Transaction(1, 0, 0, 2, None, TransactionState.UNKNOWN)
    assert ledger(batch(0, 2, producer=1, transactional=True), batch(3, 9), end=10, transactions=[lost]) == [
        (0, 3, "unknown", 3, 0, "marker-lost"),
        (3, 10, "present", 7, 0, None),
    ]


def test_everything_at_or_above_the_high_watermark_is_open_whatever_it_is() -> None:
    assert ledger(batch(0, 3), control(4), batch(5, 9), end=10, high_watermark=2) == [
        (0, 2, "present", 2, 0, None),
        (2, 10, "open", 8, 0, "high-watermark"),
    ]


def test_open_says_transaction_below_the_high_watermark_and_high_watermark_above() -> None:
    opened = Transaction(1, 0, 4, 4, None, TransactionState.OPEN)
    batches = [batch(0, 3), batch(4, 4, producer=1, transactional=True), batch(5, 9)]
    assert ledger(*batches, end=10, transactions=[opened], stable=4, high_watermark=7) == [
        (0, 4, "present", 4, 0, None),
        (4, 7, "open", 3, 0, "transaction"),
        (7, 10, "open", 3, 0, "high-watermark"),
    ]


def test_a_batch_with_gaps_is_counted_on_both_sides_of_the_high_watermark() -> None:
    assert ledger(batch(0, 9), batch(10, 19, 3), end=20, high_watermark=13) == [
        (0, 13, "present", 11, 2, None),
        (13, 20, "open", 2, 5, "high-watermark"),
    ]


def test_a_batch_cut_by_the_log_start_counts_only_what_is_above() -> None:
    assert ledger(batch(10, 19, 3), end=20, log_start_offset=14) == [
        (0, 14, "trimmed", 0, 0, "log-start-offset"),
        (14, 20, "present", 1, 5, None),
    ]


def test_whole_batches_below_the_log_start_are_trimmed() -> None:
    assert ledger(batch(0, 4), batch(5, 9), end=10, log_start_offset=5) == [
        (0, 5, "trimmed", 0, 0, "log-start-offset"),
        (5, 10, "present", 5, 0, None),
    ]


def test_a_range_of_lost_offsets_is_cut_at_the_log_start_and_at_the_publish_end() -> None:
    lost = (0, 0, "no-explanation")
    assert ledger(batch(0, 1), batch(9, 9), end=10, log_start_offset=4, high_watermark=7) == [
        (0, 4, "trimmed", 0, 0, "log-start-offset"),
        (4, 7, "missing", *lost),
        (7, 9, "missing", *lost),
        (9, 10, "open", 1, 0, "high-watermark"),
    ]


@pytest.mark.parametrize(
    ("checkpoint", "state"), [(5, "compacted"), (6, "compacted"), (4, "missing"), (None, "missing")]
)
def test_a_gap_is_compacted_only_up_to_the_cleaner_checkpoint(checkpoint, state) -> None:
    evidence = "cleaner-checkpoint" if state == "compacted" else "no-explanation"
    assert ledger(batch(0, 1), batch(5, 5), end=6, cleaner_checkpoint=checkpoint) == [
        (0, 2, "present", 2, 0, None),
        (2, 5, state, 0, 0, evidence),
        (5, 6, "present", 1, 0, None),
    ]


def test_a_gap_is_compacted_where_policy_says_so() -> None:
    assert ledger(batch(5, 5), end=6, compacted_by_policy=True)[0] == (0, 5, "compacted", 0, 0, "cleanup-policy")


def test_a_gap_before_the_first_batch_is_classified_from_the_log_start_on() -> None:
    assert ledger(batch(9, 9), end=10, log_start_offset=4) == [
        (0, 4, "trimmed", 0, 0, "log-start-offset"),
        (4, 9, "missing", 0, 0, "no-explanation"),
        (9, 10, "present", 1, 0, None),
    ]


def test_a_gap_after_the_last_batch_is_classified_too() -> None:
    assert ledger(batch(0, 0), end=4)[1] == (1, 4, "missing", 0, 0, "no-explanation")


def test_what_ingest_saw_of_a_gap_wins_over_the_cleaner_checkpoint() -> None:
    given = {"cleaner_checkpoint": 100, "gap_evidence": [(1, 9, "source-cleaned")]}
    assert ledger(batch(0, 0), batch(4, 4), end=5, **given)[1] == (1, 4, "missing", 0, 0, "source-cleaned")


def test_offsets_that_cleaning_took_out_of_a_batch_are_gaps_of_its_run() -> None:
    assert ledger(batch(0, 9), batch(10, 19, 3), batch(20, 29, 2), end=30) == [(0, 30, "present", 15, 15, None)]


def test_a_batch_without_records_is_empty() -> None:
    assert ledger(batch(0, 0), batch(1, 6, 0), batch(7, 7), end=8)[1] == (1, 7, "empty", 0, 6, None)


def test_a_corrupt_stretch_reaches_to_the_next_good_batch() -> None:
    assert ledger(batch(0, 1), stretch(2), batch(6, 6), end=7) == [
        (0, 2, "present", 2, 0, None),
        (2, 6, "corrupt", 0, 0, "CRC"),
        (6, 7, "present", 1, 0, None),
    ]


def test_a_corrupt_stretch_at_the_end_reaches_to_the_log_end() -> None:
    assert ledger(batch(0, 1), stretch(2, "LENGTH"), end=9)[1:] == [(2, 9, "corrupt", 0, 0, "LENGTH")]


def test_a_corrupt_stretch_that_takes_no_offsets_is_no_range() -> None:
    assert ledger(batch(0, 1), stretch(2), batch(2, 3), end=4) == [(0, 4, "present", 4, 0, None)]


def test_a_gap_before_a_corrupt_stretch_is_classified_separately() -> None:
    assert ledger(batch(0, 1), stretch(5), batch(9, 9), end=10, cleaner_checkpoint=5)[1:3] == [
        (2, 5, "compacted", 0, 0, "cleaner-checkpoint"),
        (5, 9, "corrupt", 0, 0, "CRC"),
    ]


def test_two_stretches_without_a_batch_between_keep_their_reasons() -> None:
    assert ledger(batch(0, 1), stretch(2, "CRC"), stretch(5, "LENGTH"), batch(9, 9), end=10)[1:3] == [
        (2, 5, "corrupt", 0, 0, "CRC"),
        (5, 9, "corrupt", 0, 0, "LENGTH"),
    ]


def test_damage_and_loss_above_the_publish_end_stay_what_they_are() -> None:
    found = ledger(batch(0, 1), batch(4, 4), stretch(5), batch(8, 8), end=9, high_watermark=1)
    assert [(r[0], r[1], r[2]) for r in found] == [
        (0, 1, "present"),
        (1, 2, "open"),
        (2, 4, "missing"),
        (4, 5, "open"),
        (5, 8, "corrupt"),
        (8, 9, "open"),
    ]


def test_a_cleaned_gap_above_the_publish_end_is_open() -> None:
    assert ledger(batch(0, 1), batch(5, 5), end=6, high_watermark=1, compacted_by_policy=True) == [
        (0, 1, "present", 1, 0, None),
        (1, 6, "open", 2, 3, "high-watermark"),
    ]


def test_a_cleaned_gap_is_cut_by_the_publish_end() -> None:
    assert ledger(batch(0, 0), batch(5, 5), end=6, high_watermark=3, cleaner_checkpoint=5)[1:] == [
        (1, 3, "compacted", 0, 0, "cleaner-checkpoint"),
        (3, 6, "open", 1, 2, "high-watermark"),
    ]


def test_a_ledger_begun_inside_a_batch_counts_the_rest_of_it() -> None:
    assert ledger(batch(0, 9), batch(10, 19, 3), batch(20, 20), end=21, start_offset=14) == [
        (14, 21, "present", 2, 5, None)
    ]


def test_a_high_watermark_beyond_the_log_end_opens_nothing() -> None:
    assert ledger(batch(0, 3), end=4, high_watermark=100) == [(0, 4, "present", 4, 0, None)]


def test_every_range_names_what_says_its_state() -> None:
    named = {
        OffsetState.PRESENT: "batches",
        OffsetState.CONTROL: "control-batches",
        OffsetState.ABORTED: "abort-marker",
        OffsetState.EMPTY: "empty-batches",
    }
    for state, shown_by in named.items():
        assert plain(0, 5, state).shown_by == shown_by
    assert plain(0, 5, OffsetState.MISSING, evidence="no-explanation").shown_by == "no-explanation"


def test_offsets_that_do_not_rise_are_refused() -> None:
    with pytest.raises(InvalidRecordError):
        ledger(batch(0, 3), batch(3, 5), end=6)
    with pytest.raises(InvalidRecordError):
        ledger(batch(0, 3), batch(1, 2), end=6)


def test_a_batch_beyond_the_log_end_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="the log at 2"):
        ledger(batch(0, 3), end=3)


def test_a_view_that_does_not_know_a_transaction_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="derived from other batches"):
        ledger(batch(0, 3, producer=5, transactional=True), end=4)
