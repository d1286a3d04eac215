"""Transactions across partitions: what their coordinator wrote, paired with what each partition has of them.

    complete    every partition has the outcome that its coordinator wrote
    ongoing     no marker is due yet, or it may still be on its way
    hanging     data without a marker, and its coordinator will not write one
    torn        committed in one partition and aborted or open in another. Or complete for the coordinator, or prepared
                for longer than the time-out, and without a marker in a partition
    unknown     nothing says which transaction was meant, or the outcome in a partition is lost

A partition's transaction and the coordinator's are paired where that is certain:

    by marker   The epoch of the marker is greater than that of the data. Only one transaction has it: one of version 2,
                or the last of a fenced epoch.
    by order    The coordinator's log has all transactions of an epoch, and those with the partition are as many as the
                partition has. A partition can have fewer: one that was added got no data, or old data is deleted.
    the last    The newest data of the producer in a partition has no marker, and its coordinator's last transaction has
                not ended and has the partition.

Before transaction version 2 the protocol itself has holes (KIP-890), and these look like a loss. Data that arrives
after its transaction's marker begins another one in the partition, which no coordinator ends: `hanging`. Or the
producer's next transaction contains it: it looks like part of that.

Times are compared with the newest time at the source, never with today. Data that is newer than the last record of its
transactional id may be of a transaction that this copy of the coordinator's log does not have yet.

Belongs here: pairs and their states. Does not: the outcome within one partition (`logcore.logs.model.transactions`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from logcore.logs.model.transactions import Transaction, TransactionState
from logcore.topics.coordinated_transactions import (
    EPOCH_A_TRANSACTION,
    CoordinatedTransaction,
    CoordinatedTransactions,
    Partition,
)

ABORT_DELAY_MS = 10_000
"""A coordinator looks for transactions over their time-out this often
(`transaction.abort.timed.out.transaction.cleanup.interval.ms`)."""
MAX_TIMEOUT_MS = 900_000
"""The time-out of a producer that no transactional id names (`transaction.max.timeout.ms`)."""


class PairedState(StrEnum):
    """State of a transaction across its partitions."""

    COMPLETE = "complete"
    ONGOING = "ongoing"
    HANGING = "hanging"
    TORN = "torn"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PartitionTransactions:
    """The transactions of a log.

    Attributes:
        partition: Its topic and partition.
        high_watermark: Its high watermark.
        transactions: By first offset.
        begun_ms: By producer id and first offset, when an undecided one began, as far as known.
    """

    partition: Partition
    high_watermark: int
    transactions: Sequence[Transaction]
    begun_ms: Mapping[tuple[int, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TransactionPart:
    """What a partition has of a transaction.

    Attributes:
        partition: Topic and partition.
        transaction: Its data and marker there.
        is_unmarked: Data below the high watermark without a marker, also above it.
        begun_ms: When it began, if that is known of an undecided one.
    """

    partition: Partition
    transaction: Transaction
    is_unmarked: bool
    begun_ms: int | None


@dataclass(frozen=True, slots=True)
class PairedTransaction:
    """A transaction across partitions.

    Attributes:
        transactional_id: None if no log of a coordinator names the producer.
        producer_id: Its producer.
        producer_epoch: The epoch of its data; that of its marker, if nothing is left of the data.
        coordinated: The transaction of the coordinator; None if its log does not have it, or does not say which it is.
        parts: What the partitions have, by partition.
        state: Its state.
        reason: Why it is in this state, as half a sentence.
    """

    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    coordinated: CoordinatedTransaction | None
    parts: tuple[TransactionPart, ...]
    state: PairedState
    reason: str


def paired_transactions(
    logs: Iterable[PartitionTransactions],
    coordinated: CoordinatedTransactions,
    *,
    newest_ms: int,
    has_every_coordinator: bool,
) -> Iterator[PairedTransaction]:
    """Pair the transactions of partitions with those of coordinators, one producer after the other, each in its order.

    What is written down for a producer is gone before the next one: all at once would be several times as much as the
    transactions.

    Args:
        logs: The transactions of partitions; one copy of each.
        coordinated: Those of coordinators.
        newest_ms: The newest time at the source.
        has_every_coordinator: All partitions of `__transaction_state` were read, so that any other producer has no
            transactional id any more.
    """
    meant: dict[int, list[CoordinatedTransaction]] = defaultdict(list)
    for one in coordinated.transactions:
        meant[one.producer_id].append(one)
    found: dict[int, list[tuple[PartitionTransactions, list[Transaction]]]] = defaultdict(list)
    for log in logs:
        of_log: dict[int, list[Transaction]] = defaultdict(list)
        for each in log.transactions:
            of_log[each.producer_id].append(each)
        for producer_id, transactions in of_log.items():
            found[producer_id].append((log, transactions))
    for producer_id in {**meant, **found}:
        pairing = _Pairing(coordinated, meant.get(producer_id, ()), newest_ms, has_every_coordinator)
        for log, transactions in found.get(producer_id, ()):
            by_epoch: dict[int, list[TransactionPart]] = defaultdict(list)
            for each in transactions:
                by_epoch[each.producer_epoch].append(_part(log, each))
            for epoch, parts in by_epoch.items():
                pairing.pair(producer_id, epoch, parts)
        yield from pairing.states()


def _part(log: PartitionTransactions, each: Transaction) -> TransactionPart:
    is_open = each.state is TransactionState.OPEN and each.marker_epoch is None
    begun = log.begun_ms.get((each.producer_id, each.first_offset)) if log.begun_ms else None
    return TransactionPart(log.partition, each, is_open and each.first_offset < log.high_watermark, begun)


class _Pairing:
    """The pairs of a producer; `meant` are its transactions in the coordinators' logs."""

    def __init__(
        self,
        coordinated: CoordinatedTransactions,
        meant: Sequence[CoordinatedTransaction],
        newest_ms: int,
        has_every_coordinator: bool,
    ) -> None:
        self._all, self._meant, self._newest_ms, self._is_whole = coordinated, meant, newest_ms, has_every_coordinator
        self._by_epoch: dict[tuple[int, int], list[CoordinatedTransaction]] = defaultdict(list)
        self._by_marker: dict[tuple[int, int], CoordinatedTransaction] = {}
        for each in meant:
            if each.data_epoch is not None:
                self._by_epoch[each.producer_id, each.data_epoch].append(each)
            is_only = each.version >= EPOCH_A_TRANSACTION or each.data_epoch != each.marker_epoch
            if each.marker_epoch is not None and is_only:
                self._by_marker[each.producer_id, each.marker_epoch] = each
        self._parts: dict[int, list[TransactionPart]] = defaultdict(list)  # by identity of the coordinator's
        self._marked: dict[tuple[int, int], list[TransactionPart]] = defaultdict(list)
        self._rest: dict[tuple[int, int], list[TransactionPart]] = defaultdict(list)
        self._outcomes: dict[tuple[int, int], set[bool]] = defaultdict(set)  # whether committed, of an epoch
        for each in meant:
            is_commit, epoch = each.state.is_commit, each.data_epoch
            if is_commit is not None and each.version < EPOCH_A_TRANSACTION:
                of_epoch = each.marker_epoch if epoch is None else epoch
                self._outcomes[each.producer_id, of_epoch or 0].add(is_commit)

    def pair(self, producer_id: int, epoch: int, parts: list[TransactionPart]) -> None:
        """Pair what a partition has of a producer in an epoch, in its order."""
        partition = parts[0].partition
        candidates = [
            each for each in self._by_epoch.get((producer_id, epoch), ()) if partition in (each.partitions or ())
        ]
        is_only = len(candidates) == 1 and candidates[0].version >= EPOCH_A_TRANSACTION
        is_certain = is_only or self._all.has_all_of(producer_id, epoch)
        for part in parts:
            if part.transaction.marker_offset is not None:
                self._outcomes[producer_id, epoch].add(part.transaction.state is TransactionState.COMMITTED)
        is_open = parts[-1].transaction.state is TransactionState.OPEN
        for count in (len(parts), len(parts) - is_open) if is_certain else ():
            if self._agree(parts[:count], candidates):
                for part, each in zip(parts, candidates, strict=False):
                    self._parts[id(each)].append(part)
                parts = parts[count:]
                break
        for part in parts:
            marker_epoch = part.transaction.marker_epoch
            if marker_epoch is not None and marker_epoch > epoch:
                meant, others = self._by_marker.get((producer_id, marker_epoch)), self._marked
                key = (producer_id, marker_epoch)
            else:
                is_last = is_open and part is parts[-1]
                meant, others = self._awaiting(part) if is_last else None, self._rest
                key = (producer_id, epoch)
            (others[key] if meant is None else self._parts[id(meant)]).append(part)

    def _agree(self, parts: Sequence[TransactionPart], candidates: Sequence[CoordinatedTransaction]) -> bool:
        """Whether as many transactions have the partition as it has, and no epoch of a marker contradicts."""
        return len(parts) == len(candidates) and all(
            part.transaction.state is not TransactionState.UNKNOWN
            and (each.marker_epoch is None or part.transaction.marker_epoch in (None, each.marker_epoch))
            and not (part.is_unmarked and self._is_later(part, each))
            for part, each in zip(parts, candidates, strict=True)
        )

    def _awaiting(self, part: TransactionPart) -> CoordinatedTransaction | None:
        """The coordinator's transaction that data without a marker belongs to, if that is certain."""
        producer_id, epoch = part.transaction.producer_id, part.transaction.producer_epoch
        of_id = self._all.ids.get(producer_id)
        last = None if of_id is None else of_id.last
        if last is None or last.producer_id != producer_id or part.partition not in (last.partitions or ()):
            return None
        is_its_epoch = last.data_epoch == epoch or (
            last.data_epoch is None and last.marker_epoch is not None and epoch <= last.marker_epoch
        )
        is_only = last.is_in_progress or last.version >= EPOCH_A_TRANSACTION
        return last if is_its_epoch and is_only else None

    def _is_later(self, part: TransactionPart, each: CoordinatedTransaction) -> bool:
        """Whether data may be of a later transaction, which the coordinator's log does not have yet."""
        if each.version >= EPOCH_A_TRANSACTION or each.is_in_progress or part.begun_ms is None:
            return False
        return part.begun_ms > each.updated_ms and not self._is_over(part.begun_ms, each.timeout_ms)

    def _is_over(self, since_ms: int, timeout_ms: int, delay_ms: int = 0) -> bool:
        return self._newest_ms - since_ms > timeout_ms + delay_ms

    def states(self) -> Iterator[PairedTransaction]:
        """Yield all pairs with their states, and what has none."""
        for each in self._meant:
            parts = self._parts.pop(id(each), [])
            yield _paired(each.transactional_id, each, parts, *self._state(each, parts))
        for (producer_id, _), parts in self._marked.items():
            yield self._marked_alike(producer_id, parts)
        for key, parts in self._rest.items():
            for part in parts:
                yield _paired(self._name(key[0]), None, [part], *self._alone(part, self._outcomes[key]))

    def _name(self, producer_id: int) -> str | None:
        of_id = self._all.ids.get(producer_id)
        return None if of_id is None else of_id.name

    def _state(self, each: CoordinatedTransaction, parts: Sequence[TransactionPart]) -> tuple[PairedState, str]:
        states = {part.transaction.state for part in parts}
        outcomes = states & {TransactionState.COMMITTED, TransactionState.ABORTED}
        name = each.state.kafka_name
        if len(outcomes) > 1:
            return PairedState.TORN, "it is committed in one partition and aborted in another"
        is_commit = each.state.is_commit
        wrong = TransactionState.ABORTED if is_commit else TransactionState.COMMITTED
        if is_commit is not None and wrong in outcomes:
            return PairedState.TORN, f"it is {wrong} in a partition, and {name} for its coordinator"
        if any(part.is_unmarked for part in parts):
            return self._unmarked(each, bool(outcomes))
        if TransactionState.UNKNOWN in states:
            return PairedState.UNKNOWN, "its outcome in a partition is lost"
        if each.state.is_complete:
            return PairedState.COMPLETE, f"it is {name} for its coordinator"
        if each.is_abandoned:
            return PairedState.UNKNOWN, "the coordinator's log does not have its end"
        return PairedState.ONGOING, f"it is {name} for its coordinator"

    def _unmarked(self, each: CoordinatedTransaction, has_outcome: bool) -> tuple[PairedState, str]:
        """The state of a transaction with data that has no marker."""
        name, bad = each.state.kafka_name, PairedState.TORN if has_outcome else PairedState.HANGING
        if each.state.is_complete:
            return PairedState.TORN, f"it is {name} for its coordinator, and a partition has no marker"
        if each.is_abandoned:
            return bad, "the coordinator's log does not have its end, and a partition has no marker"
        if each.state.is_prepared:
            if self._is_over(each.updated_ms, each.timeout_ms):
                return PairedState.TORN, f"it is {name} for longer than its time-out, and a partition has no marker"
        elif self._is_over(each.start_ms, each.timeout_ms, ABORT_DELAY_MS):
            return bad, "it is ongoing for longer than its time-out"
        return PairedState.ONGOING, f"it is {name} for its coordinator"

    def _marked_alike(self, producer_id: int, parts: list[TransactionPart]) -> PairedTransaction:
        """Parts with one marker epoch, of which the coordinator's log has nothing any more."""
        name, epochs = self._name(producer_id), {part.transaction.producer_epoch for part in parts}
        outcomes = {part.transaction.state for part in parts}
        if len(outcomes - {TransactionState.OPEN}) > 1:
            reason = "it is committed in one partition and aborted in another"
            return _paired(name, None, parts, PairedState.TORN, reason)
        if TransactionState.COMMITTED in outcomes:
            # Only version 2 commits with a newer epoch, so data of that epoch anywhere is of the same transaction.
            rest = [(producer_id, epoch) for epoch in epochs if (producer_id, epoch) in self._rest]
            unmarked = [part for key in rest for part in self._rest[key] if part.is_unmarked]
            for key in rest:
                self._rest[key] = [part for part in self._rest[key] if not part.is_unmarked]
            if unmarked:
                reason = "it is committed in one partition and open in another"
                return _paired(name, None, [*parts, *unmarked], PairedState.TORN, reason)
        if outcomes == {TransactionState.OPEN}:
            return _paired(name, None, parts, PairedState.ONGOING, "its marker is not below the high watermark yet")
        return _paired(name, None, parts, PairedState.COMPLETE, "all its partitions have the same outcome")

    def _alone(self, part: TransactionPart, outcomes: set[bool]) -> tuple[PairedState, str]:
        """The state of data in one partition that belongs to no certain transaction of a coordinator."""
        transaction = part.transaction
        if transaction.marker_offset is not None:
            if len(outcomes) == 1:
                return PairedState.COMPLETE, "all transactions of its epoch have the same outcome"
            return PairedState.UNKNOWN, "which transaction of its epoch it is, the coordinator's log does not say"
        if transaction.state is TransactionState.UNKNOWN:
            return PairedState.UNKNOWN, "its outcome in a partition is lost"
        if not part.is_unmarked:
            return PairedState.ONGOING, "its end is not below the high watermark yet"
        of_id = self._all.ids.get(transaction.producer_id)
        timeout_ms = MAX_TIMEOUT_MS if of_id is None else of_id.timeout_ms
        is_over = part.begun_ms is None or self._is_over(part.begun_ms, timeout_ms)
        if of_id is not None:
            if is_over or (part.begun_ms or 0) <= of_id.updated_ms:
                return PairedState.HANGING, "its coordinator has no transaction with this partition that has not ended"
            return PairedState.ONGOING, "it is newer than the last record of its coordinator"
        if is_over and self._is_whole:
            return PairedState.HANGING, "no transactional id has its producer"
        return PairedState.UNKNOWN, "no log of a coordinator names its producer"


def _paired(
    name: str | None,
    each: CoordinatedTransaction | None,
    parts: list[TransactionPart],
    state: PairedState,
    reason: str,
) -> PairedTransaction:
    parts.sort(key=lambda part: (part.partition, part.transaction.first_offset))
    if each is None:
        first = parts[0].transaction
        return PairedTransaction(name, first.producer_id, first.producer_epoch, None, tuple(parts), state, reason)
    epochs = (each.data_epoch, *(part.transaction.producer_epoch for part in parts), each.marker_epoch)
    epoch = next(epoch for epoch in epochs if epoch is not None)
    return PairedTransaction(name, each.producer_id, epoch, each, tuple(parts), state, reason)
