"""The resource that starts jobs for the steps of a run in Dagster."""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from spark_jobs import launch
from spark_jobs.contracts import JobConfig, JobReport
from spark_jobs.lake.view.registered_lakes import read_registered
from spark_jobs.outlines import Outline_co

ENGINE_TAG = "loglake/engine"
"""Run tag: what runs the tasks, and why."""

LAUNCHER, LISTENER = "loglake_launcher", "loglake_listener"
"""Keys of our resources: a code location may have others."""


class JobLauncher(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Starts one job of :mod:`spark_jobs` and waits for its report; tests replace it with a fake."""

    def run(self, config: JobConfig[Outline_co], engine: str = "auto") -> JobReport[Outline_co]:
        """Run the job of this configuration. An empty plan starts nothing."""
        return launch.run(config, engine=self.engine_for(config.lake, engine))

    def engine_for(self, lake: str, engine: str = "auto") -> str:
        """The engine that a run names, else the one of the policies that are registered for the lake.

        Raises:
            UsageError: Registration or policies cannot be used.
        """
        return engine if engine != "auto" else read_registered(lake).policy.engine


@dataclass(frozen=True, slots=True)
class EngineOfRun:
    """A launcher with the engine that a run names."""

    launcher: JobLauncher
    engine: str

    def run(self, config: JobConfig[Outline_co]) -> JobReport[Outline_co]:
        """Run the job of this configuration. An empty plan starts nothing."""
        return self.launcher.run(config, self.engine)
