"""A run from the command line gives back what it did as values, and errors by their kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from logcore.errors import UnsupportedFormatError
from logcore.exit_codes import ExitCode
from logcore.reading.read_options import OffsetRange
from pipelines.command.dagster_history import DagsterHistory
from pipelines.command.running import HistoryInBackground, Runner
from pipelines.run.chains import INTAKE_JOB, MAINTENANCE_JOB
from pipelines.run.run_request import RunRequest
from pipelines.run.steps import Announce
from spark_jobs.contracts import JobConfig
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.setup.registry import RegistryError
from spark_jobs.policies.policies_file import NO_POLICIES
from tests.dagster.fake_jobs import FakeLauncher, World, log_of

pytestmark = pytest.mark.dagster

NOW_MS = 1_700_000_000_000

CHECKS = [
    *("sources_agree", "no_damage", "every_offset_accounted_for", "nothing_remote"),
    *("rows_equal_ledger", "no_hanging_transaction", "tables_unharmed", "expectations_met"),
]


@pytest.fixture
def runner(instance: dg.DagsterInstance, world: World, tmp_path: Path) -> Runner:
    """A runner with fake jobs."""
    return made(instance, tmp_path)


def made(instance: dg.DagsterInstance, tmp_path: Path, announce: Announce | None = None) -> Runner:
    history = HistoryInBackground(lambda: DagsterHistory(instance))
    return Runner(history, NOW_MS, FakeLauncher(world=str(tmp_path)), announce=announce)


@pytest.fixture
def request_(source: Path) -> RunRequest:
    return RunRequest((str(source),))


def test_a_run_gives_back_what_it_changed_and_answered(
    runner: Runner, world: World, request_: RunRequest, tmp_path: Path
) -> None:
    world.ends, world.corrupt = {"orders-0": 10, "orders-1": 4}, {"orders-0": (6, 7)}
    outcome = runner.run(INTAKE_JOB, str(tmp_path / "lake"), request_, NO_POLICIES)
    assert outcome.failure is None
    assert outcome.changed["records"] == ("orders-0", "orders-1")
    assert not outcome.found_nothing_new
    assert [answer.name for answer in outcome.answers] == CHECKS
    answers = {answer.name: answer for answer in outcome.answers}
    (failure,) = answers["no_damage"].failures
    assert failure.log == log_of("orders-0")
    assert [name for name, answer in answers.items() if not answer.passed] == ["no_damage"]
    again = runner.run(INTAKE_JOB, str(tmp_path / "lake"), request_, NO_POLICIES)
    assert again.found_nothing_new
    assert [answer.passed for answer in again.answers] == [answer.passed for answer in outcome.answers]


def test_plans_and_refusals_are_those_of_the_run(
    runner: Runner, world: World, request_: RunRequest, tmp_path: Path
) -> None:
    world.ends = {"orders-0": 10}
    lake = str(tmp_path / "lake")
    runner.run(INTAKE_JOB, lake, request_, NO_POLICIES)
    world.not_held = {"orders-0"}
    replaced = runner.run(INTAKE_JOB, lake, replace(request_, replace=OffsetRange()), NO_POLICIES)
    planned = runner.run(MAINTENANCE_JOB, lake, request_, NO_POLICIES)
    assert [finding.rule for finding in replaced.refused] == ["replacement-refused"]
    assert replaced.plans == {}
    assert planned.refused == ()
    assert set(planned.plans) == {
        *("retained_log", "compacted_log", "tidy_archive", "rebuilt_indexes", "optimized_tables")
    }


def test_each_job_is_announced_before_it_is_started(
    instance: dg.DagsterInstance, world: World, request_: RunRequest, tmp_path: Path
) -> None:
    world.ends = {"orders-0": 10}
    announced: list[tuple[str, int]] = []

    def announce(config: JobConfig) -> None:
        announced.append((config.JOB, len(world.asked)))

    made(instance, tmp_path, announce).run(INTAKE_JOB, str(tmp_path / "lake"), request_, NO_POLICIES)
    assert announced == [("ingest", 0), ("validate", 1), ("publish", 2), ("expectations", 3)]


def test_two_runners_of_one_process_keep_what_is_theirs(
    instance: dg.DagsterInstance, world: World, source: Path, tmp_path: Path
) -> None:
    world.ends = {"orders-0": 10}
    first, second = (made(instance, tmp_path) for _ in range(2))
    missing = str(tmp_path / "not-there")
    with_finding = first.run(INTAKE_JOB, str(tmp_path / "a"), RunRequest((str(source), missing)), NO_POLICIES)
    without = second.run(INTAKE_JOB, str(tmp_path / "b"), RunRequest((str(source),)), NO_POLICIES)
    assert [finding.rule for finding in with_finding.of_paths if finding.file == missing] == ["path-not-found"]
    assert [finding for finding in without.of_paths if finding.file == missing] == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (JobError("The disk is full."), ExitCode.NOT_CHECKED),
        (UsageError("There is no such thing."), ExitCode.USAGE),
        (RegistryError("It cannot be understood."), ExitCode.USAGE),
        (UnsupportedFormatError("The format is not known."), ExitCode.NOT_CHECKED),
    ],
)
def test_an_error_of_ours_is_its_own_paragraph_and_its_kind_decides_the_exit_code(
    runner: Runner, world: World, request_: RunRequest, tmp_path: Path, error: Exception, code: ExitCode
) -> None:
    world.ends, world.error = {"orders-0": 10}, {"validate": error}
    outcome = runner.run(INTAKE_JOB, str(tmp_path / "lake"), request_, NO_POLICIES)
    assert outcome.failure is not None
    assert (outcome.failure.message, outcome.failure.code) == (str(error), code)
    assert [answer.name for answer in outcome.answers] == ["sources_agree"]
    assert not outcome.found_nothing_new


def test_an_error_that_was_raised_because_of_a_wrong_call_is_not_one(
    runner: Runner, world: World, request_: RunRequest, tmp_path: Path
) -> None:
    error = JobError("Spark could not start.")
    error.__cause__ = UsageError("no such setting")
    world.ends, world.error = {"orders-0": 10}, {"ingest": error}
    outcome = runner.run(INTAKE_JOB, str(tmp_path / "lake"), request_, NO_POLICIES)
    assert outcome.failure is not None
    assert outcome.failure.code is ExitCode.NOT_CHECKED


def test_a_fault_of_ours_names_the_step_and_its_error(
    runner: Runner, world: World, request_: RunRequest, tmp_path: Path
) -> None:
    world.ends, world.error = {"orders-0": 10}, {"publish": ZeroDivisionError("by nothing")}
    outcome = runner.run(INTAKE_JOB, str(tmp_path / "lake"), request_, NO_POLICIES)
    assert outcome.failure is not None
    assert outcome.failure.code is ExitCode.NOT_CHECKED
    assert f"publish of run {outcome.run_id} failed with ZeroDivisionError at " in outcome.failure.message
    assert "nothing" not in outcome.failure.message


@pytest.mark.parametrize("is_a_cause", [False, True])
def test_an_interrupt_in_a_job_ends_the_command(
    runner: Runner, world: World, request_: RunRequest, tmp_path: Path, is_a_cause: bool
) -> None:
    error: BaseException = KeyboardInterrupt()
    if is_a_cause:
        error = JobError("Spark was stopped.")
        error.__cause__ = KeyboardInterrupt()
    world.ends, world.error = {"orders-0": 10}, {"validate": error}
    with pytest.raises(KeyboardInterrupt):
        runner.run(INTAKE_JOB, str(tmp_path / "lake"), request_, NO_POLICIES)


def test_a_run_of_a_lake_that_is_not_registered_and_names_its_sources_is_a_wrong_call(
    runner: Runner, world: World, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "sources.json").write_text('{"version": 2, "intakes": [{"sources": ["/kafka"]}]}')
    outcome = runner.run(INTAKE_JOB, str(lake), RunRequest(), NO_POLICIES)
    assert outcome.failure is not None
    assert f"loglake run /kafka --lake {lake}" in outcome.failure.message
    assert outcome.failure.code is ExitCode.USAGE
