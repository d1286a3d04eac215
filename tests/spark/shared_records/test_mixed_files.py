"""Other engines mix files of `records`: right rows are green, wrong ones are named, and `--replace` restores order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from spark_jobs.contracts import OptimizeConfig
from spark_jobs.engine.session import get_session
from spark_jobs.lake.delta import commits
from spark_jobs.lake.view.ledger_comparison import differences
from spark_jobs.optimize import optimize_job as optimize
from tests.spark.cycle import AS_OF_MS, Lake
from tests.spark.shared_records.mixed_files import (
    Mix,
    assert_equal_to_source,
    by_compact,
    by_spark_optimize,
    contents,
    damage,
    is_ordered,
    make,
    optimized,
    paths,
    replaced,
    root,
    rows,
    sql,
    table,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]


def by_spark_update(lake: Lake) -> None:
    """An update that changes nothing but the files."""
    sql(lake, "UPDATE {records} SET leader_epoch = leader_epoch WHERE offset % 10 = 3")


def by_auto_compaction(lake: Lake) -> None:
    spark = get_session(str(lake.path))
    spark.conf.set("spark.databricks.delta.autoCompact.enabled", "true")
    spark.conf.set("spark.databricks.delta.autoCompact.minNumFiles", "2")
    try:
        sql(lake, "UPDATE {records} SET leader_epoch = leader_epoch WHERE topic = 'orders' AND offset = 3")
    finally:
        spark.conf.unset("spark.databricks.delta.autoCompact.enabled")
        spark.conf.unset("spark.databricks.delta.autoCompact.minNumFiles")


def by_both_engines(lake: Lake) -> None:
    """Rows of one log in files that overlap: those of every third offset in one, the others beside them."""
    orders = table(lake).to_pyarrow_table().filter(pc.field("topic") == "orders").sort_by([("offset", "descending")])
    table(lake).delete("topic = 'orders'")
    third = pa.array([offset % 3 == 0 for offset in orders["offset"].to_pylist()])
    for part in (orders.filter(third), orders.filter(pc.invert(third))):
        write_deltalake(table(lake), part, mode="append")


MIXERS = [by_spark_optimize, by_compact, by_spark_update, by_auto_compaction, by_both_engines]

mixers = pytest.mark.parametrize("mix", MIXERS, ids=lambda mix: mix.__name__)


@pytest.mark.long
def test_the_helpers_of_this_folder_see_mixed_files(shared):
    assert is_ordered(shared)
    by_spark_optimize(shared)
    assert not is_ordered(shared)


@mixers
def test_right_rows_in_mixed_files_differ_in_nothing(mixed):
    assert differences(str(mixed.path)) == ()


@pytest.mark.long
@mixers
def test_wrong_rows_in_mixed_files_are_named_by_log_and_offsets(mixed):
    sql(mixed, "DELETE FROM {records} WHERE topic = 'orders' AND partition = 1 AND offset IN (4, 17)")
    found = differences(str(mixed.path))
    assert {(d.topic, d.partition) for d in found} == {("orders", 1)}
    assert sum(d.expected - d.found for d in found) == 2
    assert all(any(d.start_offset <= offset < d.end_offset for d in found) for offset in (4, 17))


@pytest.mark.long
def test_rows_that_another_engine_doubled_are_named(shared):
    by_spark_optimize(shared)
    sql(shared, "INSERT INTO {records} SELECT * FROM {records} WHERE topic = 'orders' AND offset BETWEEN 5 AND 6")
    found = differences(str(shared.path))
    assert {(d.topic, d.partition) for d in found} == {("orders", 0), ("orders", 1)}
    assert sum(d.found - d.expected for d in found) == 4


@pytest.mark.long
@pytest.mark.parametrize("harm", ["removed", "cut"])
def test_a_mixed_file_that_cannot_be_read_is_a_difference_with_its_reason(shared, harm):
    by_spark_optimize(shared)
    [path] = [path for path in paths(shared) if path.startswith("topic=orders")]
    damage(root(shared) / path, harm)
    found = differences(str(shared.path))
    assert any(path in d.what and "cannot be read" in d.what and d.topic == "orders" for d in found)
    assert {d.topic for d in found} == {"orders"}
    [log] = {row["log"] for row in shared.rows("logs") if (row["topic"], row["partition"]) == ("orders", 1)}
    assert any(path in d.what for d in differences(str(shared.path), [log]))


@pytest.mark.long
def test_each_mixed_file_is_read_once_in_a_process(shared, monkeypatch):
    opened = []
    read = pq.ParquetFile

    def counted(*args: Any, **kwargs: Any) -> pq.ParquetFile:
        opened.append(args)
        return read(*args, **kwargs)

    by_spark_optimize(shared)
    monkeypatch.setattr(pq, "ParquetFile", counted)
    assert differences(str(shared.path)) == ()
    assert 1 <= len(opened) <= 2
    opened.clear()
    assert differences(str(shared.path)) == ()
    assert optimize.plan(OptimizeConfig(str(shared.path), "o", AS_OF_MS)).left
    assert len(opened) <= 1  # the file of payments-0: of one log, but not known to be in order


@mixers
def test_replace_puts_mixed_files_back_in_order_and_leaves_their_rows_as_they_are(mixed, logs):
    before = rows(mixed)
    report = replaced(mixed)
    assert [placed.finding.message for placed in report.findings] == []
    assert is_ordered(mixed)
    assert rows(mixed) == before
    assert_equal_to_source(mixed, logs)
    version = table(mixed).version()
    assert replaced(mixed).changed == ()
    assert table(mixed).version() == version
    assert optimized(mixed).plan.left == ()


@pytest.mark.long
@mixers
def test_optimize_leaves_mixed_files_and_names_the_command_that_puts_them_in_order(mixed):
    before = paths(mixed)
    left = {each.table: each.why for each in optimized(mixed).plan.left}
    if any(len({row[:3] for row in held}) > 1 for held in contents(mixed).values()):
        assert left["records/orders"].endswith(f"`loglake run LOGDIR --lake {mixed.path} --topic orders --replace ..`")
        assert [path for path in paths(mixed) if "=orders" in path] == [path for path in before if "=orders" in path]


def test_optimize_leaves_a_mixed_file_that_cannot_be_read(shared):
    by_compact(shared)
    [path] = [path for path in paths(shared) if path.startswith("topic=orders")]
    damage(root(shared) / path, "cut")
    report = optimized(shared)
    assert [each.table for each in report.plan.left] == ["records/orders", "records/payments"]
    assert path in paths(shared)


@pytest.mark.long
def test_a_lake_with_mixed_files_grows_is_put_in_order_and_optimized(tmp_path):
    source, lake, logs = make(tmp_path)
    by_spark_optimize(lake)
    logs["orders-1"].append(10, per_batch=1, tag=b"orders-1")
    source.high_watermarks(orders_0=30, orders_1=40, payments_0=30)
    lake.turn(source.path)
    replaced(lake)
    optimized(lake)
    assert is_ordered(lake)
    assert len(paths(lake)) == 3
    assert_equal_to_source(lake, logs)


def by_delta_rs_update(lake: Lake) -> None:
    """A compaction and an update by delta-rs, which leaves columns of Arrow's view types."""
    by_compact(lake)
    table(lake).update(predicate="topic = 'orders'", updates={"leader_epoch": "leader_epoch"})


