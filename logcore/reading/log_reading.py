"""One pass over a whole log, for its transactions and the outcome of its offsets.

It takes batches as good only where `verify` does. A consumer ignores gaps; this pass checks every gap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from logcore.errors import LogError
from logcore.logs.checks.beyond_log_end import beyond_finding, cut_ends, stated_ends
from logcore.logs.model import readable_end
from logcore.logs.model.batch_facts import BatchFact, fold
from logcore.logs.model.findings import found
from logcore.logs.model.gaps import UNREADABLE, GapRules
from logcore.logs.model.offset_ledger import EVIDENCE_HIGH_WATERMARK, LedgerRange, OffsetState
from logcore.logs.model.producers.producer_state import ongoing
from logcore.logs.model.sources import SourceLog
from logcore.logs.model.transactions import Ongoing, TransactionView, TransactionWalk
from logcore.reading.log_facts import MAX_TIME_MS, LogBatchFacts
from logcore.reading.read_options import Notes, ReadOptions
from logcore.reading.segment_reading import rules_of_gaps
from logcore.reading.visible_offsets import requested_high_watermark
from logcore.records.batch import read_header
from logcore.records.record import read_records
from logcore.segments.side_files.producer_state import parse
from logcore.storage.discovery import read_file, read_range, shown

MAX_SNAPSHOT_BYTES = 1 << 30
"""A snapshot has 46 bytes for each producer; no broker has millions of producers."""


@dataclass(frozen=True, slots=True)
class LogReading:
    """The result of one pass over a log.

    Attributes:
        log: The log.
        facts: Joined facts; they may be cut only at log start, high watermark and last stable offset.
        view: The transactions.
        rules: The rules for gaps.
        high_watermark: Of the visible offsets; at most the log end.
        log_end_offset: The offset after the last batch.
        begun: By (producer id, first offset), the first fact of each undecided transaction.
        lost: Committed offsets after the log end; None without any.
        newest_ms: The newest time of a batch; -1 without one.
    """

    log: SourceLog
    facts: tuple[BatchFact, ...]
    view: TransactionView
    rules: GapRules
    high_watermark: int
    log_end_offset: int
    begun: dict[tuple[int, int], BatchFact]
    lost: LedgerRange | None = None
    newest_ms: int = -1


def read_log(
    log: SourceLog, options: ReadOptions, notes: Notes, *, says_gaps: bool = True, until_ms: int = MAX_TIME_MS
) -> LogReading:
    """Read a log and derive its transactions.

    Args:
        log: The log.
        options: The high watermark, and whether the log is compacted.
        notes: Gets the findings about the log's bytes, but not those of the view.
        says_gaps: Report missing offsets between segments; the ledger has them as ranges.
        until_ms: Later times of batches do not count.

    Raises:
        LogError: The batches contradict each other.
    """
    rules = rules_of_gaps(log, notes, options.is_compacted)
    stated = requested_high_watermark(log, options.rules.high_watermark)
    limit = readable_end.high_watermark(stated)
    first = log.segments[0].base_offset if log.segments else log.log_start_offset
    # Batches below the log start count too: a transaction may begin there.
    walk = TransactionWalk(
        high_watermark=limit, rules=rules, ongoing=_in_progress(log, first, notes), start_offset=first
    )
    cuts = sorted((log.log_start_offset, limit))
    said = rules if says_gaps else GapRules(compacted_by_policy=True)
    facts = LogBatchFacts(log, notes, walk, cuts, said, until_ms)
    folded = tuple(fold(walk.over(facts), cuts))
    view = facts.view()
    # A broker drops a log that ends below its start, and begins there.
    end = max([facts.end, *(segment.base_offset for segment in log.segments[-1:])])
    for finding in cut_ends([each for each in stated_ends(log) if each.then], end, str(log.topic_partition)):
        notes.say(finding)
    end = max(end, log.log_start_offset)
    high_watermark = readable_end.high_watermark(limit, log_end_offset=end)
    lost = _lost_end(log, facts, end, stated)
    if lost is not None and lost.evidence != UNREADABLE:  # that was reported
        notes.say(beyond_finding(log, lost.start_offset, lost.end_offset))
    # As a broker does, which moves it up with the log start.
    stable = readable_end.last_stable_offset(
        view.last_stable_offset, high_watermark=high_watermark, log_start_offset=log.log_start_offset
    )
    view = replace(view, last_stable_offset=stable)
    return LogReading(log, folded, view, rules, high_watermark, end, facts.begun, lost, facts.newest_ms)


def _lost_end(log: SourceLog, facts: LogBatchFacts, end: int, high_watermark: int | None) -> LedgerRange | None:
    """Return the committed offsets after the log's end.

    None if there are none, or if that is unknown because a segment was not named or not read to its end.
    """
    if high_watermark is None or high_watermark <= end or log.is_metadata:
        return None
    if any(base >= end for base in log.unreadable):
        return LedgerRange(end, high_watermark, OffsetState.MISSING, evidence=UNREADABLE)
    if facts.is_partial or any(base >= end for base in log.unnamed):
        return None
    if facts.damage_at_end is not None:
        return LedgerRange(end, high_watermark, OffsetState.CORRUPT, evidence=facts.damage_at_end)
    return LedgerRange(end, high_watermark, OffsetState.MISSING, evidence=EVIDENCE_HIGH_WATERMARK)


def records_from(log: SourceLog, fact: BatchFact, cut: int) -> int:
    """Count the records of a batch from an offset on, by reading them.

    Args:
        log: The log of the batch.
        fact: The batch.
        cut: The offset.

    Raises:
        LogError: The batch cannot be read or decoded.
    """
    content = _bytes_of(log, fact)
    header = read_header(content, 0)
    return sum(record.offset >= cut for record in read_records(content, 0, header))


def time_of(log: SourceLog, fact: BatchFact) -> int:
    """Read the greatest timestamp (ms) of a batch; of several joined ones, that of the first.

    Raises:
        LogError: The batch cannot be read.
    """
    return read_header(_bytes_of(log, fact), 0).max_timestamp


def _bytes_of(log: SourceLog, fact: BatchFact) -> bytes:
    seen = next((segment for segment in log.segments if segment.path == fact.segment_id), None)
    return read_range(fact.segment_id, fact.position, fact.position + fact.size, seen)


def _in_progress(log: SourceLog, first: int, notes: Notes) -> tuple[Ongoing, ...]:
    """Return the transactions in progress where the log's files begin, if a snapshot there has them."""
    path = dict(log.snapshots).get(first)
    if first == 0 or path is None:
        return ()
    try:
        return ongoing(parse(read_file(path, MAX_SNAPSHOT_BYTES)), first)
    except LogError as error:
        message = f"{shown(path)} cannot be used: {error.message}."
        notes.say(found("broken-snapshot", message, file=shown(path)))
        return ()
