"""The offset ledger: what became of every offset of a log, as ranges that tile it without gap or overlap.

    state      offsets                                                        evidence
    trimmed    below the log start at first ingest                            log-start-offset
    present    of batches with records a read_committed consumer sees
    control    of control batches: transaction markers, leader changes
    aborted    of batches of aborted transactions
    empty      of batches that cleaning left without records
    open       at or above the high watermark; at or above the                high-watermark, transaction
               last stable offset and below the high watermark
    compacted  between batches, gone by cleaning                              cleaner-checkpoint, cleanup-policy
    missing    between batches, gone, and nothing explains it                 no-explanation, or what ingest saw
    corrupt    from where bytes cannot be trusted to the next good batch      the corruption reason
    unknown    of transactions whose outcome is lost (not derived yet)

A range counts the records in it and, in `gaps`, its offsets that no record holds; both are 0 where no batch is read:
trimmed, compacted, missing, corrupt. Gaps are inside batches (cleaning keeps a batch's bounds) and, in an `open` range,
between them too: what is not decided yet is not judged yet. `missing` and `corrupt` are said wherever they are seen.

Belongs here: the states, their derivation, and checks on ranges. Does not: transactions (`logcore.logs.transactions`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from logcore.errors import InvalidRecordError
from logcore.logs.findings import Finding, found
from logcore.logs.transactions import (
    VERDICT_OK,
    BatchFact,
    GapRules,
    Transaction,
    TransactionState,
    TransactionView,
)


class OffsetState(StrEnum):
    """What the log said of an offset when it was validated."""

    PRESENT = "present"
    CONTROL = "control"
    ABORTED = "aborted"
    OPEN = "open"
    COMPACTED = "compacted"
    EMPTY = "empty"
    TRIMMED = "trimmed"
    UNKNOWN = "unknown"
    MISSING = "missing"
    CORRUPT = "corrupt"


BLOCKING = frozenset({OffsetState.OPEN, OffsetState.UNKNOWN, OffsetState.MISSING, OffsetState.CORRUPT})
"""States the frontier never passes."""

GAPS_COMPACTED = "compacted"
"""The only thing gaps inside a batch can be: producers write none, cleaning leaves them."""

EVIDENCE_HIGH_WATERMARK = "high-watermark"
EVIDENCE_TRANSACTION = "transaction"
EVIDENCE_LOG_START = "log-start-offset"


@dataclass(frozen=True, slots=True)
class LedgerRange:
    """Offsets [start_offset, end_offset) in one state.

    records: records of that state in the range. gaps: offsets in it that hold none, with gap_state saying why.
    published: whether the whole range lies below the frontier.
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


def build_ledger(
    batches: Iterable[BatchFact],
    view: TransactionView,
    *,
    start_offset: int,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
    cleaner_checkpoint: int | None,
    compacted_by_policy: bool = False,
    gap_evidence: Sequence[tuple[int, int, str]] = (),
    records_from: Callable[[BatchFact, int], int],
) -> tuple[LedgerRange, ...]:
    """Ranges that tile [start_offset, log_end_offset), in order; neighbours of one state and evidence are one range,
    cut at the log start and at the publish end, min(high_watermark, view.last_stable_offset).

    batches: in offset order, those `view` was derived from; ones that end below start_offset are passed over.
    A gap between batches, also in front of the first and behind the last, is `compacted` if it ends at or below
    `cleaner_checkpoint` or `compacted_by_policy` says so, and meets none of `gap_evidence` (start, end, why), else
    `missing`.
    records_from(batch, cut): how many records of the batch have an offset of at least `cut`. Asked only where a cut
    goes through a batch that has gaps.

    Built from the publish end of an earlier, shorter view the ranges are the same as built from 0, cut there.

    Raises InvalidRecordError where offsets do not rise; ValueError for batches beyond log_end_offset or a transactional
    batch below the last stable offset that `view` does not know.
    """
    builder = _Builder(
        start_offset=start_offset,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        log_end_offset=log_end_offset,
        publish_end=min(high_watermark, view.last_stable_offset),
        rules=GapRules(cleaner_checkpoint, compacted_by_policy, gap_evidence),
        outcomes=_Outcomes(view.transactions),
        records_from=records_from,
    )
    for batch in batches:
        builder.take(batch)
    return builder.finish()


