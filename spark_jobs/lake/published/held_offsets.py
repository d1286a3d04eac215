"""Offsets of rows as runs of neighbours: small if a log has few gaps, exact if it has many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from logcore.ranges import joined

Offsets = npt.NDArray[np.int64]
_NONE: Offsets = np.zeros(0, dtype=np.int64)


@dataclass(slots=True)
class OffsetRuns:
    """Offsets of rows of one log, added chunk by chunk."""

    rises: bool = True
    """Whether each offset is above the one before it."""
    _starts: list[Offsets] = field(default_factory=list)
    _ends: list[Offsets] = field(default_factory=list)
    _last: int = -1

    def add(self, offsets: Offsets) -> None:
        """Add the offsets of the next rows."""
        if not len(offsets):
            return
        self.rises &= bool(int(offsets[0]) > self._last and (np.diff(offsets) > 0).all())
        self._last = int(offsets[-1])
        if not self.rises:
            offsets = np.sort(offsets)  # otherwise each row may be a run of its own
        breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
        self._starts.append(offsets[np.concatenate(([0], breaks))])
        self._ends.append(offsets[np.concatenate((breaks - 1, [len(offsets) - 1]))] + 1)

    def spans(self) -> tuple[Offsets, Offsets]:
        """Return starts and ends of the runs, by start; an offset that occurs twice is in two of them."""
        starts, ends = np.concatenate([_NONE, *self._starts]), np.concatenate([_NONE, *self._ends])
        order = np.argsort(starts, kind="stable")
        self._starts, self._ends = [starts[order]], [ends[order]]
        return self._starts[0], self._ends[0]


LogRuns = dict[str, OffsetRuns]
"""The offsets of a file by log."""


@dataclass(frozen=True, slots=True)
class HeldOffsets:
    """Offsets of a log that have a row: ascending runs [starts, ends) that neither touch nor overlap."""

    starts: Offsets
    ends: Offsets
    rows: int
    """Number of rows; higher than that of offsets if some have several rows."""
    doubled: tuple[tuple[int, int], ...]
    """Offsets that have several rows."""

    @classmethod
    def of(cls, files: Iterable[OffsetRuns]) -> HeldOffsets:
        """Combine the offsets of several files."""
        return cls.of_spans([runs.spans() for runs in files])

    @classmethod
    def of_spans(cls, spans: Sequence[tuple[Offsets, Offsets]]) -> HeldOffsets:
        """As :meth:`of`, from starts and ends."""
        starts = np.concatenate([_NONE, *(start for start, _ in spans)])
        ends = np.concatenate([_NONE, *(end for _, end in spans)])
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        if not len(starts):
            return cls(starts, ends, 0, ())
        reached = np.maximum.accumulate(ends)
        overlaps = np.flatnonzero(starts[1:] < reached[:-1]) + 1
        doubled = [(int(starts[at]), int(min(ends[at], reached[at - 1]))) for at in overlaps]
        begins = np.concatenate(([0], np.flatnonzero(starts[1:] > reached[:-1]) + 1))
        last = np.concatenate((begins[1:] - 1, [len(starts) - 1]))
        return cls(starts[begins], reached[last], int((ends - starts).sum()), joined(doubled))

    @property
    def end(self) -> int:
        """The offset after the greatest one; 0 if there is none."""
        return int(self.ends[-1]) if len(self.ends) else 0

    def count(self, start: int, end: int) -> int:
        """Return how many of them are in [start, end)."""
        return sum(high - low for low, high in self.within(start, end))

    def counts(self, starts: Offsets, ends: Offsets) -> Offsets:
        """Return how many of them are in each range [start, end)."""
        return self._below(ends) - self._below(starts)

    def _below(self, offsets: Offsets) -> Offsets:
        """How many are below each of some other offsets."""
        sums = np.concatenate(([0], np.cumsum(self.ends - self.starts)))
        place = np.searchsorted(self.starts, offsets, side="left")
        below: Offsets = sums[place]
        if len(self.ends):
            below -= np.where(place > 0, np.maximum(self.ends[np.maximum(place - 1, 0)] - offsets, 0), 0)
        return below

    def within(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the runs, clipped to [start, end)."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        last = int(np.searchsorted(self.starts, end, side="left"))
        for low, high in zip(self.starts[first:last].tolist(), self.ends[first:last].tolist(), strict=True):
            yield max(low, start), min(high, end)

    def without(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of [start, end) that no run covers."""
        at = start
        for low, high in self.within(start, end):
            if low > at:
                yield at, low
            at = high
        if at < end:
            yield at, end

    def outside(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the parts of the runs outside of some ascending ranges."""
        found = []
        at = 0
        for low, high in [*ranges, (np.iinfo(np.int64).max, np.iinfo(np.int64).max)]:
            found += list(self.within(at, low))
            at = high
        return found
