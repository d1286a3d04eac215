"""What a broker knows of the producers of a log, replayed from its batches.

For each producer: epoch, last sequence and last offset of data, greatest timestamp, and where its open transaction
begins. This is what a producer snapshot holds, and what decides the entries of a transaction index:

    data batch         another epoch than before forgets the batches seen; a transactional one without an open
                       transaction opens one at its base offset
    COMMIT, ABORT      takes epoch, coordinator epoch and timestamp of the marker and closes the open transaction; with
                       none open nothing was completed
    empty marker       a control batch whose record was cleaned away: nothing
    everything else    batches without a producer id: nothing

The sequence is not judged and stale epochs are taken as they come, as when a replica or a recovery replays a log.
Producers that a broker forgot because they were silent (`producer.id.expiration.ms`) are still known here. Brokers of
0.11 put the offset of a producer's marker in the place of its last data offset, with offset delta 0.

Source: Kafka ProducerStateManager, ProducerAppendInfo, ProducerStateEntry. Belongs here: the replay. The snapshot's
bytes are in `logcore.segments.producer_state`, outcomes below a high watermark in `logcore.logs.transactions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from logcore.logs.transactions import Ongoing
from logcore.records.control import ControlType
from logcore.segments.producer_state import NONE, ProducerEntry
from logcore.segments.transaction_index import AbortedTransaction

_MAX_SEQUENCE = 2**31 - 1


class ProducerBatch(Protocol):
    """What the replay looks at; `logcore.logs.validation.BatchVerdict` has it."""

    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...
    @property
    def control_type(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Completed:
    """A transaction that a marker ended. first_offset: of its data; marker_offset: of its marker."""

    producer_id: int
    first_offset: int
    marker_offset: int
    is_aborted: bool


def ongoing(entries: Iterable[ProducerEntry], end_offset: int) -> tuple[Ongoing, ...]:
    """The transactions that a snapshot at `end_offset` says were in progress, by first offset."""
    return tuple(
        sorted(
            (
                Ongoing(
                    entry.producer_id,
                    entry.producer_epoch,
                    entry.current_txn_first_offset,
                    max(entry.last_offset, entry.current_txn_first_offset),
                )
                for entry in entries
                if 0 <= entry.current_txn_first_offset < end_offset
            ),
            key=lambda each: each.first_offset,
        )
    )


def last_sequence(batch: ProducerBatch) -> int:
    """Sequence of a batch's last record; -1 if it has none. Sequences go on at 0 behind 2^31-1."""
    if batch.base_sequence < 0:
        return NONE
    return (batch.base_sequence + batch.last_offset - batch.base_offset) & _MAX_SEQUENCE


@dataclass(slots=True)
class _Producer:
    epoch: int
    last_sequence: int = NONE
    last_offset: int = NONE
    offset_delta: int = 0
    timestamp: int = NONE
    coordinator_epoch: int | None = NONE
    open_from: int = NONE
    marker: int = NONE
    """Offset of its last marker."""

    def take_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.last_sequence, self.last_offset, self.offset_delta = NONE, NONE, 0


class ProducerReplay:
    """The state after the batches taken so far, begun empty or with the entries of a snapshot."""

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._producers: dict[int, _Producer] = {}
        self._open: dict[int, int] = {}
        """First offset of each open transaction by producer id. Transactions begin in the order of offsets, so the
        first in here is the earliest."""
        known = list(entries)
        for entry in known:
            self._producers[entry.producer_id] = _Producer(
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_offset,
                entry.offset_delta,
                entry.timestamp,
                entry.coordinator_epoch,
                entry.current_txn_first_offset,
            )
        for entry in sorted(known, key=lambda entry: entry.current_txn_first_offset):
            if entry.open_transaction is not None:
                self._open[entry.producer_id] = entry.current_txn_first_offset

    def take(self, batch: ProducerBatch, coordinator_epoch: int | None = None) -> Completed | None:
        """Account for the next batch in the order of offsets; the transaction that it ends, if it is such a marker.

        coordinator_epoch: what the marker's value states; None if the caller did not look, and then the entry's is
        None too (see `entries`).
        """
        if batch.producer_id < 0:
            return None
        if batch.is_control:
            return self._mark(batch, coordinator_epoch)
        known = self._producers.get(batch.producer_id)
        if known is None:
            known = self._producers[batch.producer_id] = _Producer(batch.producer_epoch)
        known.take_epoch(batch.producer_epoch)
        known.last_sequence = last_sequence(batch)
        known.last_offset = batch.last_offset
        known.offset_delta = batch.last_offset - batch.base_offset
        known.timestamp = batch.max_timestamp
        if batch.is_transactional and known.open_from == NONE:
            known.open_from = batch.base_offset
            self._open[batch.producer_id] = batch.base_offset
        return None

    def _mark(self, batch: ProducerBatch, coordinator_epoch: int | None) -> Completed | None:
        if batch.record_count == 0 or batch.control_type not in (ControlType.COMMIT, ControlType.ABORT):
            return None
        known = self._producers.get(batch.producer_id)
        if known is None:
            known = self._producers[batch.producer_id] = _Producer(batch.producer_epoch)
        known.take_epoch(batch.producer_epoch)
        known.coordinator_epoch = coordinator_epoch
        known.timestamp = batch.max_timestamp
        known.marker = batch.base_offset
        first_offset, known.open_from = known.open_from, NONE
        self._open.pop(batch.producer_id, None)
        if first_offset == NONE:
            return None
        return Completed(batch.producer_id, first_offset, batch.base_offset, batch.control_type == ControlType.ABORT)

    def aborted(self, completed: Completed) -> AbortedTransaction:
        """The entry of the transaction index for an aborted transaction that the last batch taken ended."""
        return AbortedTransaction(
            completed.producer_id,
            completed.first_offset,
            completed.marker_offset,
            next(iter(self._open.values()), completed.marker_offset + 1),
        )

    def entries(self) -> dict[int, ProducerEntry]:
        """The state as a snapshot at this place would hold it, by producer id. A coordinator epoch that was not looked
        at is -1: ask `knows_coordinator_epoch`."""
        return {
            producer_id: ProducerEntry(
                producer_id,
                known.epoch,
                known.last_sequence,
                known.last_offset,
                known.offset_delta,
                known.timestamp,
                NONE if known.coordinator_epoch is None else known.coordinator_epoch,
                known.open_from,
            )
            for producer_id, known in self._producers.items()
        }

    def knows_coordinator_epoch(self, producer_id: int) -> bool:
        """Whether the coordinator epoch of a producer's entry is one that was read."""
        known = self._producers.get(producer_id)
        return known is not None and known.coordinator_epoch is not None

    def epoch_of(self, producer_id: int) -> int | None:
        """A producer's epoch; None if it is not known."""
        known = self._producers.get(producer_id)
        return None if known is None else known.epoch

    def last_marker(self, producer_id: int) -> int:
        """Offset of a producer's last marker, which brokers of 0.11 took for its last offset; -1 if none was seen."""
        known = self._producers.get(producer_id)
        return NONE if known is None else known.marker

    def last_data(self, producer_id: int) -> tuple[int, int] | None:
        """Epoch and last sequence of a producer's last data batch; None if none is known in its epoch."""
        known = self._producers.get(producer_id)
        return None if known is None or known.last_sequence == NONE else (known.epoch, known.last_sequence)
