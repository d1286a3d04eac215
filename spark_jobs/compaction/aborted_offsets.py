"""Offsets that no reader may see: those of aborted transactions, and those with an unknown outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True)
class Aborted:
    """Ascending offset ranges [start, end) of aborted transactions, or with an unknown outcome."""

    starts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    ends: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> Aborted:
        """Build from pairs in any order."""
        pairs = np.array(sorted(ranges), np.int64).reshape(-1, 2)
        return cls(pairs[:, 0].copy(), pairs[:, 1].copy())

    def between(self, start: int, end: int) -> Aborted:
        """The ranges that have an offset in [start, end)."""
        some = (self.starts < end) & (self.ends > start)
        return Aborted(self.starts[some], self.ends[some])

    def holds(self, offsets: np.ndarray) -> np.ndarray:
        """Whether each offset is in one of the ranges."""
        if not len(self.starts):
            return np.zeros(len(offsets), bool)
        at = np.searchsorted(self.starts, offsets, side="right") - 1
        return (at >= 0) & (offsets < self.ends[at])
