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

from spark_jobs.lake.errors import StorageError
from tests.dagster import fake_jobs
from tests.dagster.conftest import Execute
from tests.dagster.fake_jobs import World

pytestmark = [pytest.mark.dagster, pytest.mark.usefixtures("signals_act")]


class CanceledInFinalizer:
    """Gets Dagster's signal of a cancel while it is finalized."""

    def __init__(self) -> None:
        self.itself = self  # so that only the garbage collector ends it

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)


def canceling(instance: dg.DagsterInstance) -> None:
    """Note in the instance that a user cancels the only run, as the page does."""
    (run,) = instance.get_runs()
    instance.report_run_canceling(run)


@pytest.mark.parametrize("seconds_left", [2.0, 0.0], ids=["in the middle of a step", "at the end of a step"])
def test_a_cancel_that_a_finalizer_drops_still_cancels_the_run(
    execute: Execute,
    instance: dg.DagsterInstance,
    world: World,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds_left: float,
) -> None:
    validate = fake_jobs.JOBS["validate"]

    def canceled(*arguments: Any) -> Any:
        done = validate(*arguments)
        canceling(instance)
        CanceledInFinalizer()
        gc.collect()
        time.sleep(seconds_left)
        return done

    monkeypatch.setitem(fake_jobs.JOBS, "validate", canceled)
    world.ends = {"orders-0": 3}

    result = execute(lake=str(home / "lakes" / "shop"))

    assert not result.success
    (run,) = instance.get_runs()
    assert run.status == dg.DagsterRunStatus.CANCELED
    assert len(world.of("validate")) == 1
    assert world.of("publish") == []


def test_an_error_that_a_cancel_caused_cancels_the_run_and_is_not_tried_again(
    execute: Execute, instance: dg.DagsterInstance, world: World, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def canceled(_: World, config: Any) -> Any:
        asked.append(config)
        canceling(instance)
        raise StorageError("The store does not answer.") from dg.DagsterExecutionInterruptedError()

    monkeypatch.setitem(fake_jobs.JOBS, "validate", canceled)
    world.ends = {"orders-0": 3}

    result = execute(lake=str(home / "lakes" / "shop"))

    assert not result.success
    (run,) = instance.get_runs()
    assert run.status == dg.DagsterRunStatus.CANCELED
    assert len(asked) == 1
