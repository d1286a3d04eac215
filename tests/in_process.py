"""How runs of the test process differ from a user's: where tasks of jobs run, and what they report to Dagster.

Tasks run in the test process, pickled as on the way to a worker and back; or on Spark.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from spark_jobs.engine.executor import Result, Task, perform
from spark_jobs.engine.job_engine import JOB_ENGINE_VARIABLE, JobEngine

if TYPE_CHECKING:
    from pipelines.command.dagster_history import DagsterHistory
    from pipelines.run.direct import FinishedRun

EVERY_JOB_ON_SPARK = os.environ.get("LOGLAKE_TEST_EVERY_JOB_ON_SPARK") == "1"
"""Whether jobs run on Spark also in tests whose claim is not about Spark; `make test-long` sets it."""


class InProcessExecutor:
    """An executor for tests that need no JVM."""

    def run(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], sizes: Sequence[int] | None = None
    ) -> list[Result]:
        """As :meth:`spark_jobs.engine.executor.Executor.run`."""
        return [pickle.loads(pickle.dumps(perform(work, pickle.loads(pickle.dumps(task))))) for task in tasks]


@contextmanager
def without_spark() -> Iterator[None]:
    """Jobs of this process run their tasks here. Starting Spark takes longer than a job on a few records."""
    from spark_jobs import launch

    start_executor = launch.start_executor
    launch.start_executor = lambda *_: InProcessExecutor()
    try:
        yield
    finally:
        launch.start_executor = start_executor


@contextmanager
def on_spark() -> Iterator[None]:
    """Jobs of this process and of those that it starts run their tasks on Spark."""
    before = os.environ.get(JOB_ENGINE_VARIABLE)
    os.environ[JOB_ENGINE_VARIABLE] = JobEngine.SPARK
    try:
        yield
    finally:
        os.environ.pop(JOB_ENGINE_VARIABLE)
        if before is not None:
            os.environ[JOB_ENGINE_VARIABLE] = before


@contextmanager
def unreported() -> Iterator[None]:
    """Runs of this process report nothing to Dagster; the home says that they did. It takes a fifth of a small run.

    In `make test-long` they report.
    """
    if EVERY_JOB_ON_SPARK:
        yield
        return
    from pipelines.command.dagster_history import DagsterHistory
    from pipelines.events import keep_answers

    def only_in_the_home(history: DagsterHistory, run: FinishedRun) -> None:
        for done in run.steps.results.values():
            keep_answers(history.instance, run.lake, run.run_id, done)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DagsterHistory, "record", only_in_the_home)
        yield
