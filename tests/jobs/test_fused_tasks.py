"""Runs whose jobs hand results to one another leave the lake that runs leave which do not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.archived_rows import archived_bytes
from spark_jobs.contracts import DecodeConfig, JobReport
from spark_jobs.ingest import intake_tasks, taken_segment
from spark_jobs.ingest.intake_results import IntakeResults
from spark_jobs.ingest.segment_copy import CopyTask
from spark_jobs.ingest.taken_segment import ExpectedRows, SegmentTask
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.crash import visible
from tests.in_process import InProcessExecutor
from tests.spark.cycle import AS_OF_MS, Lake

TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}
REPORT = JobReport("job", "run-1", "lake", plan=None)
NAMES = ("plain", "sliced", "waiting", "holed", "orders", "damaged", "late", "__consumer_offsets")


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch) -> None:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())


@pytest.fixture
def used(monkeypatch) -> dict[str, int]:
    """How many results that were kept a later job used, by function."""
    counted: dict[str, int] = {}
    taken = IntakeResults.taken

    def count(self, work, tasks):
        found = taken(self, work, tasks)
        name = getattr(work, "func", work).__name__
        counted[name] = counted.get(name, 0) + len(found)
        return found

    monkeypatch.setattr(IntakeResults, "taken", count)
    return counted


@pytest.fixture
def written(monkeypatch) -> dict[str, int]:
    """How many results were kept, by function."""
    counted: dict[str, int] = {}
    put = IntakeResults.put

    def count(self, work, *rest):
        name = getattr(work, "func", work).__name__
        counted[name] = counted.get(name, 0) + 1
        put(self, work, *rest)

    monkeypatch.setattr(IntakeResults, "put", count)
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
    """Parquet files of the tables that fused tasks write, which no table names."""
    found: set[str] = set()
    for name in ("batches", "quarantine", "records"):
        folder = lake / "tables" / name
        if folder.is_dir():
            there = {str(path) for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts}
            found |= there - set(DeltaTable(str(folder)).file_uris())
    return found


def rows_of_files(lake: Path) -> list[int]:
    """The number of rows of each file of ``records``."""
    return [pq.read_metadata(path).num_rows for path in DeltaTable(str(lake / "tables" / "records")).file_uris()]


def test_fused_tasks_right_and_wrong_give_the_tables_of_separate_ones(tmp_path, used, written):
    source = LogDirectory(tmp_path / "source")
    logs = write(source)
    separate, fused = Lake(tmp_path / "separate"), Lake(tmp_path / "fused")
    for first in (True, False):
        if not first:
            grow(source, logs)
        separate.turn(source.path)
        used.clear()
        written.clear()
        with IntakeResults() as results:
            fused.turn(source.path, results=results)
        assert visible.tables(fused.path) == visible.tables(separate.path)
        assert not orphans(fused.path)
        assert used["validate_one"] >= len(logs)
        # sliced and late; in the first turn also the decided part of waiting, in the second the end of orders.
        # Small segments of plain and holed share a file, which publish writes.
        assert used["write_records"] == 3
        assert written["write_records"] == 3, "nothing is written for nothing"


@pytest.mark.parametrize("task_bytes", [1, 400])
def test_large_segments_have_files_of_their_own_which_their_tasks_write(tmp_path, monkeypatch, used, task_bytes):
    """All segments are large, or some are: the log grows in slices of several sizes, and its end is not decided."""
    monkeypatch.setattr(archived_bytes, "TASK_BYTES", task_bytes)
    source = LogDirectory(tmp_path / "source")
    log = source.partition("views-0")
    separate, fused = Lake(tmp_path / "separate"), Lake(tmp_path / "fused")
    for count in (12, 2, 1, 14):
        log.append(count)
        log.roll()
        log.append(count)
        source.high_watermarks(views_0=log.next_offset - 1)
        separate.turn(source.path)
        with IntakeResults() as results:
            fused.turn(source.path, results=results)
    assert visible.tables(fused.path) == visible.tables(separate.path)
    files = [sorted(rows_of_files(lake.path)) for lake in (fused, separate)]
    assert files[0] == files[1]
    assert len(files[0]) >= 4
    assert used["write_records"] >= 3
    assert not orphans(fused.path)


def test_a_high_watermark_that_moved_between_the_jobs_leaves_the_fused_file_unused(tmp_path, monkeypatch, used):
    """Another ingest, of a source that knows more, runs between ingest and publish."""
    source = LogDirectory(tmp_path / "source")
    late = source.partition("late-0")
    late.append(20)
    source.high_watermarks(late_0=10)
    lake = Lake(tmp_path / "lake")
    run = launch.run

    def moved(config, **options):
        if config.JOB == "validate":
            source.high_watermarks(late_0=15)
            other = Lake(lake.path)
            other.turns = 7
            monkeypatch.setattr(launch, "run", run)
            other.turn(source.path, publish=False)
        return run(config, **options)

    monkeypatch.setattr(launch, "run", moved)
    with IntakeResults() as results:
        lake.turn(source.path, results=results)
    assert used["write_records"] == 0
    assert [row["offset"] for row in lake.rows("records")] == list(range(15))
    assert not orphans(lake.path)


def test_a_fused_file_has_the_clock_of_the_run_and_the_codec_of_the_policy(tmp_path, used):
    source = LogDirectory(tmp_path / "source")
    source.partition("late-0").append(20)
    source.high_watermarks(late_0=20)
    policies, lake = tmp_path / "policies.yaml", Lake(tmp_path / "lake")
    policies.write_text("topics: {late: {parquet.codec: snappy}}")
    with IntakeResults() as results:
        lake.turn(source.path, policies=str(policies), results=results)
    assert used["write_records"] == 1
    assert {row["published_at"].timestamp() * 1000 for row in lake.rows("records")} == {AS_OF_MS}
    (path,) = DeltaTable(str(lake.path / "tables" / "records")).file_uris()
    group = pq.read_metadata(path).row_group(0)
    assert "SNAPPY" in {group.column(at).compression for at in range(group.num_columns)}
    assert not orphans(lake.path)


def test_a_segment_that_may_wait_for_more_is_not_written_early(tmp_path, written):
    """A scheduled run: `publish` leaves so few bytes for a later run."""
    source = LogDirectory(tmp_path / "source")
    source.partition("late-0").append(20)
    source.high_watermarks(late_0=20)
    lake = Lake(tmp_path / "lake")
    with IntakeResults() as results:
        lake.turn(source.path, results=results, at_once=False)
    assert written == {"validate_one": 1}


def test_without_later_jobs_segments_are_only_copied(tmp_path, written):
    source = LogDirectory(tmp_path / "source")
    write(source)
    Lake(tmp_path / "lake").turn(source.path)
    assert not written


@pytest.mark.parametrize("work", ["validate_copied", "write_records"])
def test_an_error_after_the_copy_is_met_again_by_the_job_whose_work_it_is(tmp_path, monkeypatch, used, work):
    source = LogDirectory(tmp_path / "source")
    source.partition("late-0").append(20)
    source.high_watermarks(late_0=20)
    lake = Lake(tmp_path / "lake")

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(taken_segment, work, fail)
    with IntakeResults() as results:
        lake.turn(source.path, results=results)
    assert used["validate_one"] == (work == "write_records")
    assert used["write_records"] == 0
    assert len(lake.rows("records")) == 20


def test_after_the_death_of_its_worker_a_segment_is_only_copied():
    copy = CopyTask("lake", "id/0", "orders", "id", 0, "/source", 0, 0, 0, False, None, 0, 10, False)
    again = SegmentTask(copy, validates=True, rows=ExpectedRows(0, 10, AS_OF_MS)).second_try()
    assert again.copy == copy
    assert not again.validates
    assert again.rows is None


def test_files_of_a_large_segment_are_left_to_several_workers_where_the_others_would_wait():
    def spread(*sizes: int, workers: int) -> list[bool]:
        copies = [CopyTask("lake", "a/0", "a", "a", 0, "/a", 0, 0, 0, True, None, 0, size, False) for size in sizes]
        return [task.writes_several for task in intake_tasks._spread([SegmentTask(c, True) for c in copies], workers)]

    assert spread(100, workers=1) == [True]
    assert spread(100, workers=2) == [False]
    assert spread(100, 101, workers=2) == [True, True]
    assert spread(100, 101, 102, workers=2) == [False, True, True]
    assert spread(10, 100, 10, 100, 10, workers=2) == [True] * 5


def test_a_result_that_publish_left_unused_does_not_meet_the_jobs_that_follow(tmp_path):
    source = LogDirectory(tmp_path / "source")
    waiting, orders = source.partition("payments-0"), source.partition("orders-0")
    waiting.append(10, **TRANSACTIONAL, base_sequence=0)  # its marker is not there yet
    orders.append(2_000, per_batch=100, tag=b"a" * 800)
    source.high_watermarks(payments_0=10, orders_0=orders.next_offset)
    policies = tmp_path / "policies.yaml"
    policies.write_text("topics:\n  orders:\n    decode.value: string\n    latest: delete\n")
    lake = Lake(tmp_path / "lake")
    with IntakeResults() as results:
        lake.turn(source.path, policies=str(policies), results=results)
        config = DecodeConfig(str(lake.path), "run-1", AS_OF_MS, read_policies(str(policies)))
        assert launch.run(config, engine="spark", results=results).used_executor
    assert DeltaTable(str(lake.path / "tables/decoded/orders")).to_pyarrow_table().num_rows == 2_000
    assert orphans(lake.path) == set()


@pytest.mark.parametrize("job", ["ingest", "validate", "publish", "decode", "expectations", "compaction"])
def test_only_the_jobs_of_an_intake_get_its_results_and_others_the_engine_itself(monkeypatch, tmp_path, job):
    executor, given = InProcessExecutor(), list[object]()
    plan = SimpleNamespace(is_empty=False, task_bytes=1 << 40, outline=None)
    module = SimpleNamespace(plan=lambda _: plan, apply=lambda _plan, _config, got: given.append(got) or REPORT)
    monkeypatch.setattr(launch, "start_executor", lambda *_: executor)
    monkeypatch.setattr(launch, "_job", lambda _: module)
    config = SimpleNamespace(JOB=job, lake=str(tmp_path))
    launch.run(config, engine="spark", results=IntakeResults())
    assert [each is executor for each in given] == [job not in ("ingest", "validate", "publish")]
