"""The offset ledger: what became of every offset of a log, as ranges that tile it without gap or overlap.

    state      offsets                                                        evidence
    trimmed    below the log start at first ingest                            log-start-offset, stale-log-start
    remote     in the remote tier, and not read                               remote-tier
    present    of batches with records a read_committed consumer sees
    control    of control batches: transaction markers, leader changes
    aborted    of batches of aborted transactions
    empty      of batches that cleaning left without records
    open       at or above the high watermark; at or above the                high-watermark, transaction
               last stable offset and below the high watermark
    compacted  between batches, gone by cleaning                              cleaner-checkpoint, cleanup-policy
    missing    between batches, gone, and nothing explains it                 no-explanation, or what ingest saw
    corrupt    from where bytes cannot be trusted to the next good batch      the corruption reason
    unknown    of transactions that are over, with a lost outcome             marker-lost

    `present` has evidence where it was not simply so from the start: `filled-late`, `changed-after-publishing`.

A range counts the records in it and, in `gaps`, its offsets that no record holds; both are 0 where no batch is read:
trimmed, remote, compacted, missing, corrupt. Gaps are inside batches (cleaning keeps a batch's bounds) and, in an
`open` range, between them too: what is not decided yet has no other state. `missing` and `corrupt` are stated wherever
they are seen. Where a batch says it all there is no evidence beside it (`LedgerRange.said_by` names it all the same).

Belongs here: the states and what can be asked of ranges. How they are made from batches is in
`logcore.logs.ledger.ledger_builder`; transactions are in `logcore.logs.model.transactions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from logcore.logs.model.findings import Finding, found


class OffsetState(StrEnum):
    """What the log said of an offset when it was validated."""

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
"""States the frontier stops at; in permissive salvage it passes all but OPEN."""

GAPS_COMPACTED = "compacted"
"""The only thing gaps inside a batch can be: producers write none, cleaning leaves them."""

EVIDENCE_HIGH_WATERMARK = "high-watermark"
EVIDENCE_TRANSACTION = "transaction"
EVIDENCE_LOG_START = "log-start-offset"
EVIDENCE_STALE_START = "stale-log-start"
"""Below the first segment, and above a log start offset that the checkpoint still states."""
EVIDENCE_REMOTE = "remote-tier"
EVIDENCE_MARKER_LOST = "marker-lost"
EVIDENCE_FILLED = "filled-late"
"""Of visible records that came in behind the frontier: published as a replacement, or due to be."""

_SAID_BY = {
    OffsetState.PRESENT: "batches",
    OffsetState.CONTROL: "control-batches",
    OffsetState.ABORTED: "abort-marker",
    OffsetState.EMPTY: "empty-batches",
}


@dataclass(frozen=True, slots=True)
class LedgerRange:
    """Offsets [start_offset, end_offset) in one state.

    records: records of that state in the range. gaps: offsets in it that hold none, with gap_state saying why.
    published: whether the frontier has passed the whole range as it is; what is `present` and below the frontier and
    not published was filled late, and is to be published as a replacement.
    """

    start_offset: int
    end_offset: int
    state: OffsetState
    records: int = 0
    gaps: int = 0
    gap_state: str | None = None
    evidence: str | None = None
    published: bool = False

    @property
    def offsets(self) -> int:
        """How many offsets the range covers."""
        return self.end_offset - self.start_offset

    @property
    def said_by(self) -> str | None:
        """The evidence, or else what in the log itself says the state."""
        return self.evidence or _SAID_BY.get(self.state)


Range = TypeVar("Range", bound=LedgerRange)
"""The same, whatever else its owner knows of it."""


def check_tiling(ranges: Sequence[LedgerRange], start_offset: int, end_offset: int) -> None:
    """ValueError, saying where, unless the ranges tile [start_offset, end_offset) in order and count what they hold."""
    at = start_offset
    for each in ranges:
        if each.start_offset != at:
            what = "gap" if each.start_offset > at else "overlap"
            raise ValueError(f"the ledger has a {what} at offset {min(at, each.start_offset)}")
        if each.end_offset <= each.start_offset:
            raise ValueError(f"the ledger has an empty range at offset {at}")
        if each.records < 0 or each.gaps < 0 or each.records + each.gaps > each.offsets:
            raise ValueError(f"the ledger's range at offset {at} counts more than its {each.offsets} offsets")
        at = each.end_offset
    if at != end_offset:
        raise ValueError(f"the ledger ends at offset {at} instead of {end_offset}")


@dataclass(frozen=True, slots=True)
class LedgerHole:
    """A place where a ledger does not cover each offset exactly once: offsets [start_offset, end_offset)."""

    start_offset: int
    end_offset: int
    what: str


def first_hole(ranges: Sequence[LedgerRange], log_end_offset: int | None = None) -> LedgerHole | None:
    """The first place where the ranges, in order, do not tile [0, log_end_offset); None where they do.

    Args:
        log_end_offset: None: wherever the last range ends.
    """
    at = 0
    for each in ranges:
        if each.start_offset > at:
            return LedgerHole(at, each.start_offset, f"no range covers the offsets {at}..{each.start_offset}")
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


def ledger_findings(ranges: Iterable[LedgerRange]) -> tuple[Finding, ...]:
    """A finding for every range of offsets that are `missing` or `corrupt`."""
    rules = {OffsetState.MISSING: "missing-offsets", OffsetState.CORRUPT: "corrupt-offsets"}
    return tuple(
        found(
            rules[each.state],
            f"{each.offsets} offsets from {each.start_offset} on are {each.state} ({each.evidence}); nothing from "
            f"there on is published, unless the policy says salvage: permissive",
            start_offset=each.start_offset,
            end_offset=each.end_offset,
        )
        for each in ranges
        if each.state in rules
    )


def restart_offset(ranges: Sequence[LedgerRange]) -> int:
    """Where the ledger is to be built from when the log has grown: the first `open` offset, else the end.

    ValueError without ranges.
    """
    if not ranges:
        raise ValueError("a ledger without ranges has no place to go on from")
    return next((r.start_offset for r in ranges if r.state is OffsetState.OPEN), ranges[-1].end_offset)


def publish_end(ranges: Sequence[LedgerRange], frontier: int, permissive: bool = False) -> int:
    """How far [frontier, …) may be published: up to the first offset at or above `frontier` in a state that blocks, or
    the end of the ledger (`frontier` where it ends below).

    permissive: only `open` blocks. Other states that alarm are passed where something follows that is to be published,
    so that the last range below a frontier is never one that may be filled later.
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


def mark_published(ranges: Sequence[Range], frontier: int) -> list[Range]:
    """The ranges with `published` set from behind the last published one up to the frontier; what the frontier cuts is
    split there.

    A range that is not published and lies in front of a published one, or says so itself (`EVIDENCE_FILLED`), was
    filled after the frontier had passed it: it stays so until it is published as a replacement.

    ValueError where the frontier goes through a range whose gaps make it unknown which side its records are on: a
    frontier only ever stands where a range begins or ends.
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
        elif each.gaps:
            raise ValueError(
                f"the frontier {frontier} goes through the range of offsets {each.start_offset} to "
                f"{each.end_offset - 1}, whose gaps are only counted"
            )
        else:
            counted = each.records > 0
            marked.append(
                replace(each, end_offset=frontier, records=(frontier - each.start_offset) * counted, published=True)
            )
            marked.append(
                replace(each, start_offset=frontier, records=(each.end_offset - frontier) * counted, published=False)
            )
    return marked
