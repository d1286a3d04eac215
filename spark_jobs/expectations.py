"""``expectations``: what was published, looked at again in the table itself.

    measure   counts of every range in one Spark pass over `records`, files skipped by topic and offset
    join      with what the ledger, the batches' verdicts and the frontier say                 (driver)
    judge     by Great Expectations, with Data Docs under `<lake>/data_docs`                   (driver)

Neither the count of rows nor their order is taken from a file's statistics: rows are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from logcore.columns.schema import MAX_TIMESTAMP_MS
from logcore.errors import CorruptionReason
from logcore.logs.findings import found
from logcore.logs.offset_ledger import OffsetState, publish_end
from spark_jobs.contracts import ExpectationsConfig, JobReport, LogChange
from spark_jobs.lake import archive, checked, finding_rows, frontier, storage
from spark_jobs.lake.archive import LogRow
from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.finding_rows import PlacedFinding
from spark_jobs.lake.frontier import LedgerRow
from spark_jobs.lake.removals import count_records, cut
from spark_jobs.lake.tables import ensure_table, read_rows, table_uri

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from spark_jobs.expectation_suite import Evaluation

DOCS = "data_docs"


@dataclass(frozen=True, slots=True)
class RangePlan:
    """A published range and what it is expected to hold."""

    log: str
    topic: str
    log_id: str
    partition: int
    start_offset: int
    end_offset: int
    expected_rows: int
    crc_failures: int
    crc_failures_of_log: int
    log_end_offset: int
    frontier: int
    unpublished_decided_offsets: int
    """Offsets that could have been published and were not."""

    @property
    def lag(self) -> int:
        """Offsets from the frontier to the log end."""
        return self.log_end_offset - self.frontier


@dataclass(frozen=True, slots=True)
class ExpectationsPlan:
    """What there is to check."""

    ranges: tuple[RangePlan, ...]

    @property
    def is_empty(self) -> bool:
        """No range was named."""
        return not self.ranges

    @property
    def needs_spark(self) -> bool:
        """Rows are counted by Spark."""
        return bool(self.ranges)

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {"ranges": [asdict(each) for each in self.ranges]}


def plan(config: ExpectationsConfig) -> ExpectationsPlan:
    """The ranges of the configuration, with what the lake's other tables say of them.

    Raises:
        UsageError: a log that the lake does not have, or a range that ends before it begins.
    """
    logs = sorted(config.ranges)
    if not logs:
        return ExpectationsPlan(())
    rows = archive.read_logs(config.lake, logs)
    ledger = frontier.read_ledger(config.lake, logs)
    frontiers = frontier.read_frontiers(config.lake, logs)
    failures = _crc_failures(config.lake, logs)
    ranges = []
    for log in logs:
        start, end = config.ranges[log]
        if log not in rows:
            raise UsageError(f"The lake {config.lake} has no log {log}.")
        if not 0 <= start < end:
            raise UsageError(f"Log {log}: [{start}, {end}) is no range of offsets.")
        expected = _present_records(config.lake, ledger.get(log, ()), start, end)
        at = failures.get(log, [])
        ranges.append(_range(rows[log], start, end, expected, at, ledger.get(log, ()), frontiers[log] or 0))
    return ExpectationsPlan(tuple(ranges))


def apply(plan: ExpectationsPlan, config: ExpectationsConfig, spark: SparkSession) -> JobReport:
    """Measure, judge, and say so; ranges that were due are recorded as checked whatever the outcome."""
    from spark_jobs.expectation_suite import evaluate

    frame = _frame(plan.ranges, _measure(spark, config.lake, plan.ranges))
    docs = storage.join(config.lake, DOCS)
    evaluation = evaluate(frame, len(plan.ranges), docs, config.run_id, config.as_of_ms)
    new = finding_rows.record(config.lake, _findings(plan, evaluation), config.run_id, config.as_of_ms)
    _mark_checked(config)
    outcomes = evaluation.outcomes
    return JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        changed=tuple(LogChange(r.log, r.topic, r.partition, row) for r, row in zip(plan.ranges, frame, strict=True)),
        findings=tuple(new),
        plan={"expectations": [asdict(o) for o in outcomes], "frame": frame, "data_docs": evaluation.page},
        used_spark=True,
        metrics={
            "success": evaluation.success,
            "ranges": len(plan.ranges),
            "rows": sum(row["rows"] for row in frame),
            "expectations": len(outcomes),
            "failed": sum(not outcome.success for outcome in outcomes),
            "data_docs": evaluation.page,
        },
    )


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
    """Offsets expected where a batch's crc does not fit, by log."""
    where: list[tuple[str, str, object]] = [("log", "in", list(logs)), ("verdict", "==", str(CorruptionReason.CRC))]
    failures: dict[str, list[int]] = {}
    for row in read_rows(lake, "batches", ["log", "base_offset"], where).to_pylist():
        failures.setdefault(row["log"], []).append(row["base_offset"])
    return failures


