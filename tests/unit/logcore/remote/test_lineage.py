"""Which remote segments belong to a log. The cases are those of Kafka's RemoteLogManagerTest, written as values."""

from __future__ import annotations

import pytest

from logcore.remote.lineage import JoinedSegment, is_in_lineage, joined
from logcore.remote.remote_segment import RemoteSegment, RemoteSegmentState
from logcore.segments.filenames import TopicPartition
from logcore.segments.side_files.leader_epochs import EpochEntry


def segment(start: int, end: int, epochs: dict[int, int], name: str = "s") -> RemoteSegment:
    entries = tuple(EpochEntry(epoch, offset) for epoch, offset in epochs.items())
    return RemoteSegment(TopicPartition("t", 0), "T", name, start, end, entries, 1024, RemoteSegmentState.COPY_FINISHED)


@pytest.mark.parametrize(
    ("start", "end", "own", "log", "log_end", "counts"),
    [
        (15, 35, {1: 15, 2: 20, 5: 25}, {0: 0, 1: 15, 2: 20, 5: 25}, 90, True),
        (15, 90, {1: 15, 2: 20, 5: 25}, {0: 0, 1: 15, 2: 20, 5: 25}, 90, False),  # ends above the log
        (15, 35, {0: 15}, {1: 15, 2: 20}, 90, False),  # its epoch is older than all of the log
        (15, 35, {6: 15}, {1: 15, 2: 20}, 90, False),  # its epoch is newer than all of the log
        (15, 35, {1: 15, 3: 20}, {1: 15, 2: 20, 4: 30}, 90, False),  # epoch 3 is not of the log
        (15, 35, {1: 15, 2: 18}, {1: 15, 2: 20}, 90, False),  # epoch 2 begins elsewhere
        (14, 35, {1: 14, 2: 20}, {0: 0, 1: 15, 2: 20}, 90, False),  # begins before its epoch
        (14, 35, {1: 14, 2: 20}, {1: 15, 2: 20}, 90, True),  # the log's start was moved into the segment
        (15, 19, {1: 15}, {1: 15, 2: 20}, 90, True),
        (15, 20, {1: 15}, {1: 15, 2: 20}, 90, False),  # has a record of an epoch that the log ended before
        (14, 150, {5: 14, 7: 15, 9: 100}, {7: 51, 9: 100}, 210, True),  # overlaps a segment that was deleted
        (14, 150, {5: 14, 7: 14, 9: 100}, {7: 10, 9: 100}, 210, True),  # no record in epoch 5
        (0, 19, {0: 0, 2: 10}, {0: 0, 1: 10, 2: 10}, 90, True),  # no record in epoch 1, which only the log knows
        (0, 9, {}, {0: 0}, 90, False),
        (0, 9, {0: 0}, {}, 90, False),
    ],
)
def test_a_segment_counts_if_its_epochs_are_those_of_the_log(
    start: int, end: int, own: dict[int, int], log: dict[int, int], log_end: int, counts: bool
) -> None:
    epochs = [EpochEntry(epoch, offset) for epoch, offset in log.items()]
    assert is_in_lineage(segment(start, end, own), epochs, log_end) is counts


def test_segments_are_cut_where_the_next_one_begins() -> None:
    first, second, third = segment(0, 50, {0: 0}, "a"), segment(30, 90, {0: 30}, "b"), segment(91, 99, {0: 91}, "c")
    assert joined([third, first, second], 0, 95) == (
        JoinedSegment(first, 0, 30),
        JoinedSegment(second, 30, 91),
        JoinedSegment(third, 91, 95),
    )


def test_offsets_that_no_segment_has_are_left_out() -> None:
    first, second = segment(5, 9, {0: 5}), segment(20, 29, {0: 20})
    assert joined([first, second], 0, 100) == (JoinedSegment(first, 5, 10), JoinedSegment(second, 20, 30))
    assert joined([first, second], 7, 20) == (JoinedSegment(first, 7, 10),)
    assert joined([], 0, 100) == ()


def test_a_segment_that_has_nothing_more_is_not_needed() -> None:
    long, inside, again = segment(0, 50, {0: 0}, "a"), segment(10, 50, {0: 10}, "b"), segment(0, 50, {0: 0}, "c")
    assert joined([long, inside, again], 0, 51) == (JoinedSegment(again, 0, 51),)
