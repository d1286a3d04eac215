"""Numbers, texts and links of a lake's checks belong to that lake and its logs, and are those of a real consumer."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from pipelines.events import check_result
from pipelines.run import checks
from spark_jobs.lake.view.expectation_results import LogExpectation, Results
from spark_jobs.lake.view.lake_state import LakeState, read_state
from spark_jobs.lake.view.registered_lakes import RegisteredLake
from tests.broker_directory import LogDirectory
from tests.conftest import Sample
from tests.in_process import without_spark
from tests.spark.cycle import Lake


def made(path: Path, source: Path) -> LakeState:
    """A lake that took the source in and published it."""
    lake = Lake(path)
    with without_spark():
        lake.turn(source)
    return read_state(str(lake.path))


def test_records_are_those_that_a_real_consumer_receives_control_records_left_out_once(sample, tmp_path):
    of_broker: Sample = sample("transactions-4.4.0")
    state = made(tmp_path / "lake", of_broker.logdir)
    seen = of_broker.summary("read_uncommitted")
    # A consumer ends at the high watermark: logs that go on above it hold more.
    whole = [log for log in state.logs if seen.get(log.topic_partition, {}).get("end") == log.row.next_offset]
    assert len(whole) > 1
    assert all(log.offsets_by_state.get("control") for log in whole)
    assert {log.topic_partition: log.records for log in whole} == {
        log.topic_partition: seen[log.topic_partition]["records"] for log in whole
    }


@pytest.fixture
def two(tmp_path: Path) -> tuple[LakeState, LakeState]:
    """Two lakes with a topic of one name."""
    states = []
    for name in ("first", "second"):
        source = LogDirectory(tmp_path / f"source-{name}")
        source.partition("orders-0").append(4)
        states.append(made(tmp_path / name, source.path))
    return states[0], states[1]


def answers(state: LakeState, *failing: str) -> dict[str, Results]:
    """Two expectations on each log, some of which failed."""
    outcomes = tuple(LogExpectation(name, name not in failing, "", "critical") for name in ("a", "b"))
    return {log.log: Results(0, 4, outcomes) for log in state.logs}


def test_a_red_check_names_the_lake_and_the_page_that_it_is_about(two):
    first, second = two
    red = check_result(
        RegisteredLake(second.lake, "second"),
        checks.expectations_met(second, answers(second, "a", "b"), f"{second.lake}/data_docs/index.html"),
    )
    assert not red.passed
    assert "of lake second" in str(red.description)
    assert first.lake not in f"{red.description} {red.metadata}"
    assert red.metadata["data docs"] == dg.MetadataValue.url("/loglake/lakes/second/data_docs/index.html")
    assert red.metadata["data docs file"].value == f"{second.lake}/data_docs/index.html"
    assert checks.expectations_met(first, answers(first), None).passed


SUITE = "orders.json 1: expect_column_values_to_not_be_null value"


@pytest.mark.parametrize(
    ("unmet", "publishes", "corrects"),
    [((SUITE,), False, True), (("rows_match_ledger",), True, False), (("rows_match_ledger", SUITE), True, True)],
)
def test_data_that_do_not_meet_a_suite_are_to_be_corrected_and_not_published_again(two, unmet, publishes, corrects):
    outcomes = tuple(LogExpectation(name, False, "", "critical") for name in unmet)
    results = {log.log: Results(0, 4, outcomes) for log in two[0].logs}
    advice = checks.expectations_met(two[0], results, None).what_to_do
    assert ("--replace .." in advice, "or the suite" in advice) == (publishes, corrects)
    assert f"{two[0].lake}/data_docs" in advice


def test_a_log_that_was_not_checked_is_no_matter_of_a_suite(two):
    assert "or the suite" not in checks.expectations_met(two[0], {}, None).what_to_do


@pytest.mark.parametrize("failing", [(), ("a",), ("a", "b")])
def test_the_number_not_met_is_the_sum_of_the_column_beside_it(two, failing):
    check = check_result(
        RegisteredLake(two[0].lake, "first"), checks.expectations_met(two[0], answers(two[0], *failing), None)
    )
    column = [record.data["not met"] for record in check.metadata["by expectation"].records]
    assert check.metadata["not met"].value == sum(column) == len(failing)
