"""The transactions in the partitions of `__transaction_state` at a source, paired with those of all partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from logcore.errors import LogError
from logcore.garbage_collection import collector_paused
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.paired_transactions import PairedState, PairedTransaction, PartitionTransactions
from logcore.logs.model.sources import SourceLog
from logcore.logs.model.transactions import Transaction, TransactionState
from logcore.reading.internal_topics.cluster_metadata import partitions_there
from logcore.reading.internal_topics.internal_logs import internal_records, not_read
from logcore.reading.log_reading import LogReading, time_of
from logcore.reading.read_options import Notes, ReadRules
from logcore.reading.visible_offsets import visible_high_watermark
from logcore.texts import shown
from logcore.topics.coordinated_transactions import CoordinatedTransactions
from logcore.topics.internal_topics import InternalTopic


def read_coordinators(logs: Iterable[SourceLog], notes: Notes, rules: ReadRules) -> CoordinatedTransactions:
    """Read the transactions of coordinators.

    Args:
        logs: Logs of `__transaction_state`.
        notes: Gets the findings.
        rules: The high watermark.
    """
    coordinated = CoordinatedTransactions()
    with collector_paused():
        for log in logs:
            said = len(notes.findings)
            end = visible_high_watermark(log, rules.high_watermark)
            for record in internal_records(log, notes, end=end):
                if record.is_control:
                    continue
                for unread in coordinated.add(record.key, record.value):
                    notes.say(not_read(log.topic_partition, record.offset, unread))
            if len(notes.findings) > said:
                coordinated.note_damage()
    return coordinated


def has_every_coordinator(logs: Sequence[SourceLog], others: Iterable[SourceLog], notes: Notes) -> bool:
    """Return whether all partitions of `__transaction_state` are there, and report if some are missing.

    Args:
        logs: Logs of `__transaction_state`.
        others: All logs at the source.
        notes: Gets the finding.
    """
    there, known = partitions_there(logs, others, InternalTopic.TRANSACTION_STATE)
    if len(there) < (known or there[-1] + 1):
        total = f"{known}" if known else f"at least {there[-1] + 1}"
        message = (
            f"Of __transaction_state the paths have {'partition' if len(there) == 1 else 'partitions'} "
            f"{', '.join(map(str, there))}, of {total}. Transactions of ids in all other partitions have no "
            "coordinator here."
        )
        notes.say(found("coordinator-partitions-missing", message))
    return known is not None and len(there) >= known


def partition_transactions(reading: LogReading, listed: Sequence[Transaction]) -> PartitionTransactions:
    """Return the transactions of a log for pairing.

    Args:
        reading: The pass over the log.
        listed: Its transactions.
    """
    begun = {}
    for each in listed:
        key = (each.producer_id, each.first_offset)
        if each.state is TransactionState.OPEN and key in reading.begun:
            try:
                time_ms = time_of(reading.log, reading.begun[key])
            except LogError:
                continue
            if time_ms >= 0:
                begun[key] = time_ms
    name = reading.log.topic_partition
    return PartitionTransactions((name.topic, name.partition), reading.high_watermark, listed, begun)


def finding_about(paired: PairedTransaction) -> Finding | None:
    """Return the finding about a torn or hanging transaction; None about any other."""
    if paired.state not in (PairedState.TORN, PairedState.HANGING):
        return None
    who = "without a known transactional id" if paired.transactional_id is None else shown(paired.transactional_id)
    parts = ", ".join(
        f"{shown(part.partition[0])}-{part.partition[1]} [{part.transaction.first_offset}, "
        f"{part.transaction.last_offset + 1}) {part.transaction.state}"
        for part in paired.parts
    )
    message = (
        f"The transaction of producer {paired.producer_id}, epoch {paired.producer_epoch}, {who}, is {paired.state}: "
        f"{paired.reason}. {parts}."
    )
    return found(f"transaction-{paired.state}", message)
