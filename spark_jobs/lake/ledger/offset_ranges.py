"""Arithmetic of half-open offset ranges, without a log or a table."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

Ranges = Sequence[tuple[int, int]]
"""Half-open offset ranges that ascend and do not touch."""


def meets(ranges: Ranges, start: int, end: int) -> bool:
    """Return whether [start, end) overlaps the ranges."""
    at = bisect_right(ranges, start, key=lambda each: each[1])
    return at < len(ranges) and ranges[at][0] < end


def within(ranges: Ranges, start: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges that overlap [start, end), unclipped."""
    first = bisect_right(ranges, start, key=lambda each: each[1])
    return list(ranges[first : bisect_left(ranges, end, key=lambda each: each[0])])


def clipped(ranges: Ranges, start: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges clipped to [start, end)."""
    return [(max(s, start), min(e, end)) for s, e in within(ranges, start, end)]


def holds(ranges: Ranges, start: int, end: int) -> bool:
    """Return whether one of the ranges contains all of [start, end)."""
    at = bisect_right(ranges, start, key=lambda each: each[1])
    return at < len(ranges) and ranges[at][0] <= start and end <= ranges[at][1]
