"""The ranges of the offset ledger from a log's batches and transactions, in one walk.

Only one range is in memory at a time, so a log may have any number of batches. `logcore.logs.model.offset_ledger`
explains the states.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from types import MappingProxyType

from logcore.errors import InvalidRecordError
from logcore.logs.model import readable_end
from logcore.logs.model.batch_facts import VERDICT_OK, BatchFact
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.offset_ledger import (
    EVIDENCE_HIGH_WATERMARK,
    EVIDENCE_LOG_START,
    EVIDENCE_MARKER_LOST,
    EVIDENCE_STALE_START,
    EVIDENCE_TRANSACTION,
    OF_REMOTE,
    OF_REMOVED,
    LedgerRange,
    OffsetState,
)
from logcore.logs.model.transactions import Transaction, TransactionState, TransactionView

_BELOW_START = MappingProxyType(
    dict.fromkeys(OF_REMOTE, OffsetState.REMOTE)
    | dict.fromkeys(OF_REMOVED, OffsetState.MISSING)
    | {EVIDENCE_STALE_START: OffsetState.TRIMMED}
)

RecordsFrom = Callable[[BatchFact, int], int]
"""The number of records of a batch at or above an offset."""


def ledger_ranges(
    batches: Iterable[BatchFact],
    view: TransactionView,
    *,
    start_offset: int,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
    rules: GapRules,
    records_from: RecordsFrom,
    cuts: Sequence[int] = (),
) -> Iterator[LedgerRange]:
    """Yield ranges that cover [start_offset, log_end_offset) in order, without gap or overlap.

    Neighbours of one state and evidence are one range. COMMIT markers are `present`: a log of committed transactions is
    one range. Ranges are cut at the log start and at the publish end: the view's last stable offset, at most the high
    watermark. If the walk starts at the publish end of an earlier, shorter view,
    the ranges are the same as those built from 0, cut there.

    Args:
        batches: In offset order, those from which `view` was derived. Batches that end below start_offset are skipped.
        view: The transactions of these batches.
        start_offset: Where the ranges begin.
        log_start_offset: The log start.
        high_watermark: The log's high watermark.
        log_end_offset: Where the ranges end.
        rules: What explains a gap between batches, before the first and after the last.
        records_from: (batch, cut) to the number of the batch's records at or above `cut`. Called only if a cut is
            inside a batch with gaps.
        cuts: Offsets at which ranges are cut too.

    Raises:
        InvalidRecordError: Offsets do not increase. Raised while iterating, as the next one.
        ValueError: A batch lies beyond log_end_offset, or `view` lacks the transaction of a batch below the last stable
            offset.
    """
    builder = _Builder(
        start_offset=start_offset,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        log_end_offset=log_end_offset,
        publish_end=readable_end.last_stable_offset(view.last_stable_offset, high_watermark=high_watermark),
        rules=rules,
        outcomes=_Outcomes(view.transactions),
        records_from=records_from,
        cuts=cuts,
    )
    for batch in batches:
        builder.take(batch)
        if builder.done:
            yield from builder.done
            builder.done.clear()
    builder.finish()
    yield from builder.done


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
        # By its end: the log start may be inside it, and a transaction begins there at the earliest.
        at = bisect_right(firsts, batch.next_offset - 1) - 1
        if at < 0 or rows[at].last_offset < batch.next_offset - 1:
            raise ValueError(
                f"the view of transactions has none of producer {batch.producer_id} at offset {batch.base_offset}; "
                f"was it derived from other batches?"
            )
        return rows[at].state


class _Builder:
    """Walks over the batches and appends ranges to `done`. `_at` is the end of the ranges until now."""

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
        records_from: RecordsFrom,
        cuts: Sequence[int],
    ) -> None:
        self._log_start = log_start_offset
        self._high_watermark = high_watermark
        self._end = log_end_offset
        self._publish_end = publish_end
        self._rules = rules
        self._outcomes = outcomes
        self._records_from = records_from
        # No range crosses these: the open part of a transaction ends at the high watermark too.
        self._cut_at = frozenset((log_start_offset, publish_end, high_watermark, *cuts))
        self._cuts = sorted(self._cut_at)
        self._at = start_offset
        self._damage: str | None = None
        self._begun = False
        self._state: OffsetState | None = None
        """State of the current range; None before the first."""
        self._evidence: str | None = None
        self._start = start_offset
        self._records = self._gaps = self._markers = 0
        self.done: list[LedgerRange] = []

    def take(self, batch: BatchFact) -> None:
        if batch.verdict != VERDICT_OK or batch.last_offset is None:
            self._take_stretch(batch)
            return
        if batch.last_offset < self._at:
            if self._begun:
                raise InvalidRecordError(
                    f"a batch of offsets [{batch.base_offset}, {batch.last_offset + 1}) follows offset {self._at - 1}",
                    position=batch.position,
                    offset=batch.base_offset,
                )
            # Below start_offset. Damage seen before it lies there too.
            self._damage = None
            return
        if batch.next_offset > self._end:
            raise ValueError(f"a batch ends at offset {batch.last_offset}, the log at {self._end - 1}")
        if batch.base_offset < self._at and self._begun:
            raise InvalidRecordError(
                f"a batch begins at offset {batch.base_offset}, below the lowest possible {self._at}",
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

    def finish(self) -> None:
        """Add ranges up to the log end."""
        self._fill_to(self._end)
        self._flush(self._end)

    def _fill_to(self, end: int) -> None:
        """Add ranges for the offsets between `_at` and `end`, which are in no batch."""
        start = self._at
        if start >= end:
            return
        trimmed_to = min(end, self._log_start)
        if start < trimmed_to:
            for piece_start, piece_end, why in self._rules.parts(start, trimmed_to, _BELOW_START):
                why = why or EVIDENCE_LOG_START
                self._add(piece_start, piece_end, _BELOW_START.get(why, OffsetState.TRIMMED), why)
            start = trimmed_to
        for piece_start, piece_end, why in self._rules.parts(start, end, OF_REMOTE):
            if why is None or self._damage is not None:
                self._add_lost_or_cleaned(piece_start, piece_end)
            else:
                self._add(piece_start, piece_end, OffsetState.REMOTE, why)
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
                self._add(piece_start, piece_end, state, evidence)
            elif piece_start >= self._publish_end:
                why = self._why_open(piece_start)
                self._add(piece_start, piece_end, OffsetState.OPEN, why, gaps=piece_end - piece_start)
            else:
                self._add(piece_start, piece_end, state, self._rules.cleaned(start, end))

    def _add_batch_piece(self, batch: BatchFact, start: int, end: int) -> None:
        if end <= self._log_start:
            self._add(start, end, OffsetState.TRIMMED, EVIDENCE_LOG_START)
            return
        state, evidence = self._state_of(batch, start)
        if batch.markers:
            self._add_committed(batch, start, end, state, evidence)
            return
        records = self._count_from(batch, start) - self._count_from(batch, end)
        if batch.is_control and state is OffsetState.PRESENT:
            self._add(start, end, state, evidence, 0, end - start, records)
        else:
            self._add(start, end, state, evidence, records, end - start - records)

    def _add_committed(self, batch: BatchFact, start: int, end: int, state: OffsetState, evidence: str | None) -> None:
        """Add whole committed transactions. As single batches, markers count as records where they are not visible."""
        if (start, end) != (batch.base_offset, batch.next_offset):
            raise ValueError(f"a run of transactions is cut at offset {start} or {end}")
        records, markers = batch.record_count, batch.markers
        if state is not OffsetState.PRESENT:
            records, markers = records + markers, 0
        self._add(start, end, state, evidence, records, end - start - records, markers)

    def _state_of(self, batch: BatchFact, offset: int) -> tuple[OffsetState, str | None]:
        if offset >= self._publish_end:
            return OffsetState.OPEN, self._why_open(offset)
        if batch.record_count == 0 and not batch.markers:
            return OffsetState.EMPTY, None
        if batch.is_control:
            return OffsetState.PRESENT if batch.is_commit else OffsetState.CONTROL, None
        if not batch.is_transactional or batch.producer_id < 0:  # no marker ends a transaction without a producer
            return OffsetState.PRESENT, None
        outcome = self._outcomes.of(batch)
        if outcome is TransactionState.UNKNOWN:
            return OffsetState.UNKNOWN, EVIDENCE_MARKER_LOST
        if outcome is TransactionState.OPEN:
            raise ValueError(
                f"the view of transactions has one open at {batch.base_offset}, below its own last stable offset"
            )
        return OffsetState.PRESENT if outcome is TransactionState.COMMITTED else OffsetState.ABORTED, None

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

    def _pieces(self, start: int, end: int) -> Iterable[tuple[int, int]]:
        inside = self._cuts[bisect_right(self._cuts, start) : bisect_left(self._cuts, end)]
        return pairwise((start, *inside, end)) if inside else ((start, end),)

    def _add(
        self,
        start: int,
        end: int,
        state: OffsetState,
        evidence: str | None,
        records: int = 0,
        gaps: int = 0,
        markers: int = 0,
    ) -> None:
        if state is not self._state or evidence != self._evidence or start in self._cut_at:
            self._flush(start)
            self._begun = True
            self._state, self._evidence, self._start = state, evidence, start
            self._records = self._gaps = self._markers = 0
        self._records += records
        self._gaps += gaps
        self._markers += markers

    def _flush(self, end: int) -> None:
        if self._state is not None:
            self.done.append(
                LedgerRange(
                    self._start, end, self._state, self._records, self._gaps, self._markers, evidence=self._evidence
                )
            )
            self._state = None
