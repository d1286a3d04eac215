"""The expectations on published ranges, evaluated by Great Expectations on a frame with one row per range.

The frame has counts, never keys or values of records, so the pages of ``data_docs`` can be shown to anyone.

A check that examined nothing is a failure: the last result says whether every expectation was evaluated, on every row,
without an exception.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.contracts import Scalar

FrameRow = dict[str, Scalar]
"""A range: its counts and its expected values."""

CRITICAL, WARNING, INFO = "critical", "warning", "info"
SUITE = "published_records"
COMPLETENESS = "every_check_was_made"

_INTEGERS = (
    "start_offset",
    "end_offset",
    "rows",
    "expected_rows",
    "distinct_offsets",
    "non_rising_offsets",
    "unexpected_null_timestamps",
    "crc_failures",
    "crc_failures_of_log",
    "unpublished_decided_offsets",
    "lag",
)


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation: two columns that are equal, or a column that is zero."""

    name: str
    severity: str
    says: str
    """The expectation in words, for the pages."""
    column: str
    equals: str | None = None
    at_least_zero: bool = False
    """Zero or more, instead of zero."""

    @property
    def test(self) -> str:
        """The test as a formula."""
        return f"{self.column} = {self.equals or 0}" if not self.at_least_zero else f"{self.column} ≥ 0"


CHECKS: tuple[Check, ...] = (
    Check(
        "rows_match_ledger",
        CRITICAL,
        "The table has as many rows as the ledger counts visible records.",
        "rows",
        equals="expected_rows",
    ),
    Check(
        "offsets_are_unique",
        CRITICAL,
        "Every offset of a range is in the table once.",
        "rows",
        equals="distinct_offsets",
    ),
    Check("offsets_rise_within_files", CRITICAL, "Offsets rise from row to row in each file.", "non_rising_offsets"),
    Check(
        "timestamps_are_null_only_where_they_must",
        CRITICAL,
        "A timestamp is null only where the record has none that a table can hold.",
        "unexpected_null_timestamps",
    ),
    Check(
        "no_crc_failures_in_range",
        CRITICAL,
        "No batch of a published range failed its checksum.",
        "crc_failures",
    ),
    Check(
        "frontier_is_within_log",
        CRITICAL,
        "What is published ends at or before the log does.",
        "lag",
        at_least_zero=True,
    ),
    Check(
        "everything_decided_is_published",
        WARNING,
        "No offset that could be published is left.",
        "unpublished_decided_offsets",
    ),
    Check("no_crc_failures_in_log", WARNING, "No batch of the whole log failed its checksum.", "crc_failures_of_log"),
    Check("no_lag_behind_log", INFO, "Everything up to the log's end is published.", "lag"),
)
"""Checks of every row of the frame. One more expectation checks the number of rows."""

ROW_COUNT = "one_frame_row_per_range"


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """The result of one expectation."""

    name: str
    success: bool
    severity: str
    observed: str
    failing: tuple[str, ...] = ()
    """Logs on whose row it fails."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All outcomes."""

    outcomes: tuple[ExpectationResult, ...]

    @property
    def success(self) -> bool:
        """Whether no critical expectation failed."""
        return all(outcome.success for outcome in self.outcomes if outcome.severity == CRITICAL)


def evaluate(frame: Sequence[FrameRow], ranges: int) -> Evaluation:
    """Evaluate the suite.

    Args:
        frame: One row per range.
        ranges: Number of ranges to check.
    """
    results = _run(frame, ranges)
    outcomes = [_outcome(result) for result in results]
    problem = _what_was_not_checked(results, len(frame), ranges)
    outcomes.append(
        ExpectationResult(COMPLETENESS, problem is None, CRITICAL, problem or f"{len(results)} on {ranges} ranges")
    )
    return Evaluation(tuple(outcomes))


def _run(frame: Sequence[FrameRow], ranges: int) -> list[Any]:
    # Imported here, after the environment is set: it takes 6 s and 300 MB, which only this job needs.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx
    import pandas as pd
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    table = pd.DataFrame(list(frame), columns=None if frame else ["topic_partition", "log", *_INTEGERS])
    batch = context.data_sources.add_pandas("records").add_dataframe_asset("ranges")
    suite = context.suites.add(gx.ExpectationSuite(name=SUITE))
    for expectation in _expectations(gx.expectations, ranges):
        suite.add_expectation(expectation)
    definition = context.validation_definitions.add(
        gx.ValidationDefinition(name=SUITE, data=batch.add_batch_definition_whole_dataframe("run"), suite=suite)
    )
    result_format = {"result_format": "COMPLETE", "unexpected_index_column_names": ["topic_partition", "log"]}
    return list(definition.run(batch_parameters={"dataframe": table}, result_format=result_format).results)


def _expectations(gxe: Any, ranges: int) -> list[Any]:
    counted = f"The frame has one row for each of the {ranges} ranges ({ROW_COUNT}, {CRITICAL})"
    made = [
        gxe.ExpectTableRowCountToEqual(value=ranges, severity=CRITICAL, meta={"name": ROW_COUNT}, description=counted)
    ]
    for check in CHECKS:
        description = f"{check.says} ({check.name}, {check.severity})"
        said = {"severity": check.severity, "meta": {"name": check.name}, "description": description}
        if check.equals is not None:
            made.append(gxe.ExpectColumnPairValuesToBeEqual(column_A=check.column, column_B=check.equals, **said))
        else:
            greatest = None if check.at_least_zero else 0
            made.append(gxe.ExpectColumnValuesToBeBetween(column=check.column, min_value=0, max_value=greatest, **said))
    return made


def _outcome(result: Any) -> ExpectationResult:
    details = result.result
    failing = tuple(sorted({row["log"] for row in details.get("unexpected_index_list") or ()}))
    if (result.exception_info or {}).get("raised_exception"):
        observed = "it could not be evaluated"
    elif "observed_value" in details:
        observed = str(details["observed_value"])
    else:
        observed = f"{details.get('unexpected_count')} of {details.get('element_count')} ranges fail"
    config = result.expectation_config
    return ExpectationResult(config.meta["name"], bool(result.success), str(config.severity.value), observed, failing)


def _what_was_not_checked(results: Sequence[Any], rows: int, ranges: int) -> str | None:
    """Why these results prove nothing; None where they do."""
    if ranges == 0 or rows != ranges:
        return f"the frame has {rows} rows for {ranges} ranges"
    if len(results) != len(CHECKS) + 1:
        return f"{len(results)} of {len(CHECKS) + 1} expectations were evaluated"
    for result in results:
        name = result.expectation_config.meta["name"]
        if (result.exception_info or {}).get("raised_exception"):
            return f"{name} raised an exception"
        if name != ROW_COUNT and (
            result.result.get("element_count") != ranges or result.result.get("missing_count") != 0
        ):
            return f"{name} did not check every range"
    return None
