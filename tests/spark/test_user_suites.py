"""A user's suite where the job runs on Spark: the Spark engine of Great Expectations says what pandas says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_jobs import launch
from spark_jobs.contracts import DecodeConfig, ExpectationsConfig, JobReport
from spark_jobs.engine.executor import Executor
from spark_jobs.engine.session import get_session
from spark_jobs.engine.spark_executor import SparkExecutor
from spark_jobs.expectations import expectations_job as expectations
from spark_jobs.outlines import ExpectationResult
from spark_jobs.policies.policies_file import read_policies
from tests.broker_directory import OTHER_TOPIC_ID, TOPIC_ID, LogDirectory
from tests.in_process import InProcessExecutor
from tests.spark.archived import append_segment
from tests.spark.cycle import AS_OF_MS, Lake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]

ORDERS, PAYMENTS = f"{TOPIC_ID}.0/0", f"{OTHER_TOPIC_ID}.0/0"
OF_ROWS = (
    {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "value"}},
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "offset", "max_value": 9}},
    {"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["log_id", "partition", "offset"]}},
    {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "topic", "value_set": ["orders"]},
        "severity": "warning",
    },
)
OF_VALUES = (
    {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "value.price"}},
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "value.price", "min_value": 4}},
)
POLICIES = """
topics:
  orders:
    expectations.suite: rows.json
    decode.value: json
    decode.value.schema: order.json
    decode.expectations.suite: values.json
  payments: {expectations.suite: rows.json}
"""
SCHEMA = {"type": "object", "properties": {"price": {"type": "integer"}}}


def results(report: JobReport) -> list[ExpectationResult]:
    return [each for each in report.plan.expectations if ".json" in each.name]


def test_a_suite_says_on_spark_what_it_says_here(tmp_path: Path) -> None:
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    append_segment(source.partition("orders-0"), [(b"k", b'{"price": %d}' % number) for number in range(12)], AS_OF_MS)
    source.partition("payments-0", OTHER_TOPIC_ID).append(5)
    source.high_watermarks(orders_0=12, payments_0=5)
    for name, content in (("rows", OF_ROWS), ("values", OF_VALUES)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name, "expectations": content}))
    (tmp_path / "order.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "policies.yaml").write_text(POLICIES)
    lake.turn(source.path)
    policies = read_policies(str(tmp_path / "policies.yaml"))
    launch.run(DecodeConfig(str(lake.path), "decode", AS_OF_MS, policies))
    config = ExpectationsConfig(str(lake.path), "suite", AS_OF_MS, {ORDERS: (2, 12), PAYMENTS: (0, 5)}, policies)

    def by(executor: Executor) -> list[ExpectationResult]:
        return results(expectations.apply(expectations.plan(config), config, executor))

    here, there = by(InProcessExecutor()), by(SparkExecutor(get_session(str(lake.path))))
    assert there == here
    assert [(each.observed, each.failing) for each in there] == [
        ("0 of 15 rows do not meet it", ()),
        ("2 of 15 rows do not meet it", (ORDERS,)),
        ("0 of 15 rows do not meet it", ()),
        ("5 of 15 rows do not meet it", (PAYMENTS,)),
        ("0 of 10 rows do not meet it", ()),
        ("2 of 10 rows do not meet it", (ORDERS,)),
    ]
