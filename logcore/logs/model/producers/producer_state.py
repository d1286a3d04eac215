"""A broker's state of the producers of a log, replayed from its batches.

For each producer: epoch, last sequence and last offset of data, greatest timestamp, and where its open transaction
begins. A producer snapshot contains this, and it decides the entries of a transaction index:

    data batch         a new epoch forgets the batches seen; a transactional batch without an open transaction opens
                       one at its base offset
    COMMIT, ABORT      sets epoch, coordinator epoch and timestamp to the marker's and closes the open transaction; if
                       none is open, nothing is completed
    empty marker       a control batch whose record was cleaned away: nothing
    everything else    batches without a producer id: nothing

Sequences are not checked and old epochs are accepted, as when a replica or a recovery replays a log. A broker cannot
load a log in which a producer wrote a batch outside its own open transaction. Here that is an error only on request. A
broker forgets a producer that was silent for `producer.id.expiration.ms`, unless it has a transaction open:
`without_expired`. Brokers of 0.11 stored the offset of a producer's marker as its last data offset, with offset delta
0.

Source: Kafka ProducerStateManager, ProducerAppendInfo, ProducerStateEntry. Belongs here: the replay.
`logcore.segments.side_files.producer_state` has the snapshot's bytes, `logcore.logs.model.transactions` the outcomes
below a high watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from logcore.errors import InvalidRecordError
from logcore.logs.model.transactions import Ongoing
from logcore.records.control import ControlType, control_type, coordinator_epoch
from logcore.records.model import MAGIC_V2, BatchHeader
from logcore.records.record import read_records
from logcore.records.varint import Buffer
from logcore.segments.side_files.producer_state import NONE, ProducerEntry
from logcore.segments.side_files.transaction_index import AbortedTransaction

_MAX_SEQUENCE = 2**31 - 1


class DataBatch(Protocol):
    """The fields of a data batch that the replay uses; `BatchHeader` has them."""

    @property
    def base_offset(self) -> int:
        """Of the batch."""

    @property
    def last_offset(self) -> int:
        """Of the batch."""

    @property
    def max_timestamp(self) -> int:
        """In milliseconds since 1970."""

    @property
    def producer_id(self) -> int:
        """-1 without a producer id."""

    @property
    def producer_epoch(self) -> int:
        """As the batch states it."""

    @property
    def base_sequence(self) -> int:
        """The sequence number of the first record."""

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""


class ProducerBatch(DataBatch, Protocol):
    """The fields of any batch that the replay uses; `logcore.logs.checks.validation.BatchVerdict` has them."""

    @property
    def record_count(self) -> int:
        """As the batch states it."""

    @property
    def is_control(self) -> bool:
        """Whether it is a control batch."""

    @property
    def control_type(self) -> str | None:
        """The type of its control record; None for data."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A transaction that a marker ended. `first_offset` is that of its data."""

    producer_id: int
    first_offset: int
    marker_offset: int
    is_aborted: bool


@dataclass(frozen=True, slots=True)
class EndMarker:
    """The content of a transaction marker. `timestamp` is the record's, in ms."""

    is_abort: bool
    coordinator_epoch: int | None
    timestamp: int


