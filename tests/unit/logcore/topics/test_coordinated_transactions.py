"""What a coordinator wrote of transactions, from values packed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from logcore.topics.coordinated_transactions import CoordinatedTransactions, CoordinatorState
from tests.transaction_states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    state_key,
    state_value,
)


def added(*rows: tuple[int, int, dict[str, Any]], name: str = "pay", producer_id: int = 7) -> CoordinatedTransactions:
    """The transactions of one id; a row is status, epoch and more fields."""
    found = CoordinatedTransactions()
    for at, (status, epoch, fields) in enumerate(rows):
        value = state_value(status, **({"producer_id": producer_id, "epoch": epoch, "updated_ms": 100 + at} | fields))
        assert found.add(state_key(name), value) == ()
    return found


P0, P01 = {"orders": (0,)}, {"orders": (0, 1)}


@pytest.mark.parametrize("version", [0, 1])
def test_before_version_2_a_transaction_and_its_markers_have_one_epoch(version: int) -> None:
    of = {"version": version, "start_ms": 50}
    found = added(
        (EMPTY, 3, {"version": version}),
        (ONGOING, 3, of | {"partitions": P0}),
        (ONGOING, 3, of | {"partitions": P01}),
        (PREPARE_COMMIT, 3, of | {"partitions": P01}),
        (COMPLETE_COMMIT, 3, of | {"partitions": {}}),
    )
    (one,) = found.transactions
    assert (one.producer_id, one.data_epoch, one.marker_epoch, one.version) == (7, 3, 3, version and 0)
    assert one.partitions == {("orders", 0), ("orders", 1)}
    assert (one.state, one.state.is_commit, one.is_in_progress) == (CoordinatorState.COMPLETE_COMMIT, True, False)
    assert (one.start_ms, one.updated_ms, one.timeout_ms) == (50, 104, 60_000)


def test_since_version_2_each_transaction_has_an_epoch_and_its_markers_the_next_one() -> None:
    rows: list[tuple[int, int, dict[str, Any]]] = [(EMPTY, 0, {})]
    for epoch in (0, 1):
        of = {"start_ms": epoch}
        rows += [(ONGOING, epoch, of | {"partitions": P0}), (PREPARE_ABORT, epoch + 1, of | {"partitions": P0})]
        rows += [(COMPLETE_ABORT, epoch + 1, of | {"partitions": {}})]
    found = added(*rows)
    assert [(t.data_epoch, t.marker_epoch, t.state.is_commit) for t in found.transactions] == [
        (0, 1, False),
        (1, 2, False),
    ]
    assert found.has_all_of(7, 0)


def test_a_log_that_begins_with_the_end_of_a_transaction_does_not_say_its_partitions_or_epochs_before() -> None:
    found = added((COMPLETE_COMMIT, 4, {"partitions": {}, "start_ms": 9}))
    (one,) = found.transactions
    assert (one.data_epoch, one.marker_epoch, one.partitions) == (None, 4, None)
    assert [found.has_all_of(7, epoch) for epoch in (3, 4, 5)] == [False, False, True]
    assert not found.has_all_of(8, 0)


def test_a_producer_id_whose_epochs_are_used_up_ends_its_transaction_under_the_next_id() -> None:
    of = {"start_ms": 9, "partitions": P0}
    whole = added(
        (EMPTY, 32766, {}),
        (ONGOING, 32766, of),
        (PREPARE_COMMIT, 32767, of),
        (COMPLETE_COMMIT, 0, {"producer_id": 8, "previous_producer_id": 7, "start_ms": 9, "partitions": {}}),
    )
    cleaned = added((COMPLETE_COMMIT, 0, {"producer_id": 8, "previous_producer_id": 7, "partitions": {}}))
    for found in (whole, cleaned):
        (one,) = found.transactions
        assert (one.producer_id, one.marker_epoch, one.state.is_complete) == (7, 32767, True)
        assert {found.ids[7].name, found.ids[8].name} == {"pay"}


def test_a_transaction_without_an_end_before_the_next_one_is_abandoned() -> None:
    found = added((EMPTY, 0, {}), (ONGOING, 0, {"partitions": P0, "start_ms": 1}), (EMPTY, 1, {}))
    assert [(t.is_abandoned, t.is_in_progress) for t in found.transactions] == [(True, False)]
    assert added((ONGOING, 0, {"partitions": P0}), (DEAD, 0, {})).transactions[0].is_abandoned


def test_an_expired_id_comes_back_with_another_producer() -> None:
    found = added((COMPLETE_COMMIT, 1, {"partitions": {}}))
    assert found.add(state_key("pay"), None) == ()
    assert found.add(state_key("pay"), state_value(EMPTY, producer_id=9, epoch=0, updated_ms=1)) == ()
    assert {producer_id: of_id.name for producer_id, of_id in found.ids.items()} == {7: "pay", 9: "pay"}
    assert found.has_all_of(9, 0)
    assert not found.has_all_of(7, 1)


def test_a_record_that_cannot_be_read_leaves_no_epoch_certain() -> None:
    found = added((EMPTY, 0, {}))
    assert found.has_all_of(7, 0)
    (unread,) = found.add(state_key("pay"), state_value(9, producer_id=7, epoch=0, updated_ms=1))
    assert unread.detail == "state 9 of a transaction is not known"
    assert not found.has_all_of(7, 0)
    other = added((EMPTY, 0, {}))
    assert other.add(state_key("pay"), b"\0\1\0")
    assert not other.has_all_of(7, 0)


LATER: dict[str, Any] = {"producer_id": 7, "epoch": 0, "updated_ms": 200}


@pytest.mark.parametrize(
    "value",
    [b"", b"\0", b"\0\x63", b"\xff\xff", state_value(ONGOING, **LATER)[:-3], state_value(99, **LATER)],
    ids=range(6),
)
def test_a_later_value_of_an_id_that_cannot_be_read_is_reported_and_changes_nothing(value: bytes) -> None:
    found = added((EMPTY, 0, {}), (ONGOING, 0, {"partitions": P0}))
    (unread,) = found.add(state_key("pay"), value)
    assert "pay" not in unread.detail
    assert [each.state for each in found.transactions] == [CoordinatorState.ONGOING]
    assert not found.has_all_of(7, 0)
