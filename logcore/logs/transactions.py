"""Transactions of a log, derived from its batches alone: which committed, which aborted, which are still open.

    a transaction    the transactional batches of one producer id since its last marker
    decided          by that producer's next COMMIT or ABORT marker, if the marker lies below the high watermark
    open             everything else: no marker yet, or one that is not replicated everywhere
    last stable      the smaller of the first offset of any undecided transaction and the high watermark
    offset (LSO)

The transaction index of a broker (`.txnindex`) says only what was aborted and is a derived file; the markers in the log
say it all. See Kafka ProducerStateManager, ProducerAppendInfo, UnifiedLog.firstUnstableOffset; KIP-98.

Markers are taken at their word only where nothing is missing before them. If offsets between a producer's batches and
its next marker were lost (corrupt bytes, a gap that cleaning does not explain), the lost part may have held another
marker, and the one behind it may belong to a later transaction. Such a marker decides only the batches after the loss;
the ones before stay `open` for good, so that the last stable offset stops in front of them. Telling such a lost outcome
(`unknown`) from a pending one is not built yet: `TransactionState.UNKNOWN` is never derived here.

Belongs here: what the batches mean. Does not: reading them (`logcore.logs.validation`), what becomes of each offset
(`logcore.logs.offset_ledger`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from logcore.errors import InvalidRecordError
from logcore.logs.findings import Finding, found
from logcore.records.control import ControlType

VERDICT_OK = "ok"
"""Verdict of a batch that can be trusted; any other verdict is a corruption reason."""


class TransactionState(StrEnum):
    """Outcome of a transaction, as far as the log tells."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BatchFact:
    """What the log pass needs to know of one batch, or of a stretch of bytes that cannot be trusted.

    last_offset: inclusive, None for a stretch. For a stretch `verdict` is the reason and `base_offset` the offset
    that was expected there; its other fields say nothing.
    control_type: None for data and for a control batch that cleaning left without a record.
    """

    base_offset: int
    last_offset: int | None
    record_count: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_control: bool
    control_type: str | None
    verdict: str
    segment_id: str
    position: int
    size: int
    leader_epoch: int

    @property
    def next_offset(self) -> int:
        """Offset behind the batch; for a stretch the offset expected where it begins."""
        return self.base_offset if self.last_offset is None else self.last_offset + 1


@dataclass(frozen=True, slots=True)
class GapRules:
    """What explains offsets that no batch holds.

    cleaner_checkpoint: the log's line in `cleaner-offset-checkpoint`: everything below was cleaned; None without one.
    compacted_by_policy: the topic's cleanup policy alone says that gaps are legal.
    evidence: (start, end, why) of offsets that were gone before they could be taken: a gap that meets one of them is a
    loss. Wins over both.
    """

    cleaner_checkpoint: int | None = None
    compacted_by_policy: bool = False
    evidence: Sequence[tuple[int, int, str]] = ()

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

    def _known_loss(self, start: int, end: int) -> str | None:
        return next((why for first, behind, why in self.evidence if first < end and start < behind), None)


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction that wrote data. first_offset, last_offset: of its data at or above the log start,
    inclusive.

    marker_offset: of the marker that decided it, None while undecided.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    marker_offset: int | None
    state: TransactionState


@dataclass(frozen=True, slots=True)
class TransactionView:
    """All transactions with data in the batches looked at, by first offset, and the last stable offset."""

    transactions: tuple[Transaction, ...]
    last_stable_offset: int
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class _InProgress:
    producer_epoch: int
    first_offset: int
    last_offset: int
    intruder: int | None = None
    """First non-transactional batch of the producer while the transaction was in progress."""


