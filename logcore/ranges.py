"""Half-open ranges of numbers, for instance of offsets or of positions: joined, and what none of them has."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]
"""[start, end)."""


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Join ranges that touch or overlap. The result ascends, and no range of it is empty."""
    found: list[Range] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif start < end:
            found.append((start, end))
    return tuple(found)


def left_out(start: int, end: int, ranges: Sequence[Range]) -> Iterator[Range]:
    """The parts of [start, end) that none of the ranges has. The ranges ascend and do not overlap."""
    for low, high in ranges[bisect_right(ranges, start, key=lambda each: each[1]) :]:
        if low >= end:
            break
        if start < low:
            yield start, low
        start = high
    if start < end:
        yield start, end