@pytest.mark.long
@pytest.mark.parametrize("mix", [by_spark_optimize, by_delta_rs_update], ids=lambda mix: mix.__name__)
def test_a_log_grows_beside_a_mixed_file_that_reaches_further_than_it(tmp_path, mix: Mix):
    source, lake, logs = make(tmp_path)
    logs["orders-0"].append(50, per_batch=1, tag=b"orders-0")
    source.high_watermarks(orders_0=80, orders_1=30, payments_0=30)
    lake.turn(source.path)
    mix(lake)
    logs["orders-1"].append(10, per_batch=1, tag=b"orders-1")
    source.high_watermarks(orders_0=80, orders_1=40, payments_0=30)
    assert lake.turn(source.path)["publish"].findings == ()
    assert_equal_to_source(lake, logs)


@pytest.mark.long
def test_beside_a_lost_mixed_file_only_logs_that_it_may_hold_wait_and_replace_lets_them_go_on(tmp_path):
    source, lake, logs = make(tmp_path)
    logs["orders-0"].append(50, per_batch=1, tag=b"orders-0")
    source.high_watermarks(orders_0=80, orders_1=30, payments_0=30)
    lake.turn(source.path)
    by_spark_optimize(lake)
    lost = next(path for path in paths(lake) if path.startswith("topic=orders"))
    damage(root(lake) / lost, "removed")
    for name in ("orders-1", "payments-0"):
        logs[name].append(10, per_batch=1, tag=name.encode())
    source.high_watermarks(orders_0=80, orders_1=40, payments_0=40)
    [placed] = lake.turn(source.path)["publish"].findings
    assert (placed.finding.rule, placed.topic, placed.partition) == ("output-mismatch", "orders", 1)
    assert f"{lost} cannot be read: it is not there" in placed.finding.message
    replaced(lake)
    assert lake.turn(source.path)["publish"].findings == ()
    assert_equal_to_source(lake, logs)


@pytest.mark.long
@mixers
def test_replace_repairs_rows_in_mixed_files(shared, mixed, logs):
    before = rows(shared)
    sql(mixed, "UPDATE {records} SET value = unhex('00') WHERE topic = 'orders' AND offset IN (4, 17)")
    sql(mixed, "DELETE FROM {records} WHERE topic = 'orders' AND partition = 1 AND offset = 8")
    sql(mixed, "INSERT INTO {records} SELECT * FROM {records} WHERE topic = 'orders' AND offset = 20")
    report = replaced(mixed)
    assert [placed.finding.message for placed in report.findings] == []
    assert rows(mixed) == before
    assert_equal_to_source(mixed, logs)
    version = table(mixed).version()
    assert replaced(mixed).changed == ()
    assert table(mixed).version() == version


def test_files_that_are_mixed_between_look_and_commit_are_put_in_order_and_compared_again(shared, logs, monkeypatch):
    sql(shared, "UPDATE {records} SET value = unhex('00') WHERE topic = 'orders' AND offset IN (4, 17)")
    rewrite = commits.rewrite_files

    def overtaken(*args: Any, **kwargs: Any) -> None:
        monkeypatch.setattr(commits, "rewrite_files", rewrite)
        by_compact(shared)
        rewrite(*args, **kwargs)

    monkeypatch.setattr(commits, "rewrite_files", overtaken)
    assert [f.finding.message for f in replaced(shared).findings] == []
    assert_equal_to_source(shared, logs)


@pytest.mark.long
def test_replace_of_a_range_in_a_mixed_file_leaves_the_other_rows_as_they_are(shared, logs):
    by_spark_optimize(shared)
    sql(shared, "UPDATE {records} SET leader_epoch = 77 WHERE topic = 'orders' AND offset IN (4, 17)")
    replaced(shared, start_offset=10, end_offset=20)
    assert {(row["partition"], row["offset"]) for row in rows(shared) if row["leader_epoch"] == 77} == {(0, 4), (1, 4)}
    assert_equal_to_source(shared, logs)
