"""A ledger that is rebuilt over an earlier one: from which offset, and what is kept of the earlier one.

When the log has grown, its ledger is rebuilt from its first undecided offset. When an older range was filled or the end
was cut back, it is rebuilt from where the bytes changed. What was published stays as it was published: its rows are in
the table, whatever is found about their bytes later.

Belongs here: two ledgers of one log. `logcore.logs.model.offset_ledger` has the states and questions about one ledger.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from logcore.logs.model.findings import Finding, found
from logcore.logs.model.offset_ledger import EVIDENCE_FILLED, LedgerRange, OffsetState, joined, restart_offset

EVIDENCE_CHANGED = "changed-after-publishing"
"""A range whose rows are published, and whose bytes now give another result."""

Range = TypeVar("Range", bound=LedgerRange)
"""A ledger range, or a subclass with more fields."""

_LASTING = frozenset(
    {
        OffsetState.PRESENT,
        OffsetState.CONTROL,
        OffsetState.ABORTED,
        OffsetState.EMPTY,
        OffsetState.TRIMMED,
    }
)
"""States that no late fill changes."""


def rebuild_offset(
    ranges: Sequence[LedgerRange], changed: int | None, earliest_in_progress: Callable[[int], int]
) -> int:
    """The offset from which the ledger is rebuilt; what is below is kept.

    It is never inside a range that cannot be divided: one with gaps, or one without a batch.

    Args:
        ranges: The earlier ledger.
        changed: The lowest offset whose bytes differ from those of the earlier ledger; None if the log only grew. Then
            transactions in progress there may end differently, so the offset is lowered until there are none.
        earliest_in_progress: For an offset, the first offset of the transactions in progress there, or the offset
            itself. The end of a transaction with a lost outcome is unknown too.
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
    """The offset, or a lower one if it is inside a loss or counted gaps: a loss is known only from its beginning."""
    place = bisect_right(ranges, offset, key=lambda each: each.start_offset) - 1
    inside = ranges[place].end_offset > offset
    if inside and ranges[place].gaps:
        return ranges[place].start_offset
    while place >= 0 and not ranges[place].records and not ranges[place].gaps:
        offset = ranges[place].start_offset
        place -= 1
    return offset


def below(ranges: Iterable[Range], offset: int) -> list[Range]:
    """The ranges below an offset. A range across it is cut there."""
    kept = []
    for each in ranges:
        if each.end_offset <= offset:
            kept.append(each)
        elif each.start_offset < offset:
            kept.append(replace(each, end_offset=offset, records=offset - each.start_offset))
    return kept


def published_boundaries(ranges: Sequence[LedgerRange], start: int, frontier: int) -> list[int]:
    """Offsets at which a ledger rebuilt from `start` must be cut for `rebuilt_ledger`, ascending."""
    borders = {border for span in published_spans(ranges, start) for border in span}
    return sorted(border for border in borders | {frontier} if border > start)


def published_spans(ranges: Iterable[LedgerRange], start: int) -> list[tuple[int, int]]:
    """Published offsets at or above `start` in a lasting state, as the longest possible half-open ranges."""
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


def rebuilt_ledger(before: Sequence[Range], made: Sequence[Range], start: int, frontier: int) -> list[Range]:
    """The whole ledger: `before` below `start`, then `made`. Published ranges stay as they were published, joined.

    A range below the frontier with visible records that it did not have before is not published: it was filled late.
    What is published stays decided, even if an open transaction that was found late begins before it.

    Args:
        before: The earlier ledger, with `published` by the frontier.
        made: The ranges from `start` on, cut at `published_boundaries` of the same arguments.
        start: Where the ledger was rebuilt.
        frontier: The next offset to publish.

    Raises:
        ValueError: `made` is not cut at those borders, so it was made from another `before`.
    """
    result = below(before, start)
    spans = published_spans(before, start)
    at = 0
    for low, high in spans:
        while at < len(made) and made[at].end_offset <= low:
            result.append(_above_or_below_frontier(made[at], frontier))
            at += 1
        inside = []
        while at < len(made) and made[at].end_offset <= high:
            inside.append(made[at])
            at += 1
        if not inside or inside[0].start_offset != low or inside[-1].end_offset != high:
            raise ValueError(f"the rebuilt ledger is not cut where published offsets end, at {low} and {high}")
        result += _kept(_above(before, low, high), inside)
    result += [_above_or_below_frontier(each, frontier) for each in made[at:]]
    return joined(result)


def _above(ranges: Sequence[Range], low: int, high: int) -> list[Range]:
    """Ranges in [low, high), the first divided at `low`. A border there is never inside gaps."""
    found = [each for each in ranges if each.end_offset > low and each.start_offset < high]
    first = found[0]
    if first.start_offset < low:
        found[0] = replace(first, start_offset=low, records=first.end_offset - low)
    return found


