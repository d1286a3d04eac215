"""[a, b) is committed only on a snapshot whose frontier is exactly a."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from spark_jobs import launch
from spark_jobs.contracts import PublishConfig
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.launch import run
from spark_jobs.publish import publish_job as publish
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.spark.cycle import AS_OF_MS, Lake


@pytest.fixture
def ready(tmp_path):
    """A lake with two logs validated and nothing published, its source, and the configuration to publish with."""
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    orders.append(10)
    payments.append(10)
    source.high_watermarks(orders_0=10, payments_0=10)
    lake.turn(source.path, publish=False)
    return lake, orders, payments, PublishConfig(str(lake.path), "run", AS_OF_MS)


def test_of_two_plans_made_at_one_frontier_only_the_first_to_commit_adds_rows(ready):
    lake, orders, payments, config = ready
    first, second = publish.plan(config), publish.plan(config)
    assert {log.records for log in second.logs} == {10}
    executor = launch.start_executor(config.lake)
    assert len(publish.apply(first, config, executor).changed) == 2
    late = publish.apply(second, config, executor)
    assert late.changed == ()
    assert lake.published("orders") == orders.rows
    assert lake.published("payments") == payments.rows


def test_rows_at_or_above_the_frontier_refuse_their_log_and_the_other_continues(ready):
    lake, orders, payments, config = ready
    run(config)
    uri = str(lake.path / "tables" / "records")
    taken = next(row for row in lake.rows("records") if row["topic"] == "orders")
    strange = pa.Table.from_pylist([taken | {"offset": 12}], schema=TABLES["records"].schema)
    write_deltalake(uri, strange, mode="append")
    source = LogDirectory(lake.path.parent / "source")
    orders.append(5)
    payments.append(5)
    source.high_watermarks(orders_0=15, payments_0=15)
    lake.turn(source.path)
    assert "output-mismatch" in lake.rules()
    assert set(lake.published("orders")) == {*range(10), 12}
    assert lake.published("payments") == payments.rows