def read_end_marker(buf: Buffer, position: int, header: BatchHeader) -> EndMarker | None:
    """Read the marker in the control batch at a position; None if its record was cleaned away.

    Raises:
        CorruptRecordError: The record cannot be read.
        InvalidRecordError: The record ends no transaction. A broker does not expect it from a producer.
    """
    if header.record_count == 0:
        return None
    record = next(iter(read_records(buf, position, replace(header, magic=MAGIC_V2))))
    kind = control_type(record.key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise InvalidRecordError(f"a control record {kind} with a producer id", position=position)
    return EndMarker(kind is ControlType.ABORT, coordinator_epoch(record.value), record.timestamp)


def is_expired(entry: ProducerEntry, as_of_ms: int, expiration_ms: int) -> bool:
    """Whether a broker has forgotten a producer at that time."""
    return entry.open_transaction is None and as_of_ms - entry.timestamp >= expiration_ms


def without_expired(entries: Iterable[ProducerEntry], as_of_ms: int, expiration_ms: int) -> dict[int, ProducerEntry]:
    """The producers that a broker still knows at that time, by producer id."""
    return {entry.producer_id: entry for entry in entries if not is_expired(entry, as_of_ms, expiration_ms)}


def ongoing(entries: Iterable[ProducerEntry], end_offset: int) -> tuple[Ongoing, ...]:
    """The transactions in progress at `end_offset` according to a snapshot there, by first offset."""
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


def last_sequence(batch: DataBatch) -> int:
    """Sequence of a batch's last record; -1 if it has none. After 2^31-1 sequences continue at 0."""
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
    data_timestamp: int = NONE
    """Max timestamp of its last data batch."""

    def take_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.last_sequence, self.last_offset, self.offset_delta = NONE, NONE, 0


class ProducerReplay:
    """The state after all batches until now. It begins empty or with the entries of a snapshot.

    Args:
        entries: The entries of a snapshot.
        is_strict: A batch outside its producer's open transaction is an InvalidRecordError.
    """

    def __init__(self, entries: Iterable[ProducerEntry] = (), *, is_strict: bool = False) -> None:
        self._is_strict = is_strict
        self._producers: dict[int, _Producer] = {}
        self._open: dict[int, int] = {}
        """First offset of each open transaction by producer id."""
        for entry in entries:
            has_data = entry.last_offset >= 0
            self._producers[entry.producer_id] = _Producer(
                entry.producer_epoch,
                entry.last_sequence if has_data else NONE,
                entry.last_offset if has_data else NONE,
                entry.offset_delta if has_data else 0,
                entry.timestamp,
                entry.coordinator_epoch,
                max(entry.current_txn_first_offset, NONE),
            )
            if entry.current_txn_first_offset >= 0:
                self._open[entry.producer_id] = entry.current_txn_first_offset

    def take(self, batch: ProducerBatch, coordinator_epoch: int | None = None) -> Completed | None:
        """Add the next batch in the order of offsets.

        Args:
            batch: The batch.
            coordinator_epoch: The value in the marker; None if the caller did not read it. Then that of the entry is
                None too (see `entries`).

        Returns:
            The transaction that the batch ends, if it is such a marker.
        """
        if batch.producer_id < 0:
            return None
        if not batch.is_control:
            self.take_data(batch)
            return None
        if batch.record_count == 0 or batch.control_type not in (ControlType.COMMIT, ControlType.ABORT):
            return None
        is_abort = batch.control_type == ControlType.ABORT
        return self.take_marker(batch, EndMarker(is_abort, coordinator_epoch, batch.max_timestamp))

    def take_data(self, batch: DataBatch, first_offset: int | None = None) -> None:
        """Add a data batch that has a producer id.

        Args:
            batch: The batch.
            first_offset: The batch is the last of a run of equal ones, and the first of them begins here.

        Raises:
            InvalidRecordError: Strict, and the batch is outside its producer's open transaction.
        """
        known = self._producers.get(batch.producer_id)
        if known is None:
            known = self._producers[batch.producer_id] = _Producer(batch.producer_epoch)
        known.take_epoch(batch.producer_epoch)
        known.last_sequence = last_sequence(batch)
        known.last_offset = batch.last_offset
        known.offset_delta = batch.last_offset - batch.base_offset
        known.timestamp = known.data_timestamp = batch.max_timestamp
        if batch.is_transactional and known.open_from == NONE:
            known.open_from = batch.base_offset if first_offset is None else first_offset
            self._open[batch.producer_id] = known.open_from
        elif not batch.is_transactional and known.open_from != NONE and self._is_strict:
            message = (
                f"producer {batch.producer_id} wrote outside of its transaction that is open since offset "
                f"{known.open_from}"
            )
            raise InvalidRecordError(message, offset=batch.base_offset)

    def take_marker(self, batch: DataBatch, marker: EndMarker) -> Completed | None:
        """Add a transaction marker, and return the transaction that it ends, if one is open."""
        known = self._producers.get(batch.producer_id)
        if known is None:
            known = self._producers[batch.producer_id] = _Producer(batch.producer_epoch)
        known.take_epoch(batch.producer_epoch)
        known.coordinator_epoch = marker.coordinator_epoch
        known.timestamp = marker.timestamp
        known.marker = batch.base_offset
        first_offset, known.open_from = known.open_from, NONE
        self._open.pop(batch.producer_id, None)
        if first_offset == NONE:
            return None
        return Completed(batch.producer_id, first_offset, batch.base_offset, marker.is_abort)

    def aborted(self, completed: Completed) -> AbortedTransaction:
        """The transaction index entry of an aborted transaction that the last batch ended."""
        return AbortedTransaction(
            completed.producer_id,
            completed.first_offset,
            completed.marker_offset,
            min(self._open.values(), default=completed.marker_offset + 1),
        )

    @property
    def open_from(self) -> Mapping[int, int]:
        """First offset of each open transaction, by producer id."""
        return self._open

    def entries(self) -> dict[int, ProducerEntry]:
        """The entries of a snapshot at this place, by producer id. A coordinator epoch that was not read is -1: see
        `knows_coordinator_epoch`.
        """
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
        """Whether the coordinator epoch of a producer's entry was read."""
        known = self._producers.get(producer_id)
        return known is not None and known.coordinator_epoch is not None

    def epoch_of(self, producer_id: int) -> int | None:
        """A producer's epoch; None if it is not known."""
        known = self._producers.get(producer_id)
        return None if known is None else known.epoch

    def last_marker(self, producer_id: int) -> int:
        """Offset of a producer's last marker, -1 if there was none. Brokers of 0.11 used it as the last offset."""
        known = self._producers.get(producer_id)
        return NONE if known is None else known.marker

    def last_data_timestamp(self, producer_id: int) -> int:
        """Max timestamp of a producer's last data batch, -1 if there was none. Brokers of 1.0 kept it after a
        marker.
        """
        known = self._producers.get(producer_id)
        return NONE if known is None else known.data_timestamp

    def last_data(self, producer_id: int) -> tuple[int, int] | None:
        """Epoch and last sequence of a producer's last data batch; None if none is known in its epoch."""
        known = self._producers.get(producer_id)
        return None if known is None or known.last_sequence == NONE else (known.epoch, known.last_sequence)
