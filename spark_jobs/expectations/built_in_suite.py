"""The checks of ``range_checks`` on rows: Spark counts the rows, and Great Expectations checks the counts on Spark.

delta-spark reads the rows of the new ranges once. A first aggregation has a row for 64 offsets of a log, with a bit
for each offset that it saw. So one pass counts distinct offsets, and little is shuffled. A second one adds up each log.
A range join gives each row of ``records`` the range of the ledger that has its offset. Rows of a topic that name no
log belong to no range, so they are always looked at, and count for each log of their topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING

from logcore.columns.records_columns import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from logcore.segments.side_files.time_index import NO_TIMESTAMP
from spark_jobs.expectations.range_checks import CHECKS, DECODED_CHECKS, SUITE, Check
from spark_jobs.expectations.user_suites import FRAME_RANGES, Suite, published_frame, within_ranges
from spark_jobs.groups import by_key
from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, topic_table
from spark_jobs.lake.delta.table import Table
from spark_jobs.outlines import ExpectationResult, RangePlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Spans = Mapping[str, Sequence[tuple[int, int]]]
"""By log: ranges of the offsets that the ledger says are published and visible."""
PLACE = ("log_id", "partition", "offset")
_LOG = ("topic", "log_id", "partition")
_CAN_BE_HELD = f"timestamp_ms BETWEEN {MIN_TIMESTAMP_MS} AND {MAX_TIMESTAMP_MS} AND timestamp_ms != {NO_TIMESTAMP}"
_OF_RECORDS = {
    "offsets_not_in_ledger": "ledger_end IS NULL",
    "unexpected_null_timestamps": f"timestamp IS NULL AND {_CAN_BE_HELD}",
    "timestamps_out_of_range": f"unix_millis(timestamp) NOT BETWEEN {MIN_TIMESTAMP_MS} AND {MAX_TIMESTAMP_MS}",
}
_OF_DECODED = {"decoded": "is_decoded", "undecoded": "NOT is_decoded"}


def check_records(lake: str, ranges: Sequence[RangePlan], spans: Spans, spark: SparkSession) -> list[ExpectationResult]:
    """Evaluate the checks of ``records`` that are on rows; where rows are expected and there is none, none is met."""
    checks = [check for check in CHECKS if check.is_of_rows]
    found = _evaluate(SUITE, checks, [ranges], partial(_records, lake, spans, spark), spark)
    is_met = not any(each.expected_rows for each in ranges)
    return found or [_without_rows(each, is_met) for each in checks]


def _without_rows(check: Check, is_met: bool) -> ExpectationResult:
    said = "there was no row"
    return ExpectationResult(check.name, is_met, check.severity, said, is_of_rows=check.is_only_of_rows)


def check_decoded(lake: str, ranges: Sequence[RangePlan], spark: SparkSession) -> list[ExpectationResult]:
    """Evaluate the checks of decoded topics; returns nothing where no row of the ranges was decoded yet."""
    by_topic = by_key(ranges, lambda each: each.topic)
    of_topics = list(by_topic.values())
    return _evaluate("decoded_records", DECODED_CHECKS, of_topics, partial(_decoded, lake, spark), spark)


def _evaluate(
    name: str,
    checks: Sequence[Check],
    groups: Sequence[Sequence[RangePlan]],
    counts_of: Callable[[Sequence[RangePlan]], DataFrame | None],
    spark: SparkSession,
) -> list[ExpectationResult]:
    """Evaluate checks on the counts of ranges, of a table each group; return nothing where there is no row."""
    suite = Suite(name, {"expectations": [check.expectation for check in checks]}, spark)
    failing: list[set[str]] = [set() for _ in checks]
    has_rows = False
    for some in (group[at : at + FRAME_RANGES] for group in groups for at in range(0, len(group), FRAME_RANGES)):
        counts = counts_of(some)
        if counts is None:
            continue
        counts.persist()
        rows = [row.asDict() for row in counts.collect()]
        if rows:
            has_rows = True
            suite.add([each.log for each in some], counts)
        counts.unpersist()
        for check, logs in zip(checks, failing, strict=True):
            unmet = [row for row in rows if not check.is_met(row)]
            logs |= {each.log for each in some if any(_may_be_of(each, row) for row in unmet)}
    if not has_rows:
        return []
    number = sum(map(len, groups))
    return [
        ExpectationResult(
            check.name,
            found.success and not logs,
            check.severity,
            f"{len(logs)} of {number} ranges fail" if logs or found.success else found.observed,
            tuple(sorted(logs)),
            check.is_only_of_rows,
        )
        for check, found, logs in zip(checks, suite.results(), failing, strict=True)
    ]


def _may_be_of(each: RangePlan, row: Mapping[str, object]) -> bool:
    """Whether counts are of the log of a range, or of rows that name no log of its topic."""
    if None in (row["log_id"], row["partition"]):
        return row["topic"] == each.topic
    return (row["log_id"], row["partition"]) == (each.log_id, each.partition)


def _records(lake: str, spans: Spans, spark: SparkSession, ranges: Sequence[RangePlan]) -> DataFrame | None:
    from pyspark.sql.functions import broadcast, col, expr

    table = published_frame(Table(lake, "records"), spark)
    if table is None:
        return None
    nowhere = reduce(or_, (col(name).isNull() for name in PLACE))
    of_topics = col("topic").isin(sorted({each.topic for each in ranges}))
    rows = table.where(within_ranges(ranges, has_topic=True) | (of_topics & nowhere))
    published, width = _published(spans, ranges, spark)
    is_in = (
        (col("log_id") == col("of_log"))
        & (col("partition") == col("of_partition"))
        & (expr(f"offset div {width}") == col("window"))
        & (col("offset") >= col("ledger_start"))
        & (col("offset") < col("ledger_end"))
    )
    return _counts(rows.join(broadcast(published), is_in, "left"), _OF_RECORDS)


def _published(spans: Spans, ranges: Sequence[RangePlan], spark: SparkSession) -> tuple[DataFrame, int]:
    """The published ranges, a row for each window of offsets that they touch, and the width of a window.

    A log can have a range for each of its transactions. A row is compared with those of its window only.
    """
    from pyspark.sql.functions import explode, expr

    said = [
        (each.log_id, each.partition, max(start, each.start_offset), min(end, each.end_offset))
        for each in ranges
        for start, end in spans.get(each.log, ())
        if start < each.end_offset and each.start_offset < end
    ]
    width = max(1, sum(end - start for *_, start, end in said) // max(1, len(said)))
    named = spark.createDataFrame(said, "of_log string, of_partition int, ledger_start long, ledger_end long")
    windows = expr(f"sequence(ledger_start div {width}, (ledger_end - 1) div {width})")
    return named.withColumn("window", explode(windows)), width


def _decoded(lake: str, spark: SparkSession, ranges: Sequence[RangePlan]) -> DataFrame | None:
    from pyspark.sql.functions import col, expr, lit

    nowhere = reduce(or_, (col(name).isNull() for name in PLACE))
    frames = []
    topic = ranges[0].topic
    for table in (DECODED, UNDECODED):
        rows = published_frame(topic_table(lake, table, topic), spark)
        if rows is not None:
            chosen = rows.where(within_ranges(ranges, has_topic=False) | nowhere)
            frames.append(chosen.select(*PLACE, lit(topic).alias("topic"), lit(table == DECODED).alias("is_decoded")))
    if not frames:
        return None
    counts = _counts(reduce(lambda first, second: first.unionAll(second), frames), _OF_DECODED)
    return counts.withColumn("decoded_percent", expr("100 * decoded / (decoded + undecoded)"))


def _counts(rows: DataFrame, conditions: Mapping[str, str]) -> DataFrame:
    """Rows with an offset, distinct offsets, rows without a place, and those of each condition, for each log."""
    from pyspark.sql.functions import expr

    of_rows = {"rows": "offset IS NOT NULL", "rows_without_place": " OR ".join(f"{name} IS NULL" for name in PLACE)}
    counted = {**of_rows, **conditions}
    words = rows.groupBy(*_LOG, expr("shiftright(offset, 6)").alias("word")).agg(
        expr("bit_or(shiftleft(1L, CAST(offset & 63 AS INT)))").alias("seen"),
        *(expr(f"count_if({condition})").alias(name) for name, condition in counted.items()),
    )
    return words.groupBy(*_LOG).agg(
        expr("coalesce(sum(bit_count(seen)), 0)").alias("distinct_offsets"),
        *(expr(f"sum(`{name}`)").alias(name) for name in counted),
    )
