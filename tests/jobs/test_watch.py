"""A watch publishes growth, goes on after any failure with one line about it, and holds the lake only for a round."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from deltalake import DeltaTable

from pipelines.command import watch as watching
from pipelines.command.watch import Watch
from pipelines.run.look import outcome_without_work
from pipelines.run.run_request import RunRequest
from spark_jobs import launch
from spark_jobs.errors import JobError, StorageError
from spark_jobs.lake.delta.tables import snapshots
from spark_jobs.optimize import file_runs, optimize_job
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.crash import visible
from tests.in_process import InProcessExecutor

NOW_MS = 1_700_000_000_000
WATCHED_SECONDS = int(os.environ.get("LOGLAKE_TEST_WATCHED_SECONDS", "0"))


class Lines:
    """What the watch printed."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.complained: list[str] = []


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogDirectory:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    made = LogDirectory(tmp_path / "kafka-logs")
    grow(made, "orders", 10)
    return made


def grow(source: LogDirectory, topic: str, records: int) -> None:
    """Append records, and let the broker's checkpoint cover them."""
    partitions = source.__dict__.setdefault("grown", {})
    if topic not in partitions:
        partitions[topic] = source.partition(f"{topic}-0", f"{len(partitions)}BBBBBBBBBBBBBBBBBBBBA")
    partitions[topic].append(records)
    source.high_watermarks(**{f"{name}_0": partition.next_offset for name, partition in partitions.items()})


@pytest.fixture
def watch(tmp_path: Path, source: LogDirectory, lines: Lines) -> Watch:
    request = RunRequest(sources=(str(source.path),))
    lake = str(tmp_path / "lake")
    return Watch(lake, request, lambda: NOW_MS, lines.said.append, lines.complained.append)


def published(watch: Watch) -> int:
    """Rows in the table `records`."""
    return len(visible.rows(Path(watch.lake), "records"))


def test_growth_and_new_topics_are_published_in_the_next_round(watch, source):
    assert watch.look().records == 10
    assert watch.look() is None
    grow(source, "orders", 5)
    grow(source, "payments", 7)
    made = watch.look()
    assert (made.records, made.logs, made.lag) == (12, 2, 0)
    assert published(watch) == 22


def test_damage_is_filled_in_the_round_that_finds_it(watch, source, tmp_path):
    grow(source, "orders", 10)
    replica = shutil.copytree(source.path, tmp_path / "replica")
    segment = source.path / "orders-0" / f"{0:020d}.log"
    segment.write_bytes(handmade.flip(segment.read_bytes(), 65))
    watch.request = RunRequest(sources=(str(source.path),), fill_from=(str(replica),))
    assert watch.look().records == 20
    assert watch.look() is None
    assert published(watch) == 20


def test_only_the_chosen_topic_partitions_are_published(watch, source):
    grow(source, "payments", 7)
    watch.request = RunRequest(sources=(str(source.path),), logs=("payments-0",))
    assert watch.look().records == 7
    assert {row["topic"] for row in visible.rows(Path(watch.lake), "segments")} == {"payments"}


def test_a_source_that_goes_away_is_one_line_and_is_read_again_when_it_is_back(watch, source, lines, tmp_path):
    watch.look()
    source.path.rename(tmp_path / "unmounted")
    waits = []
    for _ in range(3):
        assert watch.look().error is not None
        waits.append(watch.wait_s)
    assert len(lines.complained) == 1
    assert str(source.path) in lines.complained[0]
    assert waits == [2, 4, 8]
    (tmp_path / "unmounted").rename(source.path)
    grow(source, "orders", 5)
    assert watch.look().records == 5
    assert (watch.wait_s, lines.said) == (1, ["going on"])
    assert published(watch) == 15


def test_a_policy_file_with_a_mistake_is_one_line_that_names_it_and_nothing_is_lost(watch, source, lines, tmp_path):
    policies = tmp_path / "policies.yaml"
    policies.write_text("topics:\n  orders: {salvage: permissive}\n")
    watch.request = RunRequest(sources=(str(source.path),), policies=str(policies))
    assert watch.look().records == 10
    policies.write_text("topics:\n  orders: {salvag: permissive}\n")
    grow(source, "orders", 5)
    assert [watch.look().error is None, watch.look().error is None] == [False, False]
    (line,) = lines.complained
    assert str(policies) in line
    assert "salvag" in line
    policies.write_text("topics:\n  orders: {salvage: permissive}\n")
    assert watch.look().records == 5


