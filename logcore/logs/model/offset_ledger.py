"""The offset ledger: the state of every offset of a log, as ranges without gap or overlap.

    state      offsets                                                        evidence
    trimmed    below the log start at first ingest                            log-start-offset, stale-log-start
    remote     in the remote tier, or perhaps there, and not read             remote-tier, no-leader-epochs
    present    of batches with records that a read_committed consumer gets, and of COMMIT markers
    control    of other control batches: ABORT markers, leader changes
    aborted    of batches of aborted transactions
    empty      of batches whose records cleaning removed
    open       at or above the high watermark; at or above the                high-watermark, transaction
               last stable offset and below the high watermark
    compacted  between batches, removed by cleaning                           cleaner-checkpoint, cleanup-policy,
                                                                              cleaned-batch
    missing    between batches, gone without explanation                      no-explanation, or what ingest saw
               below the first segment and not below the log start            no-remote-sign, segments-removed
    corrupt    from where bytes cannot be trusted to the next good batch      the corruption reason
    unknown    of transactions that have ended, with a lost outcome           marker-lost

    `present` has evidence if it was not so from the start: `filled-late`, `changed-after-publishing`.

A range counts its records and, in `gaps`, its offsets without a record. Both are 0 where no batch is read: trimmed,
remote, compacted, missing, corrupt. Gaps are inside batches, because cleaning keeps a batch's bounds. In an `open`
range they are between batches too, because undecided offsets have no other state. In a `present` range the offsets of
COMMIT markers are gaps too: `markers` counts them. So a log of committed transactions is one range, however many they
are. `missing` and `corrupt` are always stated. Where a batch itself is the evidence, the range has none
(`LedgerRange.shown_by` names it).

Belongs here: the states and questions about ranges. `logcore.logs.ledger.ledger_builder` makes ranges from batches,
`logcore.logs.model.transactions` has the transactions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from logcore.logs.model.findings import Finding, found


class OffsetState(StrEnum):
    """The state of an offset when it was validated."""

    PRESENT = "present"
    CONTROL = "control"
    ABORTED = "aborted"
    OPEN = "open"
    COMPACTED = "compacted"
    EMPTY = "empty"
    TRIMMED = "trimmed"
    REMOTE = "remote"
    UNKNOWN = "unknown"
    MISSING = "missing"
    CORRUPT = "corrupt"


BLOCKING = frozenset({OffsetState.OPEN, OffsetState.UNKNOWN, OffsetState.MISSING, OffsetState.CORRUPT})
"""States at which the frontier stops. In permissive salvage it passes all but OPEN."""

GAPS_COMPACTED = "compacted"
"""The only cause of gaps inside a batch: producers write none, cleaning leaves them."""
GAPS_CONTROL = "control"
"""The gaps are COMMIT markers."""
GAPS_OF_BOTH = "compacted, control"

EVIDENCE_HIGH_WATERMARK = "high-watermark"
EVIDENCE_TRANSACTION = "transaction"
EVIDENCE_LOG_START = "log-start-offset"
EVIDENCE_STALE_START = "stale-log-start"
"""Below the first segment, and above the log start offset that the checkpoint still has."""
EVIDENCE_REMOTE = "remote-tier"
EVIDENCE_NO_EPOCHS = "no-leader-epochs"
"""Between the log start offset of the checkpoint and the first segment. The file that shows whether they are in the
remote tier is missing."""
OF_REMOTE = (EVIDENCE_REMOTE, EVIDENCE_NO_EPOCHS)
"""The evidence of offsets in state `remote`."""
EVIDENCE_NO_SIGN = "no-remote-sign"
"""Below the first segment and not below the log start, and nothing beside the log is of a remote tier."""
EVIDENCE_REMOVED = "segments-removed"
"""As before, and index files are left of segments that have no `.log` file."""
OF_REMOVED = (EVIDENCE_NO_SIGN, EVIDENCE_REMOVED)
"""The evidence of offsets below the first segment in state `missing`."""
EVIDENCE_MARKER_LOST = "marker-lost"
EVIDENCE_FILLED = "filled-late"
"""Visible records that were found below the frontier. They are published as a replacement, or will be."""

_SHOWN_BY = {
    OffsetState.PRESENT: "batches",
    OffsetState.CONTROL: "control-batches",
    OffsetState.ABORTED: "abort-marker",
    OffsetState.EMPTY: "empty-batches",
}


@dataclass(frozen=True, slots=True)
class LedgerRange:
    """Offsets [start_offset, end_offset) in one state.

    Attributes:
        start_offset: The first offset.
        end_offset: The offset after the last one.
        state: The state of them all.
        records: How many records of that state are in the range.
        gaps: How many offsets have no record.
        markers: How many of the gaps are COMMIT markers; only in a `present` range.
        evidence: Why the range has its state; None if its batches show it.
        published: Whether the frontier has passed the whole range as it is. A range that is `present`, below the
            frontier and not published was filled late. It must be published as a replacement.
    """

    start_offset: int
    end_offset: int
    state: OffsetState
    records: int = 0
    gaps: int = 0
    markers: int = 0
    evidence: str | None = None
    published: bool = False

    @property
    def offsets(self) -> int:
        """How many offsets the range covers."""
        return self.end_offset - self.start_offset

    @property
    def compacted(self) -> int:
        """How many of the gaps cleaning left."""
        return self.gaps - self.markers

    @property
    def gap_state(self) -> str | None:
        """Why there are gaps; None without any."""
        if not self.gaps:
            return None
        if not self.markers:
            return GAPS_COMPACTED
        return GAPS_OF_BOTH if self.compacted else GAPS_CONTROL

    @property
    def shown_by(self) -> str | None:
        """The evidence, or else the part of the log that shows the state."""
        return self.evidence or _SHOWN_BY.get(self.state)


Range = TypeVar("Range", bound=LedgerRange)
"""A ledger range, or a subclass with more fields."""


@dataclass(frozen=True, slots=True)
class LedgerHole:
    """A place where a ledger does not cover each offset exactly once: offsets [start_offset, end_offset)."""

    start_offset: int
    end_offset: int
    what: str


def first_hole(
    ranges: Sequence[LedgerRange], log_end_offset: int | None = None, start_offset: int = 0
) -> LedgerHole | None:
    """The first place where the ranges, in order, do not cover [start_offset, log_end_offset) exactly once.

    Args:
        ranges: By offset.
        log_end_offset: None for the end of the last range.
        start_offset: Where the first range begins.
    """
    at = start_offset
    for each in ranges:
        if each.start_offset > at:
            return LedgerHole(at, each.start_offset, f"no range covers the offsets [{at}, {each.start_offset})")
        if each.start_offset < at:
            end = max(each.end_offset, each.start_offset + 1)
            return LedgerHole(each.start_offset, min(at, end), f"two ranges cover offset {each.start_offset}")
        if each.end_offset <= each.start_offset:
            return LedgerHole(at, at, f"a range at offset {at} covers no offset")
        at = each.end_offset
    if log_end_offset is not None and at != log_end_offset:
        what = f"the ledger ends at offset {at}, the log at {log_end_offset}"
        return LedgerHole(min(at, log_end_offset), max(at, log_end_offset), what)
    return None


def check_tiling(ranges: Sequence[LedgerRange], start_offset: int, end_offset: int) -> None:
    """Check that the ranges cover [start_offset, end_offset) in order, without gap or overlap, with possible counts.

    Raises:
        ValueError: They do not; the message has the offset.
    """
    hole = first_hole(ranges, end_offset, start_offset)
    if hole is not None:
        raise ValueError(hole.what)
    for each in ranges:
        at = each.start_offset
        if each.records < 0 or each.gaps < 0 or each.records + each.gaps > each.offsets:
            raise ValueError(f"the ledger's range at offset {at} counts more than its {each.offsets} offsets")
        if not 0 <= each.markers <= each.gaps:
            raise ValueError(f"the ledger's range at offset {at} counts {each.markers} markers in {each.gaps} gaps")


def ledger_findings(ranges: Iterable[LedgerRange]) -> tuple[Finding, ...]:
    """A finding for every range of offsets that are `missing` or `corrupt`."""
    rules = {OffsetState.MISSING: "missing-offsets", OffsetState.CORRUPT: "corrupt-offsets"}
    return tuple(
        found(
            rules[each.state],
            f"{each.offsets} offsets from {each.start_offset} on are {each.state} ({each.evidence}); nothing from "
            f"there on is published, unless the policy has salvage: permissive",
            start_offset=each.start_offset,
            end_offset=each.end_offset,
        )
        for each in ranges
        if each.state in rules
    )


def restart_offset(ranges: Sequence[LedgerRange]) -> int:
    """The offset from which the ledger must be rebuilt after growth: the first `open` offset, else the end.

    Raises:
        ValueError: There are no ranges.
    """
    if not ranges:
        raise ValueError("a ledger without ranges has no offset to continue from")
    return next((r.start_offset for r in ranges if r.state is OffsetState.OPEN), ranges[-1].end_offset)


def publish_end(ranges: Sequence[LedgerRange], frontier: int, permissive: bool = False) -> int:
    """How far [frontier, …) may be published: up to the first blocking offset at or above `frontier`, or the end.

    Args:
        ranges: The ledger, by offset.
        frontier: The next offset to publish. It is returned if the ledger ends below it.
        permissive: Only `open` blocks. Other blocking states are passed if a range to publish follows. So the last
            range below a frontier is never one that may be filled later.
    """
    end = frontier
    for each in ranges:
        if each.end_offset <= frontier:
            continue
        if each.state in BLOCKING:
            if each.state is OffsetState.OPEN or not permissive:
                break
        else:
            end = each.end_offset
    return end


@dataclass(frozen=True, slots=True)
class RangeCounts:
    """Counts of a part of a range."""

    records: int
    markers: int


CountBelow = Callable[[Range, int], RangeCounts]
"""Counts the records and the COMMIT markers of a range below an offset."""


def split(each: Range, at: int, count_below: CountBelow[Range]) -> tuple[Range, Range]:
    """Divide a range at an offset inside it.

    Args:
        each: The range.
        at: The first offset of the second part.
        count_below: Called if gaps make the number of records on each side unknown.
    """
    width = at - each.start_offset
    if not each.gaps:
        counts = RangeCounts(width if each.records else 0, 0)
    elif not each.records and each.markers in (0, each.gaps):
        counts = RangeCounts(0, width if each.markers else 0)
    else:
        counts = count_below(each, at)
    # Ranges of offsets without a batch count neither records nor gaps.
    gaps = width - counts.records if each.records or each.gaps else 0
    left = replace(each, end_offset=at, records=counts.records, gaps=gaps, markers=counts.markers)
    right = replace(
        each,
        start_offset=at,
        records=each.records - counts.records,
        gaps=each.gaps - gaps,
        markers=each.markers - counts.markers,
    )
    return left, right


def mark_published(ranges: Sequence[Range], frontier: int, count_below: CountBelow[Range] | None = None) -> list[Range]:
    """Set `published` on the ranges from the last published one up to the frontier; a range across it is split.

    Some ranges were filled after the frontier had passed them: those that are not published and lie before a published
    one, and those with `EVIDENCE_FILLED`. They stay unpublished until they are published as a replacement.

    Args:
        ranges: The ledger, by offset.
        frontier: The next offset to publish.
        count_below: Called if the frontier is inside a range whose gaps are only counted. That happens only if another
            engine restored an earlier version of a table.

    Raises:
        ValueError: The frontier is inside such a range, and `count_below` is missing.
    """
    passed = max((r.end_offset for r in ranges if r.published and r.end_offset <= frontier), default=0)
    marked: list[Range] = []
    for each in ranges:
        if each.end_offset <= passed or (each.end_offset <= frontier and each.evidence == EVIDENCE_FILLED):
            marked.append(each)
        elif each.end_offset <= frontier:
            marked.append(replace(each, published=True))
        elif each.start_offset >= frontier:
            marked.append(replace(each, published=False))
        elif each.gaps and count_below is None:
            raise ValueError(
                f"the frontier {frontier} goes through the range of offsets {each.start_offset} to "
                f"{each.end_offset - 1}, whose gaps are only counted"
            )
        else:
            left, right = split(each, frontier, count_below or _never_called)
            marked += [replace(left, published=True), replace(right, published=False)]
    return marked


def _never_called(each: LedgerRange, at: int) -> RangeCounts:
    raise AssertionError(f"the range at {each.start_offset} has no gaps, and {at} divides it")


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Join published neighbours that differ in nothing but offsets and counts.

    Ranges that are not published stay as they are. A publication that was planned earlier may still end at one of
    their borders.
    """
    result: list[Range] = []
    for each in ranges:
        if result and each.published and _are_alike(result[-1], each):
            before = result[-1]
            result[-1] = replace(
                before,
                end_offset=each.end_offset,
                records=before.records + each.records,
                gaps=before.gaps + each.gaps,
                markers=before.markers + each.markers,
            )
        else:
            result.append(each)
    return result


def _are_alike(before: Range, after: Range) -> bool:
    return before.end_offset == after.start_offset and before == replace(
        after,
        start_offset=before.start_offset,
        end_offset=before.end_offset,
        records=before.records,
        gaps=before.gaps,
        markers=before.markers,
    )


def offsets_by_state(ranges: Iterable[LedgerRange]) -> Counter[str]:
    """How many offsets are in each state. Gaps count as what they are: `compacted`, or `control` for markers."""
    counted: Counter[str] = Counter()
    for each in ranges:
        counted[each.state] += each.offsets - each.gaps
        if each.gaps:
            counted[OffsetState.COMPACTED] += each.compacted
            counted[OffsetState.CONTROL] += each.markers
    return +counted
