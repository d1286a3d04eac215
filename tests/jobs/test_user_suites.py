"""A suite that a user wrote is evaluated on the published rows; a bad one is named and stops nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_jobs import launch
from spark_jobs.contracts import ExpectationsConfig, JobReport
from spark_jobs.expectations import user_suites
from spark_jobs.policies.policies_file import read_policies
from tests.broker_directory import LogDirectory
from tests.daemons import WAIT_SECONDS
from tests.in_process import InProcessExecutor
from tests.jobs.test_expectations import ORDERS, PAYMENTS, built, lake  # noqa: F401 - fixtures

POLICIES = "topics:\n  orders: {expectations.suite: suites/orders.json}\n"
NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "value"}}


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    (tmp_path / "policies.yaml").write_text(POLICIES)
    (tmp_path / "suites").mkdir()
    return tmp_path / "suites" / "orders.json"


def write(suite: Path, *expectations: dict[str, Any]) -> None:
    suite.write_text(json.dumps({"name": "orders", "expectations": list(expectations)}))


def expect(lake: Any, suite: Path) -> JobReport:  # noqa: F811
    policies = str(suite.parent.parent / "policies.yaml")
    ranges = {ORDERS: (0, 40), PAYMENTS: (0, 5)}
    return launch.run(ExpectationsConfig(str(lake.path), "suite", 1, ranges, read_policies(policies)))


def own(report: JobReport) -> dict[str, dict[str, Any]]:
    """Results of the suite, by name."""
    return {o.name: o for o in report.plan.expectations if o.name.startswith(("orders.json", "suite "))}


def test_each_expectation_of_the_suite_is_a_result_with_counts_and_no_values(lake, suite):  # noqa: F811
    between = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "offset", "max_value": 9}}
    in_set = {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "topic", "value_set": ["payments"]}}
    write(suite, NOT_NULL, between, in_set | {"severity": "warning"})
    report = expect(lake, suite)
    results = own(report)
    assert [(name, r.success, r.severity, list(r.failing)) for name, r in results.items()] == [
        ("orders.json 1: expect_column_values_to_not_be_null value", True, "critical", []),
        ("orders.json 2: expect_column_values_to_be_between offset", False, "critical", [ORDERS]),
        ("orders.json 3: expect_column_values_to_be_in_set topic", False, "warning", [ORDERS]),
    ]
    assert [r.observed for r in results.values()] == [
        "0 of 40 rows do not meet it",
        "30 of 40 rows do not meet it",
        "40 of 40 rows do not meet it",
    ]
    (placed,) = report.findings
    assert (placed.finding.rule, placed.log) == ("expectation-failed", ORDERS)
    assert "30 of 40 rows" in str(placed.finding.message)


def test_great_expectations_logs_at_the_level_of_the_command_and_not_at_its_own(lake, suite, caplog):  # noqa: F811
    write(suite, NOT_NULL)
    expect(lake, suite)
    said = [record.getMessage() for record in caplog.records if record.name.startswith("great_expectations")]
    assert said == []


def test_rows_in_many_chunks_give_the_same_counts(lake, suite, monkeypatch):  # noqa: F811
    write(suite, {"type": "expect_column_values_to_be_between", "kwargs": {"column": "offset", "max_value": 9}})
    monkeypatch.setattr(user_suites, "CHUNK_ROWS", 7)
    (result,) = own(expect(lake, suite)).values()
    assert result.observed == "30 of 40 rows do not meet it"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{", "is not a suite of Great Expectations"),
        ('{"expectations": []}', "at least one entry"),
        ('{"expectations": [{"type": "expect_nothing", "kwargs": {}}]}', "expectation 1, expect_nothing, is not known"),
    ],
)
def test_a_file_that_is_no_suite_is_one_failure_that_names_it(lake, suite, content, said):  # noqa: F811
    if content is not None:
        suite.write_text(content)
    report = expect(lake, suite)
    (result,) = own(report).values()
    assert (result.name, result.success, list(result.failing)) == ("suite orders.json", False, [ORDERS])
    assert said in result.observed
    assert str(suite) in result.observed
    assert "expectations.suite" in result.observed
    unmet = {o.name for o in report.plan.expectations if PAYMENTS in o.failing}
    assert "suite orders.json" not in unmet


def test_a_column_that_is_not_there_fails_only_its_expectation(lake, suite):  # noqa: F811
    write(suite, {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "nope"}}, NOT_NULL)
    first, second = own(expect(lake, suite)).values()
    assert (first.success, second.success) == (False, True)
    assert "could not be evaluated" in first.observed


@pytest.mark.long
def test_without_a_suite_great_expectations_and_pandas_frames_are_not_needed(tmp_path):
    """In a process of its own, because other tests import it."""
    source = LogDirectory(tmp_path / "kafka-logs")
    source.partition("orders-0").append(3)
    program = (
        "import sys; from logcore.cli.main import main; main(sys.argv[1:]); "
        "print('loaded:', *sorted({'great_expectations', 'pyspark'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "run", str(source.path), "--lake", str(tmp_path / "lake")],
        env={**os.environ, "LOGLAKE_HOME": str(tmp_path / "home"), "DAGSTER_HOME": str(tmp_path / "h")},
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_SECONDS,
    )
    assert done.stdout.splitlines()[-1] == "loaded:", done.stderr
