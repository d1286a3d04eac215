"""The transactions of a log and the outcome of each offset, from one pass over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from logcore.logs.ledger.ledger_builder import ledger_ranges
from logcore.logs.model.offset_ledger import LedgerRange, ledger_findings
from logcore.logs.model.sources import SourceLog
from logcore.logs.model.transactions import Transaction
from logcore.reading.log_reading import LogReading, read_log, records_from
from logcore.reading.read_options import Notes, ReadOptions, ReadRules
from logcore.storage.source_errors import shown


@dataclass(frozen=True, slots=True)
class TransactionReport:
    """The transactions of a log, and where its readers stop. The three ends are exclusive.

    Attributes:
        transactions: By first offset. A transaction that ended below the log start is left out.
        high_watermark: The end of committed offsets, at most the log end.
        last_stable_offset: Where readers with `read_committed` stop.
        log_end_offset: The offset after the last batch.
    """

    transactions: tuple[Transaction, ...]
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int


def read_meaning(
    log: SourceLog, rules: ReadRules, compacted: bool, notes: Notes, *, says_gaps: bool = True
) -> LogReading:
    """Read a whole log.

    Args:
        log: The log.
        rules: The high watermark.
        compacted: The topic is compacted, so that gaps between offsets are no losses.
        notes: Gets the findings about the log's bytes.
        says_gaps: As for `read_log`.

    Raises:
        LogError: The batches contradict each other.
    """
    return read_log(log, ReadOptions(rules=rules, is_compacted=True if compacted else None), notes, says_gaps=says_gaps)


def transactions_of(reading: LogReading, notes: Notes) -> TransactionReport:
    """Return the transactions of a pass.

    Args:
        reading: The pass.
        notes: Gets the findings about the transactions.
    """
    notes.say_all(reading.view.findings)
    return TransactionReport(
        listed_transactions(reading), reading.high_watermark, reading.view.last_stable_offset, reading.log_end_offset
    )


def listed_transactions(reading: LogReading) -> tuple[Transaction, ...]:
    """Return all transactions without those that ended below the log start.

    The batches of those exist only by chance, and a broker shows nothing of them.
    """
    return tuple(
        each
        for each in reading.view.transactions
        if each.marker_offset is None or max(each.last_offset, each.marker_offset) >= reading.log.log_start_offset
    )


def ledger_of(reading: LogReading, notes: Notes) -> Iterator[LedgerRange]:
    """Yield the ranges of a log's ledger, in order, from 0 to the log end, or to a high watermark above it.

    Args:
        reading: The pass over the log.
        notes: Gets the findings; those about a range after the range.

    Raises:
        LogError: A batch at the log start cannot be read or decoded.
    """
    notes.say_all(reading.view.findings)
    ranges = ledger_ranges(
        reading.facts,
        reading.view,
        start_offset=0,
        log_start_offset=reading.log.log_start_offset,
        high_watermark=reading.high_watermark,
        log_end_offset=reading.log_end_offset,
        rules=reading.rules,
        records_from=partial(records_from, reading.log),
    )
    for each in ranges:
        yield each
        for finding in ledger_findings([each]):
            message = f"{reading.log.topic_partition}: {finding.message}"
            notes.say(replace(finding, file=_file_at(reading.log, each.start_offset), message=message))
    if reading.lost is not None:  # it was reported already
        yield reading.lost


def _file_at(log: SourceLog, offset: int) -> str:
    """The segment that should have an offset: the last one that begins at or below it, else the first one."""
    before = [segment for segment in log.segments if segment.base_offset <= offset] or list(log.segments[:1])
    return shown(before[-1].path if before else log.directory)
