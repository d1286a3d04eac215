"""What the tracker of transactions says of each batch, and that it can be set down and taken up anywhere."""

from __future__ import annotations

from logcore.logs.compaction.cleaned_transactions import CleanedTransactions, CleanedTransactionState
from logcore.records.control import ControlType
from tests.unit.logcore.logs.compaction.one_round import aborted


def test_data_of_an_aborted_transaction_is_discardable_and_other_data_is_not():
    tracker = CleanedTransactions()
    tracker.add([aborted(7, 10, 14)])
    assert not tracker.data(9, 7, is_transactional=True)  # before the aborted one begins
    assert tracker.data(11, 7, is_transactional=True)
    assert not tracker.data(12, 8, is_transactional=True)
    assert not tracker.data(13, 7, is_transactional=False)


def test_an_abort_marker_stays_with_its_entry_while_data_of_it_is_seen():
    tracker = CleanedTransactions()
    tracker.add([aborted(7, 10, 14)])
    tracker.data(11, 7, is_transactional=True)
    assert tracker.control(14, 7, ControlType.ABORT) == (False, aborted(7, 10, 14))
    assert not tracker.data(15, 7, is_transactional=True), "the transaction is over"


def test_an_abort_marker_without_data_is_discardable():
    tracker = CleanedTransactions()
    assert tracker.control(14, 7, ControlType.ABORT) == (True, None)
    tracker.add([aborted(7, 20, 24)])
    assert tracker.control(24, 7, ControlType.ABORT) == (True, aborted(7, 20, 24))


def test_a_commit_marker_is_discardable_once_no_data_precedes_it():
    tracker = CleanedTransactions()
    tracker.data(3, 7, is_transactional=True)
    assert tracker.control(4, 7, ControlType.COMMIT) == (False, None)
    assert tracker.control(5, 7, ControlType.COMMIT) == (True, None)


def test_other_control_batches_stay_and_emptied_ones_may_go():
    tracker = CleanedTransactions()
    assert tracker.control(4, -1, ControlType.LEADER_CHANGE) == (False, None)
    assert tracker.control(5, -1, ControlType.UNKNOWN) == (False, None)
    assert tracker.control(6, 7, None) == (True, None)


def test_a_transaction_added_for_each_of_its_segments_counts_once():
    tracker = CleanedTransactions()
    tracker.add([aborted(7, 10, 34)])
    tracker.data(10, 7, is_transactional=True)
    tracker.add([aborted(7, 10, 34)])
    assert tracker.data(20, 7, is_transactional=True)
    assert tracker.control(34, 7, ControlType.ABORT) == (False, aborted(7, 10, 34))
    assert not tracker.data(35, 7, is_transactional=True)


def test_the_state_taken_out_and_put_back_goes_on_as_if_nothing_had_been():
    tracker = CleanedTransactions()
    tracker.add([aborted(7, 10, 34), aborted(8, 12, 30), aborted(9, 50, 60), aborted(9, 50, 60)])
    tracker.data(10, 7, is_transactional=True)
    tracker.data(12, 5, is_transactional=True)
    state = tracker.state()
    assert state == CleanedTransactionState(
        waiting=(aborted(9, 50, 60),),
        aborting=((aborted(7, 10, 34), True), (aborted(8, 12, 30), False)),
        committing=(5,),
    )
    resumed = CleanedTransactions(state)
    assert resumed.state() == state
    assert resumed.control(30, 8, ControlType.ABORT) == (True, aborted(8, 12, 30))
    assert resumed.control(34, 7, ControlType.ABORT) == (False, aborted(7, 10, 34))
    assert resumed.control(35, 5, ControlType.COMMIT) == (False, None)


def test_what_ended_in_a_stretch_that_was_left_out_is_forgotten():
    tracker = CleanedTransactions()
    tracker.add([aborted(7, 10, 34)])
    tracker.data(10, 7, is_transactional=True)
    tracker.forget_ended(34)
    assert tracker.data(34, 7, is_transactional=True), "its marker may be the next batch"
    tracker.forget_ended(35)
    assert not tracker.data(40, 7, is_transactional=True)


def test_what_began_and_ended_in_a_stretch_that_was_left_out_is_not_taken_for_the_next_of_its_producer():
    tracker = CleanedTransactions()
    tracker.add([aborted(7, 10, 34)])
    tracker.add([aborted(7, 36, 40)])
    tracker.forget_ended(40)
    assert tracker.control(40, 7, ControlType.ABORT) == (True, aborted(7, 36, 40))
    tracker.add([aborted(7, 50, 60), aborted(8, 50, 55)])
    tracker.forget_ended(60)
    assert tracker.data(60, 7, is_transactional=True), "its marker may be the next batch"
    assert not tracker.data(61, 8, is_transactional=True)
