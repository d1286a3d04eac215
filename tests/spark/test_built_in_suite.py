"""The expectations that every lake has: Spark counts each row once, Great Expectations on Spark checks the counts."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from logcore.columns.records_columns import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from spark_jobs import launch
from spark_jobs.contracts import DecodeConfig, ExpectationsConfig, JobReport
from spark_jobs.engine.executor import Executor
from spark_jobs.engine.session import get_session
from spark_jobs.engine.spark_executor import SparkExecutor
from spark_jobs.expectations import expectations_job as expectations
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, TOPIC_ID, LogDirectory
from tests.in_process import InProcessExecutor
from tests.spark.archived import append_segment
from tests.spark.cycle import AS_OF_MS, Lake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]

ORDERS, PAYMENTS = f"{TOPIC_ID}.0/0", f"{OTHER_TOPIC_ID}.0/0"
RANGES = {ORDERS: (0, 12), PAYMENTS: (0, 9)}
POLICIES = """
lake: {expectations.rows: 15}
topics:
  orders: {decode.value: json, decode.value.schema: order.json}
"""
SCHEMA = {"type": "object", "properties": {"price": {"type": "integer"}}}
OF_ROWS = {
    "offsets_are_unique",
    "places_are_not_null",
    "offsets_are_in_ledger",
    "timestamps_are_null_only_where_they_must",
    "timestamps_are_in_range",
}
OF_DECODED = {"decoded_places_are_not_null", "decoded_offsets_are_unique", "records_are_decoded"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Offsets 0-11 of orders-0, of which two are no JSON, and 5-7 of payments-0 after an aborted transaction."""
    folder = tmp_path_factory.mktemp("built")
    source, lake = LogDirectory(folder / "source"), Lake(folder / "lake")
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    values = [b'{"price": %d}' % number for number in range(10)] + [b"{", b"no"]
    append_segment(orders, [(b"k", value) for value in values], AS_OF_MS)
    payments.append(4, base_sequence=0, producer_id=9, producer_epoch=0, attributes=handmade.TRANSACTIONAL)
    payments.marker(9, handmade.ABORT)
    payments.append(4)
    source.high_watermarks(orders_0=12, payments_0=9)
    (folder / "order.json").write_text(json.dumps(SCHEMA))
    (folder / "policies.yaml").write_text(POLICIES)
    lake.turn(source.path)
    launch.run(DecodeConfig(str(lake.path), "decode", AS_OF_MS, read_policies(str(folder / "policies.yaml"))))
    return folder


@pytest.fixture
def lake(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built / "lake", tmp_path / "lake"))


def checked(built: Path, lake: Path, executor: Executor | None = None, **more: object) -> JobReport:
    policies = read_policies(str(built / "policies.yaml"))
    config = ExpectationsConfig(str(lake), "expect", AS_OF_MS, RANGES, policies)
    config = dataclasses.replace(config, **more)  # type: ignore[arg-type]
    return expectations.apply(expectations.plan(config), config, executor or SparkExecutor(get_session(str(lake))))


def unmet(report: JobReport) -> dict[str, tuple[str, ...]]:
    return {each.name: each.failing for each in report.plan.expectations if not each.success}


def plant(lake: Path, at_offset: int, **changed: object) -> None:
    """Append the row of an offset of orders-0 again, with other values."""
    path = str(lake / "tables" / "records")
    table = DeltaTable(path).to_pyarrow_table(filters=[("topic", "==", "orders")])
    row = table.filter(pc.equal(table["offset"], at_offset)).slice(0, 1)
    for name, value in changed.items():
        at = row.schema.names.index(name)
        row = row.set_column(at, row.schema.field(at), pa.array([value], row.schema.field(at).type))
    write_deltalake(path, row, mode="append")


def test_every_row_of_a_sound_lake_is_checked_on_spark(built, lake):
    report = checked(built, lake)
    assert unmet(report) == {"records_are_decoded": (ORDERS,)}, "two of twelve are no JSON: it is said, and no error"
    assert report.findings == ()
    results = {each.name: each for each in report.plan.expectations}
    assert results.keys() >= OF_ROWS | OF_DECODED
    only_there = {"places_are_not_null", "offsets_are_in_ledger", "timestamps_are_in_range"} | OF_DECODED
    assert {name for name, each in results.items() if each.is_of_rows} == only_there
    assert {results[name].observed for name in OF_ROWS} == {"0 of 2 ranges fail"}
    assert results["records_are_decoded"].observed == "1 of 1 ranges fail"
    assert report.metrics["rows_checked_by"] == "Great Expectations on Spark"
    page = Path(report.metrics["data_docs"]).read_text()
    assert "Rows were checked by Great Expectations on Spark." in page
    for name in OF_ROWS | OF_DECODED:
        assert name in page


