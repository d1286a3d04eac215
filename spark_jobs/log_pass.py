"""The log pass of ``validate``: from a log's batches to its transactions and its offset ledger.

Runs in a worker, one call a log, on the rows of ``batches`` behind the log's resume offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from logcore.errors import LogError
from logcore.logs.batch_facts import BatchFact, fold
from logcore.logs.findings import found
from logcore.logs.gaps import GapRules
from logcore.logs.ledger_builder import ledger_ranges
from logcore.logs.offset_ledger import LedgerRange, check_tiling, ledger_findings
from logcore.logs.transactions import TransactionWalk
from logcore.records.batch import read_header
from logcore.records.record import read_records
from logcore.storage.local import map_file
from spark_jobs.lake.archive import LogRow

LOG_PASS_RESULT = "log string, result string"
FACT_COLUMNS = tuple(field.name for field in fields(BatchFact))
"""Columns of ``batches`` that the log pass looks at."""

CHUNK_ROWS = 65_536
"""Rows that are Python values at a time."""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What ingest saw of a log, as far as the ledger depends on it."""

    topic_partition: str
    resume_offset: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    cleaner_checkpoint: int | None
    compacted_by_policy: bool
    gap_evidence: tuple[tuple[int, int, str], ...]

    @classmethod
    def of(cls, row: LogRow, resume_offset: int, compacted_by_policy: bool) -> LogFacts:
        """From the log's row in ``logs``."""
        return cls(
            topic_partition=row.topic_partition,
            resume_offset=resume_offset,
            log_start_offset=row.log_start_offset,
            high_watermark=min(row.publish_limit(), row.next_offset),
            log_end_offset=row.next_offset,
            cleaner_checkpoint=row.cleaner_checkpoint,
            compacted_by_policy=compacted_by_policy,
            gap_evidence=row.gap_evidence,
        )


def pass_over_log(facts: LogFacts, batches: pa.Table, files: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
    """Transactions, ledger ranges and findings of one log, as plain values.

    Args:
        batches: rows of ``batches`` that reach above ``facts.resume_offset``, in any order.
        files: path of a segment's file, and where the segment begins in it, by segment id.

    Returns:
        ``failed`` (None, or the finding that says why the log can't be judged, and then nothing else);
        ``transactions``, ``ledger`` (ranges that tile [resume offset, log end)), ``findings``.
    """
    try:
        return _judge(facts, batches, files) | {"failed": None}
    except (LogError, ValueError) as error:
        # One log whose batches contradict what ingest saw must not keep the others from being judged.
        finding = found("log-not-judged", f"{facts.topic_partition} is left as it was: {error}.")
        return {"failed": asdict(finding)}


def _judge(facts: LogFacts, batches: pa.Table, files: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
    rules = GapRules(facts.cleaner_checkpoint, facts.compacted_by_policy, facts.gap_evidence)
    walk = TransactionWalk(high_watermark=facts.high_watermark, log_start_offset=facts.log_start_offset, rules=rules)
    cuts = (facts.resume_offset, facts.log_start_offset, facts.high_watermark)
    # Of a log of millions of batches only what tells them apart is held.
    folded = tuple(fold(walk.over(_in_order(batches)), cuts))
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
            records_from=lambda fact, cut: _records_from(fact, cut, files),
        )
    )
    check_tiling(ledger, facts.resume_offset, facts.log_end_offset)
    return {
        "transactions": [asdict(transaction) for transaction in view.transactions],
        "ledger": [_ledger_row(each) for each in ledger],
        "findings": [asdict(finding) for finding in (*view.findings, *ledger_findings(ledger))],
    }


def _in_order(batches: pa.Table) -> Iterator[BatchFact]:
    """Facts in offset order; bytes that can't be trusted stand before the batch that is expected at their place."""
    if not batches.num_rows:
        return
    is_batch = pc.is_valid(batches.column("last_offset"))
    keys = [("base_offset", "ascending"), ("is_batch", "ascending"), ("position", "ascending")]
    ordered = batches.append_column("is_batch", is_batch).sort_by(keys).select(FACT_COLUMNS)
    for chunk in ordered.to_batches(max_chunksize=CHUNK_ROWS):
        for values in zip(*(column.to_pylist() for column in chunk.columns), strict=True):
            fact = BatchFact(*values)
            yield fact if fact.last_offset is not None else _stretch(fact)


def _stretch(fact: BatchFact) -> BatchFact:
    """Columns that say nothing of a stretch are null in the table."""
    return replace(
        fact,
        record_count=0,
        producer_id=-1,
        producer_epoch=-1,
        is_transactional=False,
        is_control=False,
        leader_epoch=-1,
    )


def _ledger_row(each: LedgerRange) -> dict[str, Any]:
    return {name: value for name, value in asdict(each).items() if name != "published"}


def _records_from(fact: BatchFact, cut: int, files: Mapping[str, tuple[str, int]]) -> int:
    """Records of a batch at or above ``cut``, told by reading it: asked only where a cut goes through gaps."""
    path, start = files[fact.segment_id]
    with map_file(path) as mapped:
        position = start + fact.position
        header = read_header(mapped, position)
        return sum(record.offset >= cut for record in read_records(mapped, position, header))
