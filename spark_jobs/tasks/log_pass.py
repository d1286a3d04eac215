"""The log pass of ``validate``: from a log's batches to its transactions and its offset ledger.

Runs in a worker, one call a log, over the rows of ``batches`` behind the log's resume offset as they stream by. Memory
is bounded by what comes out: transactions, and places where the ledger's state changes; not by batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa

from logcore.columns.checking.fact_runs import fact_runs
from logcore.errors import LogError
from logcore.logs.ledger.ledger_builder import ledger_ranges
from logcore.logs.model.batch_facts import BatchFact, fold
from logcore.logs.model.findings import found
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.offset_ledger import LedgerRange, check_tiling, ledger_findings
from logcore.logs.model.transactions import Ongoing, Transaction, TransactionWalk
from logcore.records.batch import read_header
from logcore.records.record import read_records
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.store import storage
from spark_jobs.tasks.batch_stream import BatchFile, SegmentPlace, stream_batches

TRANSACTION_FIELDS = tuple(field.name for field in fields(Transaction))
LEDGER_FIELDS = tuple(field.name for field in fields(LedgerRange) if field.name != "published")


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
    ongoing: tuple[tuple[int, int, int, int], ...] = ()
    """Transactions in progress at the resume offset: producer id and epoch, first and last offset below it."""
    cuts: tuple[int, ...] = ()
    """Offsets at which no range of the ledger may go through, besides those that it has by itself."""

    @classmethod
    def of(
        cls,
        row: LogRow,
        resume_offset: int,
        compacted_by_policy: bool,
        ongoing: tuple[tuple[int, int, int, int], ...] = (),
        cuts: tuple[int, ...] = (),
    ) -> LogFacts:
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
            ongoing=ongoing,
            cuts=cuts,
        )


@dataclass(frozen=True, slots=True)
class LogTask:
    """A log to look at, and where its batches are."""

    facts: LogFacts
    segments: tuple[SegmentPlace, ...]
    """Those that feed the log, in offset order."""
    files: tuple[BatchFile, ...]


def judge_log(value: Mapping[str, Any]) -> dict[str, Any]:
    """Transactions, ledger ranges and findings of one log, as plain values.

    Args:
        value: a :class:`LogTask` as plain values.

    Returns:
        ``failed`` (None, or the finding that says why the log can't be judged, and then nothing else);
        ``transactions`` and ``ledger`` (ranges that tile [resume offset, log end)), both as lists by column;
        ``findings``.
    """
    given = {name: _tuples(item) for name, item in value["facts"].items()}
    segments = [SegmentPlace(**segment) for segment in value["segments"]]
    files = [BatchFile(**file) for file in value["files"]]
    facts = LogFacts(**given)
    return pass_over_log(facts, stream_batches(files, segments, facts.resume_offset), segments)


def pass_over_log(
    facts: LogFacts, chunks: Iterable[pa.RecordBatch], segments: Sequence[SegmentPlace]
) -> dict[str, Any]:
    """The same, of rows of ``batches`` that reach above ``facts.resume_offset``, in the order of the log."""
    try:
        return _judge(facts, chunks, {segment.segment_id: segment for segment in segments}) | {"failed": None}
    except (LogError, ValueError, OSError) as error:
        # One log whose batches contradict what ingest saw must not keep the others from being judged.
        finding = found("log-not-judged", f"{facts.topic_partition} is left as it was: {error}.")
        return {"failed": asdict(finding)}


def _judge(facts: LogFacts, chunks: Iterable[pa.RecordBatch], segments: Mapping[str, SegmentPlace]) -> dict[str, Any]:
    rules = GapRules(facts.cleaner_checkpoint, facts.compacted_by_policy, facts.gap_evidence)
    chunks = iter(chunks)
    first = next((chunk for chunk in chunks if chunk.num_rows), None)
    begins_behind = first is not None and first.column("base_offset")[0].as_py() >= facts.resume_offset
    walk = TransactionWalk(
        high_watermark=facts.high_watermark,
        log_start_offset=facts.log_start_offset,
        rules=rules,
        ongoing=[Ongoing(*each) for each in facts.ongoing],
        # A batch that reaches over the resume offset begins below it; no gap is in front of it.
        start_offset=facts.resume_offset if facts.ongoing and begins_behind else None,
    )
    cuts = sorted({facts.resume_offset, facts.log_start_offset, facts.high_watermark, *facts.cuts})
    rows = itertools.chain([first] if first is not None else [], chunks)
    # Of a log of millions of batches only what tells them apart is held.
    folded = tuple(fold(walk.over(_runs(rows, cuts, walk)), cuts))
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
    return {
        "transactions": {name: [getattr(each, name) for each in view.transactions] for name in TRANSACTION_FIELDS},
        "ledger": {name: [getattr(each, name) for each in ledger] for name in LEDGER_FIELDS},
        "findings": [asdict(finding) for finding in (*view.findings, *ledger_findings(ledger))],
    }


def _runs(chunks: Iterable[pa.RecordBatch], cuts: Sequence[int], walk: TransactionWalk) -> Iterator[BatchFact]:
    for chunk in chunks:
        yield from fact_runs(chunk, cuts, lambda: walk.open_producers)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list | tuple) else value


def _records_from(fact: BatchFact, cut: int, segments: Mapping[str, SegmentPlace]) -> int:
    """Records of a batch at or above ``cut``, told by reading it: asked only where a cut goes through gaps."""
    segment = segments[fact.segment_id]
    position = segment.start + fact.position
    # It may lie at the source; one batch is read at the same cost either way.
    with storage.mapped(segment.path, position, position + fact.size, at_source=True) as mapped:
        header = read_header(mapped, position)
        return sum(record.offset >= cut for record in read_records(mapped, position, header))
