"""Records runs of the command line in Dagster: the same job as in the UI, with steps that have already run."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import dagster as dg

from logcore.exit_codes import ExitCode
from pipelines.catalog.names import name_in_lake
from pipelines.catalog.run_configuration import run_config
from pipelines.command.instance import end_dead_runs, open_instance, process_tags, runs_of_location
from pipelines.definitions import build_definitions
from pipelines.event_log.transactions import few_transactions
from pipelines.resources import ENGINE_TAG, LISTENER
from pipelines.run.direct import FinishedRun
from pipelines.run.listener import RunFailure
from spark_jobs import launch
from spark_jobs.lake.view.registered_lakes import lake_path, read_registered


@dataclass(slots=True)
class DagsterHistory:
    """Dagster's history of runs, in a persistent instance.

    Attributes:
        instance: The open instance; closed by :meth:`close`.
    """

    instance: dg.DagsterInstance
    _jobs: dict[str, dg.Definitions] = field(default_factory=dict)
    """By path of the lake."""

    def __post_init__(self) -> None:
        _quiet()
        end_dead_runs(self.instance)

    @classmethod
    def open(cls, folder: str) -> DagsterHistory:
        """Open the history in this folder, which has its ``dagster.yaml``."""
        return cls(open_instance(folder))

    def prepare(self, lake: str) -> dg.Definitions:
        """Build the definitions of a lake, once; a run of it can then be recorded sooner.

        Args:
            lake: Path or address of a registered lake.
        """
        path = lake_path(lake)
        if path not in self._jobs:
            # No pools: a run of one lake must not wait for one of another that hangs. The lease limits each lake to
            # one run.
            self._jobs[path] = build_definitions([read_registered(path)], None, {"console": _silent}, pool=None)
        return self._jobs[path]

    def close(self) -> None:
        """Close the instance."""
        self.instance.dispose()

    def record(self, run: FinishedRun) -> RunFailure | None:
        """Record a run whose steps have run.

        Returns:
            Why the record is not complete; None: it is, or a step had failed.
        """
        registered = read_registered(lake_path(run.lake))
        config = run_config(registered, run.job, **{**run.settings, "as_of_ms": run.as_of_ms})
        job_of_lake = self.prepare(run.lake).resolve_job_def(name_in_lake(registered, run.job))
        with few_transactions(self.instance.event_log_storage), runs_of_location(self.instance):
            result = job_of_lake.execute_in_process(
                instance=self.instance,
                # Set explicitly, because otherwise Dagster adds a console logger of its own.
                run_config={**config, "loggers": {"console": {}}},
                tags={ENGINE_TAG: launch.engine_and_reason(run.engine), **process_tags()},
                resources={LISTENER: run.steps},
                run_id=run.run_id,
                raise_on_error=False,
            )
        if result.success or run.steps.errors:
            return None
        failures = [event for event in result.all_events if event.is_step_failure]
        innermost = failures[0].step_failure_data.error if failures else None
        while innermost is not None and innermost.cause is not None:
            innermost = innermost.cause
        what = innermost.message.strip() if innermost is not None else "no reason was recorded"
        message = f"The run {run.run_id} is complete, but Dagster could not record it: {what}"
        return RunFailure(message, ExitCode.NOT_CHECKED)


def _quiet() -> None:
    """Filter log lines by the level of the console: libraries set their own levels when they are imported."""
    root = logging.getLogger()
    for handler in root.handlers:
        handler.setLevel(root.level)
    # If an interrupt arrives while a connection closes, it is logged there as an error with its trace, and then raised.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)


@dg.logger
def _silent(_: dg.InitLoggerContext) -> logging.Logger:
    """A silent logger: Dagster's pages have these lines; stdout and stderr belong to the command."""
    made = logging.Logger("loglake.silent")
    made.addHandler(logging.NullHandler())
    return made
