"""Transactions as their coordinator wrote them, from the records of `__transaction_state`.

    state           means
    Empty           the transactional id has a producer id and an epoch, and no transaction
    Ongoing         the partitions in the record belong to the transaction; there is a record for each change
    PrepareX        the outcome is decided; from now on, markers go to the leaders of all partitions
    CompleteX       all leaders have written the marker; the record names no partition any more
    no value        the transactional id has expired

The topic is compacted. Of each transactional id the last record of the cleaned part is kept, and all that follow. So
the history of an id has no hole, but it may begin within a transaction, or after many of one epoch.

Before transaction version 2, all transactions of a producer have one epoch until it is fenced. Since then each marker
has a new epoch, and the next transaction begins with it (KIP-890).

Source: org.apache.kafka.coordinator.transaction TransactionLog, TransactionMetadata, TransactionState.
Belongs here: what the coordinator wrote. Does not: what the partitions have of it
(`logcore.logs.model.paired_transactions`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from logcore.messages.framing import value_fields
from logcore.messages.known_messages import MessageFamily
from logcore.messages.reader import ReadMessage, UnreadMessage, UnreadReason
from logcore.topics.internal_topics import InternalTopic, record_messages

Partition = tuple[str, int]
"""Topic and partition."""

EPOCH_A_TRANSACTION = 2
"""The first transaction version in which each transaction has an epoch of its own."""
_LAST_EPOCH = 32767
"""A marker with it is the last one of its producer id (KIP-890); then the id goes on with another producer id."""


class CoordinatorState(IntEnum):
    """The numbers of Kafka's TransactionState."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """The name in Kafka's tools, such as `PrepareCommit`."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, and markers may be missing."""
        return self in _PREPARED

    @property
    def is_complete(self) -> bool:
        """Whether all markers are written."""
        return self in _COMPLETE

    @property
    def is_commit(self) -> bool | None:
        """The outcome; None while it is not decided."""
        if not (self.is_prepared or self.is_complete):
            return None
        return self in (CoordinatorState.PREPARE_COMMIT, CoordinatorState.COMPLETE_COMMIT)


_STATES = {state.value: state for state in CoordinatorState}
# A member is found through its class slowly, and there are millions of records.
_PREPARED = CoordinatorState.PREPARE_COMMIT, CoordinatorState.PREPARE_ABORT
_COMPLETE = CoordinatorState.COMPLETE_COMMIT, CoordinatorState.COMPLETE_ABORT
_FENCE = CoordinatorState.PREPARE_EPOCH_FENCE
_NO_TRANSACTION = CoordinatorState.EMPTY, CoordinatorState.DEAD, _FENCE
_ONGOING = CoordinatorState.ONGOING


@dataclass(slots=True)
class CoordinatedTransaction:
    """A transaction of a transactional id.

    Attributes:
        transactional_id: The id.
        producer_id: The producer that wrote its data.
        data_epoch: The epoch of its data; None if the log no longer has the record of its beginning.
        marker_epoch: The epoch of its markers; None while it is ongoing.
        version: The transaction version of its producer.
        partitions: Its partitions; None if the log no longer names them.
        state: The last one in the log.
        timeout_ms: The producer's time-out.
        start_ms: When it began, by the coordinator's clock.
        updated_ms: When it came into its state.
        is_abandoned: Another transaction of the id follows without an end of this one: records are lost.
    """

    transactional_id: str
    producer_id: int
    data_epoch: int | None
    marker_epoch: int | None
    version: int
    partitions: frozenset[Partition] | None
    state: CoordinatorState
    timeout_ms: int
    start_ms: int
    updated_ms: int
    is_abandoned: bool = False

    @property
    def is_in_progress(self) -> bool:
        """Whether its coordinator is going to write markers."""
        return not (self.state.is_complete or self.is_abandoned)


@dataclass(slots=True)
class TransactionalId:
    """What the log says last of a transactional id.

    Attributes:
        name: The id.
        last: Its last transaction; None if it has none.
        updated_ms: The time of its last record.
        timeout_ms: Its time-out.
    """

    name: str
    last: CoordinatedTransaction | None = None
    updated_ms: int = -1
    timeout_ms: int = 0


