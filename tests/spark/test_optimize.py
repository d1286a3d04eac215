"""Small files become few in the same order, with the same rows, whatever commits or dies meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.engine import job_engine
from spark_jobs.engine.session import get_session
from spark_jobs.errors import UsageError
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.files.live_files import live_files
from spark_jobs.lake.delta.files.parquet_files import write_file
from spark_jobs.lake.delta.tables.snapshots import open_table, read_rows, table_uri
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.launch import run
from spark_jobs.optimize import optimize_job as optimize
from spark_jobs.validate.batch_stream import BatchFile, SegmentPlace, stream_batches
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.spark.cycle import AS_OF_MS, Lake
from tests.spark.scattered_files import add_files, all_rows, optimize_config, removed_files, rows_of, spans_of

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]


def files_by_log(lake: Path, name: str = "records") -> dict[tuple[str, int, str], list[tuple[int, int]]]:
    """Offsets [first, last] of each live file by log, read from the rows, which must rise."""
    found: dict[tuple[str, int, str], list[tuple[int, int]]] = {}
    for file in live_files(open_table(str(lake), name)):
        rows = pq.ParquetFile(Path(table_uri(str(lake), name), file.path)).read().to_pydict()
        [(partition, log_id)] = set(zip(rows["partition"], rows["log_id"], strict=True))
        assert rows["offset"] == sorted(set(rows["offset"]))
        place = (file.partition_values["topic"], partition, log_id)
        found.setdefault(place, []).append((rows["offset"][0], rows["offset"][-1]))
    return {place: sorted(spans) for place, spans in found.items()}


def test_small_files_become_one_a_log_with_the_same_rows_and_frontiers(scattered, monkeypatch):
    monkeypatch.setenv("LOGLAKE_JOB_ENGINE", "local")
    before = all_rows(scattered)
    dry = run(optimize_config(scattered, apply=False))
    assert {(m.log, m.start_offset, m.end_offset, m.files) for m in dry.plan.merges} == {
        ("a.0/0", 0, 50, 5),
        ("a.0/1", 0, 10, 2),
        ("a.1/0", 25, 40, 3),
    }
    assert DeltaTable(table_uri(str(scattered), "records")).version() == 2
    report = run(optimize_config(scattered))
    assert not report.used_executor
    assert {change.log: change.metrics["files_after"] for change in report.changed} == {
        "a.0/0": 1,
        "a.0/1": 1,
        "a.1/0": 1,
    }
    assert all_rows(scattered) == before
    assert files_by_log(scattered) == {
        ("a", 0, "a.0"): [(0, 49)],
        ("a", 1, "a.0"): [(0, 9)],
        ("a", 0, "a.1"): [(25, 39)],
        ("b", 0, "b.0"): [(0, 9)],
    }
    assert frontier.read_frontiers(str(scattered), ["a.0/0", "a.1/0", "b.0/0"]) == {
        "a.0/0": 50,
        "a.1/0": 40,
        "b.0/0": 10,
    }
    version = DeltaTable(table_uri(str(scattered), "records")).version()
    again = run(optimize_config(scattered))
    assert again.plan.merges == ()
    assert DeltaTable(table_uri(str(scattered), "records")).version() == version


def _by_duckdb(table: DeltaTable) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.register("data", table.to_pyarrow_dataset())
    return connection.execute('select topic, partition, "offset" from data order by all').fetchall()


def test_workers_merge_as_the_driver_does_and_every_reader_sees_the_same_rows(scattered, monkeypatch):
    before = all_rows(scattered)
    monkeypatch.setattr(job_engine, "IN_PROCESS_BYTES", {})
    report = run(optimize_config(scattered))
    assert report.used_executor
    assert report.metrics["merged_files"] == 10
    uri = table_uri(str(scattered), "records")
    assert all_rows(scattered) == before
    table = DeltaTable(uri)
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)
    offsets = sorted((row["topic"], row["partition"], row["offset"]) for row in Lake(scattered).rows("records"))
    assert _by_duckdb(table) == offsets
    read = polars.read_delta(uri).select("topic", "partition", "offset").rows()
    assert sorted(read) == offsets
    spark = get_session().read.format("delta").load(uri).select("topic", "partition", "offset").collect()
    assert sorted(map(tuple, spark)) == offsets


def test_a_large_run_is_cut_into_files_near_the_target_that_a_second_run_leaves(tmp_path):
    add_files(tmp_path, *spans_of("a", 0, "a.0", *range(0, 2001, 50)))
    before = all_rows(tmp_path)
    sizes = {"small_bytes": 30_000, "target_bytes": 100_000}
    report = run(optimize_config(tmp_path, **sizes))
    assert report.metrics["merged_files"] == 40
    [spans] = files_by_log(tmp_path).values()
    assert 3 <= len(spans) <= 6
    assert [first for first, _ in spans[1:]] == [last + 1 for _, last in spans[:-1]]
    sizes_now = [file.size for file in live_files(open_table(str(tmp_path), "records"))]
    assert max(sizes_now) < 160_000
    assert min(sizes_now) > 30_000
    assert all_rows(tmp_path) == before
    assert run(optimize_config(tmp_path, **sizes)).plan.merges == ()


@pytest.mark.long
def test_merged_files_have_full_row_groups_and_the_statistics_of_their_rows(tmp_path):
    add_files(tmp_path, *spans_of("a", 0, "a.0", *range(0, 200_001, 20_000)))
    run(optimize_config(tmp_path))
    [file] = live_files(open_table(str(tmp_path), "records"))
    meta = pq.read_metadata(Path(table_uri(str(tmp_path), "records"), file.path))
    assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [65_536, 65_536, 65_536, 3_392]
    assert (file.rows, file.only("partition"), file.only("log_id")) == (200_000, 0, "a.0")
    assert (file.least["offset"], file.greatest["offset"]) == (0, 199_999)


def test_an_append_between_plan_and_commit_is_kept_and_the_merge_goes_on(scattered):
    before = all_rows(scattered)
    plan = optimize.plan(optimize_config(scattered))
    add_files(scattered, *spans_of("a", 0, "a.0", 50, 60))
    report = optimize.apply(plan, optimize_config(scattered), None)
    assert report.metrics["overtaken"] == 0
    assert len(all_rows(scattered)) == len(before) + 10
    assert files_by_log(scattered)["a", 0, "a.0"] == [(0, 49), (50, 59)]


def test_an_append_between_look_and_commit_makes_the_commit_look_again(scattered, monkeypatch):
    before = all_rows(scattered)
    rewrite = commits.rewrite_files
    calls = []

    def overtaken_once(*args, **kwargs):
        calls.append(args)
        if len(calls) == 1:
            check = commits.check_guards

            def append_then_check(*looked):
                monkeypatch.setattr(commits, "check_guards", check)
                add_files(scattered, *spans_of("a", 0, "a.0", 50, 60))
                check(*looked)

            monkeypatch.setattr(commits, "check_guards", append_then_check)
        rewrite(*args, **kwargs)

    monkeypatch.setattr(commits, "rewrite_files", overtaken_once)
    run(optimize_config(scattered))
    assert len(calls) == 2
    assert len(all_rows(scattered)) == len(before) + 10


def test_files_that_a_replacement_took_meanwhile_are_planned_again_and_never_doubled(scattered):
    plan = optimize.plan(optimize_config(scattered))
    [taken] = [f for f in live_files(open_table(str(scattered), "records")) if f.least["offset"] == 20]
    rows = [row | {"value": b"new"} for row in rows_of("a", 0, "a.0", 20, 30)]
    chunk = pa.RecordBatch.from_pylist(rows, schema=TABLES["records"].schema)
    root = table_uri(str(scattered), "records")
    file = write_file(root, TABLES["records"], [chunk], {"topic": "a"})
    commits.rewrite_files(str(scattered), "records", [taken.path], [file], "replace", data_change=True)
    before = all_rows(scattered)
    report = optimize.apply(plan, optimize_config(scattered), None)
    assert report.metrics["overtaken"] == 0
    assert all_rows(scattered) == before
    assert files_by_log(scattered)["a", 0, "a.0"] == [(0, 49)]
    # what was written for the overtaken merge is gone: 3 logs merged, 1 single file, 10 + 1 superseded
    assert len(list(Path(root).rglob("*.parquet"))) == 3 + 1 + 10 + 1


def test_files_that_are_not_what_their_statistics_say_are_left_with_a_finding(tmp_path):
    add_files(tmp_path, *spans_of("a", 0, "a.0", 0, 10, 20, 30), *spans_of("b", 0, "b.0", 0, 10, 20))
    files = {
        file.least["offset"]: file
        for file in live_files(open_table(str(tmp_path), "records"))
        if file.partition_values["topic"] == "a"
    }
    root = Path(table_uri(str(tmp_path), "records"))
    (root / files[10].path).write_bytes((root / files[20].path).read_bytes())
    report = run(optimize_config(tmp_path))
    [placed] = report.findings
    assert placed.finding.rule == "table-file-damaged"
    assert "do not rise" in placed.finding.message
    assert files_by_log(tmp_path)["b", 0, "b.0"] == [(0, 19)]
    assert len(files_by_log(tmp_path)["a", 0, "a.0"]) == 3


def test_undecided_rows_stay_in_files_of_their_own(tmp_path):
    add_files(tmp_path, *spans_of("a", 0, "a.0", 0, 10, 20, 30), name="records_uncommitted")
    uri = table_uri(str(tmp_path), "records_uncommitted")
    tail = rows_of("a", 0, "a.0", 30, 40)
    for part in (tail[:5], tail[5:]):
        rows = pa.Table.from_pylist(part, schema=TABLES["records_uncommitted"].schema)
        write_deltalake(uri, rows, mode="append")
    before = all_rows(tmp_path, "records_uncommitted")
    _logs(tmp_path, ("a", 0, "a.0"))
    run(optimize_config(tmp_path))
    assert files_by_log(tmp_path, "records_uncommitted")["a", 0, "a.0"] == [(0, 29), (30, 34), (35, 39)]
    assert all_rows(tmp_path, "records_uncommitted") == before


def _logs(lake: Path, *logs: tuple[str, int, str]) -> None:
    schema = TABLES["logs"].schema
    rows = [
        dict.fromkeys(schema.names)
        | {"log": f"{log_id}/{partition}", "topic": topic, "partition": partition, "log_id": log_id}
        | {"incarnation": 0, "source": "s", "next_offset": 0, "log_start_offset": 0, "source_log_start_offset": 0}
        | {"leader_epochs": "[]", "gaps": "[]", "as_of_ms": 0}
        for topic, partition, log_id in logs
    ]
    commits.append(str(lake), "logs", pa.Table.from_pylist(rows, schema=schema), "run")


def test_after_many_small_runs_every_table_is_merged_and_the_lake_goes_on(tmp_path):
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    for turn in range(1, 4):
        orders.append(10)
        payments.append(10)
        source.high_watermarks(orders_0=10 * turn, payments_0=10 * turn)
        lake.turn(source.path)
    names = [path.name for path in (lake.path / "tables").iterdir()]
    before = {name: sorted(map(repr, lake.rows(name))) for name in names}
    run(optimize_config(lake.path, as_of_ms=AS_OF_MS))
    assert {name: sorted(map(repr, lake.rows(name))) for name in names} == before
    counts = {name: len(live_files(open_table(str(lake.path), name))) for name in names}
    assert counts == dict.fromkeys(names, 1) | {"records": 2}
    starts = {row["segment_id"]: row["base_offset"] for row in lake.rows("segments")}
    [file] = live_files(open_table(str(lake.path), "batches"))
    rows = pq.ParquetFile(Path(table_uri(str(lake.path), "batches"), file.path)).read().to_pylist()
    places = [(row["log"], starts[row["segment_id"]], row["position"]) for row in rows]
    assert places == sorted(places)
    assert _streamed(lake, file.path, "orders") == [
        (row["base_offset"], row["last_offset"]) for row in rows if row["topic"] == "orders"
    ]
    assert run(optimize_config(lake.path)).plan.merges == ()
    orders.append(5)
    source.high_watermarks(orders_0=35, payments_0=30)
    assert not lake.turn(source.path)["ingest"].findings
    assert lake.published("orders") == orders.rows
    assert lake.published("payments") == payments.rows


def _streamed(lake: Lake, path: str, topic: str) -> list[tuple[int, int]]:
    """Offsets of a log's batches as the log pass reads them, from its first on."""
    segments = sorted((r for r in lake.rows("segments") if r["topic"] == topic), key=lambda row: row["base_offset"])
    places = [
        SegmentPlace(r["segment_id"], r["base_offset"], r["next_offset"], r["path"], r["start"]) for r in segments
    ]
    full = str(Path(table_uri(str(lake.path), "batches"), path))
    rows = pa.Table.from_batches(list(stream_batches([BatchFile(full, None)], places, 0)))
    return list(zip(rows["base_offset"].to_pylist(), rows["last_offset"].to_pylist(), strict=True))