def derive_transactions(
    batches: Iterable[BatchFact],
    *,
    high_watermark: int,
    log_start_offset: int = 0,
    cleaner_checkpoint: int | None = None,
    compacted_by_policy: bool = False,
    gap_evidence: Sequence[tuple[int, int, str]] = (),
) -> TransactionView:
    """Walk over the batches in offset order and tell every transaction's outcome.

    The batches must begin where no transaction is in progress: at the log's first batch, or at the last stable offset
    of an earlier view. Where the log start moved past a transaction's beginning, its remaining batches are decided by
    its marker all the same; what lies below `log_start_offset` plays no part, whether it is still there or not (a
    broker that remembers an open transaction with data only there holds the last stable offset at the log start).

    A marker at or above `high_watermark` decides nothing yet. A marker without data is a transaction that wrote
    nothing to this partition and gives no row. Marker epochs are not compared: since KIP-890 a marker carries a newer
    epoch than its data. Control types that are not COMMIT or ABORT decide nothing.

    `cleaner_checkpoint`, `compacted_by_policy`, `gap_evidence`: as for `offset_ledger.build_ledger`. They tell gaps
    left by cleaning, which never takes the marker of data that is still there, from losses, behind which markers
    decide only what follows. Without them every gap counts as a loss.

    Raises InvalidRecordError where offsets do not rise.
    """
    rules = GapRules(cleaner_checkpoint, compacted_by_policy, gap_evidence)
    walk = _Walk(high_watermark, log_start_offset)
    expected: int | None = None
    damaged = False
    for batch in batches:
        if expected is not None:
            if batch.base_offset < expected and batch.last_offset is not None:
                raise InvalidRecordError(
                    f"a batch begins at offset {batch.base_offset} where {expected} is the lowest possible",
                    position=batch.position,
                    offset=batch.base_offset,
                )
            if batch.base_offset > expected and (damaged or rules.loss(expected, batch.base_offset) is not None):
                walk.lose_sight(expected, batch.base_offset)
        if batch.last_offset is None or batch.verdict != VERDICT_OK:
            # What is lost with it shows where the next good batch begins: it may be nothing.
            damaged = True
            expected = max(batch.base_offset, batch.base_offset if expected is None else expected)
            continue
        damaged = False
        expected = batch.next_offset
        walk.take(batch, batch.last_offset)
    return walk.view()


class _Walk:
    """State of one derivation: what is in progress per producer id, and what is settled."""

    def __init__(self, high_watermark: int, log_start_offset: int) -> None:
        self._high_watermark = high_watermark
        self._log_start = log_start_offset
        self._in_progress: dict[int, _InProgress] = {}
        self._settled: list[Transaction] = []
        self._findings: list[Finding] = []

    def take(self, batch: BatchFact, last_offset: int) -> None:
        """Account for the next batch."""
        if batch.producer_id < 0 or last_offset < self._log_start:
            return
        if batch.is_control:
            self._mark(batch)
            return
        current = self._in_progress.get(batch.producer_id)
        if not batch.is_transactional:
            if current is not None and current.intruder is None:
                current.intruder = batch.base_offset
                self._findings.append(
                    found(
                        "batch-outside-transaction",
                        f"producer {batch.producer_id} wrote a batch outside of its transaction that is open since "
                        f"offset {current.first_offset}; it is visible whatever becomes of the transaction",
                        start_offset=batch.base_offset,
                        end_offset=last_offset + 1,
                    )
                )
            return
        if current is None:
            first_offset = max(batch.base_offset, self._log_start)
            self._in_progress[batch.producer_id] = _InProgress(batch.producer_epoch, first_offset, last_offset)
        else:
            current.last_offset = last_offset
            current.producer_epoch = batch.producer_epoch

    def _mark(self, batch: BatchFact) -> None:
        if batch.control_type == ControlType.COMMIT:
            outcome = TransactionState.COMMITTED
        elif batch.control_type == ControlType.ABORT:
            outcome = TransactionState.ABORTED
        else:
            return
        current = self._in_progress.pop(batch.producer_id, None)
        if current is None:
            return
        if batch.base_offset < self._high_watermark:
            self._settle(batch.producer_id, current, outcome, batch.base_offset)
        else:
            # Data of this producer behind the marker is another transaction, whatever becomes of the marker.
            self._settle(batch.producer_id, current, TransactionState.OPEN, None)

    def _settle(self, producer_id: int, current: _InProgress, state: TransactionState, marker: int | None) -> None:
        self._settled.append(
            Transaction(producer_id, current.producer_epoch, current.first_offset, current.last_offset, marker, state)
        )

    def lose_sight(self, start: int, end: int) -> None:
        """Offsets [start, end) are lost: no marker behind them decides what is in progress now."""
        for producer_id, current in self._in_progress.items():
            self._settle(producer_id, current, TransactionState.OPEN, None)
            self._findings.append(
                found(
                    "transaction-outcome-lost",
                    f"the transaction of producer {producer_id} that began at offset {current.first_offset} was open "
                    f"where offsets {start} to {end - 1} are lost; its marker may be among them, so no later one "
                    f"decides it",
                    start_offset=current.first_offset,
                    end_offset=current.last_offset + 1,
                )
            )
        self._in_progress.clear()

    def view(self) -> TransactionView:
        """The outcome, once every batch was taken."""
        for producer_id, current in self._in_progress.items():
            self._settle(producer_id, current, TransactionState.OPEN, None)
        self._in_progress.clear()
        ordered = tuple(sorted(self._settled, key=lambda transaction: transaction.first_offset))
        undecided = (t.first_offset for t in ordered if t.marker_offset is None)
        return TransactionView(
            ordered, min(self._high_watermark, next(undecided, self._high_watermark)), tuple(self._findings)
        )
