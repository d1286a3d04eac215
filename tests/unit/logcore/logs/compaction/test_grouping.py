"""Which neighbours a round puts together, one limit at a time."""

from __future__ import annotations

from logcore.logs.compaction.cleaning_round import SourceSegment
from logcore.logs.compaction.planned_round import group_segments


def segment(base: int, next_base: int, size: int = 100, offset_index: int = 0, time_index: int = 0) -> SourceSegment:
    return SourceSegment(base, next_base, bytes(size), 0, offset_index, time_index)


def grouped(segments: list[SourceSegment], *, size: int = 1000, index: int = 1000) -> list[list[int]]:
    end = segments[-1].next_base_offset
    groups = group_segments(segments, segment_bytes=size, segment_index_bytes=index, upper_bound_offset=end)
    return [[each.base_offset for each in group] for group in groups]


def test_neighbours_join_while_their_bytes_before_cleaning_fit_a_segment():
    segments = [segment(at, at + 10, 100) for at in (0, 10, 20, 30)]
    assert grouped(segments, size=200) == [[0, 10], [20, 30]]
    assert grouped(segments, size=199) == [[0], [10], [20], [30]]
    assert grouped(segments, size=300) == [[0, 10, 20], [30]]


def test_a_segment_larger_than_the_limit_is_a_group_of_its_own():
    assert grouped([segment(0, 5, 10), segment(5, 9, 500), segment(9, 10, 10)], size=100) == [[0], [5], [9]]


def test_each_kind_of_index_has_the_limit_of_segment_index_bytes():
    assert grouped([segment(0, 5, offset_index=16), segment(5, 9, offset_index=16)], index=32) == [[0, 5]]
    assert grouped([segment(0, 5, offset_index=16), segment(5, 9, offset_index=24)], index=32) == [[0], [5]]
    assert grouped([segment(0, 5, time_index=12), segment(5, 9, time_index=24)], index=36) == [[0, 5]]
    assert grouped([segment(0, 5, time_index=12), segment(5, 9, time_index=24)], index=35) == [[0], [5]]


def test_offsets_stay_within_31_bits_of_the_base_unless_there_are_none():
    far = 2**31
    assert grouped([segment(0, 10), segment(10, far)]) == [[0, 10]]
    assert grouped([segment(0, 10), segment(10, far + 1)]) == [[0], [10]]
    assert grouped([segment(0, 10), segment(10, far + 1, 0)]) == [[0, 10]]
    assert grouped([segment(0, 10), segment(10, far - 5), segment(far - 5, far + 5)]) == [[0, 10], [far - 5]]
    assert grouped([segment(far, far + 5), segment(far + 5, far + 10)]) == [[far, far + 5]]


def test_each_group_begins_with_limits_of_its_own():
    segments = [segment(at, at + 10, 100, 16, 16) for at in (0, 10, 20, 30)]
    assert grouped(segments[:2], index=32) == [[0, 10]]
    assert grouped(segments, index=32) == [[0, 10], [20, 30]]
    assert grouped(segments, size=200) == [[0, 10], [20, 30]]
