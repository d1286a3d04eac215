"""Other engines rewrite `records`: right rows are green, wrong ones are named, and our own commands put both right."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.contracts import JobReport, OptimizeConfig, ReplaceConfig
from spark_jobs.lake.delta.commits import file_commits
from spark_jobs.lake.ledger.frontier import read_frontiers
from spark_jobs.lake.published.completeness import differences
from spark_jobs.lake.table_schemas import OFFSET_LEDGER
from spark_jobs.launch import run
from spark_jobs.machine.session import get_session
from spark_jobs.optimize import job as optimize
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory, Partition
from tests.spark.cycle import AS_OF_MS, Lake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]

Logs = dict[str, Partition]
Mix = Callable[[Lake], None]
COLUMNS = "topic, partition, offset, key, value"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Logs]:
    """Made once for all tests that need no growing source."""
    folder = tmp_path_factory.mktemp("shared")
    return folder, make(folder)[2]


def make(folder: Path) -> tuple[LogDirectory, Lake, Logs]:
    """Three files of ten offsets of each of orders-0 and orders-1; payments-0 is another topic."""
    source, lake = LogDirectory(folder / "source"), Lake(folder / "lake")
    logs = {
        "orders-0": source.partition("orders-0"),
        "orders-1": source.partition("orders-1"),
        "payments-0": source.partition("payments-0", OTHER_TOPIC_ID),
    }
    for end in (10, 20, 30):
        for name, log in logs.items():
            log.append(10, per_batch=1, tag=name.encode())
        source.high_watermarks(orders_0=end, orders_1=end, payments_0=end)
        lake.turn(source.path)
    return source, lake, logs


@pytest.fixture
def logs(made_once: tuple[Path, Logs]) -> Logs:
    return made_once[1]


@pytest.fixture
def shared(made_once: tuple[Path, Logs], tmp_path: Path) -> Lake:
    """A copy of that lake."""
    return Lake(Path(shutil.copytree(made_once[0] / "lake", tmp_path / "lake")))


def root(lake: Lake) -> Path:
    return lake.path / "tables" / "records"


def table(lake: Lake) -> DeltaTable:
    return DeltaTable(str(root(lake)))


def sql(lake: Lake, statement: str) -> None:
    get_session(str(lake.path)).sql(statement.format(records=f"delta.`{root(lake)}`"))


def rows(lake: Lake) -> list[dict[str, Any]]:
    return sorted(lake.rows("records"), key=lambda row: (row["topic"], row["partition"], row["offset"]))


def assert_equal_to_source(lake: Lake, logs: Logs) -> None:
    """Every appended record is there once, key and value; no other row is."""
    for name, log in logs.items():
        topic, _, partition = name.rpartition("-")
        assert lake.published(topic, int(partition)) == log.rows
    assert len(lake.rows("records")) == sum(len(log.rows) for log in logs.values())
    assert differences(str(lake.path)) == ()


def contents(lake: Lake) -> dict[str, list[tuple[str, int, str, int]]]:
    """Topic, partition, log id and offset of every row of each live file, in the order of the file."""
    found = {}
    for path in paths(lake):
        read = pq.ParquetFile(root(lake) / path).read(["partition", "log_id", "offset"]).to_pylist()
        topic = path.partition("/")[0].removeprefix("topic=")
        found[path] = [(topic, row["partition"], row["log_id"], row["offset"]) for row in read]
    return found


def paths(lake: Lake) -> list[str]:
    return sorted(pa.table(table(lake).get_add_actions())["path"].to_pylist())


def is_ordered(lake: Lake) -> bool:
    """Whether every file has rows of one log with rising offsets, and no two files of a log overlap."""
    spans: dict[tuple[str, int, str], list[tuple[int, int]]] = {}
    for found in contents(lake).values():
        if len({row[:3] for row in found}) > 1 or [row[3] for row in found] != sorted({row[3] for row in found}):
            return False
        spans.setdefault(found[0][:3], []).append((found[0][3], found[-1][3]))
    ordered = [sorted(of_log) for of_log in spans.values()]
    return all(before[1] < after[0] for of_log in ordered for before, after in pairwise(of_log))


def optimized(lake: Lake, **changes: Any) -> JobReport:
    return run(
        "optimize", OptimizeConfig(str(lake.path), "optimize", **{"as_of_ms": AS_OF_MS, "apply": True} | changes)
    )


def replaced(lake: Lake, **request: Any) -> JobReport:
    return run("replace", ReplaceConfig(str(lake.path), "replace", AS_OF_MS, **{"start_offset": 0} | request))


def by_spark_optimize(lake: Lake) -> None:
    sql(lake, "OPTIMIZE {records}")


def by_compact(lake: Lake) -> None:
    table(lake).optimize.compact()


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


@pytest.fixture(scope="module")
def mixed_once(made_once: tuple[Path, Logs]) -> Callable[[Mix], Path]:
    """Makes the lake that a mixer leaves, each once."""

    @cache
    def make_mixed(mix: Mix) -> Path:
        path = Path(shutil.copytree(made_once[0] / "lake", made_once[0] / mix.__name__))
        mix(Lake(path))
        return path

    return make_mixed


@pytest.fixture
def mixed(mix: Mix, mixed_once: Callable[[Mix], Path], tmp_path: Path) -> Lake:
    """A copy of the lake that the mixer of the test leaves."""
    return Lake(Path(shutil.copytree(mixed_once(mix), tmp_path / "mixed")))


MIXERS = [by_spark_optimize, by_compact, by_spark_update, by_auto_compaction, by_both_engines]
mixers = pytest.mark.parametrize("mix", MIXERS, ids=lambda mix: mix.__name__)


@pytest.mark.long
def test_the_helpers_of_this_file_see_mixed_files(shared):
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
    assert optimize.plan(OptimizeConfig(str(shared.path), "o", AS_OF_MS)).unplaced == ()
    assert len(opened) <= 1  # the file of payments-0: of one log, but not known to be in order


@mixers
def test_optimize_puts_mixed_files_back_in_order(mixed, logs):
    before = rows(mixed)
    report = optimized(mixed)
    assert report.plan["unplaced"] == []
    assert [finding["message"] for finding in report.findings] == []
    assert is_ordered(mixed)
    assert rows(mixed) == before
    assert_equal_to_source(mixed, logs)
    for entry in table(mixed).history(2):
        if entry.get("userMetadata") and "optimize" in entry["userMetadata"]:
            actions = (root(mixed) / "_delta_log" / f"{entry['version']:020d}.json").read_text().splitlines()
            files = [
                next(iter(json.loads(line).values())) for line in actions if line.startswith(('{"add"', '{"remove"'))
            ]
            assert files
            assert not any(file["dataChange"] for file in files)
    version = table(mixed).version()
    again = optimized(mixed)
    assert again.plan["merges"] == []
    assert again.plan["orders"] == []
    assert table(mixed).version() == version


@pytest.mark.long
def test_workers_put_mixed_files_in_order_as_the_driver_does(shared, logs, monkeypatch):
    monkeypatch.setattr(optimize, "IN_PROCESS_BYTES", 0)
    by_spark_optimize(shared)
    assert optimized(shared).used_executor
    assert is_ordered(shared)
    assert_equal_to_source(shared, logs)


def test_optimize_leaves_only_topics_whose_mixed_file_cannot_be_read(shared):
    by_compact(shared)
    [path] = [path for path in paths(shared) if path.startswith("topic=orders")]
    damage(root(shared) / path, "cut")
    report = optimized(shared)
    assert report.plan["unplaced"] == ["records/orders"]
    assert path in paths(shared)


@pytest.mark.long
def test_a_lake_with_mixed_files_grows_and_is_optimized_to_order(tmp_path):
    source, lake, logs = make(tmp_path)
    by_spark_optimize(lake)
    logs["orders-1"].append(10, per_batch=1, tag=b"orders-1")
    source.high_watermarks(orders_0=30, orders_1=40, payments_0=30)
    lake.turn(source.path)
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
    [finding] = lake.turn(source.path)["publish"].findings
    assert (finding["rule"], finding["topic"], finding["partition"]) == ("output-mismatch", "orders", 1)
    assert f"{lost} cannot be read: it is not there" in finding["message"]
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
    assert [finding["message"] for finding in report.findings] == []
    assert rows(mixed) == before
    assert_equal_to_source(mixed, logs)
    version = table(mixed).version()
    assert replaced(mixed).changed == ()
    assert table(mixed).version() == version


def test_files_that_are_mixed_between_look_and_commit_are_put_in_order_and_compared_again(shared, logs, monkeypatch):
    sql(shared, "UPDATE {records} SET value = unhex('00') WHERE topic = 'orders' AND offset IN (4, 17)")
    rewrite = file_commits.rewrite_files

    def overtaken(*args: Any, **kwargs: Any) -> None:
        monkeypatch.setattr(file_commits, "rewrite_files", rewrite)
        by_compact(shared)
        rewrite(*args, **kwargs)

    monkeypatch.setattr(file_commits, "rewrite_files", overtaken)
    assert [f["message"] for f in replaced(shared).findings] == []
    assert_equal_to_source(shared, logs)


@pytest.mark.long
def test_replace_of_a_range_in_a_mixed_file_leaves_the_other_rows_as_they_are(shared, logs):
    by_spark_optimize(shared)
    sql(shared, "UPDATE {records} SET leader_epoch = 77 WHERE topic = 'orders' AND offset IN (4, 17)")
    replaced(shared, start_offset=10, end_offset=20)
    assert {(row["partition"], row["offset"]) for row in rows(shared) if row["leader_epoch"] == 77} == {(0, 4), (1, 4)}
    assert_equal_to_source(shared, logs)


def damage(path: Path, harm: str) -> None:
    content = path.read_bytes()
    if harm == "removed":
        path.unlink()
    elif harm == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:  # a byte in the pages of the column value
        meta = pq.read_metadata(path).row_group(0)
        [column] = [meta.column(i) for i in range(meta.num_columns) if meta.column(i).path_in_schema == "value"]
        at = (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size - 20
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :])


HARMS = ["removed", "cut", "flipped"]


@pytest.mark.long
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("mixed", [False, True], ids=["one log", "several logs"])
def test_replace_rebuilds_a_file_that_is_lost_from_the_archive(shared, logs, harm, mixed):
    before = rows(shared)
    if mixed:
        by_spark_optimize(shared)
    lost = next(path for path in paths(shared) if path.startswith("topic=orders"))
    damage(root(shared) / lost, harm)
    replaced(shared)
    assert rows(shared) == before
    assert lost not in paths(shared)
    assert_equal_to_source(shared, logs)
    version = table(shared).version()
    assert replaced(shared).changed == ()
    assert table(shared).version() == version


def test_every_file_of_the_table_lost_is_rebuilt(shared, logs):
    before = rows(shared)
    for path in paths(shared):
        damage(root(shared) / path, "removed")
    replaced(shared)
    assert rows(shared) == before
    assert_equal_to_source(shared, logs)


@pytest.mark.parametrize("mixed", [False, True], ids=["one log", "several logs"])
def test_a_request_that_meets_a_lost_file_is_widened_to_all_that_it_held(shared, logs, mixed):
    if mixed:
        by_spark_optimize(shared)
    lost = next(path for path, held in contents(shared).items() if ("orders", 12) in {(r[0], r[3]) for r in held})
    damage(root(shared) / lost, "removed")
    report = replaced(shared, start_offset=12, end_offset=13)
    assert lost not in paths(shared)
    assert_equal_to_source(shared, logs)
    [said] = {finding["message"] for finding in report.findings if finding["rule"] == "table-file-rebuilt"}
    assert lost in said
    assert "[0, 30)" in said if mixed else "[10, 20)" in said


@pytest.mark.parametrize("mixed", [False, True], ids=["one log", "several logs"])
def test_rows_of_a_lost_file_that_the_archive_does_not_have_are_named_as_lost(shared, logs, mixed):
    if mixed:
        by_spark_optimize(shared)
    [lost] = [
        path for path, held in contents(shared).items() if {("orders", 0, 12)} & {(r[0], r[1], r[3]) for r in held}
    ]
    ledger = shared.rows("offset_ledger")
    for row in ledger:
        if (row["topic"], row["partition"]) == ("orders", 0):
            row["archived"] = "retained-away"
    path = str(shared.path / "tables" / "offset_ledger")
    write_deltalake(path, pa.Table.from_pylist(ledger, schema=OFFSET_LEDGER), mode="overwrite")
    damage(root(shared) / lost, "removed")
    report = replaced(shared)
    refused = [f for f in report.findings if f["rule"] == "replacement-refused" and lost in f["message"]]
    assert [(f["topic"], f["partition"], f["start_offset"], f["end_offset"]) for f in refused] == [
        ("orders", 0, 0, 30) if mixed else ("orders", 0, 10, 20)
    ]
    assert "lost" in refused[0]["message"]
    assert lost not in paths(shared)
    held = shared.published("orders", 0)
    assert held == ({} if mixed else {o: row for o, row in logs["orders-0"].rows.items() if not 10 <= o < 20})
    assert shared.published("orders", 1) == logs["orders-1"].rows
    assert {(d.topic, d.partition) for d in differences(str(shared.path))} == {("orders", 0)}


def by_delta_rs(lake: Lake) -> None:
    table(lake).restore(0)


def by_spark(lake: Lake) -> None:
    sql(lake, "RESTORE TABLE {records} TO VERSION AS OF 0")


def by_spark_halfway(lake: Lake) -> None:
    sql(lake, "RESTORE TABLE {records} TO VERSION AS OF 2")


@pytest.mark.long
@pytest.mark.parametrize("restore", [by_delta_rs, by_spark, by_spark_halfway], ids=lambda each: each.__name__)
def test_rows_that_a_restore_took_away_come_back_exactly_once(made_once, shared, logs, restore: Mix, tmp_path):
    before = rows(shared)
    keys = [row["log"] for row in shared.rows("logs")]
    frontiers = read_frontiers(str(shared.path), keys)
    restore(shared)
    assert len(rows(shared)) < len(before)
    # Both engines leave what applications recorded as it was: the rows are gone, the frontier is not.
    assert read_frontiers(str(shared.path), keys) == frontiers
    assert len({(d.topic, d.partition) for d in differences(str(shared.path))}) == 3
    shared.turns = 3
    shared.turn(made_once[0] / "source")
    replaced(shared)
    assert rows(shared) == before
    assert_equal_to_source(shared, logs)
    version = table(shared).version()
    shared.turn(made_once[0] / "source")
    assert replaced(shared).changed == ()
    assert table(shared).version() == version


NOTE = "STRUCT<who: STRING, marks: ARRAY<INT>, seen: MAP<STRING, DATE>>"


def with_extra_columns(lake: Lake) -> None:
    """Columns of a user, filled for every row but those of offset 0."""
    sql(lake, "ALTER TABLE {records} ADD COLUMNS (label STRING, note " + NOTE + ", price DECIMAL(20, 3))")
    sql(
        lake,
        "UPDATE {records} SET label = concat(topic, partition, '/', offset), price = offset / 8, "
        "note = named_struct('who', string(offset), 'marks', array(int(offset), null), 'seen', "
        "map('first', date '2020-02-29')) WHERE offset > 0",
    )


def labels(lake: Lake) -> dict[tuple[str, int, int], Any]:
    found = {(r["topic"], r["partition"], r["offset"]): (r["label"], r["price"], r["note"]) for r in rows(lake)}
    assert sum(label is not None for label, _, _ in found.values()) >= 80
    return found


@pytest.mark.long
@pytest.mark.parametrize("mixed", [False, True], ids=["one log", "several logs"])
def test_optimize_carries_extra_columns(tmp_path, mixed):
    source, lake, logs = make(tmp_path)
    with_extra_columns(lake)
    if mixed:
        by_compact(lake)
    before = labels(lake)
    for end in (40, 50):
        logs["orders-1"].append(10, per_batch=1, tag=b"orders-1")
        source.high_watermarks(orders_0=30, orders_1=end, payments_0=30)
        lake.turn(source.path)
    optimized(lake)
    after = labels(lake)
    assert is_ordered(lake)
    assert len(paths(lake)) == 3
    assert {key: value for key, value in after.items() if key in before} == before
    assert [value for key, value in after.items() if key not in before] == [(None, None, None)] * 20
    assert_equal_to_source(lake, logs)


@pytest.mark.long
def test_replace_carries_extra_columns_by_log_and_offset(shared, logs):
    with_extra_columns(shared)
    before = labels(shared)
    sql(shared, "UPDATE {records} SET value = unhex('00') WHERE topic = 'orders' AND offset IN (4, 17)")
    sql(shared, "DELETE FROM {records} WHERE topic = 'orders' AND partition = 1 AND offset IN (8, 9, 29)")
    replaced(shared, start_offset=2, end_offset=30)
    gone = {("orders", 1, offset) for offset in (8, 9, 29)}
    assert labels(shared) == before | dict.fromkeys(gone, (None, None, None))
    assert_equal_to_source(shared, logs)
