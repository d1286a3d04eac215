"""A large load in rounds leaves the tables of a load in one, and each round is published before the next begins."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logcore.storage import files, opened_source
from pipelines.command.watch import Watch
from pipelines.run.chains import INTAKE
from pipelines.run.direct import FinishedSteps, run_steps
from pipelines.run.run_request import RunRequest
from pipelines.run.steps import Run
from spark_jobs import launch
from spark_jobs.contracts import JobConfig, JobReport
from spark_jobs.ingest import ingest_job
from tests import handmade, sampling
from tests.broker_directory import LogDirectory, Partition
from tests.conftest import Sample
from tests.crash import visible
from tests.in_process import InProcessExecutor

AS_OF_MS = 1_900_000_000_000
TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}
SAMPLES = ("codecs-v2-4.3.1", "damaged", "internal-topics-4.4.0", "timestamps-v2-4.4.0", "transactions-4.4.0")


class Launcher:
    """Runs jobs here, and keeps what they reported."""

    def __init__(self) -> None:
        self.reports: list[JobReport] = []

    def run(self, config: JobConfig, *_: object) -> JobReport:
        self.reports.append(launch.run(config))
        return self.reports[-1]

    @property
    def jobs(self) -> list[str]:
        return [report.job for report in self.reports]

    def records(self) -> list[int]:
        """Records that each run of `publish` published."""
        return [int(report.metrics.get("records") or 0) for report in self.reports if report.job == "publish"]


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    # Tests have tiny segments: one is a task here.
    monkeypatch.setattr(ingest_job, "SHARED_BYTES", 0)


def run(lake: Path, source: Path, tasks: int, **settings: Any) -> tuple[Launcher, FinishedSteps]:
    """Run the intake once, in rounds of so many tasks; 0: in one."""
    launcher = Launcher()
    chosen = RunRequest(sources=(str(source),), max_bytes_per_round=0, max_tasks_per_round=tasks, **settings)
    done = run_steps(
        INTAKE,
        Run("run", str(lake), AS_OF_MS, chosen, chosen.policies_of(str(lake)), launcher),
    )
    assert not done.errors
    return launcher, done


def tables(lake: Path) -> dict[str, list[str]]:
    return visible.tables(lake) | {"offset_ledger": visible.joined_ledger(lake)}


def check_rounds(tmp_path: Path, source: Path, tasks: int, **settings: Any) -> int:
    """Compare a load in rounds with one in one round; returns the number of rounds."""
    one, one_done = run(tmp_path / "one", source, 0, **settings)
    rounds, done = run(tmp_path / "rounds", source, tasks, **settings)
    assert one.jobs.count("ingest") == 1
    visible.check(tmp_path / "rounds")
    assert tables(tmp_path / "rounds") == tables(tmp_path / "one")
    expected = one_done.changed(INTAKE)
    assert {name: sorted(keys) for name, keys in done.changed(INTAKE).items()} == {
        name: sorted(keys) for name, keys in expected.items()
    }
    for step, of_files in (("ingest", ()), ("validate", ()), ("publish", ("files", "bytes"))):
        assert figures(done, step, of_files) == figures(one_done, step, of_files), step
    assert [answer.passed for answer in done.answers] == [answer.passed for answer in one_done.answers]
    assert rounds.records() != one.records()
    assert sum(rounds.records()) == sum(one.records())
    return rounds.jobs.count("ingest")


def figures(done: FinishedSteps, step: str, without: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """What a step says of each log that changed. Rounds write more table files."""
    changes = done.results[step].changes
    return {log: {k: v for k, v in change.metrics.items() if k not in without} for log, change in changes.items()}


CASES = [(name, tasks) for name in SAMPLES for tasks in (1, 3)]
EVERY_CASE = os.environ.get("LOGLAKE_TEST_EVERY_ROUND") == "1"


@pytest.mark.long
@pytest.mark.parametrize(("name", "tasks"), CASES if EVERY_CASE else sampling.drawn(CASES, 2, "rounds"))
def test_the_tables_of_a_sample_are_those_of_one_round(tmp_path, sample: Callable[[str], Sample], name, tasks):
    """All samples in rounds of one task and of three: two in `make test`, all in `make test-long`."""
    rounds = check_rounds(
        tmp_path, sample(name).logdir, tasks, include_internal=True, isolation_level="read_uncommitted"
    )
    assert rounds > 3


def write(source: LogDirectory) -> dict[str, Partition]:
    """Logs with a transaction over two segments, with damage, and a plain one."""
    logs = {name: source.partition(f"{name}-0", f"{at:021d}Q") for at, name in enumerate(("a", "b", "c"))}
    logs["a"].append(10)
    logs["a"].append(5, **TRANSACTIONAL, base_sequence=0)
    logs["a"].roll()
    logs["a"].append(5, **TRANSACTIONAL, base_sequence=5)
    logs["a"].marker(7, handmade.ABORT)
    logs["a"].append(5)
    logs["b"].append(15)
    file = logs["b"].segments()[0]
    file.write_bytes(handmade.flip(file.read_bytes(), handmade.size_of(file.read_bytes()) + 80))
    logs["b"].roll()
    logs["b"].append(5)
    for _ in range(3):
        logs["c"].roll()
        logs["c"].append(10)
    checkpoint(source, logs)
    return logs


def checkpoint(source: LogDirectory, logs: dict[str, Partition]) -> None:
    source.high_watermarks(**{f"{name}_0": log.next_offset for name, log in logs.items()})


@pytest.mark.long
@pytest.mark.parametrize("tasks", [1, 3])
def test_damage_and_a_transaction_over_the_border_of_a_round_are_as_in_one_round(tmp_path, tasks):
    source = LogDirectory(tmp_path / "source")
    write(source)
    rounds = check_rounds(tmp_path, source.path, tasks, isolation_level="read_uncommitted")
    assert rounds == (7 if tasks == 1 else 3)


@pytest.mark.long
def test_a_cut_a_fill_and_growth_are_as_in_one_round(tmp_path):
    source = LogDirectory(tmp_path / "source")
    logs = write(source)
    source.high_watermarks(a_0=logs["a"].next_offset, b_0=20, c_0=20)
    for lake in ("one", "rounds"):
        run(tmp_path / lake, source.path, 0)
    logs["c"].truncate(25)
    logs["c"].append(10, tag=b"of the next leader", leader_epoch=1)
    logs["c"].epochs([(0, 0), (1, 25)])
    file = logs["b"].segments()[0]
    file.write_bytes(handmade.flip(file.read_bytes(), handmade.size_of(file.read_bytes()) + 80))
    for log in logs.values():
        log.roll()
        log.append(5)
    checkpoint(source, logs)
    rounds, _ = run(tmp_path / "rounds", source.path, 1)
    run(tmp_path / "one", source.path, 0)
    assert rounds.jobs.count("ingest") > 3
    visible.check(tmp_path / "rounds")
    assert tables(tmp_path / "rounds") == tables(tmp_path / "one")


def test_each_round_is_published_before_the_next_begins(tmp_path):
    source = LogDirectory(tmp_path / "source")
    write(source)
    rounds, _ = run(tmp_path / "lake", source.path, 3)
    assert rounds.jobs == ["ingest", "validate", "publish"] * 3 + ["expectations"]
    assert [report.left for report in rounds.reports if report.job == "ingest"] == [("b-0", "c-0"), ("c-0",), ()]
    assert all(rounds.records())


def test_a_log_that_cannot_be_copied_keeps_no_other_log_waiting(tmp_path, monkeypatch):
    source = LogDirectory(tmp_path / "source")
    logs = write(source)
    opened = files.open_readonly

    def open_readonly(path: str) -> Any:
        if path == str(logs["a"].segments()[0]):
            raise files.SourceUnreadable("permission denied", file=path)
        return opened(path)

    for module in (files, opened_source):
        monkeypatch.setattr(module, "open_readonly", open_readonly)
    rounds, _ = run(tmp_path / "lake", source.path, 1)
    assert rounds.jobs.count("ingest") <= 7
    topics = {row["topic"] for row in visible.rows(tmp_path / "lake", "records")}
    assert topics == {"b", "c"}


def test_a_run_over_a_source_that_grows_all_the_time_ends(tmp_path):
    source = LogDirectory(tmp_path / "source")
    logs = write(source)
    launcher = Launcher()
    start = launcher.run

    def grow_and_run(config: JobConfig, *_: object) -> JobReport:
        if len(launcher.reports) < 40:  # the test ends whatever the run does
            logs["a"].roll()
            logs["a"].append(5)
            checkpoint(source, logs)
        return start(config)

    launcher.run = grow_and_run
    lake = tmp_path / "lake"
    request = RunRequest(sources=(str(source.path),), max_tasks_per_round=3)
    run_steps(
        INTAKE,
        Run("run", str(lake), AS_OF_MS, request, request.policies_of(str(lake)), launcher),
    )
    assert launcher.jobs.count("ingest") < 10
    visible.check(lake)
    assert {row["topic"] for row in visible.rows(lake, "records")} == {"a", "b", "c"}


def test_a_watch_takes_one_round_at_a_time_without_a_pause(tmp_path):
    """Others can work on the lake between two rounds."""
    source = LogDirectory(tmp_path / "source")
    logs = write(source)
    request = RunRequest(sources=(str(source.path),), max_tasks_per_round=3)
    watch = Watch(str(tmp_path / "lake"), request, lambda: AS_OF_MS, print, print, Launcher())
    made = [watch.look() for _ in range(4)]
    assert [each and each.is_full for each in made] == [True, True, False, None]
    assert watch.launcher.jobs == ["ingest", "validate", "publish", "expectations"] * 3
    watch._is_full = True
    assert watch.wait_s == 0
    assert len(visible.rows(tmp_path / "lake", "records")) == sum(each.records for each in made[:3])
    assert max(row["offset"] for row in visible.rows(tmp_path / "lake", "records")) == logs["c"].next_offset - 1
