"""The log pass of ``validate``: from a log's batches to its transactions and its offset ledger.

Runs in a worker, one call per log. It streams the rows of ``batches`` after the log's resume offset. Memory is bounded
by the result (transactions and state changes of the ledger), not by the number of batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Any

import pyarrow as pa

from logcore.columns.checking.committed_runs import SCHEMA, SETTLED, settled_runs
from logcore.columns.checking.fact_runs import numbers_of, trusted_rows
from logcore.errors import LogError
from logcore.garbage_collection import collector_paused
from logcore.logs.ledger.ledger_builder import ledger_ranges
from logcore.logs.model.batch_facts import BatchFact, fold
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.offset_ledger import LedgerRange, check_tiling, ledger_findings
from logcore.logs.model.transactions import Ongoing, Transaction, TransactionWalk
from logcore.records.batch import read_header
from logcore.records.record import read_records
from spark_jobs.archived_rows.batch_rows import BatchRows
from spark_jobs.lake.store import mapped_file
from spark_jobs.reads import Reads
from spark_jobs.validate.batch_stream import BatchFile, SegmentPlace, stream_batches

LEDGER_FIELDS = tuple(field.name for field in fields(LedgerRange) if field.name != "published")


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The facts from ingest on which a log's ledger depends."""

    topic_partition: str
    resume_offset: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    cleaner_checkpoint: int | None
    compacted_by_policy: bool
    gap_evidence: tuple[tuple[int, int, str], ...]
    ongoing: tuple[tuple[int, int, int, int], ...] = ()
    """Transactions in progress at the resume offset: producer id and epoch, first and last offset below it."""
    cuts: tuple[int, ...] = ()
    """Offsets at which ledger ranges must be split, in addition to their natural borders."""


@dataclass(frozen=True, slots=True)
class LogTask:
    """A log to validate, and the location of its batches."""

    facts: LogFacts
    segments: tuple[SegmentPlace, ...]
    """Segments that feed the log, in offset order."""
    files: tuple[BatchFile | BatchRows, ...]

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(self.facts.topic_partition, None, self.facts.resume_offset, self.facts.log_end_offset)


Rows = Callable[[], Iterable[pa.RecordBatch]]
"""Reads the rows of a log; called again if there is a gap that only a later batch may explain."""
Columns = dict[str, list[Any]]
"""Values by field name, each list with one value per object. A log may have millions of objects."""


@dataclass(frozen=True, slots=True)
class ValidatedLog:
    """What the pass over a log found."""

    transactions: pa.Table
    """Columns of :class:`Transaction`, by first offset. A log may have a transaction for each record."""
    ledger: Columns
    """Columns of :class:`LedgerRange`. The ranges tile [resume offset, log end)."""
    findings: tuple[Finding, ...]


def validate_log(task: LogTask) -> ValidatedLog | Finding:
    """Compute transactions, ledger ranges and findings of one log.

    Returns:
        The result, or the finding that says why the log cannot be validated.
    """
    rows = partial(stream_batches, task.files, task.segments, task.facts.resume_offset)
    return pass_over_log(task.facts, rows, task.segments)


def pass_over_log(facts: LogFacts, rows: Rows, segments: Sequence[SegmentPlace]) -> ValidatedLog | Finding:
    """The same from rows of ``batches`` that end above ``facts.resume_offset``, in log order."""
    try:
        # Small transactions need two facts each: without the pause, the collector takes a quarter of the time.
        with collector_paused():
            return _validate(facts, rows, {segment.segment_id: segment for segment in segments})
    except (LogError, ValueError, OSError) as error:
        # A log whose batches contradict what ingest saw must not prevent the validation of other logs.
        return found("log-not-judged", f"{facts.topic_partition} is left as it was: {error}.")


def _validate(facts: LogFacts, read: Rows, segments: Mapping[str, SegmentPlace]) -> ValidatedLog:
    rules = GapRules(
        facts.cleaner_checkpoint, facts.compacted_by_policy, facts.gap_evidence, cache(partial(_cleaned_below, read))
    )
    chunks = iter(read())
    first = next((chunk for chunk in chunks if chunk.num_rows), None)
    begins_behind = first is not None and first.column("base_offset")[0].as_py() >= facts.resume_offset
    walk = TransactionWalk(
        high_watermark=facts.high_watermark,
        log_start_offset=facts.log_start_offset,
        rules=rules,
        ongoing=[Ongoing(*each) for each in facts.ongoing],
        # A batch that spans the resume offset begins before it, so there is no gap before that batch.
        start_offset=facts.resume_offset if facts.ongoing and begins_behind else None,
    )
    cuts = sorted({facts.resume_offset, facts.log_start_offset, facts.high_watermark, *facts.cuts})
    rows = itertools.chain([first] if first is not None else [], chunks)
    # A log may have millions of batches, so keep only the values that differ between them.
    settled: list[pa.RecordBatch] = []
    folded = tuple(fold(walk.over(_runs(rows, cuts, walk, settled)), cuts))
    view = walk.view()
    ledger = tuple(
        ledger_ranges(
            folded,
            view,
            start_offset=facts.resume_offset,
            log_start_offset=facts.log_start_offset,
            high_watermark=facts.high_watermark,
            log_end_offset=facts.log_end_offset,
            rules=rules,
            records_from=lambda fact, cut: _records_from(fact, cut, segments),
            cuts=facts.cuts,
        )
    )
    check_tiling(ledger, facts.resume_offset, facts.log_end_offset)
    return ValidatedLog(
        transactions=_transactions(view.transactions, settled),
        ledger={name: [getattr(each, name) for each in ledger] for name in LEDGER_FIELDS},
        findings=(*view.findings, *ledger_findings(ledger)),
    )


def _cleaned_below(read: Rows) -> int:
    """As `cleaned_below` of the rules for gaps."""
    found = 0
    for chunk in read():
        base, last, count = (numbers_of(chunk, name) for name in ("base_offset", "last_offset", "record_count"))
        has_horizon = chunk.column("delete_horizon_ms").is_valid().to_numpy(zero_copy_only=False)
        found = int(base[trusted_rows(chunk) & ((count <= last - base) | has_horizon)].max(initial=found))
    return found


def _runs(
    chunks: Iterable[pa.RecordBatch], cuts: Sequence[int], walk: TransactionWalk, settled: list[pa.RecordBatch]
) -> Iterator[BatchFact]:
    for chunk in chunks:
        yield from settled_runs(chunk, cuts, walk, settled)


def _transactions(walked: Sequence[Transaction], settled: Sequence[pa.RecordBatch]) -> pa.Table:
    columns = {name: [getattr(each, name) for each in walked] for name in SCHEMA.names}
    of_runs = pa.Table.from_batches(settled, schema=SETTLED).select(SCHEMA.names)
    table = pa.concat_tables([pa.table(columns, schema=SCHEMA), of_runs])
    return table.sort_by("first_offset") if settled else table


def _records_from(fact: BatchFact, cut: int, segments: Mapping[str, SegmentPlace]) -> int:
    """Count the records of a batch at or above ``cut`` by reading it; needed only where a cut lies in a batch with
    gaps.
    """
    segment = segments[fact.segment_id]
    position = segment.start + fact.position
    # The segment may be at its source. Reading one batch costs the same in both places.
    with mapped_file.mapped(
        segment.path, position, position + fact.size, at_source=True, registered=segment.registered
    ) as mapped:
        header = read_header(mapped, position)
        return sum(record.offset >= cut for record in read_records(mapped, position, header))