APPENDING = """
import sys
from pathlib import Path
from tests.spark.test_optimize import add_files
from spark_jobs.errors import ConcurrentChange
for start in range(0, 200, 5):
    while True:
        try:
            add_files(Path(sys.argv[1]), ("a", 0, "a.0", start, start + 5))
            break
        except ConcurrentChange:
            pass
"""


@pytest.mark.long
def test_while_another_process_publishes_every_row_is_there_once(tmp_path):
    add_files(tmp_path, ("b", 0, "b.0", 0, 5))
    process = subprocess.Popen([sys.executable, "-c", APPENDING, str(tmp_path)])
    merged = 0
    while process.poll() is None:
        merged += int(run(optimize_config(tmp_path)).metrics.get("merged_files", 0))
    assert process.returncode == 0
    assert merged > 0, "nothing was merged meanwhile: this test looks at nothing"
    run(optimize_config(tmp_path))
    offsets = [row["offset"] for row in Lake(tmp_path).rows("records") if row["topic"] == "a"]
    assert sorted(offsets) == list(range(200))
    assert files_by_log(tmp_path)["a", 0, "a.0"] == [(0, 199)]


def test_sizes_that_would_be_merged_for_ever_are_refused(tmp_path):
    with pytest.raises(UsageError, match="at least twice"):
        run(optimize_config(tmp_path, small_bytes=100 << 20, target_bytes=128 << 20))
    with pytest.raises(UsageError, match="at most"):
        run(optimize_config(tmp_path, target_bytes=1 << 30))


