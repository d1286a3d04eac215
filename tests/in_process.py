"""How runs of the test process differ from a user's: where tasks of jobs run, and what they report to Dagster.

Tasks run in the test process, pickled as on the way to a worker and back; or on Spark.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pipelines.run.check_definitions import OF_MAINTENANCE
from spark_jobs.engine.executor import Result, Task, perform
from spark_jobs.engine.job_engine import JOB_ENGINE_VARIABLE, JobEngine
from spark_jobs.lake.view.dagster_reports import record_answers

if TYPE_CHECKING:
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
    from pipelines.command import run_lake, watch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_lake, "open_dagster_history", AnswersInHome)
        patch.setattr(watch, "open_dagster_history", AnswersInHome)
        yield


@dataclass(frozen=True)
class AnswersInHome:
    """A history that keeps what a later run asks it for, which checks have which answers, and no events."""

    folder: str

    def record(self, run: FinishedRun) -> None:
        """Keep the answers of a run."""
        for done in run.steps.results.values():
            if answers := {each.name: each.recorded for each in done.answers if each.asset not in OF_MAINTENANCE}:
                record_answers(run.lake, self.folder, run.run_id, answers)

    def close(self) -> None:
        """Nothing is open."""
