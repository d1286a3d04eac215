"""Transactions of a log, derived only from its batches: which committed, which aborted, which are still open.

    a transaction    the transactional batches of one producer id since its last marker
    decided          by that producer's next COMMIT or ABORT marker, if the marker lies below the high watermark
    open             no marker yet, or one that is not replicated everywhere
    unknown          decided, but its marker was lost or cannot be distinguished from that of another transaction
    last stable      the smaller of the first offset of any open transaction and the high watermark
    offset (LSO)

The transaction index of a broker (`.txnindex`) lists only aborts and is a derived file. The markers in the log are
complete. See Kafka ProducerStateManager, ProducerAppendInfo, UnifiedLog.firstUnstableOffset; KIP-98.

A marker is trusted only if nothing is missing before it. Offsets between a producer's batches and its next marker may
be lost: corrupt bytes, or a gap that cleaning does not explain. The lost part may have contained another marker, and
the one after it may belong to a later transaction. Such a marker decides only the batches after the loss.

The batches before the loss stay `open` while the producer may still be in that same transaction, and limit the last
stable offset. They become `unknown` when something after the loss and below the high watermark shows that the
transaction has ended. That is a marker of the producer: whichever transaction it ended, the earlier one had ended by
then. Or it is data of a newer producer epoch, which begins a new transaction (KIP-890) or a new life of the producer.
Nothing can decide them any more, so they do not limit the last stable offset. The ledger's state `unknown` prevents
their publication.

Belongs here: what the batches mean. Does not: reading them (`logcore.logs.checks.validation`), what becomes of each
offset (`logcore.logs.model.offset_ledger`), what a broker remembers of producers
(`logcore.logs.model.producers.producer_state`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from logcore.errors import InvalidRecordError
from logcore.logs.model import readable_end
from logcore.logs.model.batch_facts import VERDICT_OK, BatchFact
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.gaps import GapRules
from logcore.records.control import ControlType


class TransactionState(StrEnum):
    """Outcome of a transaction, as far as the log shows it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction that wrote data.

    Attributes:
        producer_id: The producer.
        producer_epoch: The epoch of its last data.
        first_offset: Of its data. If the log start is inside the transaction, its first data at or above the log start,
            unless a snapshot has the real beginning (`Ongoing`).
        last_offset: Of its data, inclusive.
        marker_offset: Of the marker that decided it; None while undecided.
        state: Its outcome.
        marker_epoch: The epoch in its marker, also in one that is not yet below the high watermark; None without one.
            Since transaction version 2 it is greater than that of the data, and no other transaction has it.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    marker_offset: int | None
    state: TransactionState
    marker_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Ongoing:
    """A transaction that was in progress where the batches begin, from a producer snapshot or an earlier walk.

    `first_offset` and `last_offset` (inclusive) are those of its data until there, all below the first batch.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class TransactionView:
    """All transactions with data in the batches, by first offset, and the last stable offset.

    A transaction of unknown outcome does not limit the last stable offset, but it must not be read.
    """

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
    lost: tuple[int, int] | None = None
    """Lost offsets [start, end) after its data; its marker may be among them."""


class TransactionWalk:
    """Derives every transaction's outcome while the caller uses the batches: iterate over `over`, then call `view`.

    The batches must begin where no transaction is in progress (at the log's first batch, or at the last stable offset
    of an earlier view), or `ongoing` must list those in progress. If the log start has moved past a transaction's
    beginning, its marker still decides the remaining batches. Offsets below `log_start_offset` are ignored, whether
    they still exist or not. A broker that remembers an open transaction with data only there keeps the last stable
    offset at the log start. The same is true here for `ongoing`.

    A marker at or above `high_watermark` decides nothing yet. A marker without data is a transaction that wrote
    nothing to this partition and gives no row. Marker epochs are not compared: since KIP-890 a marker has a newer epoch
    than its data. Control types that are not COMMIT or ABORT decide nothing. Batches without a producer id, including
    all of formats v0 and v1, are in no transaction.

    Args:
        high_watermark: The log's high watermark.
        log_start_offset: The log start.
        rules: They distinguish losses from gaps that cleaning left. Cleaning never removes the marker of data that
            still exists. After a loss, markers decide only what follows.
        ongoing: Transactions in progress where the batches begin.
        start_offset: Where the first batch should begin, if a gap before it counts.
    """

    def __init__(
        self,
        *,
        high_watermark: int,
        log_start_offset: int = 0,
        rules: GapRules,
        ongoing: Iterable[Ongoing] = (),
        start_offset: int | None = None,
    ) -> None:
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        self._rules = rules
        self._expected = start_offset
        self._in_progress = {
            each.producer_id: _InProgress(each.producer_epoch, each.first_offset, each.last_offset) for each in ongoing
        }
        self._lost: dict[int, list[_InProgress]] = {}
        """Transactions in progress where offsets were lost, which may not have ended yet."""
        self._settled: list[Transaction] = []
        self._findings: list[Finding] = []

    @property
    def open_producers(self) -> Collection[int]:
        """Producer ids with a transaction in progress after the batches until now."""
        return self._in_progress.keys()

    @property
    def unsettled_producers(self) -> Collection[int]:
        """Producer ids whose next batch may end or change a transaction that began before it."""
        return self._in_progress.keys() | self._lost.keys()

    def over(self, batches: Iterable[BatchFact]) -> Iterator[BatchFact]:
        """Process the batches one at a time and yield each.

        Raises:
            InvalidRecordError: Offsets do not increase.
        """
        damaged = False
        for batch in batches:
            expected = self._expected
            if expected is not None:
                if batch.base_offset < expected and batch.last_offset is not None:
                    raise InvalidRecordError(
                        f"a batch begins at offset {batch.base_offset}, below the lowest possible {expected}",
                        position=batch.position,
                        offset=batch.base_offset,
                    )
                if batch.base_offset > expected and (
                    damaged or self._rules.loss(expected, batch.base_offset) is not None
                ):
                    self._lose_sight(expected, batch.base_offset)
            if batch.last_offset is None or batch.verdict != VERDICT_OK:
                # The next good batch shows how many offsets are lost with it, perhaps none.
                damaged = True
                self._expected = max(batch.base_offset, batch.base_offset if expected is None else expected)
            else:
                damaged = False
                self._expected = batch.last_offset + 1
                if batch.producer_id >= 0 and batch.last_offset >= self.log_start_offset:
                    self._take(batch, batch.last_offset)
            yield batch

    def _take(self, batch: BatchFact, last_offset: int) -> None:
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
                        f"offset {current.first_offset}; it is visible whatever the outcome of the transaction is",
                        start_offset=batch.base_offset,
                        end_offset=last_offset + 1,
                    )
                )
            return
        if batch.producer_id in self._lost and batch.base_offset < self.high_watermark:
            self._give_up(batch.producer_id, before_epoch=batch.producer_epoch)
        if current is None:
            first_offset = max(batch.base_offset, self.log_start_offset)
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
        decides = batch.base_offset < self.high_watermark
        if decides and batch.producer_id in self._lost:
            self._give_up(batch.producer_id)
        current = self._in_progress.pop(batch.producer_id, None)
        if current is None:
            return
        if decides:
            self._settle(batch.producer_id, current, outcome, batch.base_offset, batch.producer_epoch)
        else:
            # Data of this producer after the marker is another transaction, whatever happens to the marker.
            self._settle(batch.producer_id, current, TransactionState.OPEN, None, batch.producer_epoch)

    def _settle(
        self,
        producer_id: int,
        current: _InProgress,
        state: TransactionState,
        marker: int | None,
        marker_epoch: int | None = None,
    ) -> None:
        data = (current.producer_epoch, current.first_offset, current.last_offset)
        self._settled.append(Transaction(producer_id, *data, marker, state, marker_epoch))

    def _lose_sight(self, start: int, end: int) -> None:
        """Offsets [start, end) are lost: no marker after them decides what is in progress now."""
        for producer_id, current in self._in_progress.items():
            current.lost = (start, end)
            self._lost.setdefault(producer_id, []).append(current)
        self._in_progress.clear()

    def _give_up(self, producer_id: int, before_epoch: int | None = None) -> None:
        """The producer's transactions before a loss have ended: those of all epochs, or of epochs before one."""
        waiting = []
        for current in self._lost.pop(producer_id):
            if before_epoch is None or current.producer_epoch < before_epoch:
                self._settle_lost(producer_id, current, TransactionState.UNKNOWN)
            else:
                waiting.append(current)
        if waiting:
            self._lost[producer_id] = waiting

    def _settle_lost(self, producer_id: int, current: _InProgress, state: TransactionState) -> None:
        self._settle(producer_id, current, state, None)
        if current.lost is None:
            return
        start, end = current.lost
        meaning = (
            "later batches of the producer show that it has ended, but not how"
            if state is TransactionState.UNKNOWN
            else "it counts as open until its producer shows that it has ended, and no later marker decides it"
        )
        self._findings.append(
            found(
                "transaction-outcome-lost",
                f"the transaction of producer {producer_id} that began at offset {current.first_offset} was open "
                f"where offsets [{start}, {end}) are lost, perhaps with its marker; {meaning}",
                start_offset=current.first_offset,
                end_offset=end,  # it ends when these offsets are found
            )
        )

    def view(self) -> TransactionView:
        """The outcome, after all batches."""
        for producer_id, current in self._in_progress.items():
            self._settle(producer_id, current, TransactionState.OPEN, None)
        self._in_progress.clear()
        for producer_id, lost in self._lost.items():
            for current in lost:
                self._settle_lost(producer_id, current, TransactionState.OPEN)
        self._lost.clear()
        self._settled.sort(key=lambda transaction: transaction.first_offset)
        undecided = (t.first_offset for t in self._settled if t.state is TransactionState.OPEN)
        stable = readable_end.last_stable_offset(
            next(undecided, None), high_watermark=self.high_watermark, log_start_offset=self.log_start_offset
        )
        self._findings.sort(key=lambda finding: finding.start_offset or 0)
        return TransactionView(tuple(self._settled), stable, tuple(self._findings))
