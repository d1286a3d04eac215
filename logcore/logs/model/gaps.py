"""Offsets that no batch holds: taken by cleaning, or lost.

Producers write no gaps and brokers assign offsets without one, so a gap has one of two causes: the log cleaner took
what was there, or something was lost. The bytes do not tell which; the topic's cleanup policy and the cleaner's own
checkpoint do. Belongs here: that judgement. What it means for an offset is in `logcore.logs.model.offset_ledger`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class GapRules:
    """What explains offsets that no batch holds.

    cleaner_checkpoint: the log's line in `cleaner-offset-checkpoint`: everything below was cleaned; None without one.
    compacted_by_policy: the topic's cleanup policy alone says that gaps are legal.
    evidence: (start, end, why) of offsets that were gone before they could be taken: a gap that meets one of them is a
    loss. It wins over both. Remote ranges, and ranges below the log start, are given here too: `logs.remote_tier`.
    """

    cleaner_checkpoint: int | None = None
    compacted_by_policy: bool = False
    evidence: Sequence[tuple[int, int, str]] = ()
    _by_start: tuple[tuple[int, int, str], ...] = field(init=False, repr=False, compare=False)
    _reach: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The greatest end of the evidence up to each place: with it, one search answers for a gap."""

    def __post_init__(self) -> None:
        by_start = tuple(sorted(self.evidence))
        object.__setattr__(self, "_by_start", by_start)
        object.__setattr__(self, "_reach", tuple(accumulate((end for _, end, _ in by_start), max)))

    def loss(self, start: int, end: int) -> str | None:
        """Why the offsets [start, end) count as lost, or None where cleaning explains that they are gone."""
        given = self._known_loss(start, end)
        if given is not None:
            return given
        return None if self.cleaned(start, end) is not None else "no-explanation"

    def cleaned(self, start: int, end: int) -> str | None:
        """What says that cleaning took the offsets [start, end), or None."""
        if self._known_loss(start, end) is not None:
            return None
        if self.cleaner_checkpoint is not None and end <= self.cleaner_checkpoint:
            return "cleaner-checkpoint"
        return "cleanup-policy" if self.compacted_by_policy else None

    def parts(self, start: int, end: int, whys: Collection[str]) -> Iterator[tuple[int, int, str | None]]:
        """The offsets [start, end), cut where evidence of the kinds `whys` begins and ends, each part with its kind;
        None where there is none. Such evidence does not overlap."""
        for first, behind, why in self._by_start:
            if why in whys and first < end and behind > start:
                if start < first:
                    yield start, first, None
                    start = first
                yield start, min(behind, end), why
                start = min(behind, end)
        if start < end:
            yield start, end, None

    def _known_loss(self, start: int, end: int) -> str | None:
        at = bisect_right(self._reach, start)  # the first that ends behind `start`: it raised the reach
        if at == len(self._by_start):
            return None
        first, _, why = self._by_start[at]
        return why if first < end else None
