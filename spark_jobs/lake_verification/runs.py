"""Offsets in files as runs of neighbours: small if a log has few gaps, exact if it has many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from logcore.ranges import joined
from spark_jobs.lake.published.present_offsets import RunsOfOffsets

Offsets = npt.NDArray[np.int64]


@dataclass(slots=True)
class OffsetRuns:
    """Offsets of one log in one file, in the order of its rows."""

    rows: int = 0
    rises: bool = True
    """Whether each offset is above the one before it."""
    _starts: list[Offsets] = field(default_factory=list)
    _ends: list[Offsets] = field(default_factory=list)
    _last: int = -1

    def add(self, offsets: Offsets) -> None:
        """Add the offsets of the next rows."""
        if not len(offsets):
            return
        steps = np.diff(offsets)
        self.rises &= bool(int(offsets[0]) > self._last and (steps > 0).all())
        breaks = np.flatnonzero(steps != 1) + 1
        self._starts.append(offsets[np.concatenate(([0], breaks))])
        self._ends.append(offsets[np.concatenate((breaks - 1, [len(offsets) - 1]))] + 1)
        self.rows += len(offsets)
        self._last = int(offsets[-1])

    def spans(self) -> tuple[Offsets, Offsets]:
        """Return starts and ends of the runs, by start; an offset that occurs twice is in two of them."""
        if not self._starts:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        starts, ends = np.concatenate(self._starts), np.concatenate(self._ends)
        order = np.argsort(starts, kind="stable")
        self._starts, self._ends = [starts[order]], [ends[order]]
        return self._starts[0], self._ends[0]


LogRuns = dict[str, OffsetRuns]
"""The offsets of a file by log."""


@dataclass(frozen=True, slots=True)
class HeldOffsets(RunsOfOffsets):
    """The offsets of one log in all files."""

    doubled: tuple[tuple[int, int], ...]
    """Offsets that occur more than once."""

    @classmethod
    def of(cls, files: Iterable[OffsetRuns]) -> HeldOffsets:
        """Combine the offsets of several files."""
        return cls.of_spans([runs.spans() for runs in files])

    @classmethod
    def of_spans(cls, spans: Sequence[tuple[Offsets, Offsets]]) -> HeldOffsets:
        """As :meth:`of`, from starts and ends."""
        starts = np.concatenate([start for start, _ in spans]) if spans else np.zeros(0, dtype=np.int64)
        ends = np.concatenate([end for _, end in spans]) if spans else np.zeros(0, dtype=np.int64)
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        if not len(starts):
            return cls(starts, ends, ())
        reached = np.maximum.accumulate(ends)
        overlaps = np.flatnonzero(starts[1:] < reached[:-1]) + 1
        doubled = [(int(starts[at]), int(min(ends[at], reached[at - 1]))) for at in overlaps]
        begins = np.concatenate(([0], np.flatnonzero(starts[1:] > reached[:-1]) + 1))
        last = np.concatenate((begins[1:] - 1, [len(starts) - 1]))
        return cls(starts[begins], reached[last], joined(doubled))

    def outside(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the parts of the runs outside of some ascending ranges."""
        found = []
        at = 0
        for low, high in [*ranges, (np.iinfo(np.int64).max, np.iinfo(np.int64).max)]:
            found += list(self.within(at, low))
            at = high
        return found