def test_another_process_on_the_lake_is_waited_for(watch, source, lines, tmp_path):
    """The lease is of a process, so the other one is real."""
    watch.look()
    grow(source, "orders", 5)
    program = (
        "import sys; from spark_jobs.lake.store.lease import hold\n"
        "with hold(sys.argv[1], 'the test'): print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, watch.lake], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        assert "the test" in watch.look().error
        assert watch.look().error is not None
        other.communicate("\n")
    assert len(lines.complained) == 1
    assert lines.complained[0].startswith("waiting: ")
    assert watch.look().records == 5


def test_a_job_that_fails_is_tried_again(watch, source, lines, monkeypatch):
    run, failures = launch.run, iter([JobError("The worker of orders-0 was ended by SIGKILL."), None])

    def failing(config: Any, **named: Any) -> Any:
        error = next(failures, None) if config.JOB == "validate" else None
        if error is not None:
            raise error
        return run(config, **named)

    monkeypatch.setattr(launch, "run", failing)
    assert "SIGKILL" in watch.look().error
    assert watch.look().records == 10
    assert [lines.complained, lines.said] == [["error: The worker of orders-0 was ended by SIGKILL."], ["going on"]]


def test_a_store_that_fails_after_the_steps_is_one_line_and_the_next_round_goes_on(watch, source, lines, monkeypatch):
    read, failures = watching.read_state, iter([StorageError("The store answered 503.")])

    def failing(lake: str) -> Any:
        for error in failures:
            raise error
        return read(lake)

    monkeypatch.setattr(watching, "read_state", failing)
    assert "503" in watch.look().error
    assert watch.look().error is None
    assert [lines.complained, lines.said] == [["error: The store answered 503."], ["going on"]]
    assert published(watch) == 10


def test_small_files_are_merged_when_slices_cannot_be_joined(watch, source, lines, monkeypatch):
    monkeypatch.setattr(watching, "TIDY_ROUNDS", 4)
    run = launch.run

    def failing(config: Any, **named: Any) -> Any:
        if config.JOB == "tidy_archive":
            raise JobError("The slices are away.")
        return run(config, **named)

    monkeypatch.setattr(launch, "run", failing)
    for _ in range(4):
        watch.look()
        grow(source, "orders", 1)
    assert lines.complained == ["error: The slices are away."]
    assert live_files(watch)["records"] == 1
    assert watch.look().error is None
    assert published(watch) == 14


def test_a_clock_that_steps_back_is_ignored_until_it_is_ahead_again(watch, source):
    clock = iter([NOW_MS, NOW_MS - 3_600_000, NOW_MS + 1])
    watch.now_ms = lambda: next(clock)
    for records in (10, 5, 5):
        assert watch.look().records == records
        grow(source, "orders", 5)
    times = [row["as_of_ms"] for row in DeltaTable(f"{watch.lake}/tables/validations").to_pyarrow_table().to_pylist()]
    assert sorted(set(times)) == [NOW_MS, NOW_MS + 1]


def runs_of(watch: Watch) -> list[tuple[Any, ...]]:
    """Rows of the table `runs`, the oldest first."""
    found = sorted(visible.rows(Path(watch.lake), "runs"), key=lambda row: (row["as_of_ms"], row["started_ms"]))
    return [(row["started_by"], row["outcome"], row["error"], row["records"]) for row in found]


def test_a_round_that_published_has_a_row_and_of_equal_failures_only_the_first(watch, source, monkeypatch):
    clock = iter(range(NOW_MS, NOW_MS + 100))
    watch.now_ms = lambda: next(clock)

    def fail(*_: object, **__: object) -> None:
        raise StorageError("The store is away.")

    watch.look()
    assert watch.look() is None
    with monkeypatch.context() as patch:
        patch.setattr(launch, "run", fail)
        grow(source, "orders", 5)
        for _ in range(3):
            assert watch.look().error is not None
    assert watch.look().records == 5
    assert runs_of(watch) == [
        ("watch", "succeeded", None, 10),
        ("watch", "failed", "StorageError", 0),
        ("watch", "succeeded", None, 5),
    ]


def test_the_sources_are_registered_once_a_round_was_complete(watch, source):
    from spark_jobs.lake.view.registered_lakes import read_registered

    watch.look()
    assert [intake.sources for intake in read_registered(watch.lake).intakes] == [(str(source.path),)]


def test_a_watch_does_not_register_a_move_that_was_refused_until_it_is_accepted(watch, source, tmp_path):
    from spark_jobs.lake.view.registered_lakes import read_registered

    def sources() -> list[tuple[str, ...]]:
        return [intake.sources for intake in read_registered(watch.lake).intakes]

    watch.look()
    other = LogDirectory(tmp_path / "other")
    other.partition("orders-0", "0BBBBBBBBBBBBBBBBBBBBA").append(10, tag=b"w")
    other.high_watermarks(orders_0=10)
    moving = replace(watch, request=RunRequest(sources=(str(other.path),), move_source=True), _is_registered=False)
    moving.look()
    assert sources() == [(str(source.path),)]
    shutil.rmtree(other.path)
    shutil.copytree(source.path, other.path)
    moving.look()
    assert sources() == [(str(other.path),)]


def live_files(watch: Watch) -> dict[str, int]:
    """Live files by table."""
    return {path.name: len(DeltaTable(str(path)).file_uris()) for path in Path(watch.lake, "tables").iterdir()}


def commits_kept(watch: Watch) -> dict[str, int]:
    """Commit files by table."""
    tables = Path(watch.lake, "tables")
    return {path.name: len(list((path / "_delta_log").glob("*.json"))) for path in tables.iterdir()}


def processor_s() -> float:
    """Processor time of this process and of its children that ended, user and system. A busy machine adds little."""
    return sum(os.times()[:4])


def cost_of_a_look_for_work(watch: Watch) -> float:
    """What `loglake run` with nothing to do needs for its decision, in processor seconds: the median of five."""
    costs = []
    for _ in range(5):
        begun = processor_s()
        assert (
            outcome_without_work(watch.lake, watch.request, watch.request.policies_of(watch.lake), watch.now_ms())
            is not None
        )
        costs.append(processor_s() - begun)
    return median(costs)


def grow_every_second(watch: Watch, source: LogDirectory, seconds: int) -> None:
    """A record and a round each simulated second; transactions and a second log now and then."""
    clock = watch.now_ms()
    for second in range(seconds):
        watch.now_ms = lambda now=clock + 1000 * second: now
        grow(source, "orders", 1)
        if second % 10 == 0:
            grow(source, "payments", 2)
        assert watch.look().error is None


@pytest.mark.long
def test_small_commits_do_not_pile_up(watch, source, monkeypatch):
    """The limits of 24 hours, made as much smaller as the test is shorter."""
    monkeypatch.setattr(watching, "TIDY_ROUNDS", 5)
    monkeypatch.setattr(optimize_job, "KEPT_COMMITS", 20)
    monkeypatch.setattr(optimize_job, "KEPT_COMMITS_OF_RECORDS", 20)
    monkeypatch.setattr(file_runs, "SEPARATED_FILES", 3)
    grow_every_second(watch, source, 22)
    grow_every_second(watch, source, 22)
    assert max(live_files(watch).values()) <= 8, live_files(watch)
    segments = visible.rows(Path(watch.lake), "segments")
    assert len([row for row in segments if row["retired_ms"] is None]) <= 14
    kept = commits_kept(watch)
    assert max(kept.values()) <= 50, kept
    assert kept["segments"] >= 20
    visible.check(Path(watch.lake))
    assert published(watch) == 10 + 44 + 12


@pytest.mark.skipif(not WATCHED_SECONDS, reason="takes half an hour for an hour; make test-long runs it")
def test_after_hours_of_a_commit_a_second_tables_have_few_files_and_a_no_op_costs_what_it_did(watch, source):
    """With the real limits. LOGLAKE_TEST_WATCHED_SECONDS says how long, in simulated seconds."""
    grow_every_second(watch, source, 200)
    costs = [cost_of_a_look_for_work(watch)]
    print(f"200 s: a no-op costs {1000 * costs[0]:.0f} ms", flush=True)
    for done in range(0, WATCHED_SECONDS, 600):
        grow_every_second(watch, source, min(600, WATCHED_SECONDS - done))
        costs.append(cost_of_a_look_for_work(watch))
        print(f"{200 + min(done + 600, WATCHED_SECONDS)} s: a no-op costs {1000 * costs[-1]:.0f} ms", flush=True)
    files, kept = live_files(watch), commits_kept(watch)
    print(f"live files {files}, commits {kept}, processor seconds of a no-op {[round(cost, 3) for cost in costs]}")
    assert max(files.values()) <= 200
    assert max(count for name, count in kept.items() if name != "records") <= 2_500
    assert kept["records"] <= 12_000
    assert costs[-1] <= 1.5 * costs[0] + 0.1
    visible.check(Path(watch.lake))


def test_a_look_for_work_opens_each_table_once(watch, monkeypatch):
    watch.look()
    opened = []

    class Counted(DeltaTable):
        def __init__(self, location: str, **more: Any) -> None:
            opened.append(Path(location).name)
            super().__init__(location, **more)

    monkeypatch.setattr(snapshots, "DeltaTable", Counted)
    assert outcome_without_work(watch.lake, watch.request, watch.request.policies_of(watch.lake), NOW_MS) is not None
    assert sorted(opened) == sorted(path.name for path in Path(watch.lake, "tables").iterdir())


def test_a_look_for_work_sees_a_commit_that_was_damaged_since_the_last_round(watch):
    watch.look()
    assert outcome_without_work(watch.lake, watch.request, watch.request.policies_of(watch.lake), NOW_MS) is not None
    Path(watch.lake, "tables", "logs", "_delta_log", f"{0:020d}.json").write_bytes(b"?")
    assert outcome_without_work(watch.lake, watch.request, watch.request.policies_of(watch.lake), NOW_MS) is None
    assert "logs" in watch.round().error


def test_it_ends_after_the_round_in_which_it_is_stopped(watch, source, lines):
    stop = threading.Event()
    watch.say = lambda text: (lines.said.append(text), stop.set())
    threading.Timer(30, stop.set).start()
    watch.run(stop)
    assert len(lines.said) == 1
    assert lines.said[0].startswith("published 10 records of 1 logs in ")
