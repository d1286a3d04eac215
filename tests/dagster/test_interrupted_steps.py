"""A cancel that Python drops in a finalizer, or that a library turns into an error, still cancels Dagster's run."""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from spark_jobs.errors import StorageError
from tests.dagster import fake_jobs
from tests.dagster.conftest import Define, Execute
from tests.dagster.fake_jobs import World

pytestmark = [pytest.mark.dagster, pytest.mark.usefixtures("signals_act")]


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()  # closes generators of canceled steps of the test before
    monkeypatch.setattr("pipelines.errors.failures.TRANSIENT_WAIT_SECONDS", 0)


class CanceledInFinalizer:
    """Gets Dagster's signal of a cancel while it is finalized."""

    def __init__(self) -> None:
        self.itself = self  # so that only the garbage collector ends it

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)


def canceling(instance: dg.DagsterInstance) -> None:
    """Note in the instance that a user cancels the newest run, as the page does."""
    instance.report_run_canceling(instance.get_runs(limit=1)[0])


def cancel_in_finalizer(
    monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance, job: str, seconds_left: float
) -> None:
    """Cancel the run in a finalizer, so long before the end of a job."""
    whole = fake_jobs.JOBS[job]

    def canceled(*arguments: Any) -> Any:
        done = whole(*arguments)
        canceling(instance)
        CanceledInFinalizer()
        gc.collect()
        time.sleep(seconds_left)
        return done

    monkeypatch.setitem(fake_jobs.JOBS, job, canceled)


def cancel_by_an_error(monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance, job: str) -> list[Any]:
    """Make a job fail with an error that a cancel caused. Return the configurations of its calls."""
    asked: list[Any] = []

    def canceled(_: World, config: Any) -> Any:
        asked.append(config)
        canceling(instance)
        raise StorageError("The store does not answer.") from dg.DagsterExecutionInterruptedError()

    monkeypatch.setitem(fake_jobs.JOBS, job, canceled)
    return asked


def assert_canceled(result: dg.ExecuteInProcessResult, instance: dg.DagsterInstance) -> None:
    assert not result.success
    assert instance.get_runs(limit=1)[0].status == dg.DagsterRunStatus.CANCELED


@pytest.mark.parametrize("seconds_left", [2.0, 0.0], ids=["in the middle of a step", "at the end of a step"])
def test_a_cancel_that_a_finalizer_drops_still_cancels_the_run(
    execute: Execute,
    instance: dg.DagsterInstance,
    world: World,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds_left: float,
) -> None:
    cancel_in_finalizer(monkeypatch, instance, "validate", seconds_left)
    world.ends = {"orders-0": 3}

    assert_canceled(execute(lake=str(home / "lakes" / "shop")), instance)
    assert len(world.of("validate")) == 1
    assert world.of("publish") == []


def test_an_error_that_a_cancel_caused_cancels_the_run_and_is_not_tried_again(
    execute: Execute, instance: dg.DagsterInstance, world: World, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = cancel_by_an_error(monkeypatch, instance, "validate")
    world.ends = {"orders-0": 3}

    assert_canceled(execute(lake=str(home / "lakes" / "shop")), instance)
    assert len(asked) == 1


@pytest.mark.parametrize("is_dropped", [True, False], ids=["dropped in a finalizer", "as the cause of an error"])
def test_the_nightly_verification_is_canceled_too(
    define: Define,
    execute: Execute,
    instance: dg.DagsterInstance,
    world: World,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_dropped: bool,
) -> None:
    world.ends = {"orders-0": 3}
    assert execute(lake=str(home / "lakes" / "shop")).success
    asked: list[Any] = []
    if is_dropped:
        cancel_in_finalizer(monkeypatch, instance, "verify", 2.0)
    else:
        asked = cancel_by_an_error(monkeypatch, instance, "verify")

    verification = define().resolve_job_def("shop__verification")
    assert_canceled(verification.execute_in_process(instance=instance, raise_on_error=False), instance)
    assert len(asked) == (0 if is_dropped else 1), "it is not tried again"