def test_few_rows_and_other_engines_count_ranges_and_say_so(built, lake):
    few = checked(built, lake, ranges={ORDERS: (0, 12)})
    here = checked(built, lake, InProcessExecutor())
    assert [each.metrics["rows_checked_by"] for each in (few, here)] == ["counts of each range"] * 2
    assert unmet(few) == unmet(here) == {}
    whole = checked(built, lake, ranges={ORDERS: (0, 12)}, is_whole=True)
    assert whole.metrics["rows_checked_by"] == "Great Expectations on Spark"


def test_rows_that_do_not_meet_an_expectation_are_findings_of_their_log(built, lake):
    plant(lake, 3)
    plant(lake, 3, offset=None)
    plant(lake, 4, log_id=None)
    plant(lake, 5, timestamp=None)
    plant(lake, 6, timestamp=MAX_TIMESTAMP_MS * 1000 + 1_000_000)  # of the year 10000
    plant(lake, 3, topic="payments", log_id=f"{OTHER_TOPIC_ID}.0", offset=2)  # of an aborted transaction
    report = checked(built, lake)
    assert unmet(report).keys() >= OF_ROWS
    assert {name: ORDERS in logs for name, logs in unmet(report).items() if name in OF_ROWS} == {
        **dict.fromkeys(OF_ROWS, True),
        "offsets_are_in_ledger": True,  # a row without an offset is in no range of the ledger
    }
    assert PAYMENTS in unmet(report)["offsets_are_in_ledger"]
    said = {(each.log, each.finding.message.rpartition(" ")[2].rstrip(".")) for each in report.findings}
    assert said >= {(ORDERS, name) for name in OF_ROWS} | {(PAYMENTS, "offsets_are_in_ledger")}


@pytest.mark.long
def test_one_offset_that_is_there_twice_is_found_wherever_it_is_among_64(tmp_path: Path) -> None:
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    source.partition("orders-0").append(192)
    source.high_watermarks(orders_0=192)
    lake.turn(source.path)
    (tmp_path / "policies.yaml").write_text("topics: {}")

    def is_unique(path: Path) -> bool:
        report = checked(tmp_path, path, ranges={ORDERS: (0, 192)}, is_whole=True)
        assert report.metrics["rows_checked_by"] == "Great Expectations on Spark"
        return "offsets_are_unique" not in unmet(report)

    assert is_unique(lake.path)
    for offset in (0, 63, 64):
        copy = Path(shutil.copytree(lake.path, tmp_path / f"twice-{offset}"))
        plant(copy, offset)
        assert not is_unique(copy)


def test_only_the_log_with_a_row_that_does_not_meet_a_check_is_named(built, lake):
    plant(lake, 3)
    assert unmet(checked(built, lake))["offsets_are_unique"] == (ORDERS,)


def test_a_range_without_rows_passes_where_each_row_is_asked_for(built, lake):
    """Else a failure that only Spark finds would stay for ever once its rows are gone."""
    report = checked(built, lake, ranges={PAYMENTS: (0, 5)}, is_whole=True)
    assert unmet(report) == {}
    results = {each.name: each for each in report.plan.expectations}
    assert results["places_are_not_null"].is_of_rows
    assert report.metrics["rows_checked_by"] == "Great Expectations on Spark"
    plant(lake, 3, topic="payments", log_id=f"{OTHER_TOPIC_ID}.0", offset=2)  # of an aborted transaction
    report = checked(built, lake, ranges={PAYMENTS: (0, 5)}, is_whole=True)
    assert unmet(report) == {"rows_match_ledger": (PAYMENTS,), "offsets_are_in_ledger": (PAYMENTS,)}


@pytest.mark.parametrize("milliseconds", [MIN_TIMESTAMP_MS, -86_400_000])
def test_a_timestamp_before_1970_is_in_range_and_is_missed_where_it_is_lost(built, lake, milliseconds):
    plant(lake, 3, timestamp=milliseconds * 1000, timestamp_ms=milliseconds)
    kept = unmet(checked(built, lake))
    plant(lake, 3, timestamp=None, timestamp_ms=milliseconds)
    lost = unmet(checked(built, lake))
    about_timestamps = {"timestamps_are_in_range", "timestamps_are_null_only_where_they_must"}
    assert kept.keys() & about_timestamps == set()
    assert lost.keys() & about_timestamps == {"timestamps_are_null_only_where_they_must"}


@pytest.mark.long
def test_a_record_without_a_timestamp_has_lost_none(built, lake):
    plant(lake, 3, timestamp=None, timestamp_ms=-1)
    assert "timestamps_are_null_only_where_they_must" not in unmet(checked(built, lake))


@pytest.mark.long
def test_ranges_without_their_rows_have_not_passed(built, lake):
    DeltaTable(lake / "tables" / "records").delete()
    report = checked(built, lake)
    assert unmet(report).keys() >= OF_ROWS
    assert report.metrics["rows_checked_by"] == "Great Expectations on Spark"