def _above_or_below_frontier(each: Range, frontier: int) -> Range:
    if each.start_offset < frontier < each.end_offset:
        raise ValueError(f"the rebuilt ledger is not cut at the frontier {frontier}")
    if each.end_offset > frontier:
        return replace(each, published=False)
    if each.state is OffsetState.PRESENT and each.markers < each.offsets:
        return replace(each, published=False, evidence=EVIDENCE_FILLED)
    return replace(each, published=True)


def _kept(before: Sequence[Range], made: Sequence[Range]) -> list[Range]:
    """The earlier ranges. Those whose bytes now give another result are marked, as exactly as the counts allow."""
    if _said(before) == _said(made):
        return [replace(each, evidence=None) if each.evidence == EVIDENCE_CHANGED else each for each in before]
    kept: list[Range] = []
    for each in before:
        over = [m for m in made if m.end_offset > each.start_offset and m.start_offset < each.end_offset]
        # An `open` range means only that an earlier transaction was found late.
        changed = [m for m in over if m.state not in (each.state, OffsetState.OPEN)]
        if changed:
            kept += _marked_as_changed(each, over, changed)
        else:
            kept.append(replace(each, evidence=None) if each.evidence == EVIDENCE_CHANGED else each)
    return kept


def _marked_as_changed(each: Range, over: Sequence[LedgerRange], changed: Sequence[LedgerRange]) -> Iterator[Range]:
    """Divide a range into what stays before the first change, what changed, and what stays after the last one.

    The counts of the outer parts are those of the ranges over them. If these do not count what the range counted, the
    whole range is marked.
    """
    start = max(each.start_offset, changed[0].start_offset)
    end = min(each.end_offset, changed[-1].end_offset)
    outer = [[m for m in over if m.end_offset <= start], [m for m in over if m.start_offset >= end]]
    spans = (each.start_offset, start), (end, each.end_offset)
    parts = [_counted_by(each, low, high, those) for (low, high), those in zip(spans, outer, strict=True) if low < high]
    rest = replace(
        each,
        start_offset=start,
        end_offset=end,
        records=each.records - sum(part.records for part in parts if part),
        gaps=each.gaps - sum(part.gaps for part in parts if part),
        markers=each.markers - sum(part.markers for part in parts if part),
        evidence=EVIDENCE_CHANGED,
    )
    is_possible = 0 <= rest.markers <= rest.gaps and rest.records >= 0 and rest.records + rest.gaps <= rest.offsets
    if None in parts or not is_possible or bool(rest.records + rest.gaps) != bool(each.records + each.gaps):
        yield replace(each, evidence=EVIDENCE_CHANGED)
        return
    yield from (part for part in parts if part and part.end_offset <= start)
    yield rest
    yield from (part for part in parts if part and part.start_offset >= end)


def _counted_by(each: Range, start: int, end: int, those: Sequence[LedgerRange]) -> Range | None:
    """The part [start, end) of a range, with the counts of the ranges over it; None if they do not give them."""
    inside = []
    for made in those:
        low, high = max(made.start_offset, start), min(made.end_offset, end)
        if (low, high) != (made.start_offset, made.end_offset):
            if made.gaps:
                return None
            made = replace(made, start_offset=low, end_offset=high, records=(high - low) if made.records else 0)
        if made.state is not each.state:
            return None
        inside.append(made)
    if not inside or (inside[0].start_offset, inside[-1].end_offset) != (start, end):
        return None
    return replace(
        each,
        start_offset=start,
        end_offset=end,
        records=sum(m.records for m in inside),
        gaps=sum(m.gaps for m in inside),
        markers=sum(m.markers for m in inside),
        evidence=None if each.evidence == EVIDENCE_CHANGED else each.evidence,
    )


def _said(ranges: Iterable[LedgerRange]) -> list[tuple[int, OffsetState, int, int]]:
    """(end, state, records, gaps), with neighbours of one state joined."""
    said: list[tuple[int, OffsetState, int, int]] = []
    for each in ranges:
        records, gaps = each.records, each.gaps
        if said and said[-1][1] is each.state:
            _, _, more, holes = said.pop()
            records, gaps = records + more, gaps + holes
        said.append((each.end_offset, each.state, records, gaps))
    return said


def changed_findings(before: Sequence[LedgerRange], after: Sequence[LedgerRange]) -> tuple[Finding, ...]:
    """A finding for each published range whose bytes now give another result."""
    known = {(r.start_offset, r.end_offset) for r in before if r.evidence == EVIDENCE_CHANGED}
    return tuple(
        found(
            "changed-after-publishing",
            f"offsets [{each.start_offset}, {each.end_offset}) were {each.state} when they were published, and "
            f"their archived bytes no longer show that; their rows stay. Compare the archive with its source or a "
            f"backup",
            start_offset=each.start_offset,
            end_offset=each.end_offset,
        )
        for each in after
        if each.evidence == EVIDENCE_CHANGED and (each.start_offset, each.end_offset) not in known
    )
