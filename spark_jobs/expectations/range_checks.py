"""The expectations on published ranges that every lake has, each declared once.

    plain comparisons       of the counts of each range
    Great Expectations      of the counts of rows that Spark made, with its Spark engine

The frame has a row for each range, with counts, never keys or values of records, so the pages of Data Docs can be
shown to anyone. A check that examined nothing is a failure: the last result says whether every expectation was
evaluated on every range.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from spark_jobs.outlines import ExpectationResult, Scalar

FrameRow = dict[str, Scalar]
"""A range: its counts and its expected values."""

CRITICAL, WARNING, INFO = "critical", "warning", "info"
SUITE = "published_records"
COMPLETENESS = "every_check_was_made"
BY_COUNTS, BY_SPARK = "counts of each range", "Great Expectations on Spark"
"""What checked the rows."""


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation. By counts: two columns that are equal, or a column that is zero."""

    name: str
    severity: str
    says: str
    """The expectation in words, for the pages."""
    column: str
    equals: str | None = None
    at_least: int | None = None
    """This or more, instead of zero."""
    is_of_rows: bool = False
    """Whether Spark counts it too, where it reads the rows."""
    is_only_of_rows: bool = False
    """Whether nothing else counts it."""

    @property
    def test(self) -> str:
        """The test as a formula."""
        return f"{self.column} = {self.equals or 0}" if self.at_least is None else f"{self.column} ≥ {self.at_least}"

    @property
    def expectation(self) -> Mapping[str, object]:
        """The same test in the JSON form of Great Expectations."""
        kind, kwargs = "values_to_be_between", {"column": self.column, "min_value": self.at_least or 0}
        if self.equals is not None:
            kind, kwargs = "pair_values_to_be_equal", {"column_A": self.column, "column_B": self.equals}
        elif self.at_least is None:
            kwargs["max_value"] = 0
        return {"type": f"expect_column_{kind}", "kwargs": kwargs, "severity": self.severity}

    def is_met(self, row: FrameRow) -> bool | None:
        """Whether a range meets the expectation; None if the row lacks a count, so that nothing was checked."""
        found = row.get(self.column)
        wanted = self.at_least or 0 if self.equals is None else row.get(self.equals)
        if not _is_count(found) or not _is_count(wanted):
            return None
        return found == wanted if self.at_least is None else found >= wanted


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
        is_of_rows=True,
    ),
    Check(
        "places_are_not_null",
        CRITICAL,
        "Every row names its log and its offset.",
        "rows_without_place",
        is_of_rows=True,
        is_only_of_rows=True,
    ),
    Check(
        "offsets_are_in_ledger",
        CRITICAL,
        "Every row has an offset that the ledger says is published.",
        "offsets_not_in_ledger",
        is_of_rows=True,
        is_only_of_rows=True,
    ),
    Check("offsets_rise_within_files", CRITICAL, "Offsets rise from row to row in each file.", "non_rising_offsets"),
    Check(
        "timestamps_are_null_only_where_they_must",
        CRITICAL,
        "A timestamp is null only where the record has none that a table can hold.",
        "unexpected_null_timestamps",
        is_of_rows=True,
    ),
    Check(
        "timestamps_are_in_range",
        CRITICAL,
        "A timestamp is from year 1 to year 9999.",
        "timestamps_out_of_range",
        is_of_rows=True,
        is_only_of_rows=True,
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
        at_least=0,
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
"""Checks of every published range. One more expectation checks the number of rows of the frame."""

DECODED_CHECKS: tuple[Check, ...] = (
    Check(
        "decoded_places_are_not_null",
        CRITICAL,
        "Every decoded row names its log and its offset.",
        "rows_without_place",
        is_only_of_rows=True,
    ),
    Check(
        "decoded_offsets_are_unique",
        CRITICAL,
        "Every offset was decoded once.",
        "rows",
        equals="distinct_offsets",
        is_only_of_rows=True,
    ),
    Check(
        "records_are_decoded",
        INFO,
        "At least 95 of 100 records of a log were decoded.",
        "decoded_percent",
        at_least=95,
        is_only_of_rows=True,
    ),
)
"""Checks of the rows of a topic that is decoded, with those that could not be decoded."""

ROW_COUNT = "one_frame_row_per_range"


def is_success(outcomes: Iterable[ExpectationResult]) -> bool:
    """Whether no critical expectation failed."""
    return all(outcome.success for outcome in outcomes if outcome.severity == CRITICAL)


def evaluate(
    frame: Sequence[FrameRow], ranges: int, of_rows: Mapping[str, ExpectationResult] | None = None
) -> list[ExpectationResult]:
    """Evaluate the suite.

    Args:
        frame: One row per range.
        ranges: Number of ranges to check.
        of_rows: Results of the checks that were evaluated on rows; None: on counts alone.
    """
    found = of_rows or {}
    checks = [check for check in CHECKS if found or not check.is_only_of_rows]
    counted = ExpectationResult(ROW_COUNT, len(frame) == ranges, CRITICAL, str(len(frame)))
    outcomes = [counted, *(found.get(check.name) or _outcome(check, frame) for check in checks)]
    problem = _what_was_not_checked([check for check in checks if check.name not in found], frame, ranges)
    observed = problem or f"{len(checks) + 1} on {ranges} ranges"
    return [*outcomes, ExpectationResult(COMPLETENESS, problem is None, CRITICAL, observed)]


def _outcome(check: Check, frame: Sequence[FrameRow]) -> ExpectationResult:
    """The result of a check on every range. A range that could not be checked does not meet it."""
    failing = sorted({str(row["log"]) for row in frame if not check.is_met(row)})
    unmet = sum(not check.is_met(row) for row in frame)
    observed = f"{unmet} of {len(frame)} ranges fail"
    return ExpectationResult(check.name, not unmet and bool(frame), check.severity, observed, tuple(failing))


def _what_was_not_checked(checks: Sequence[Check], frame: Sequence[FrameRow], ranges: int) -> str | None:
    """Why these results prove nothing; None where they do."""
    if ranges == 0 or len(frame) != ranges:
        return f"the frame has {len(frame)} rows for {ranges} ranges"
    for check in checks:
        if any(check.is_met(row) is None for row in frame):
            return f"{check.name} did not check every range"
    return None


def _is_count(value: Scalar) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
