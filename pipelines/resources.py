"""The resources of the steps of a run in Dagster: what starts jobs, and what keeps results."""

from __future__ import annotations

import dagster as dg

from spark_jobs import launch
from spark_jobs.contracts import JobConfig, JobReport
from spark_jobs.lake.view.registered_lakes import read_registered
from spark_jobs.launch import IntakeResults
from spark_jobs.outlines import Outline, Outline_co

from .run.outcome import StepResult

ENGINE_TAG = "loglake/engine"
"""Run tag: what runs the tasks, and why. A run that finds nothing new has none."""

LAUNCHER, RESULTS = "loglake_launcher", "loglake_results"
"""Keys of our resources: a code location may have others."""


class JobLauncher(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Starts one job of :mod:`spark_jobs` and waits for its report; tests replace it with a fake."""

    def run(
        self, config: JobConfig[Outline_co], engine: str = "auto", results: IntakeResults | None = None
    ) -> JobReport[Outline_co]:
        """Run the job of this configuration: by Spark, if nothing names an engine. An empty plan starts nothing."""
        return launch.run(config, engine=self.engine_for(config.lake, engine), by_dagster=True, results=results)

    def engine_for(self, lake: str, engine: str = "auto") -> str:
        """The engine that a run names, else the one of the policies that are registered for the lake.

        Raises:
            UsageError: Registration or policies cannot be used.
        """
        return engine if engine != "auto" else read_registered(lake).policy.engine


class StepResults:
    """Keeps reports of jobs, so that a step can report what earlier rounds of its run did.

    It also keeps the result of a step until Dagster has its events. If recording them fails, the next attempt records
    this result: the step itself would find nothing new.
    """

    def __init__(self) -> None:
        self._reports: dict[str, list[JobReport[Outline]]] = {}
        self._not_recorded: dict[tuple[str, str], StepResult] = {}
        self._intakes: dict[str, IntakeResults] = {}

    def reports_of(self, run_id: str) -> list[JobReport[Outline]]:
        """The reports of a run so far; its steps add theirs."""
        return self._reports.setdefault(run_id, [])

    def intake_of(self, run_id: str) -> IntakeResults:
        """What the jobs of a run hand to one another."""
        return self._intakes.setdefault(run_id, IntakeResults())

    def end_intake(self, run_id: str) -> None:
        """Remove what no job of a run used."""
        self._intakes.pop(run_id, IntakeResults()).discard()

    def keep(self, run_id: str, step: str, done: StepResult) -> None:
        """Keep the result of a step that has run; its events follow."""
        self._not_recorded[run_id, step] = done

    def recorded(self, run_id: str, step: str) -> None:
        """Forget the result, because Dagster has its events."""
        self._not_recorded.pop((run_id, step), None)

    def result_of(self, run_id: str, step: str) -> StepResult | None:
        """The result of an earlier attempt whose events Dagster does not have; None: run the step."""
        return self._not_recorded.get((run_id, step))
