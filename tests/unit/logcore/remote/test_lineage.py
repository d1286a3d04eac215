"""Which remote segments belong to a log. Many cases are those of Kafka's RemoteLogManagerTest."""

from __future__ import annotations

import pytest

from logcore.remote.lineage import JoinedSegment, highest_tiered_offset, joined, offsets_in_lineage
from logcore.remote.remote_segment import RemoteSegment, RemoteSegmentState
from logcore.segments.filenames import TopicPartition
from logcore.segments.side_files.leader_epochs import EpochEntry


def segment(start: int, end: int, epochs: dict[int, int], name: str = "s") -> RemoteSegment:
    entries = tuple(EpochEntry(epoch, offset) for epoch, offset in epochs.items())
    return RemoteSegment(TopicPartition("t", 0), "T", name, start, end, entries, 1024, RemoteSegmentState.COPY_FINISHED)


@pytest.mark.parametrize(
    ("start", "end", "own", "log", "log_end", "counts"),
    [
        (15, 35, {1: 15, 2: 20, 5: 25}, {0: 0, 1: 15, 2: 20, 5: 25}, 90, (15, 36)),
        (15, 90, {1: 15, 2: 20, 5: 25}, {0: 0, 1: 15, 2: 20, 5: 25}, 90, (15, 90)),  # ends above the log
        (15, 35, {0: 15}, {1: 15, 2: 20}, 90, None),  # its epoch is older than all of the log
        (15, 35, {6: 15}, {1: 15, 2: 20}, 90, None),  # its epoch is newer than all of the log
        (15, 35, {1: 15, 3: 20}, {1: 15, 2: 20, 4: 30}, 90, (15, 20)),  # epoch 3 is not of the log
        (15, 35, {1: 15, 3: 25}, {1: 15, 2: 20, 4: 30}, 90, (15, 20)),  # the log ended epoch 1 before
        (15, 35, {1: 15, 2: 18}, {1: 15, 2: 20}, 90, (15, 18)),  # epoch 2 begins elsewhere
        (14, 35, {1: 14, 2: 20}, {0: 0, 1: 15, 2: 20}, 90, None),  # begins before its epoch
        (14, 35, {1: 14, 2: 20}, {1: 15, 2: 20}, 90, (15, 36)),  # the log's start was moved into the segment
        (15, 19, {1: 15}, {1: 15, 2: 20}, 90, (15, 20)),
        (15, 20, {1: 15}, {1: 15, 2: 20}, 90, (15, 20)),  # its last record is of an epoch that the log ended before
        (14, 150, {5: 14, 7: 15, 9: 100}, {7: 51, 9: 100}, 210, (51, 151)),  # overlaps a segment that was deleted
        (14, 150, {5: 14, 7: 14, 9: 100}, {7: 10, 9: 100}, 210, (14, 151)),  # no record in epoch 5
        (0, 19, {0: 0, 2: 10}, {0: 0, 1: 10, 2: 10}, 90, (0, 20)),  # no record in epoch 1, which only the log knows
        (0, 9, {}, {0: 0}, 90, None),
        (0, 9, {0: 0}, {}, 90, None),
    ],
)
def test_a_segment_has_the_offsets_of_the_log_that_both_wrote_in_one_epoch(
    start: int, end: int, own: dict[int, int], log: dict[int, int], log_end: int, counts: tuple[int, int] | None
) -> None:
    epochs = [EpochEntry(epoch, offset) for epoch, offset in log.items()]
    given = segment(start, end, own)
    assert offsets_in_lineage(given, epochs, log_end) == (None if counts is None else JoinedSegment(given, *counts))


@pytest.mark.parametrize(
    ("segments", "log", "log_end", "offset"),
    [
        ([], {0: 0}, 90, None),
        ([(0, 9, {0: 0})], {0: 0}, 90, 9),
        ([(0, 9, {0: 0}), (10, 29, {0: 10, 1: 20})], {0: 0, 1: 20}, 90, 29),
        ([(0, 39, {0: 0})], {0: 0, 1: 20}, 90, 19),  # the log ended epoch 0 before
        ([(0, 39, {0: 0})], {0: 0}, 30, 29),
        ([(0, 9, {0: 0}), (10, 39, {0: 10, 1: 20})], {0: 0, 2: 25}, 90, 19),  # epoch 1 is not of the log
        ([(0, 9, {0: 0})], {}, 90, None),
    ],
)
def test_the_last_tiered_offset_is_that_of_the_latest_epoch_that_was_copied(
    segments: list[tuple[int, int, dict[int, int]]], log: dict[int, int], log_end: int, offset: int | None
) -> None:
    epochs = [EpochEntry(epoch, start) for epoch, start in log.items()]
    assert highest_tiered_offset([segment(*each) for each in segments], epochs, log_end) == offset


def whole(given: RemoteSegment) -> JoinedSegment:
    return JoinedSegment(given, given.start_offset, given.end_offset + 1)


def test_segments_are_cut_where_the_next_one_begins() -> None:
    first, second, third = segment(0, 50, {0: 0}, "a"), segment(30, 90, {0: 30}, "b"), segment(91, 99, {0: 91}, "c")
    assert joined(map(whole, (third, first, second)), 0, 95) == (
        JoinedSegment(first, 0, 30),
        JoinedSegment(second, 30, 91),
        JoinedSegment(third, 91, 95),
    )


def test_offsets_that_no_segment_has_are_left_out() -> None:
    first, second = segment(5, 9, {0: 5}), segment(20, 29, {0: 20})
    assert joined(map(whole, (first, second)), 0, 100) == (JoinedSegment(first, 5, 10), JoinedSegment(second, 20, 30))
    assert joined(map(whole, (first, second)), 7, 20) == (JoinedSegment(first, 7, 10),)
    assert joined([], 0, 100) == ()


def test_a_segment_that_has_nothing_more_is_not_needed() -> None:
    long, inside, again = segment(0, 50, {0: 0}, "a"), segment(10, 50, {0: 10}, "b"), segment(0, 50, {0: 0}, "c")
    assert joined(map(whole, (long, inside, again)), 0, 51) == (JoinedSegment(again, 0, 51),)


def test_a_segment_that_counts_in_part_is_cut_where_its_part_ends() -> None:
    first, second = segment(0, 50, {0: 0}, "a"), segment(30, 90, {0: 30}, "b")
    assert joined([JoinedSegment(first, 0, 20), whole(second)], 0, 100) == (
        JoinedSegment(first, 0, 20),
        JoinedSegment(second, 30, 91),
    )
