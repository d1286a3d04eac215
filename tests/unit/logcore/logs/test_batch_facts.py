"""Folding: one fact for neighbours that a ledger says the same of."""

import pytest

from logcore.logs.model.batch_facts import BatchFact, fold


def plain(first: int, last: int, records: int | None = None, producer: int = -1) -> BatchFact:
    count = last - first + 1 if records is None else records
    return BatchFact(first, last, count, producer, 0, False, False, None, "ok", "s", first * 10, 70, 0)


def transactional(first: int, last: int, producer: int) -> BatchFact:
    return BatchFact(first, last, last - first + 1, producer, 0, True, False, None, "ok", "s", first * 10, 70, 0)


def control(offset: int, kind: str = "COMMIT") -> BatchFact:
    return BatchFact(offset, offset, 1, 7, 0, True, True, kind, "ok", "s", offset * 10, 78, 0)


def stretch(expected: int) -> BatchFact:
    return BatchFact(expected, None, 0, -1, -1, False, False, None, "CRC", "s", expected * 10, 70, -1)


def folded(*facts: BatchFact, cuts=()) -> list[tuple]:
    return [(f.base_offset, f.last_offset, f.record_count) for f in fold(facts, cuts)]


def test_a_log_of_single_messages_becomes_one_fact() -> None:
    assert folded(*(plain(offset, offset) for offset in range(1000))) == [(0, 999, 1000)]


def test_which_producer_wrote_a_plain_batch_is_forgotten_and_whose_transaction_it_is_is_not() -> None:
    assert folded(plain(0, 1, producer=1), plain(2, 3, producer=2)) == [(0, 3, 4)]
    assert folded(transactional(0, 1, 1), transactional(2, 3, 1), transactional(4, 5, 2)) == [(0, 3, 4), (4, 5, 2)]


@pytest.mark.parametrize(
    "second", [plain(3, 4), plain(2, 2, 0), transactional(2, 3, -1), control(2), stretch(2)], ids=str
)
def test_what_differs_or_does_not_follow_is_left_apart(second) -> None:
    assert len(folded(plain(0, 1), second)) == 2
    assert len(folded(second, plain(second.next_offset + 1, second.next_offset + 2))) == 2


def test_control_batches_in_a_row_are_one_fact() -> None:
    assert folded(control(0), control(1), control(2)) == [(0, 2, 3)]
    assert folded(control(0, "ABORT"), control(1, "LEADER_CHANGE")) == [(0, 1, 2)]


def test_commit_markers_and_other_control_batches_are_left_apart() -> None:
    assert folded(control(0), control(1, "ABORT"), control(2)) == [(0, 0, 1), (1, 1, 1), (2, 2, 1)]


def test_a_batch_with_gaps_is_not_folded_across_a_cut() -> None:
    thin = plain(4, 9, 3)
    assert folded(plain(0, 3), thin) == [(0, 9, 7)]
    assert folded(plain(0, 3), thin, cuts=[2]) == [(0, 3, 4), (4, 9, 3)]
    assert folded(plain(0, 3), thin, cuts=[6]) == [(0, 3, 4), (4, 9, 3)]
    assert folded(plain(0, 3), plain(4, 9), cuts=[2, 6]) == [(0, 9, 10)]
    assert folded(plain(0, 3), thin, cuts=[0, 10]) == [(0, 9, 7)]
