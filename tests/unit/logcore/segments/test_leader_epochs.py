"""How a history of leader epochs changes, by the rules of Kafka's LeaderEpochFileCache."""

import pytest

from logcore.segments.side_files.leader_epochs import (
    EpochEntry,
    Epochs,
    assign,
    end_offset_for,
    epoch_for_offset,
    truncate_from_end,
    truncate_from_start,
)


def epochs(*entries: tuple[int, int]) -> Epochs:
    return tuple(EpochEntry(*entry) for entry in entries)


CHAIN = epochs((0, 0), (2, 17), (5, 40))


@pytest.mark.parametrize(
    ("epoch", "start", "expected"),
    [
        (6, 50, epochs((0, 0), (2, 17), (5, 40), (6, 50))),
        (5, 40, CHAIN),
        (5, 60, CHAIN),
        (5, 39, epochs((0, 0), (2, 17), (5, 39))),
        (6, 40, epochs((0, 0), (2, 17), (6, 40))),
        (6, 20, epochs((0, 0), (2, 17), (6, 20))),
        (6, 0, epochs((6, 0))),
        (3, 60, epochs((0, 0), (2, 17), (3, 60))),
        (2, 60, epochs((0, 0), (2, 60))),
        (0, 5, epochs((0, 5))),
        (1, 10, epochs((0, 0), (1, 10))),
    ],
)
def test_an_assigned_epoch_drops_what_contradicts_it(epoch: int, start: int, expected: Epochs) -> None:
    assert assign(CHAIN, epoch, start) == expected


def test_the_first_epoch_of_a_log_may_begin_anywhere() -> None:
    assert assign((), 7, 100) == epochs((7, 100))


@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (0, -1)])
def test_negative_epochs_and_offsets_are_not_assigned(epoch: int, start: int) -> None:
    with pytest.raises(ValueError, match="negative"):
        assign(CHAIN, epoch, start)


@pytest.mark.parametrize(("offset", "left"), [(0, 0), (1, 1), (17, 1), (18, 2), (40, 2), (41, 3), (99, 3), (-1, 3)])
def test_a_log_cut_at_an_offset_keeps_the_epochs_that_begin_below(offset: int, left: int) -> None:
    assert truncate_from_end(CHAIN, offset) == CHAIN[:left]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, CHAIN),
        (5, epochs((0, 5), (2, 17), (5, 40))),
        (16, epochs((0, 16), (2, 17), (5, 40))),
        (17, epochs((2, 17), (5, 40))),
        (30, epochs((2, 30), (5, 40))),
        (40, epochs((5, 40))),
        (99, epochs((5, 99))),
        (-1, CHAIN),
    ],
)
def test_the_epoch_a_log_now_begins_in_begins_with_it(offset: int, expected: Epochs) -> None:
    assert truncate_from_start(CHAIN, offset) == expected


def test_nothing_can_be_cut_from_an_empty_history() -> None:
    assert truncate_from_start((), 5) == truncate_from_end((), 5) == ()


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (16, 0), (17, 2), (39, 2), (40, 5), (10**9, 5)])
def test_an_offset_was_written_in_the_last_epoch_that_began_by_then(offset: int, epoch: int) -> None:
    assert epoch_for_offset(CHAIN, offset) == epoch


def test_an_offset_below_the_history_has_no_epoch() -> None:
    assert epoch_for_offset(CHAIN[1:], 16) is None
    assert epoch_for_offset((), 0) is None


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, (-1, -1)), (0, (0, 17)), (1, (0, 17)), (2, (2, 40)), (4, (2, 40)), (5, (5, 77)), (6, (-1, -1))],
)
def test_an_epoch_ends_where_the_next_begins_and_the_latest_at_the_log_end(
    epoch: int, expected: tuple[int, int]
) -> None:
    assert end_offset_for(CHAIN, epoch, 77) == expected


def test_an_epoch_below_all_that_is_known_ends_at_their_start() -> None:
    assert end_offset_for(CHAIN[1:], 1, 77) == (1, 17)
    assert end_offset_for((), 1, 77) == (-1, -1)
