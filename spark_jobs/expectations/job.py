"""``expectations``: checks what was published, in the table itself.

    measure   counts of every range, over the files of `records` that may have it   (workers)
    join      with the ledger, the batches' verdicts and the frontier               (driver)
    check     plain comparisons, and Great Expectations for the suites of policies  (driver)
              with many rows on Spark, also each row with the Spark engine of Great Expectations
    show      a page under `<lake>/data_docs`                                       (driver)

Neither the number of rows nor their order is taken from a file's statistics: rows are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from logcore.errors import CorruptionReason
from logcore.logs.model.findings import found
from logcore.logs.model.offset_ledger import publish_end
from spark_jobs.contracts import ExpectationsConfig, JobReport, LogChange
from spark_jobs.errors import UsageError
from spark_jobs.expectations.data_docs import write_pages
from spark_jobs.expectations.published_rows import ByPlace, CountTask, RowCounts, count_rows
from spark_jobs.expectations.range_checks import (
    BY_COUNTS,
    BY_SPARK,
    CHECKS,
    COMPLETENESS,
    DECODED_CHECKS,
    ROW_COUNT,
    Evaluation,
    FrameRow,
    evaluate,
)
from spark_jobs.lake.delta.files.live_files import newest_files
from spark_jobs.lake.delta.tables.snapshots import read_rows, table_uri
from spark_jobs.lake.ledger import finding_rows, frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.published import checked
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.segments.ledger_ranges import records_within, with_published
from spark_jobs.lake.store import storage
from spark_jobs.outlines import ExpectationResult, RangePlan, RangesOutline
from spark_jobs.placed_finding import PlacedFinding

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor

DOCS = "data_docs"
OWN = frozenset((*(check.name for check in (*CHECKS, *DECODED_CHECKS)), ROW_COUNT, COMPLETENESS))
"""Names of our own expectations; others are of a user's suite."""


