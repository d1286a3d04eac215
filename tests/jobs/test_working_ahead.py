"""Runs that begin the tasks of later jobs early leave the lake that runs leave which do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.tasks.local.local_executor import KeptResults, LocalExecutor
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.crash import visible
from tests.in_process import InProcessExecutor
from tests.spark.cycle import AS_OF_MS, Lake

TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}
NAMES = ("plain", "sliced", "waiting", "holed", "orders", "damaged", "late", "__consumer_offsets")


@pytest.fixture
def workers() -> Iterator[LocalExecutor]:
    executor = LocalExecutor(2)
    yield executor
    executor.stop()


@pytest.fixture
def used(monkeypatch) -> dict[str, int]:
    """How many results that were kept a later job used, by function."""
    counted: dict[str, int] = {}
    taken = KeptResults.taken

    def count(self, work, tasks):
        found = taken(self, work, tasks)
        name = getattr(work, "func", work).__name__
        counted[name] = counted.get(name, 0) + len(found)
        return found

    monkeypatch.setattr(KeptResults, "taken", count)
    return counted


@pytest.fixture
def written(monkeypatch) -> dict[str, int]:
    """How many results were kept, by function."""
    counted: dict[str, int] = {}
    put = KeptResults.put

    def count(self, work, *rest):
        name = getattr(work, "func", work).__name__
        counted[name] = counted.get(name, 0) + 1
        put(self, work, *rest)

    monkeypatch.setattr(KeptResults, "put", count)
    return counted


def write(source: LogDirectory) -> dict[str, Partition]:
    """Logs that are as expected, and logs of every kind that is not."""
    logs = {name: source.partition(f"{name}-0", f"{at:021d}Q") for at, name in enumerate(NAMES)}
    logs["plain"].append(20)
    logs["plain"].roll()
    logs["plain"].append(10)
    for name in ("sliced", "waiting", "late", "__consumer_offsets"):
        logs[name].append(15)
    for base in (0, 10, 20):  # its middle segment is gone
        logs["holed"].roll(base)
        logs["holed"].append(10)
    logs["holed"].segments()[1].unlink()
    logs["orders"].append(5)
    logs["orders"].append(5, **TRANSACTIONAL, base_sequence=0)
    logs["orders"].marker(7, handmade.ABORT)
    logs["damaged"].append(15)
    file = logs["damaged"].segments()[0]
    file.write_bytes(handmade.flip(file.read_bytes(), handmade.size_of(file.read_bytes()) + 80))
    logs["damaged"].roll()
    logs["damaged"].append(5)
    high_watermarks(source, logs, waiting=10)
    return logs


def grow(source: LogDirectory, logs: dict[str, Partition]) -> None:
    for log in logs.values():
        log.append(5)
    logs["plain"].roll()
    logs["plain"].append(5)
    high_watermarks(source, logs)


def high_watermarks(source: LogDirectory, logs: dict[str, Partition], **others: int) -> None:
    offsets = {name: log.next_offset for name, log in logs.items()} | others
    source.high_watermarks(**{f"{name}_0": offset for name, offset in offsets.items()})


def orphans(lake: Path) -> set[str]:
    """Parquet files of the tables that expected tasks write, which no table names."""
    found: set[str] = set()
    for name in ("batches", "quarantine", "records"):
        folder = lake / "tables" / name
        if folder.is_dir():
            there = {str(path) for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts}
            found |= there - set(DeltaTable(str(folder)).file_uris())
    return found


def test_expected_tasks_right_and_wrong_give_the_tables_of_a_run_without_them(
    tmp_path, monkeypatch, workers, used, written
):
    source = LogDirectory(tmp_path / "source")
    logs = write(source)
    plainly, ahead = Lake(tmp_path / "plainly"), Lake(tmp_path / "ahead")
    for first in (True, False):
        if not first:
            grow(source, logs)
        monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
        plainly.turn(source.path)
        monkeypatch.setattr(launch, "start_executor", lambda *_: workers)
        used.clear()
        written.clear()
        with workers.working_ahead():
            ahead.turn(source.path)
        assert visible.tables(ahead.path) == visible.tables(plainly.path)
        assert not orphans(ahead.path)
        assert used["validate_one"] >= len(logs)
        # plain, sliced and late; in the first turn also the decided part of waiting, in the second the end of orders
        assert used["write_records"] == 4
        assert written["write_records"] == (5 if first else 4), "for nothing: only holed, in the first turn"


def test_a_high_watermark_that_moved_between_the_jobs_leaves_the_expected_file_unused(
    tmp_path, monkeypatch, workers, used
):
    """Another ingest, of a source that knows more, runs between ingest and publish."""
    source = LogDirectory(tmp_path / "source")
    late = source.partition("late-0")
    late.append(20)
    source.high_watermarks(late_0=10)
    lake = Lake(tmp_path / "lake")
    monkeypatch.setattr(launch, "start_executor", lambda *_: workers)
    run = launch.run

    def moved(config, **options):
        if config.JOB == "validate":
            source.high_watermarks(late_0=15)
            other = Lake(lake.path)
            other.turns = 7
            monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
            monkeypatch.setattr(launch, "run", run)
            other.turn(source.path, publish=False)
            monkeypatch.setattr(launch, "start_executor", lambda *_: workers)
        return run(config, **options)

    monkeypatch.setattr(launch, "run", moved)
    with workers.working_ahead():
        lake.turn(source.path)
    assert used["write_records"] == 0
    assert [row["offset"] for row in lake.rows("records")] == list(range(15))
    assert not orphans(lake.path)


def test_an_expected_task_has_the_clock_of_the_run_and_the_codec_of_the_policy(tmp_path, monkeypatch, workers, used):
    source = LogDirectory(tmp_path / "source")
    source.partition("late-0").append(20)
    source.high_watermarks(late_0=20)
    policies, lake = tmp_path / "policies.yaml", Lake(tmp_path / "lake")
    policies.write_text("topics: {late: {parquet.codec: snappy}}")
    monkeypatch.setattr(launch, "start_executor", lambda *_: workers)
    with workers.working_ahead():
        lake.turn(source.path, policies=str(policies))
    assert used["write_records"] == 1
    assert {row["published_at"].timestamp() * 1000 for row in lake.rows("records")} == {AS_OF_MS}
    (path,) = DeltaTable(str(lake.path / "tables" / "records")).file_uris()
    group = pq.read_metadata(path).row_group(0)
    assert "SNAPPY" in {group.column(at).compression for at in range(group.num_columns)}
    assert not orphans(lake.path)


def test_without_later_jobs_nothing_runs_ahead(tmp_path, monkeypatch, workers, used):
    source = LogDirectory(tmp_path / "source")
    write(source)
    monkeypatch.setattr(launch, "start_executor", lambda *_: workers)
    Lake(tmp_path / "lake").turn(source.path)
    assert not any(used.values())