class _Outcomes:
    """State of the transaction that a batch belongs to."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        self._by_producer: dict[int, tuple[list[int], list[Transaction]]] = {}
        for transaction in transactions:
            firsts, rows = self._by_producer.setdefault(transaction.producer_id, ([], []))
            firsts.append(transaction.first_offset)
            rows.append(transaction)

    def of(self, batch: BatchFact) -> TransactionState:
        firsts, rows = self._by_producer.get(batch.producer_id, ([], []))
        # By its end: the log start may lie inside of it, and a transaction begins there at the earliest.
        at = bisect_right(firsts, batch.next_offset - 1) - 1
        if at < 0 or rows[at].last_offset < batch.next_offset - 1:
            raise ValueError(
                f"the view of transactions knows none of producer {batch.producer_id} at offset {batch.base_offset}; "
                f"was it derived from other batches?"
            )
        return rows[at].state


_STATE_OF_OUTCOME = {
    TransactionState.COMMITTED: OffsetState.PRESENT,
    TransactionState.ABORTED: OffsetState.ABORTED,
    TransactionState.UNKNOWN: OffsetState.UNKNOWN,
}


class _Builder:
    """Walks over the batches and appends ranges; `_at` is where the tiling has come to."""

    def __init__(
        self,
        *,
        start_offset: int,
        log_start_offset: int,
        high_watermark: int,
        log_end_offset: int,
        publish_end: int,
        rules: GapRules,
        outcomes: _Outcomes,
        records_from: Callable[[BatchFact, int], int],
    ) -> None:
        self._log_start = log_start_offset
        self._high_watermark = high_watermark
        self._end = log_end_offset
        self._publish_end = publish_end
        self._rules = rules
        self._outcomes = outcomes
        self._records_from = records_from
        # Where one range never goes through: the transaction's open part ends at the high watermark too.
        self._cuts = sorted({log_start_offset, publish_end, high_watermark})
        self._ranges: list[LedgerRange] = []
        self._at = start_offset
        self._pending: LedgerRange | None = None
        self._damage: str | None = None

    def take(self, batch: BatchFact) -> None:
        if batch.verdict != VERDICT_OK or batch.last_offset is None:
            self._take_stretch(batch)
            return
        if batch.last_offset < self._at:
            if self._ranges or self._pending:
                raise InvalidRecordError(
                    f"a batch of offsets {batch.base_offset} to {batch.last_offset} lies behind offset {self._at - 1}",
                    position=batch.position,
                    offset=batch.base_offset,
                )
            # Below start_offset. Damage seen before it lies there too.
            self._damage = None
            return
        if batch.next_offset > self._end:
            raise ValueError(f"a batch ends at offset {batch.last_offset}, the log at {self._end - 1}")
        if batch.base_offset < self._at and (self._ranges or self._pending):
            raise InvalidRecordError(
                f"a batch begins at offset {batch.base_offset} where {self._at} is the lowest possible",
                position=batch.position,
                offset=batch.base_offset,
            )
        self._fill_to(batch.base_offset)
        self._damage = None
        for start, end in self._pieces(max(self._at, batch.base_offset), batch.next_offset):
            self._add_batch_piece(batch, start, end)
        self._at = batch.next_offset

    def _take_stretch(self, batch: BatchFact) -> None:
        if batch.base_offset > self._at:
            self._fill_to(min(batch.base_offset, self._end))
            self._damage = batch.verdict
        elif self._damage is None:
            self._damage = batch.verdict

    def finish(self) -> tuple[LedgerRange, ...]:
        self._fill_to(self._end)
        self._flush()
        return tuple(self._ranges)

    def _fill_to(self, end: int) -> None:
        """Offsets between `_at` and `end` that no batch holds."""
        start = self._at
        if start >= end:
            return
        trimmed_to = min(end, self._log_start)
        if start < trimmed_to:
            self._add(LedgerRange(start, trimmed_to, OffsetState.TRIMMED, evidence=EVIDENCE_LOG_START))
            start = trimmed_to
        if start < end:
            self._add_lost_or_cleaned(start, end)
        self._at = end

    def _add_lost_or_cleaned(self, start: int, end: int) -> None:
        state, evidence = OffsetState.COMPACTED, self._damage
        if evidence is not None:
            state = OffsetState.CORRUPT
        else:
            evidence = self._rules.loss(start, end)
            if evidence is not None:
                state = OffsetState.MISSING
        for piece_start, piece_end in self._pieces(start, end):
            if state is not OffsetState.COMPACTED:
                self._add(LedgerRange(piece_start, piece_end, state, evidence=evidence))
            elif piece_start >= self._publish_end:
                gaps = piece_end - piece_start
                self._add(
                    LedgerRange(
                        piece_start,
                        piece_end,
                        OffsetState.OPEN,
                        gaps=gaps,
                        gap_state=GAPS_COMPACTED,
                        evidence=self._why_open(piece_start),
                    )
                )
            else:
                self._add(LedgerRange(piece_start, piece_end, state, evidence=self._rules.cleaned(start, end)))

    def _add_batch_piece(self, batch: BatchFact, start: int, end: int) -> None:
        if end <= self._log_start:
            self._add(LedgerRange(start, end, OffsetState.TRIMMED, evidence=EVIDENCE_LOG_START))
            return
        state, evidence = self._state_of(batch, start)
        records = self._count_from(batch, start) - self._count_from(batch, end)
        gaps = end - start - records
        self._add(LedgerRange(start, end, state, records, gaps, GAPS_COMPACTED if gaps else None, evidence=evidence))

    def _state_of(self, batch: BatchFact, offset: int) -> tuple[OffsetState, str | None]:
        if offset >= self._publish_end:
            return OffsetState.OPEN, self._why_open(offset)
        if batch.record_count == 0:
            return OffsetState.EMPTY, None
        if batch.is_control:
            return OffsetState.CONTROL, None
        if not batch.is_transactional:
            return OffsetState.PRESENT, None
        outcome = self._outcomes.of(batch)
        if outcome is TransactionState.OPEN:
            raise ValueError(
                f"the view of transactions has one open at {batch.base_offset}, below its own last stable offset"
            )
        return _STATE_OF_OUTCOME[outcome], None

    def _count_from(self, batch: BatchFact, cut: int) -> int:
        if cut <= batch.base_offset:
            return batch.record_count
        if cut >= batch.next_offset or batch.record_count == 0:
            return 0
        if batch.record_count == batch.next_offset - batch.base_offset:
            return batch.next_offset - cut
        return self._records_from(batch, cut)

    def _why_open(self, offset: int) -> str:
        return EVIDENCE_HIGH_WATERMARK if offset >= self._high_watermark else EVIDENCE_TRANSACTION

    def _pieces(self, start: int, end: int) -> list[tuple[int, int]]:
        bounds = [start, *(cut for cut in self._cuts if start < cut < end), end]
        return list(pairwise(bounds))

    def _add(self, new: LedgerRange) -> None:
        old = self._pending
        if (
            old is not None
            and (old.state, old.evidence) == (new.state, new.evidence)
            and new.start_offset not in self._cuts
        ):
            self._pending = replace(
                old,
                end_offset=new.end_offset,
                records=old.records + new.records,
                gaps=old.gaps + new.gaps,
                gap_state=old.gap_state or new.gap_state,
            )
            return
        self._flush()
        self._pending = new

    def _flush(self) -> None:
        if self._pending is not None:
            self._ranges.append(self._pending)
            self._pending = None


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


def ledger_findings(ranges: Iterable[LedgerRange]) -> tuple[Finding, ...]:
    """A finding for every range of offsets that are `missing` or `corrupt`."""
    rules = {OffsetState.MISSING: "missing-offsets", OffsetState.CORRUPT: "corrupt-offsets"}
    return tuple(
        found(
            rules[each.state],
            f"{each.offsets} offsets from {each.start_offset} on are {each.state} ({each.evidence}); nothing from "
            f"there on is published",
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


def publish_end(ranges: Sequence[LedgerRange], frontier: int) -> int:
    """How far [frontier, …) may be published: the first offset at or above `frontier` in a state that blocks, else
    the end of the ledger (`frontier` where the ledger ends below it)."""
    for each in ranges:
        if each.end_offset > frontier and each.state in BLOCKING:
            return max(frontier, each.start_offset)
    return max(frontier, ranges[-1].end_offset) if ranges else frontier


def mark_published(ranges: Iterable[LedgerRange], frontier: int) -> tuple[LedgerRange, ...]:
    """The ranges with `published` set on what lies below the frontier; what the frontier cuts is split there.

    ValueError where the frontier goes through a range whose gaps make it unknown which side its records are on: a
    frontier only ever stands where a range begins or ends.
    """
    marked: list[LedgerRange] = []
    for each in ranges:
        if each.end_offset <= frontier:
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
    return tuple(marked)
