"""Looks whether a run has anything to do, without Dagster and without changing the lake.

The same steps as in a run plan their jobs. The first job with work ends the look.
"""

from __future__ import annotations

from dataclasses import dataclass

from logcore.errors import LogError
from pipelines.run.chains import INTAKE
from pipelines.run.listener import CollectingListener, RunOutcome
from pipelines.run.settings import RunSettings
from pipelines.run.steps import Run, WorkFound
from spark_jobs import launch
from spark_jobs.contracts import JobConfig, JobReport
from spark_jobs.lake.errors import JobError, UsageError
from spark_jobs.lake.setup.policies.policies_file import Policies


@dataclass(frozen=True, slots=True)
class PlansOnly:
    """A launcher that plans jobs and starts none."""

    def run(self, config: JobConfig) -> JobReport:
        """Report that the job has nothing to do.

        Raises:
            WorkFound: It has something to do.
        """
        report = launch.report_if_empty(config)
        if report is None:
            raise WorkFound
        return report


def outcome_without_work(lake: str, settings: RunSettings, policies: Policies, as_of_ms: int) -> RunOutcome | None:
    """What a run would report if it has nothing to do.

    Args:
        lake: Absolute path or address of the lake.
        settings: The settings of the run.
        policies: Of the run.
        as_of_ms: The clock of the run.

    Returns:
        The outcome; None if the run has work, or if an error occurs: the run itself reports that.
    """
    listener = CollectingListener()
    keys = tuple(settings.logs) or None
    run = Run("", lake, as_of_ms, keys, False, settings, policies, PlansOnly(), listener, acts=False)
    try:
        with launch.pinned_snapshots(lake):
            for link in INTAKE:
                for answer in link.work(run).answers:
                    listener.answered(answer)
    except (WorkFound, JobError, UsageError, LogError, OSError):
        return None
    return listener.outcome("", {}, None)