def _present_records(lake: str, ledger: Sequence[LedgerRow], start: int, end: int) -> int:
    """Records that the ledger counts as visible in [start, end)."""
    total = 0
    for row in ledger:
        if row.state != OffsetState.PRESENT or row.end_offset <= start or row.start_offset >= end:
            continue
        piece = row
        if piece.start_offset < start:
            piece = cut(piece, start, partial(count_records, lake))[1]
        if piece.end_offset > end:
            piece = cut(piece, end, partial(count_records, lake))[0]
        total += piece.records
    return total


def _measure(spark: SparkSession, lake: str, ranges: Sequence[RangePlan]) -> dict[str, Mapping[str, Any]]:
    """Counts by log key; a log without a row in its range is left out."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    ensure_table(lake, "records")
    wanted = spark.createDataFrame(
        [(r.log, r.topic, r.log_id, r.partition, r.start_offset, r.end_offset) for r in ranges],
        "log string, wanted_topic string, wanted_log_id string, wanted_partition int, start_offset long, "
        "end_offset long",
    )
    rows = _pruned(spark, lake, ranges).join(
        F.broadcast(wanted),
        (F.col("topic") == F.col("wanted_topic"))
        & (F.col("log_id") == F.col("wanted_log_id"))
        & (F.col("partition") == F.col("wanted_partition"))
        & (F.col("offset") >= F.col("start_offset"))
        & (F.col("offset") < F.col("end_offset")),
    )
    in_file_order = Window.partitionBy("log", "file_path").orderBy("file_block_start", "place")
    measured = (
        rows.withColumn("earlier", F.lag("offset").over(in_file_order))
        .groupBy("log")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.countDistinct("offset").alias("distinct_offsets"),
            F.min("offset").alias("min_offset"),
            F.max("offset").alias("max_offset"),
            _count_if(F.col("offset") <= F.col("earlier")).alias("non_rising_offsets"),
            _count_if(F.col("timestamp").isNull() & F.col("timestamp_ms").between(0, MAX_TIMESTAMP_MS)).alias(
                "unexpected_null_timestamps"
            ),
        )
    )
    return {row["log"]: row.asDict() for row in measured.collect()}


def _pruned(spark: SparkSession, lake: str, ranges: Sequence[RangePlan]) -> DataFrame:
    """Rows of the topics concerned, and of each topic the offsets: literals, so that Delta opens no other file."""
    from pyspark.sql import functions as F

    spans: dict[str, tuple[int, int]] = {}
    for r in ranges:
        start, end = spans.get(r.topic, (r.start_offset, r.end_offset))
        spans[r.topic] = (min(start, r.start_offset), max(end, r.end_offset))
    condition = F.lit(False)
    for topic, (start, end) in sorted(spans.items()):
        condition |= (F.col("topic") == topic) & (F.col("offset") >= start) & (F.col("offset") < end)
    columns = ("topic", "partition", "log_id", "offset", "timestamp", "timestamp_ms")
    # Delta does not pass on Parquet's row index. A split is read in the order of its file, and this number rises with
    # the rows of a split, so block and number together are the order in the file.
    return (
        spark.read.format("delta")
        .load(table_uri(lake, "records"))
        .select(*columns, F.col("_metadata.file_path"), F.col("_metadata.file_block_start"))
        .where(condition)
        .withColumn("place", F.monotonically_increasing_id())
    )


def _count_if(condition: Column) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(F.sum(F.when(condition, 1).otherwise(0)), F.lit(0))


def _frame(ranges: Sequence[RangePlan], measured: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a range: what was counted beside what was expected."""
    counts = ("rows", "distinct_offsets", "non_rising_offsets", "unexpected_null_timestamps")
    frame = []
    for r in ranges:
        counted = measured.get(r.log, {})
        row: dict[str, Any] = {"topic_partition": f"{r.topic}-{r.partition}"} | asdict(r) | {"lag": r.lag}
        row |= {name: int(counted.get(name, 0)) for name in counts}
        row |= {name: counted.get(name) for name in ("min_offset", "max_offset")}
        frame.append(row)
    return frame


def _findings(plan: ExpectationsPlan, evaluation: Evaluation) -> list[PlacedFinding]:
    """An error for each critical expectation and log; what only wants a look is in the report and its pages."""
    ranges = {each.log: each for each in plan.ranges}
    placed = []
    for outcome in evaluation.outcomes:
        if outcome.success or outcome.severity != "critical":
            continue
        for log in outcome.failing:
            r = ranges[log]
            message = (
                f"{r.topic}-{r.partition}: offsets [{r.start_offset}, {r.end_offset}) of the table records do not "
                f"meet the expectation {outcome.name}."
            )
            finding = found("expectation-failed", message, start_offset=r.start_offset, end_offset=r.end_offset)
            placed.append(PlacedFinding(finding, r.log, r.topic, r.partition))
        if not outcome.failing:
            message = f"The expectation {outcome.name} on published ranges is not met: {outcome.observed}."
            placed.append(PlacedFinding(found("expectation-failed", message)))
    return placed


def _mark_checked(config: ExpectationsConfig) -> None:
    """Only ranges that begin where checking had come to: others would hide what lies between."""
    pending = checked.pending_ranges(config.lake)
    due = {
        log: (start, end)
        for log, (start, end) in config.ranges.items()
        if log in pending and start <= pending[log][0] and end <= pending[log][1]
    }
    if due:
        checked.mark_checked(config.lake, due, config.run_id)