@pytest.mark.long
def test_frontiers_outlive_checkpoint_and_log_cleanup(tmp_path):
    for start in range(0, 120, 10):
        add_files(tmp_path, *spans_of("a", 0, "a.0", start, start + 10), *spans_of("a", start + 1, "a.0", 0, 3))
    logs = ["a.0/0", *(f"a.0/{start + 1}" for start in range(0, 120, 10))]
    before, rows = frontier.read_frontiers(str(tmp_path), logs), all_rows(tmp_path)
    assert before["a.0/0"] == 120
    log = Path(table_uri(str(tmp_path), "records"), "_delta_log")
    for path in log.glob("*.json"):
        os.utime(path, (1_000_000_000, 1_000_000_000))  # much older than the commits that Delta keeps
    report = run(optimize_config(tmp_path))
    assert report.metrics["checkpoints"] == 1
    kept = sorted(path.name for path in log.glob("*.json"))
    assert len(kept) < 5, "nothing was cleaned up: this test looks at nothing"
    assert frontier.read_frontiers(str(tmp_path), logs) == before
    assert all_rows(tmp_path) == rows
    assert run(optimize_config(tmp_path)).plan.checkpoints == {}
    uri = table_uri(str(tmp_path), "records")
    assert get_session().read.format("delta").load(uri).count() == len(rows)
    assert polars.read_delta(uri).height == len(rows)
    # and the guards still stand on them
    add_files(tmp_path, *spans_of("a", 0, "a.0", 120, 130))
    assert frontier.read_frontiers(str(tmp_path), ["a.0/0"]) == {"a.0/0": 130}


