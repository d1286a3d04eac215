"""A failed step says our sentence first; only transient errors are retried, and not for ever."""

from __future__ import annotations

import errno
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

import pipelines.assets
from logcore.errors import UnsupportedFormatError
from pipelines.command import dagster_history
from pipelines.command.dagster_history import DagsterHistory
from pipelines.command.running import HistoryInBackground, Runner
from pipelines.run.chains import INTAKE_JOB
from pipelines.run.run_request import RunRequest
from spark_jobs.errors import (
    CommitUnanswered,
    ConcurrentChange,
    JobError,
    LeaseHeld,
    OutputMismatch,
    StorageError,
    UsageError,
)
from spark_jobs.policies.policies_file import NO_POLICIES
from tests.dagster.conftest import Execute, materialized
from tests.dagster.fake_jobs import FakeLauncher, World

pytestmark = pytest.mark.dagster


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.errors.failures.TRANSIENT_WAIT_SECONDS", 0)
    monkeypatch.setattr("pipelines.errors.failures.LEASE_WAIT_SECONDS", 0)
    monkeypatch.setattr("pipelines.errors.failures.LEASE_RETRIES", 5)


def failed_step(result: dg.ExecuteInProcessResult) -> dg.DagsterEvent:
    (event,) = [event for event in result.all_events if event.is_step_failure]
    return event


@pytest.mark.parametrize(
    ("error", "attempts", "sentence"),
    [
        (JobError("The rows of orders-0 are damaged."), 1, "The rows of orders-0 are damaged."),
        (OutputMismatch("3 rows, not 4."), 1, "3 rows, not 4."),
        (UsageError("There is no such policy."), 1, "There is no such policy."),
        (UnsupportedFormatError("The format is not known."), 1, "The format is not known."),
        (ZeroDivisionError("planted-text"), 1, "please report this line."),
        (StorageError("The store does not answer."), 4, "The store does not answer."),
        (ConcurrentChange("Another commit was faster."), 4, "Another commit was faster."),
        (CommitUnanswered("The commit has no answer."), 4, "The commit has no answer."),
        (LeaseHeld("Another process works on the lake."), 6, "Another process works on the lake."),
    ],
)
def test_the_sentence_comes_first_and_only_transient_errors_are_retried(
    execute: Execute, world: World, home: Path, error: Exception, attempts: int, sentence: str
) -> None:
    world.ends, world.error = {"orders-0": 3}, {"validate": error}
    result = execute(lake=str(home / "lakes" / "shop"))
    assert not result.success
    assert len(world.of("validate")) == attempts
    assert world.of("publish") == []
    data = failed_step(result).step_failure_data
    assert data.user_failure_data is not None
    assert str(data.user_failure_data.description).endswith(sentence)
    assert data.error is not None
    assert sentence in data.error.to_string().splitlines()[0]
    assert data.error.cause is not None
    assert type(error).__name__ in data.error.cause.message
    assert "planted" not in "".join(map(str, result.all_events))


def test_a_transient_error_that_ends_is_none(execute: Execute, world: World, home: Path) -> None:
    world.ends, world.error_once = {"orders-0": 3}, {"publish": StorageError("The store does not answer.")}
    result = execute(lake=str(home / "lakes" / "shop"))
    assert result.success
    assert len(world.of("publish")) == 2
    assert materialized(result, "records") == ["orders-0"]


RECORDED_WITH = ("register", "table_events", "check_result")


def fails_at_first(
    monkeypatch: pytest.MonkeyPatch, name: str, error: Exception, *, times: int, module: ModuleType = pipelines.assets
) -> None:
    """Let what the steps call to record their results raise an error the first times."""
    original, left = getattr(module, name), [error] * times

    def call(*arguments: Any) -> Any:
        if left:
            raise left.pop()
        return original(*arguments)

    monkeypatch.setattr(module, name, call)


@pytest.mark.parametrize("name", RECORDED_WITH)
def test_a_transient_error_while_a_step_is_recorded_is_retried_and_loses_no_materialization(
    execute: Execute, world: World, home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    world.ends = {"orders-0": 3}
    fails_at_first(monkeypatch, name, StorageError("The store does not answer."), times=2)
    result = execute(lake=str(home / "lakes" / "shop"))
    assert result.success
    assert [len(world.of(job)) for job in ("ingest", "validate", "publish")] == [1, 1, 1]
    for asset in ("archived_segments", "validated_segments", "records"):
        assert set(materialized(result, asset)) == {"orders-0"}
    assert {check.check_name for check in result.get_asset_check_evaluations()} >= {"sources_agree", "expectations_met"}


@pytest.mark.parametrize("name", RECORDED_WITH)
def test_an_error_while_a_step_is_recorded_says_one_sentence_first(
    execute: Execute, world: World, home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    world.ends = {"orders-0": 3}
    fails_at_first(monkeypatch, name, OSError(errno.ENOSPC, ""), times=9)
    result = execute(lake=str(home / "lakes" / "shop"))
    assert not result.success
    data = failed_step(result).step_failure_data
    assert data.user_failure_data is not None
    assert str(data.user_failure_data.description).endswith("failed: No space left on device.")


def test_a_run_of_the_command_line_that_cannot_be_recorded_ends_without_a_wait(
    instance: dg.DagsterInstance, world: World, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ends = {"orders-0": 3}
    fails_at_first(
        monkeypatch, "check_evaluation", StorageError("The store does not answer."), times=1, module=dagster_history
    )
    runner = Runner(
        HistoryInBackground(lambda: DagsterHistory(instance)), 1_700_000_000_000, FakeLauncher(world=str(tmp_path))
    )
    outcome = runner.run(INTAKE_JOB, str(tmp_path / "lake"), RunRequest((str(source),)), NO_POLICIES)
    assert outcome.failure is None
    assert outcome.unrecorded is not None
    assert "could not record it: " in outcome.unrecorded.message
    assert outcome.unrecorded.message.endswith("The store does not answer.")


def test_a_failed_run_of_the_command_line_has_no_further_attempt(
    instance: dg.DagsterInstance, world: World, source: Path, tmp_path: Path
) -> None:
    world.ends, world.error = {"orders-0": 3}, {"validate": StorageError("The store does not answer.")}
    runner = Runner(
        HistoryInBackground(lambda: DagsterHistory(instance)), 1_700_000_000_000, FakeLauncher(world=str(tmp_path))
    )
    outcome = runner.run(INTAKE_JOB, str(tmp_path / "lake"), RunRequest((str(source),)), NO_POLICIES)
    assert outcome.failure is not None
    assert outcome.failure.message == "The store does not answer."
    assert len(world.of("validate")) == 1
