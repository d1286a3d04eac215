"""A ledger made again over an earlier one: from where, and what of the earlier one stays.

A log's ledger is made again from its first undecided offset when the log has grown, from where its bytes changed when
an older range was filled or its end was cut back. What was published stays as it was published: its rows are in the
table whatever is said of their bytes later.

Belongs here: what two ledgers of one log have to do with each other. The states and what is asked of one ledger:
`logcore.logs.model.offset_ledger`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from logcore.logs.model.findings import Finding, found
from logcore.logs.model.offset_ledger import EVIDENCE_FILLED, LedgerRange, OffsetState, restart_offset

EVIDENCE_CHANGED = "changed-after-publishing"
"""Of a range whose rows are published and whose bytes are judged otherwise since."""

Range = TypeVar("Range", bound=LedgerRange)
"""A ledger's range, whatever else its owner knows of it."""

_LASTING = frozenset(
    {
        OffsetState.PRESENT,
        OffsetState.CONTROL,
        OffsetState.ABORTED,
        OffsetState.EMPTY,
        OffsetState.TRIMMED,
        OffsetState.REMOTE,
    }
)
"""States that nothing that is filled in later changes."""


def rebuild_offset(
    ranges: Sequence[LedgerRange], changed: int | None, earliest_in_progress: Callable[[int], int]
) -> int:
    """Where the ledger is made again from: what is below stays.

    changed: the lowest offset from which the log's bytes are not those that the ledger was made from; None where it
    only grew. Then transactions in progress there may end otherwise, so it is lowered until there are none.
    earliest_in_progress(offset): first offset of the transactions that are in progress at an offset, the offset itself
    where there are none; of one whose outcome is not known it is not known either when it ends.

    It is never inside a range that cannot be divided: one with gaps, or one that holds no batch.
    """
    if not ranges:
        return 0
    at = restart_offset(ranges)
    if changed is not None:
        at = min(at, changed)
    while True:
        lowered = at if changed is None else earliest_in_progress(at)
        if changed is not None:
            lowered = _divisible(ranges, lowered)
        if lowered == at:
            return at
        at = lowered


def _divisible(ranges: Sequence[LedgerRange], offset: int) -> int:
    """The offset, or a lower one where it lies among what is lost or counts gaps: what a loss is shows at its begin."""
    place = bisect_right(ranges, offset, key=lambda each: each.start_offset) - 1
    inside = ranges[place].end_offset > offset
    if inside and ranges[place].gaps:
        return ranges[place].start_offset
    while place >= 0 and not ranges[place].records and not ranges[place].gaps:
        offset = ranges[place].start_offset
        place -= 1
    return offset


def below(ranges: Iterable[Range], offset: int) -> list[Range]:
    """What lies below an offset, the range that it goes through divided there."""
    kept = []
    for each in ranges:
        if each.end_offset <= offset:
            kept.append(each)
        elif each.start_offset < offset:
            kept.append(replace(each, end_offset=offset, records=offset - each.start_offset))
    return kept


def kept_borders(ranges: Sequence[LedgerRange], start: int, frontier: int) -> list[int]:
    """Offsets at which a ledger that is made again from `start` on must be cut for `made_again`, ascending."""
    borders = {border for span in published_spans(ranges, start) for border in span}
    return sorted(border for border in borders | {frontier} if border > start)


def published_spans(ranges: Iterable[LedgerRange], start: int) -> list[tuple[int, int]]:
    """Offsets at or above `start` that are published and whose state lasts, as half-open ranges as long as can be."""
    spans: list[tuple[int, int]] = []
    for each in ranges:
        if not _stays(each) or each.end_offset <= start:
            continue
        first = max(each.start_offset, start)
        if spans and spans[-1][1] == first:
            spans[-1] = (spans[-1][0], each.end_offset)
        else:
            spans.append((first, each.end_offset))
    return spans


def _stays(each: LedgerRange) -> bool:
    return each.published and each.state in _LASTING