KILLED = """
import os, sys
from spark_jobs.optimize import optimize_job as optimize
from spark_jobs.validate.batch_stream import BatchFile, SegmentPlace, stream_batches
from spark_jobs.contracts import OptimizeConfig
from spark_jobs.lake.delta import commits
from spark_jobs.launch import run
rewrite = commits.rewrite_files
def killed(*args, **kwargs):
    if sys.argv[2] == "after":
        rewrite(*args, **kwargs)
    os._exit(9)
commits.rewrite_files = killed
run(OptimizeConfig.from_json(sys.argv[1]))
"""


@pytest.mark.crash
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_around_the_commit_the_rows_are_the_same_and_a_rerun_ends_it(scattered, moment):
    before = all_rows(scattered)
    config = optimize_config(scattered, as_of_ms=0)  # nothing is old
    done = subprocess.run([sys.executable, "-c", KILLED, config.to_json(), moment], check=False)
    assert done.returncode == 9
    assert all_rows(scattered) == before
    assert read_rows(str(scattered), "records", ["offset"]).num_rows == len(before)
    run(config)
    assert all_rows(scattered) == before
    assert files_by_log(scattered)["a", 0, "a.0"] == [(0, 49)]
    assert run(config).plan.merges == ()
    root = Path(table_uri(str(scattered), "records"))
    named = {file.path for file in live_files(open_table(str(scattered), "records"))} | removed_files(root).keys()
    left = [path for path in root.rglob("*.parquet") if str(path.relative_to(root)) not in named]
    assert len(left) == (3 if moment == "before" else 0)