class CoordinatedTransactions:
    """The transactions in the logs of coordinators. Records of a log are added in the order of their offsets.

    Attributes:
        transactions: All of them. Those of a transactional id follow each other.
        ids: By producer id, the transactional id that it belongs or belonged to.
    """

    def __init__(self) -> None:
        self.transactions: list[CoordinatedTransaction] = []
        self.ids: dict[int, TransactionalId] = {}
        self._present: dict[str, TransactionalId] = {}
        self._whole_from: dict[int, int] = {}
        self._partitions: dict[tuple[Any, ...], frozenset[Partition]] = {}  # most transactions have the same
        self._names: dict[bytes, tuple[int, str]] = {}  # type and id in a key
        self._is_damaged = False

    def has_all_of(self, producer_id: int, epoch: int) -> bool:
        """Whether all transactions of a producer in an epoch are here, none of them cleaned away or lost."""
        return producer_id in self.ids and not self._is_damaged and epoch >= self._whole_from.get(producer_id, 0)

    def note_damage(self) -> None:
        """Records are lost: any transaction may lack."""
        self._is_damaged = True

    def add(self, key: bytes | None, value: bytes | None) -> tuple[UnreadMessage, ...]:
        """Add a record.

        Returns:
            What could not be read. The record then changes nothing.
        """
        type_number, name = self._names.get(key or b"", (None, ""))
        if type_number is not None and value is not None:
            fields = value_fields(MessageFamily.TRANSACTION_STATE, type_number, value)
            if fields is not None and fields["transactionStatus"] in _STATES:
                self.add_state(name, fields)
                return ()
        messages = record_messages(InternalTopic.TRANSACTION_STATE, key, value)
        if messages.unread or messages.key is None or not isinstance(messages.key.message, ReadMessage):
            self._is_damaged |= bool(messages.unread)
            return messages.unread
        name = str(messages.key.message.fields["transactionalId"])
        if key is not None and messages.key.type_number is not None:
            self._names[key] = messages.key.type_number, name
        read = None if messages.value is None else messages.value.message
        if isinstance(read, ReadMessage):
            number: Any = read.fields["transactionStatus"]
            if number not in _STATES:
                self._is_damaged = True
                return (UnreadMessage(UnreadReason.UNKNOWN_TYPE, f"state {number} of a transaction is not known", b""),)
            self.add_state(name, read.fields)
        else:
            self._present.pop(name, None)
        return ()

    def add_state(self, name: str, fields: dict[str, Any]) -> None:
        """Add a state of a transactional id, with the fields of Kafka's TransactionLogValue."""
        state = _STATES[fields["transactionStatus"]]
        producer_id, epoch = int(fields["producerId"]), int(fields["producerEpoch"])
        version = int(fields.get("clientTransactionVersion", 0))
        of_id = self._present.get(name)
        if of_id is None:
            of_id = self._present[name] = TransactionalId(name)
            self._whole_from[producer_id] = epoch if state is CoordinatorState.EMPTY else epoch + 1
        self.ids[producer_id] = of_id
        of_id.updated_ms, of_id.timeout_ms = fields["transactionLastUpdateTimestampMs"], fields["transactionTimeoutMs"]
        last = of_id.last
        if state in _NO_TRANSACTION:
            if last is not None and last.is_in_progress and state is not _FENCE:
                last.is_abandoned = True
            return
        start_ms = fields["transactionStartTimestampMs"]
        is_same = last is not None and last.is_in_progress and last.start_ms == start_ms and state >= last.state
        if last is None or not is_same:
            if last is not None and last.is_in_progress:
                last.is_abandoned = True
            last = self._new(of_id, fields, state, version)
        last.state, last.updated_ms, last.version = state, of_id.updated_ms, max(version, last.version)
        if state.is_prepared:
            last.marker_epoch = epoch
        if not state.is_complete:
            named = tuple([(entry["topic"], *entry["partitionIds"]) for entry in fields["transactionPartitions"] or ()])
            partitions = self._partitions.get(named)
            if partitions is None:
                of_topics = ((topic, partition) for topic, *numbers in named for partition in numbers)
                partitions = self._partitions[named] = frozenset(of_topics)
            last.partitions = partitions

    def _new(
        self, of_id: TransactionalId, fields: dict[str, Any], state: CoordinatorState, version: int
    ) -> CoordinatedTransaction:
        producer_id, epoch = int(fields["producerId"]), int(fields["producerEpoch"])
        previous = int(fields.get("previousProducerId", -1))
        if state.is_complete and epoch == 0 and version >= EPOCH_A_TRANSACTION and previous not in (-1, producer_id):
            producer_id, epoch = previous, _LAST_EPOCH
            self.ids[previous] = of_id
        is_ongoing = state is _ONGOING
        made = of_id.last = CoordinatedTransaction(
            of_id.name,
            producer_id,
            epoch if is_ongoing else None,
            None if is_ongoing else epoch,
            version,
            None,
            state,
            of_id.timeout_ms,
            fields["transactionStartTimestampMs"],
            of_id.updated_ms,
        )
        self.transactions.append(made)
        return made
