"""What was published is looked at again: planted faults are found, and a check that looked at nothing is a failure."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs import launch
from spark_jobs.contracts import ExpectationsConfig, JobReport
from spark_jobs.errors import UsageError
from spark_jobs.expectations.range_checks import CHECKS, evaluate, is_success
from spark_jobs.lake.delta import commits
from spark_jobs.lake.view import expectation_results
from spark_jobs.outlines import RangesOutline
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, TOPIC_ID, LogDirectory
from tests.spark.cycle import AS_OF_MS, Lake

ORDERS, PAYMENTS = f"{TOPIC_ID}.0/0", f"{OTHER_TOPIC_ID}.0/0"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """orders: 40 records. payments: a committed transaction of 5 and its marker, 10 more not yet committed."""
    folder = tmp_path_factory.mktemp("expectations")
    source = LogDirectory(folder / "source")
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    orders.append(40)
    transactional = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    payments.append(5, **transactional)
    payments.marker(7, handmade.COMMIT)
    payments.append(10)
    source.high_watermarks(orders_0=40, payments_0=6)
    lake = Lake(folder / "lake")
    lake.turn(source.path)
    return lake


@pytest.fixture
def lake(built: Lake, tmp_path: Path) -> Lake:
    return Lake(Path(shutil.copytree(built.path, tmp_path / "lake")))


def expect(lake: Lake, ranges: dict[str, tuple[int, int]] | None = None) -> JobReport:
    due = expectation_results.pending_ranges(str(lake.path)) if ranges is None else ranges
    return launch.run(ExpectationsConfig(str(lake.path), "expect", AS_OF_MS, due))


def failed(report: JobReport) -> dict[str, tuple[str, ...]]:
    """Critical expectations that are not met, and by which logs."""
    outcomes = report.plan.expectations
    return {o.name: o.failing for o in outcomes if not o.success and o.severity == "critical"}


def records(lake: Lake) -> str:
    return str(lake.path / "tables" / "records")


def plant(lake: Lake, rows: pa.Table) -> None:
    """Append rows without any job, in this order and as one file per call."""
    write_deltalake(records(lake), rows, mode="append")


def rows_at(lake: Lake, *offsets: int) -> pa.Table:
    table = DeltaTable(records(lake)).to_pyarrow_table()
    of_orders = [row for row in table.to_pylist() if row["topic"] == "orders"]
    by_offset = {row["offset"]: row for row in of_orders}
    return pa.Table.from_pylist([by_offset[offset] for offset in offsets], schema=table.schema)


def test_what_was_published_meets_every_expectation_and_the_pages_need_no_network(lake):
    report = expect(lake)
    assert failed(report) == {}
    assert report.findings == ()
    assert report.metrics["success"] is True
    assert {o.name for o in report.plan.expectations} >= {check.name for check in CHECKS if not check.is_only_of_rows}
    by_log = {row["log"]: row for row in report.plan.frame}
    assert (by_log[ORDERS]["rows"], by_log[ORDERS]["expected_rows"], by_log[ORDERS]["lag"]) == (40, 40, 0)
    assert (by_log[PAYMENTS]["rows"], by_log[PAYMENTS]["expected_rows"], by_log[PAYMENTS]["lag"]) == (5, 5, 10)
    behind = next(o for o in report.plan.expectations if o.name == "no_lag_behind_log")
    assert (behind.success, behind.severity, behind.failing) == (False, "info", (PAYMENTS,))

    page = Path(report.plan.data_docs)
    assert page.is_relative_to(lake.path / "data_docs" / "validations")
    pages = list((lake.path / "data_docs").rglob("*.html"))
    assert len(pages) == 2, "of this run, and the index"
    for each in pages:
        text = each.read_text()
        assert re.search(r"https?:|//[a-z0-9.-]+\.[a-z]{2,}/|<script|<link", text) is None, each
    assert "as many rows as the ledger counts" in page.read_text()
    assert sum(path.stat().st_size for path in (lake.path / "data_docs").rglob("*") if path.is_file()) < 500_000

    assert expectation_results.pending_ranges(str(lake.path)) == {}
    again = expect(lake)
    assert not again.used_executor
    assert again.plan == RangesOutline(())


def test_a_row_that_is_there_twice_is_found(lake):
    plant(lake, rows_at(lake, 17))
    report = expect(lake)
    assert failed(report) == {"rows_match_ledger": (ORDERS,), "offsets_are_unique": (ORDERS,)}
    assert {(f.finding.rule, f.finding.severity, f.log) for f in report.findings} == {
        ("expectation-failed", "error", ORDERS)
    }
    assert all("orders-0" in str(placed.finding.message) for placed in report.findings)


def test_a_row_that_is_gone_is_found(lake):
    DeltaTable(records(lake)).delete("topic = 'orders' AND offset = 17")
    assert failed(expect(lake)) == {"rows_match_ledger": (ORDERS,)}


def test_a_row_in_the_place_of_another_is_found(lake):
    row = rows_at(lake, 16)
    DeltaTable(records(lake)).delete("topic = 'orders' AND offset = 17")
    plant(lake, row)
    assert failed(expect(lake)) == {"offsets_are_unique": (ORDERS,)}


def test_rows_out_of_order_in_a_file_of_ours_are_found(lake):
    rows = rows_at(lake, 17, 16)
    DeltaTable(records(lake)).delete("topic = 'orders' AND offset IN (16, 17)")
    commits.append(str(lake.path), "records", rows, "planted")
    report = expect(lake)
    assert failed(report) == {"offsets_rise_within_files": (ORDERS,)}
    assert {row["log"]: row["non_rising_offsets"] for row in report.plan.frame} == {ORDERS: 1, PAYMENTS: 0}


def test_a_timestamp_that_got_lost_is_found_and_one_that_never_was_is_not(lake):
    rows = rows_at(lake, 16, 17).to_pylist()
    DeltaTable(records(lake)).delete("topic = 'orders' AND offset IN (16, 17)")
    lost, never = rows[0] | {"timestamp": None}, rows[1] | {"timestamp": None, "timestamp_ms": -1}
    plant(lake, pa.Table.from_pylist([lost, never], schema=DeltaTable(records(lake)).to_pyarrow_table().schema))
    report = expect(lake)
    assert failed(report) == {"timestamps_are_null_only_where_they_must": (ORDERS,)}
    assert next(r for r in report.plan.frame if r["log"] == ORDERS)["unexpected_null_timestamps"] == 1


def test_only_the_requested_range_is_checked(lake):
    plant(lake, rows_at(lake, 17))
    assert failed(expect(lake, {ORDERS: (0, 17)})) == {}
    assert failed(expect(lake, {ORDERS: (17, 40)})) != {}


def test_a_table_without_rows_is_found_where_the_ledger_counts_some(lake):
    DeltaTable(records(lake)).delete("topic = 'orders'")
    assert failed(expect(lake, {ORDERS: (0, 40)})) == {"rows_match_ledger": (ORDERS,)}


def test_offsets_that_are_not_decided_yet_are_not_expected(lake):
    report = expect(lake, {PAYMENTS: (0, 16)})
    assert failed(report) == {}
    assert [(row["rows"], row["expected_rows"]) for row in report.plan.frame] == [(5, 5)]


@pytest.mark.parametrize("ranges", [{"nobody.0/0": (0, 5)}, {ORDERS: (5, 5)}])
def test_a_range_that_can_not_be_is_the_callers_mistake(lake, ranges):
    with pytest.raises(UsageError):
        expect(lake, ranges)


def frame_row(log: str, **changes: Any) -> dict[str, Any]:
    row = {"topic_partition": "orders-0", "log": log, "start_offset": 0, "end_offset": 5}
    five = dict.fromkeys(("rows", "expected_rows", "distinct_offsets"), 5)
    zero = ("non_rising_offsets", "unexpected_null_timestamps", "crc_failures", "crc_failures_of_log", "lag")
    return row | five | dict.fromkeys(zero, 0) | {"unpublished_decided_offsets": 0} | changes


@pytest.mark.parametrize(
    ("frame", "ranges"),
    [
        ([], 0),
        ([], 2),
        ([frame_row("a/0")], 2),
        ([frame_row("a/0", rows=None, expected_rows=None, distinct_offsets=None)], 1),
        ([{k: v for k, v in frame_row("a/0").items() if k != "lag"}], 1),
    ],
)
def test_a_check_that_looked_at_nothing_is_a_failure(frame, ranges):
    outcomes = evaluate(frame, ranges)
    assert not is_success(outcomes)
    assert outcomes[-1].name == "every_check_was_made"
    assert not outcomes[-1].success


@pytest.mark.parametrize("column", ["crc_failures", "non_rising_offsets", "unexpected_null_timestamps"])
def test_each_count_that_must_be_zero_is_checked(column):
    assert is_success(evaluate([frame_row("a/0")], 1))
    bad = evaluate([frame_row("a/0"), frame_row("b/0", **{column: 1})], 2)
    assert [(o.failing) for o in bad if not o.success] == [("b/0",)]
    assert not is_success(bad)


@pytest.mark.parametrize("column", ["log_id", "partition", "offset"])
def test_a_row_that_names_no_log_or_offset_is_of_no_range(lake, column):
    row = rows_at(lake, 3)
    at = row.schema.names.index(column)
    nothing = pa.nulls(1, row.schema.field(at).type)
    plant(lake, row.set_column(at, row.schema.field(at), nothing))
    assert failed(expect(lake)) == {}