def made_again(before: Sequence[Range], made: Sequence[Range], start: int, frontier: int) -> list[Range]:
    """The whole ledger: `before` below `start`, then `made`, but what is published as it was published.

    before: with `published` as the frontier says. made: tiles from `start` on, cut at `kept_borders` of the same.

    A range below the frontier that holds visible records now and did not before is not published: it was filled late.
    What is published stays decided, also where a transaction that came in late and is open would hold it back.
    ValueError where `made` is not cut at those borders: it was made from another `before`.
    """
    result = below(before, start)
    spans = published_spans(before, start)
    at = 0
    for low, high in spans:
        while at < len(made) and made[at].end_offset <= low:
            result.append(_judged_again(made[at], frontier))
            at += 1
        inside = []
        while at < len(made) and made[at].end_offset <= high:
            inside.append(made[at])
            at += 1
        if not inside or inside[0].start_offset != low or inside[-1].end_offset != high:
            raise ValueError(f"the ledger made again is not cut where what is published ends, at {low} and {high}")
        result += _kept(_above(before, low, high), inside)
    result += [_judged_again(each, frontier) for each in made[at:]]
    return result


def _above(ranges: Sequence[Range], low: int, high: int) -> list[Range]:
    """Ranges in [low, high), the first divided at `low`: a border there never goes through gaps."""
    found = [each for each in ranges if each.end_offset > low and each.start_offset < high]
    first = found[0]
    if first.start_offset < low:
        found[0] = replace(first, start_offset=low, records=first.end_offset - low)
    return found


def _judged_again(each: Range, frontier: int) -> Range:
    if each.start_offset < frontier < each.end_offset:
        raise ValueError(f"the ledger made again is not cut at the frontier {frontier}")
    if each.end_offset > frontier:
        return replace(each, published=False)
    if each.state is OffsetState.PRESENT:
        return replace(each, published=False, evidence=EVIDENCE_FILLED)
    return replace(each, published=True)


def _kept(before: Sequence[Range], made: Sequence[Range]) -> list[Range]:
    """The earlier ranges; one that is judged otherwise now says so."""
    otherwise = [] if _said(before) == _said(made) else made
    kept = []
    for each in before:
        over = (m for m in otherwise if m.end_offset > each.start_offset and m.start_offset < each.end_offset)
        # Open again means only that a transaction came in late before it.
        if any(m.state not in (each.state, OffsetState.OPEN) for m in over):
            each = replace(each, evidence=EVIDENCE_CHANGED)
        elif each.evidence == EVIDENCE_CHANGED:
            each = replace(each, evidence=None)
        kept.append(each)
    return kept


def _said(ranges: Iterable[LedgerRange]) -> list[tuple[int, OffsetState, int, int]]:
    """(end, state, records, gaps) of neighbours of one state taken together."""
    said: list[tuple[int, OffsetState, int, int]] = []
    for each in ranges:
        records, gaps = each.records, each.gaps
        if said and said[-1][1] is each.state:
            _, _, more, holes = said.pop()
            records, gaps = records + more, gaps + holes
        said.append((each.end_offset, each.state, records, gaps))
    return said


def changed_findings(before: Sequence[LedgerRange], after: Sequence[LedgerRange]) -> tuple[Finding, ...]:
    """A finding for each published range whose bytes are judged otherwise than when they were published."""
    known = {(r.start_offset, r.end_offset) for r in before if r.evidence == EVIDENCE_CHANGED}
    return tuple(
        found(
            "changed-after-publishing",
            f"offsets {each.start_offset} to {each.end_offset - 1} were {each.state} when they were published, and "
            f"their archived bytes no longer say so; their rows stay. Compare the archive with its source or a backup",
            start_offset=each.start_offset,
            end_offset=each.end_offset,
        )
        for each in after
        if each.evidence == EVIDENCE_CHANGED and (each.start_offset, each.end_offset) not in known
    )
