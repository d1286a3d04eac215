"""The expectations of ``range_checks`` that are on rows, evaluated by the Spark engine of Great Expectations.

delta-spark reads the rows of the new ranges. A range join gives each row of ``records`` the range of the ledger that
has its offset. Rows of a topic that name no log or no offset belong to no range, so they are always looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING

from logcore.columns.schema import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from logcore.segments.side_files.time_index import NO_TIMESTAMP
from spark_jobs.expectations.range_checks import (
    CHECKS,
    DECODED_CHECKS,
    IS_DECODED,
    LEDGER_END,
    LOST_TIMESTAMP,
    PLACE,
    SUITE,
    TIMESTAMP_AS_MS,
    Check,
)
from spark_jobs.expectations.user_suites import FrameOf, PublishedRange, Suite, published_frame, within_ranges
from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, topic_table
from spark_jobs.lake.delta.table import Table
from spark_jobs.outlines import ExpectationResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Spans = Mapping[str, Sequence[tuple[int, int]]]
"""By log: ranges of the offsets that the ledger says are published and visible."""


def check_records(
    lake: str, ranges: Sequence[PublishedRange], spans: Spans, spark: SparkSession
) -> list[ExpectationResult]:
    """Evaluate the checks of ``records`` that are on rows; where the ranges have no row, none is met."""
    checks = [check for check in CHECKS if check.of_rows]
    return _evaluate(checks, Suite(SUITE, _content(checks), spark), partial(_records, lake, spans, spark), ranges)


def check_decoded(lake: str, ranges: Sequence[PublishedRange], spark: SparkSession) -> list[ExpectationResult]:
    """Evaluate the checks of decoded topics; returns nothing where no row of the ranges was decoded yet."""
    suite = Suite("decoded_records", _content(DECODED_CHECKS), spark)
    found = _evaluate(DECODED_CHECKS, suite, partial(_decoded, lake, spark), ranges, by_topic=True)
    return found if suite.has_rows else []


def _content(checks: Sequence[Check]) -> Mapping[str, object]:
    return {"expectations": [{**each, "severity": check.severity} for check in checks for each in check.of_rows]}


def _evaluate(
    checks: Sequence[Check],
    suite: Suite,
    frame_of: FrameOf,
    ranges: Sequence[PublishedRange],
    *,
    by_topic: bool = False,
) -> list[ExpectationResult]:
    suite.add_frames(frame_of, ranges, by_topic=by_topic)
    results = iter(suite.results())
    return [_joined(check, [next(results) for _ in check.of_rows]) for check in checks]


def _joined(check: Check, results: Sequence[ExpectationResult]) -> ExpectationResult:
    """The result of a check from those of its expectations: the first that is not met, else the first."""
    shown = next((each for each in results if not each.success), results[0])
    failing = tuple(sorted({log for each in results for log in each.failing}))
    is_met = all(each.success for each in results)
    return ExpectationResult(check.name, is_met, check.severity, shown.observed, failing, check.column is None)


def _records(lake: str, spans: Spans, spark: SparkSession, ranges: Sequence[PublishedRange]) -> DataFrame | None:
    from pyspark.sql.functions import broadcast, col, expr, unix_millis

    table = published_frame(Table(lake, "records"), spark)
    if table is None:
        return None
    nowhere = reduce(or_, (col(name).isNull() for name in PLACE))
    of_topics = col("topic").isin(sorted({each.topic for each in ranges}))
    chosen = within_ranges(ranges, has_topic=True) | (of_topics & nowhere)
    published, width = _published(spans, ranges, spark)
    is_in = (
        (col("log_id") == col("of_log"))
        & (col("partition") == col("of_partition"))
        & (expr(f"offset div {width}") == col("window"))
        & (col("offset") >= col("ledger_start"))
        & (col("offset") < col(LEDGER_END))
    )
    rows = table.where(chosen).select(*PLACE, "timestamp", "timestamp_ms")
    written = col("timestamp_ms")
    can_be_held = written.between(MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS) & (written != NO_TIMESTAMP)
    is_lost = col("timestamp").isNull() & can_be_held
    return rows.join(broadcast(published), is_in, "left").select(
        *PLACE, LEDGER_END, is_lost.alias(LOST_TIMESTAMP), unix_millis("timestamp").alias(TIMESTAMP_AS_MS)
    )


def _published(spans: Spans, ranges: Sequence[PublishedRange], spark: SparkSession) -> tuple[DataFrame, int]:
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
    named = spark.createDataFrame(said, f"of_log string, of_partition int, ledger_start long, {LEDGER_END} long")
    windows = expr(f"sequence(ledger_start div {width}, ({LEDGER_END} - 1) div {width})")
    return named.withColumn("window", explode(windows)), width


def _decoded(lake: str, spark: SparkSession, ranges: Sequence[PublishedRange]) -> DataFrame | None:
    from pyspark.sql.functions import col, lit

    nowhere = reduce(or_, (col(name).isNull() for name in PLACE))
    frames = []
    for table in (DECODED, UNDECODED):
        rows = published_frame(topic_table(lake, table, ranges[0].topic), spark)
        if rows is not None:
            chosen = rows.where(within_ranges(ranges, has_topic=False) | nowhere)
            frames.append(chosen.select(*PLACE, lit(table == DECODED).alias(IS_DECODED)))
    return reduce(lambda first, second: first.unionAll(second), frames) if frames else None
