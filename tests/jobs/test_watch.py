"""A watch publishes growth, goes on after any failure with one line about it, and holds the lake only for a round."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from pipelines.command import watch as watching
from pipelines.command.watch import Watch
from pipelines.run.settings import RunSettings
from spark_jobs import launch
from spark_jobs.contracts import Intake
from spark_jobs.lake.errors import JobError
from tests.broker_directory import LogDirectory
from tests.crash import visible
from tests.in_process import InProcessExecutor

NOW_MS = 1_700_000_000_000


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
    settings = RunSettings(sources=(str(source.path),))
    lake = str(tmp_path / "lake")
    return Watch(lake, settings, lambda: NOW_MS, lines.said.append, lines.complained.append)


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


def test_only_the_chosen_topic_partitions_are_published(watch, source):
    grow(source, "payments", 7)
    watch.settings = RunSettings(sources=(str(source.path),), logs=("payments-0",))
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
    watch.settings = RunSettings(sources=(str(source.path),), policies=str(policies))
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

    def failing(job: str, *arguments: Any, **named: Any) -> Any:
        error = next(failures, None) if job == "validate" else None
        if error is not None:
            raise error
        return run(job, *arguments, **named)

    monkeypatch.setattr(launch, "run", failing)
    assert "SIGKILL" in watch.look().error
    assert watch.look().records == 10
    assert [lines.complained, lines.said] == [["error: The worker of orders-0 was ended by SIGKILL."], ["going on"]]


def test_a_clock_that_steps_back_is_ignored_until_it_is_ahead_again(watch, source):
    clock = iter([NOW_MS, NOW_MS - 3_600_000, NOW_MS + 1])
    watch.now_ms = lambda: next(clock)
    for records in (10, 5, 5):
        assert watch.look().records == records
        grow(source, "orders", 5)
    times = [row["as_of_ms"] for row in DeltaTable(f"{watch.lake}/tables/validations").to_pyarrow_table().to_pylist()]
    assert sorted(set(times)) == [NOW_MS, NOW_MS + 1]


def test_the_sources_are_registered_once_a_round_was_complete(watch, source):
    from spark_jobs.lake.view.registered_lakes import read_registered

    watch.intake = Intake((str(source.path),))
    watch.look()
    assert [intake.paths for intake in read_registered(watch.lake).intakes] == [(str(source.path),)]


def test_small_commits_do_not_pile_up(watch, source, monkeypatch):
    monkeypatch.setattr(watching, "OPTIMIZE_ROUNDS", 4)
    for _ in range(10):
        grow(source, "orders", 1)
        assert watch.look().error is None
    tables = Path(watch.lake, "tables")
    files = {path.name: len(DeltaTable(str(path)).file_uris()) for path in tables.iterdir()}
    assert published(watch) == 20
    assert files["records"] <= 5
    assert max(files.values()) <= 15


def test_it_ends_after_the_round_in_which_it_is_stopped(watch, source, lines):
    stop = threading.Event()
    watch.say = lambda text: (lines.said.append(text), stop.set())
    threading.Timer(30, stop.set).start()
    watch.run(stop)
    assert len(lines.said) == 1
    assert lines.said[0].startswith("published 10 records of 1 logs in ")
