"""Suites of Great Expectations that a user wrote, evaluated on the published rows of a range.

The policy ``expectations.suite`` names the file of a topic: a suite in the JSON form of Great Expectations. The policy
``decode.expectations.suite`` names one for the rows of the decoded table, with columns such as ``value.price``. Rows
are given to it in chunks, so that memory stays bounded. So an expectation should be one on each row: it is met when it
is met in every chunk. Where the job runs on Spark, the engine of Great Expectations is Spark, and a chunk is the
DataFrame of the new rows of many logs, as delta-spark reads the table. Results have counts, never keys or values of
records.

Great Expectations is imported only where a policy names a suite: the import takes 2.5 s and 300 MB.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from spark_jobs.errors import UsageError
from spark_jobs.expectations.range_checks import CRITICAL, INFO, WARNING
from spark_jobs.groups import by_key
from spark_jobs.lake.decoded.topic_tables import DECODED, topic_table
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.delta.tables.snapshots import open_dataset, open_table
from spark_jobs.outlines import ExpectationResult, RangePlan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CHUNK_ROWS = 100_000
FRAME_RANGES = 100
"""Ranges that are evaluated together on Spark."""


def chunks_of(lake: str, each: RangePlan) -> Iterator[pa.Table]:
    """Yield the published rows of a range, at most :data:`CHUNK_ROWS` at a time."""
    table = open_table(lake, "records")
    if table is None:
        return
    rows = open_dataset(lake, "records", table)
    yield from _joined(rows, _within(each) & (ds.field("topic") == each.topic))


def decoded_chunks_of(lake: str, each: RangePlan) -> Iterator[pa.Table]:
    """Yield the decoded rows of a range in the same way. Fields of structs are columns such as ``value.price``.

    Raises:
        TableUnreadable: The decoded table is damaged.
    """
    place = topic_table(lake, DECODED, each.topic)
    table = place.open()
    if table is None:
        return
    with place.reading():
        rows = open_dataset(lake, place.name, table)
        for chunk in _joined(rows, _within(each)):
            while any(pa.types.is_struct(field.type) for field in chunk.schema):
                chunk = chunk.flatten()
            yield chunk


def _within(each: RangePlan) -> ds.Expression:
    offset = ds.field("offset")
    return (
        (ds.field("partition") == each.partition)
        & (ds.field("log_id") == each.log_id)
        & (offset >= each.start_offset)
        & (offset < each.end_offset)
    )


def _joined(source: ds.Dataset, chosen: ds.Expression) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in source.to_batches(filter=chosen, batch_size=CHUNK_ROWS):
        if rows and rows + batch.num_rows > CHUNK_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
        if batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
    if waiting:
        yield pa.Table.from_batches(waiting)


@dataclass(slots=True)
class _Tally:
    """What one expectation of a suite found so far."""

    name: str
    severity: str
    unmet: int = 0
    """Rows that do not meet it, where it is one on each row."""
    checked: int = 0
    failing: set[str] = field(default_factory=set)
    is_raised: bool = False

    def result(self) -> ExpectationResult:
        """The result over all ranges."""
        observed = f"{self.unmet} of {self.checked} rows do not meet it"
        if self.is_raised:
            observed = "it could not be evaluated: does the table have its column?"
        is_met = not self.failing and not self.is_raised
        return ExpectationResult(self.name, is_met, self.severity, observed, tuple(sorted(self.failing)))


FrameOf = Callable[[Sequence[RangePlan]], "DataFrame | None"]
"""The rows of some ranges; None if their table does not exist."""


def published_frame(place: Table, spark: SparkSession) -> DataFrame | None:
    """A table as delta-spark reads it; None if it does not exist.

    Raises:
        TableUnreadable: The table is damaged.
    """
    if place.open() is None:
        return None
    return spark.read.format("delta").load(place.uri.replace("s3://", "s3a://", 1))


def within_ranges(ranges: Sequence[RangePlan], *, has_topic: bool) -> Column:
    """The condition that a row is in one of some ranges."""
    from pyspark.sql.functions import col, lit

    chosen = lit(False)
    for each in ranges:
        of_log = (col("log_id") == each.log_id) & (col("partition") == each.partition)
        within = (col("offset") >= each.start_offset) & (col("offset") < each.end_offset)
        chosen |= of_log & within & (col("topic") == each.topic) if has_topic else of_log & within
    return chosen


def _frame_of(lake: str, decoded: bool, spark: SparkSession, ranges: Sequence[RangePlan]) -> DataFrame | None:
    """The rows of ranges, for decoded tables those of one topic."""
    place = topic_table(lake, DECODED, ranges[0].topic) if decoded else Table(lake, "records")
    rows = published_frame(place, spark)
    return None if rows is None else rows.where(within_ranges(ranges, has_topic=not decoded))


def evaluate_suites(
    lake: str,
    ranges: Sequence[RangePlan],
    suites: Mapping[str, str | None],
    *,
    decoded: bool = False,
    spark: SparkSession | None = None,
) -> list[ExpectationResult]:
    """Evaluate the suites on the ranges of their topics.

    Args:
        lake: The lake.
        ranges: Ranges of published offsets.
        suites: The file of the suite of each topic; topics without one are left out or None.
        decoded: Whether they are for the rows of decoded tables, in place of those of ``records``.
        spark: What reads and checks the rows; None: this process.

    Returns:
        A result for each expectation of each suite. A file that cannot be used is one critical result that is not met.
    """
    by_file = by_key((each for each in ranges if suites.get(each.topic)), lambda each: str(suites[each.topic]))
    return [result for file, mine in sorted(by_file.items()) for result in _evaluate(lake, file, mine, decoded, spark)]


def _evaluate(
    lake: str, file: str, ranges: Sequence[RangePlan], decoded: bool, spark: SparkSession | None
) -> list[ExpectationResult]:
    name = f"{'decoded ' if decoded else ''}{os.path.basename(file)}"
    logs = tuple(sorted({each.log for each in ranges}))
    try:
        suite = _read(name, file, spark)
    except UsageError as error:
        return [_unusable(name, str(error), logs)]
    if spark is not None:
        suite.add_frames(partial(_frame_of, lake, decoded, spark), ranges, by_topic=decoded)
        return suite.results()
    for each in ranges:
        for chunk in decoded_chunks_of(lake, each) if decoded else chunks_of(lake, each):
            suite.add([each.log], chunk)
    return suite.results()


def check_suite(file: str) -> None:
    """Read a suite as a run would, without rows.

    Raises:
        UsageError: The file cannot be read, or is not a suite of Great Expectations.
    """
    _read(os.path.basename(file), file)


def _read(name: str, file: str, spark: SparkSession | None = None) -> Suite:
    try:
        with open(file, encoding="utf-8") as opened:
            content = json.load(opened)
        return Suite(name, content, spark)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{file} is not a suite of Great Expectations: {error}") from error


def _unusable(name: str, why: str, logs: tuple[str, ...]) -> ExpectationResult:
    text = " ".join(
        f"{why}. Correct the file, or the policy expectations.suite or decode.expectations.suite that names it.".split()
    )
    return ExpectationResult(f"suite {name}", success=False, severity=CRITICAL, observed=text, failing=logs)


class Suite:
    """A suite, and what it found so far.

    Args:
        name: Name of its file.
        content: The suite as parsed JSON.
        spark: The session of the engine; None: the engine is pandas.

    Raises:
        ValueError: Great Expectations does not know an expectation or its arguments.
    """

    def __init__(self, name: str, content: Any, spark: SparkSession | None = None) -> None:
        os.environ["GX_ANALYTICS_ENABLED"] = "false"
        import great_expectations as gx
        from great_expectations.data_context.types.base import ProgressBarsConfig
        from great_expectations.exceptions.exceptions import GreatExpectationsError

        # It gives this logger the level INFO, whatever level the user has chosen.
        logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.NOTSET)
        expectations = content["expectations"]
        if not isinstance(expectations, list) or not expectations:
            raise ValueError("it has no list 'expectations' with at least one entry")
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = ProgressBarsConfig(globally=False)
        sources = context.data_sources
        engine = sources.add_pandas("records") if spark is None else sources.add_spark("records", persist=False)
        rows = engine.add_dataframe_asset("rows")
        try:
            # Results come back in an order of their own.
            numbered = [dict(each) | {"meta": {"number": at}} for at, each in enumerate(expectations)]
            # It logs an expectation that it cannot build, and goes on without it.
            logging.getLogger("great_expectations.core.expectation_suite").setLevel(logging.CRITICAL)
            suite = gx.ExpectationSuite(name=name, expectations=numbered)
            known = {(each.meta or {}).get("number") for each in suite.expectations}
            for at, each in enumerate(expectations):
                if at not in known:
                    raise ValueError(
                        f"its expectation {at + 1}, {each['type']}, is not known or its arguments are wrong"
                    )
            context.suites.add(suite)
            self._definition = context.validation_definitions.add(
                gx.ValidationDefinition(name=name, data=rows.add_batch_definition_whole_dataframe("chunk"), suite=suite)
            )
        except GreatExpectationsError as error:
            raise ValueError(str(error)) from error
        self._tallies = [
            _Tally(_label(name, at, each), _severity(each)) for at, each in enumerate(expectations, start=1)
        ]

    def add(self, logs: Sequence[str], rows: pa.Table | DataFrame, *, only_if_met: bool = False) -> bool:
        """Evaluate the suite on some rows of logs, at least one; return whether the result counts.

        Args:
            logs: The logs that have the rows.
            rows: The rows.
            only_if_met: Whether the result counts only if the rows meet every expectation.
        """
        found = self._definition.run(
            batch_parameters={"dataframe": rows.to_pandas() if isinstance(rows, pa.Table) else rows},
            result_format={"result_format": "BASIC", "partial_unexpected_count": 0},
        )
        if only_if_met and not found.success:
            return False
        number = rows.num_rows if isinstance(rows, pa.Table) else 1
        for result in found.results:
            meta = None if result.expectation_config is None else result.expectation_config.meta
            tally, details = self._tallies[(meta or {})["number"]], result.result
            tally.is_raised |= bool((result.exception_info or {}).get("raised_exception")) or not details
            tally.checked += int(details.get("element_count") or number)
            tally.unmet += int(details.get("unexpected_count") or 0)
            if not result.success:
                tally.failing.update(logs)
        return True

    def add_frames(
        self,
        frame_of: FrameOf,
        ranges: Sequence[RangePlan],
        *,
        by_topic: bool,
    ) -> None:
        """Evaluate the suite on many ranges at once; only where rows do not meet it, on each for the names of logs.

        Args:
            frame_of: The rows of some ranges; None if their table does not exist.
            ranges: The ranges.
            by_topic: Whether each topic has a table of its own.
        """
        by_table = by_key(ranges, lambda each: each.topic if by_topic else "records")
        for waiting in by_table.values():
            for at in range(0, len(waiting), FRAME_RANGES):
                some = waiting[at : at + FRAME_RANGES]
                if not self._add_frame(frame_of, some, only_if_met=len(some) > 1):
                    for each in some:
                        self._add_frame(frame_of, [each])

    def _add_frame(
        self,
        frame_of: FrameOf,
        ranges: Sequence[RangePlan],
        *,
        only_if_met: bool = False,
    ) -> bool:
        rows = frame_of(ranges)
        if rows is None or rows.isEmpty():
            return True
        return self.add([each.log for each in ranges], rows, only_if_met=only_if_met)

    def results(self) -> list[ExpectationResult]:
        """The results over all rows so far. An expectation that saw no row is not met."""
        return [
            tally.result()
            if tally.checked
            else ExpectationResult(tally.name, success=False, severity=tally.severity, observed="there was no row")
            for tally in self._tallies
        ]


def _label(suite: str, number: int, expectation: Mapping[str, Any]) -> str:
    """``orders.json 2: expect_column_values_to_not_be_null key``."""
    kwargs = expectation.get("kwargs") or {}
    column = kwargs.get("column") if isinstance(kwargs, dict) else None
    return " ".join(filter(None, [f"{suite} {number}:", str(expectation.get("type")), column and str(column)]))


def _severity(expectation: Mapping[str, Any]) -> str:
    severity = str(expectation.get("severity") or CRITICAL)
    return severity if severity in (CRITICAL, WARNING, INFO) else CRITICAL