@dataclass(frozen=True, slots=True)
class ExpectationsPlan:
    """What there is to check."""

    ranges: tuple[RangePlan, ...]
    spans: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """By log: the offsets that the ledger says are published and visible."""

    @property
    def is_empty(self) -> bool:
        """Whether no range was named."""
        return not self.ranges

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks read; None: there are no tasks."""
        return 0 if self.ranges else None

    @property
    def outline(self) -> RangesOutline:
        """What a dry run says of it."""
        return RangesOutline(self.ranges)


def plan(config: ExpectationsConfig) -> ExpectationsPlan:
    """Plan the ranges of the configuration, with their expected contents from the lake's other tables.

    Raises:
        UsageError: The lake does not have a log, or a range ends before it begins.
    """
    logs = sorted(config.ranges)
    if not logs:
        return ExpectationsPlan(())
    rows = archive.read_logs(config.lake, logs)
    ledger = frontier.read_ledger(config.lake, logs)
    frontiers = frontier.read_frontiers(config.lake, logs)
    failures = _crc_failures(config.lake, logs)
    ranges, spans = [], {}
    for log in logs:
        start, end = config.ranges[log]
        if log not in rows:
            raise UsageError(f"The lake {config.lake} has no log {log}.")
        if not 0 <= start < end:
            raise UsageError(f"Log {log}: [{start}, {end}) is not a range of offsets.")
        # Offsets filled below the frontier are published only by a replacement.
        published = with_published(config.lake, ledger.get(log, ()), frontiers[log])
        expected = _published_records(config.lake, published, start, end)
        spans[log] = [(row.start_offset, row.end_offset) for row in published if row.has_rows]
        at = failures.get(log, [])
        ranges.append(_range(rows[log], start, end, expected, at, ledger.get(log, ()), frontiers[log] or 0))
    return ExpectationsPlan(tuple(ranges), spans)


def apply(plan: ExpectationsPlan, config: ExpectationsConfig, executor: Executor) -> JobReport[RangesOutline]:
    """Measure, check and report. Ranges that were due are recorded as checked whatever the result."""
    counted = _measure(executor, config.lake, plan.ranges)
    frame = _frame(plan.ranges, counted)
    of_rows, of_decoded = _of_rows(config, plan, executor)
    evaluation = evaluate(frame, len(plan.ranges), of_rows)
    evaluation = evaluation.with_results([*of_decoded, *_of_suites(config, plan.ranges, executor)])
    outcomes = evaluation.outcomes
    checked_by = BY_COUNTS if of_rows is None else BY_SPARK
    docs = storage.join(config.lake, DOCS)
    page = write_pages(docs, config.run_id, config.as_of_ms, outcomes, frame, checked_by)
    new = finding_rows.record(config.lake, _findings(plan, evaluation), config.run_id, config.as_of_ms)
    _mark_checked(config)
    return JobReport.of(
        config,
        RangesOutline(expectations=outcomes, frame=tuple(frame), data_docs=page),
        changed=tuple(LogChange(r.log, r.topic, r.partition, row) for r, row in zip(plan.ranges, frame, strict=True)),
        findings=tuple(new),
        used_executor=True,
        metrics={
            "success": evaluation.success,
            "ranges": len(plan.ranges),
            "rows": sum(counts.rows for counts in counted),
            "expectations": len(outcomes),
            "failed": sum(not outcome.success for outcome in outcomes),
            "data_docs": page,
            "rows_checked_by": checked_by,
        },
    )


def _of_rows(
    config: ExpectationsConfig, plan: ExpectationsPlan, executor: Executor
) -> tuple[dict[str, ExpectationResult] | None, list[ExpectationResult]]:
    """Results of our own checks that are on rows, of `records` by name, and of decoded topics; None: by counts."""
    spark = getattr(executor, "session", None)
    rows = sum(each.expected_rows for each in plan.ranges)
    is_few = not rows or rows < config.policies.lake.expectations_rows
    if spark is None or (is_few and not config.is_whole):
        return None, []
    from spark_jobs.expectations.built_in_suite import check_decoded, check_records

    policies = config.policies
    decoded = [each for each in plan.ranges if (policy := policies.for_topic(each.topic)) and policy.decodes]
    found = {each.name: each for each in check_records(config.lake, plan.ranges, plan.spans, spark)}
    return found, check_decoded(config.lake, decoded, spark) if decoded else []


def _of_suites(config: ExpectationsConfig, ranges: Sequence[RangePlan], executor: Executor) -> list[ExpectationResult]:
    """Results of the suites that the policies name; without one, Great Expectations is not imported."""
    policies = config.policies
    of_topics = {each.topic: policy for each in ranges if (policy := policies.for_topic(each.topic))}
    suites = {topic: policy.expectations_suite for topic, policy in of_topics.items()}
    of_decoded = {topic: policy.decode_expectations_suite for topic, policy in of_topics.items()}
    if not any((*suites.values(), *of_decoded.values())):
        return []
    from spark_jobs.expectations.user_suites import evaluate_suites

    spark = getattr(executor, "session", None)
    return [
        *evaluate_suites(config.lake, ranges, suites, spark=spark),
        *evaluate_suites(config.lake, ranges, of_decoded, decoded=True, spark=spark),
    ]


def _range(
    row: LogRow,
    start: int,
    end: int,
    expected: int,
    failures: Sequence[int],
    ledger: Sequence[LedgerRow],
    published_to: int,
) -> RangePlan:
    return RangePlan(
        log=row.log,
        topic=row.topic,
        log_id=row.log_id,
        partition=row.partition,
        start_offset=start,
        end_offset=end,
        expected_rows=expected,
        crc_failures=sum(start <= offset < end for offset in failures),
        crc_failures_of_log=len(failures),
        log_end_offset=row.next_offset,
        frontier=published_to,
        unpublished_decided_offsets=publish_end(ledger, published_to) - published_to,
    )


def _crc_failures(lake: str, logs: Sequence[str]) -> dict[str, list[int]]:
    """Expected offsets of batches with a wrong CRC, by log; without bytes that were replaced by valid ones."""
    # `batches` has many rows and many files: read it only for segments with bytes in quarantine.
    damaged: list[tuple[str, str, object]] = [("log", "in", list(logs)), ("quarantined_bytes", ">=", 1)]
    ids = read_rows(lake, "validations", ["segment_id"], damaged)["segment_id"].to_pylist()
    if not ids:
        return {}
    where: list[tuple[str, str, object]] = [("segment_id", "in", ids), ("verdict", "==", str(CorruptionReason.CRC))]
    failures: dict[str, list[int]] = {}
    found = read_rows(lake, "batches", ["log", "segment_id", "base_offset"], where).to_pylist()
    feeding = {s.segment_id for s in archive.ingested_segments(lake, sorted({row["log"] for row in found}))}
    for row in found:
        if row["segment_id"] in feeding:
            failures.setdefault(row["log"], []).append(row["base_offset"])
    return failures


def _published_records(lake: str, ledger: Sequence[LedgerRow], start: int, end: int) -> int:
    """Records that the ledger counts as visible and published in [start, end)."""
    due = (row for row in ledger if row.has_rows and row.end_offset > start and row.start_offset < end)
    return sum(records_within(lake, row, start, end) for row in due)


def _measure(executor: Executor, lake: str, ranges: Sequence[RangePlan]) -> list[RowCounts]:
    """Count the rows of each range."""
    files = ByPlace(newest_files(lake, "records"))
    root = table_uri(lake, "records")
    chosen = [files.of(r.topic, r.partition, r.log_id, r.start_offset, r.end_offset) for r in ranges]
    tasks = [
        CountTask(
            r.log_id, r.partition, r.start_offset, r.end_offset, tuple(storage.join(root, file.path) for file in mine)
        )
        for r, mine in zip(ranges, chosen, strict=True)
    ]
    return executor.run(count_rows, tasks, [sum(file.size for file in mine) for mine in chosen])


def _frame(ranges: Sequence[RangePlan], measured: Sequence[RowCounts]) -> list[FrameRow]:
    return [
        {"topic_partition": f"{r.topic}-{r.partition}"} | asdict(r) | {"lag": r.lag} | asdict(counted)
        for r, counted in zip(ranges, measured, strict=True)
    ]


def _findings(plan: ExpectationsPlan, evaluation: Evaluation) -> list[PlacedFinding]:
    """Build an error for each failed critical expectation and log. The report and its pages have the less severe
    results.
    """
    ranges = {each.log: each for each in plan.ranges}
    placed = []
    for outcome in evaluation.outcomes:
        if outcome.success or outcome.severity != "critical":
            continue
        for log in outcome.failing:
            r = ranges[log]
            message = (
                f"{r.topic}-{r.partition}: offsets [{r.start_offset}, {r.end_offset}) of the table records do not "
                f"meet the expectation {outcome.name}{'' if outcome.name in OWN else f': {outcome.observed}'}."
            )
            finding = found("expectation-failed", message, start_offset=r.start_offset, end_offset=r.end_offset)
            placed.append(PlacedFinding(finding, r.log, r.topic, r.partition))
        if not outcome.failing:
            message = f"The expectation {outcome.name} on published ranges is not met: {outcome.observed}."
            placed.append(PlacedFinding(found("expectation-failed", message)))
    return placed


def _mark_checked(config: ExpectationsConfig) -> None:
    """Record the ranges that begin where checking ended before: others would hide the offsets between."""
    pending = checked.pending_ranges(config.lake)
    due = {
        log: (start, end)
        for log, (start, end) in config.ranges.items()
        if log in pending and start <= pending[log][0] and end <= pending[log][1]
    }
    if due:
        checked.mark_checked(config.lake, due, config.run_id)
