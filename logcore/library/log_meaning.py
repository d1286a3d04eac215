"""What a log means, after one pass over it: its transactions, and what became of each offset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from logcore.cli.reading.log_reading import LogReading, records_from
from logcore.cli.reading.shown_logs import Notes
from logcore.logs.ledger.ledger_builder import ledger_ranges
from logcore.logs.model.offset_ledger import LedgerRange, ledger_findings
from logcore.logs.model.transactions import Transaction


@dataclass(frozen=True, slots=True)
class TransactionReport:
    """The transactions of a log, and where its readers stop. Offsets of ends are exclusive.

    Attributes:
        transactions: By first offset. A transaction that ended below the log start is left out.
        high_watermark: Where committed offsets end, at most the log end.
        last_stable_offset: Where readers with `read_committed` stop.
        log_end_offset: The offset after the last batch.
    """

    transactions: tuple[Transaction, ...]
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int


def transactions_of(reading: LogReading, notes: Notes) -> TransactionReport:
    """The transactions that a pass found; its findings about them are reported."""
    for finding in reading.view.findings:
        notes.say(finding)
    return TransactionReport(
        listed_transactions(reading), reading.high_watermark, reading.view.last_stable_offset, reading.log_end_offset
    )


def listed_transactions(reading: LogReading) -> tuple[Transaction, ...]:
    """All transactions but those that ended below the log start: their batches are there only by chance, and a broker
    shows nothing of them.
    """
    return tuple(
        each
        for each in reading.view.transactions
        if each.marker_offset is None or max(each.last_offset, each.marker_offset) >= reading.log.log_start_offset
    )


def ledger_of(reading: LogReading, notes: Notes) -> Iterator[LedgerRange]:
    """The ranges of a log's ledger, in order, from 0 to the log end, or to a high watermark above it. What is wrong
    with a range is reported after it was given. Raises LogError.
    """
    for finding in reading.view.findings:
        notes.say(finding)
    ranges = ledger_ranges(
        reading.facts,
        reading.view,
        start_offset=0,
        log_start_offset=min(reading.log.log_start_offset, reading.log_end_offset),
        high_watermark=reading.high_watermark,
        log_end_offset=reading.log_end_offset,
        rules=reading.rules,
        records_from=records_from,
    )
    for each in ranges:
        yield each
        for finding in ledger_findings([each]):
            notes.say(finding)
    if reading.lost is not None:  # it was reported already
        yield reading.lost
