"""Offsets that are in no batch: removed by cleaning, or lost.

Producers write no gaps and brokers assign offsets without gaps. So a gap has one of two causes: the log cleaner removed
the records, or they were lost. The bytes of a gap do not show which. The topic's cleanup policy, the cleaner's own
checkpoint and a batch after the gap do: cleaning begins at the start of the log. Belongs here: this decision.
`logcore.logs.model.offset_ledger` has the states of offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from logcore.logs.model.sources import SourceLog
from logcore.segments.filenames import MAX_OFFSET

NO_EXPLANATION = "no-explanation"
"""Why offsets count as lost if nothing else says it."""
UNREADABLE = "unreadable"
"""Evidence of offsets in segments that exist and cannot be read."""

ALWAYS_COMPACTED = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics that a broker always compacts, for any configuration."""


def is_cleaned(record_count: int, base_offset: int, last_offset: int, delete_horizon_ms: int | None) -> bool:
    """Whether only the cleaner leaves such a batch: with fewer records than offsets, or with a delete horizon.

    Args:
        record_count: Its records.
        base_offset: Its first offset.
        last_offset: Its last offset.
        delete_horizon_ms: Its delete horizon in ms; None without one.
    """
    return record_count <= last_offset - base_offset or delete_horizon_ms is not None


@dataclass(frozen=True, slots=True)
class GapRules:
    """What explains offsets that are in no batch.

    Attributes:
        cleaner_checkpoint: The log's line in `cleaner-offset-checkpoint`: everything below it was cleaned; None if
            there is no line.
        compacted_by_policy: The topic's cleanup policy alone allows gaps.
        evidence: (start, end, why) of offsets that were gone before they could be read. A gap that overlaps one of them
            is a loss, whatever the other two say. Remote ranges, and ranges below the log start, are given here too:
            `logs.remote_tier`.
        cleaned_below: Finds the base offset of the last batch that only cleaning leaves; 0 without any. It may read the
            log, so it is called only for a gap that nothing else explains.
    """

    cleaner_checkpoint: int | None = None
    compacted_by_policy: bool = False
    evidence: Sequence[tuple[int, int, str]] = ()
    cleaned_below: Callable[[], int] = int
    _by_start: tuple[tuple[int, int, str], ...] = field(init=False, repr=False, compare=False)
    _reach: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The greatest end of the evidence up to each entry. With it, one search is enough for a gap."""

    def __post_init__(self) -> None:
        by_start = tuple(sorted(self.evidence))
        object.__setattr__(self, "_by_start", by_start)
        object.__setattr__(self, "_reach", tuple(accumulate((end for _, end, _ in by_start), max)))

    def loss(self, start: int, end: int) -> str | None:
        """Why the offsets [start, end) count as lost; None if cleaning explains that they are gone."""
        given = self._known_loss(start, end)
        if given is not None:
            return given
        return None if self.cleaned(start, end) is not None else NO_EXPLANATION

    def cleaned(self, start: int, end: int) -> str | None:
        """The evidence that cleaning removed the offsets [start, end), or None."""
        if self._known_loss(start, end) is not None:
            return None
        if self.cleaner_checkpoint is not None and end <= self.cleaner_checkpoint:
            return "cleaner-checkpoint"
        if self.compacted_by_policy:
            return "cleanup-policy"
        return "cleaned-batch" if end <= self.cleaned_below() else None

    def parts(self, start: int, end: int, whys: Collection[str]) -> Iterator[tuple[int, int, str | None]]:
        """Cut the offsets [start, end) where evidence of the kinds `whys` begins and ends.

        Yields:
            (start, end, kind) of each part; the kind is None without evidence. Such evidence does not overlap.
        """
        for first, after, why in self._by_start:
            if why in whys and first < end and after > start:
                if start < first:
                    yield start, first, None
                    start = first
                yield start, min(after, end), why
                start = min(after, end)
        if start < end:
            yield start, end, None

    def _known_loss(self, start: int, end: int) -> str | None:
        at = bisect_right(self._reach, start)  # the first that ends after `start`: it raised the reach
        if at == len(self._by_start):
            return None
        first, _, why = self._by_start[at]
        return why if first < end else None


def is_compacted(log: SourceLog, stated: bool | None = None) -> bool:
    """Whether the topic's cleanup policy makes gaps legal.

    Args:
        log: The log.
        stated: By the topic configuration; None if it is not stated, so that only a topic of `ALWAYS_COMPACTED` is.
    """
    return log.topic_partition.topic in ALWAYS_COMPACTED if stated is None else stated


def gap_rules(log: SourceLog, compacted: bool, cleaned_below: Callable[[], int] = int) -> GapRules:
    """Return what explains gaps in a log, and which gaps are only between named or readable segments.

    Args:
        log: The log.
        compacted: The cleanup policy makes gaps legal.
        cleaned_below: As in `GapRules`.
    """
    held = [segment.base_offset for segment in log.segments]
    evidence: list[tuple[int, int, str]] = []
    for bases, why in ((log.unreadable, UNREADABLE), (log.unnamed, "not-named")):
        others = sorted({*held, *log.unreadable, *log.unnamed})
        for base in bases:
            end = next((other for other in others if other > base), MAX_OFFSET)
            evidence.append((base, end, why))
    return GapRules(log.cleaner_checkpoint, compacted, (*evidence, *log.below_start), cleaned_below)
