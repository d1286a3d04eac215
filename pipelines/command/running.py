"""Dagster runs from the command line: in this process, recorded in a persistent instance, quiet on the console.

Dagster stores the history of the run. The command prints and returns the values that the run itself made. A listener,
passed to each run as a resource, collects them.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import dagster as dg

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.errors import LogError
from logcore.exit_codes import ExitCode
from pipelines.command.instance import end_dead_runs, process_tags
from pipelines.command.interrupts import is_interrupt
from pipelines.definitions import build_definitions
from pipelines.jobs import run_config
from pipelines.resources import LAKE_TAG, JobLauncher
from pipelines.run.outcome import Announce, CollectingListener, RunFailure, RunOutcome
from spark_jobs import launch
from spark_jobs.contracts import JobConfig
from spark_jobs.lake.errors import JobError, UsageError
from spark_jobs.lake.view.registered_lakes import lake_key, lake_path

ENGINE_TAG = "loglake/engine"
"""Run tag: what ran the tasks, and why."""


class Runner:
    """Runs jobs of the code location on one instance, in one process and so with one Spark session.

    Args:
        announce: Gets each job before it is started; None without a terminal.
        launcher: Starts the jobs; None: in this process.
    """

    def __init__(
        self, instance: dg.DagsterInstance, announce: Announce | None = None, launcher: JobLauncher | None = None
    ) -> None:
        _quiet()
        # Compile the workers' kernels now, or warn that it is impossible. During Dagster's steps stderr is a file.
        is_chosen(Work.DECODE)
        self._announce = announce
        self._instance = instance
        # No pools: a run of one lake must not wait for one of another that hangs. The lease limits each lake to one
        # run.
        self._engine = launch.engine_and_reason((launcher or JobLauncher()).engine)
        self._definitions = build_definitions(launcher, {"console": _silent}, pool=None)
        end_dead_runs(instance)

    def run(self, job: str, lake: str, **settings: Any) -> RunOutcome:
        """Run ``job`` on ``lake`` once.

        Args:
            settings: Fields of :class:`pipelines.resources.LakeResource`.

        Raises:
            KeyboardInterrupt: The user interrupted the run from the terminal.
        """
        listener = CollectingListener(self._announce)
        result = self._definitions.resolve_job_def(job).execute_in_process(
            instance=self._instance,
            # Set explicitly, because otherwise Dagster adds a console logger of its own.
            run_config={**run_config(lake=lake_path(lake), **settings), "loggers": {"console": {}}},
            tags={LAKE_TAG: lake_key(lake), ENGINE_TAG: self._engine, **process_tags()},
            resources={"listener": listener},
            raise_on_error=False,
        )
        changed: dict[str, list[str]] = {}
        for event in result.get_asset_materialization_events():
            asset = event.materialization.asset_key.to_user_string()
            changed.setdefault(asset, []).append(str(event.partition))
        if not result.success and (is_interrupt(listener.error) or _was_interrupted(result)):
            raise KeyboardInterrupt
        return listener.outcome(
            result.run_id,
            {asset: tuple(keys) for asset, keys in changed.items()},
            None if result.success else _failure(result, listener.error),
        )


def _was_interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Whether an interrupt ended Dagster's own code between our steps."""
    sources = [event.step_failure_data.error_source for event in result.all_events if event.is_step_failure]
    return any(source is not None and source.name == "INTERRUPT" for source in sources)


def _failure(result: dg.ExecuteInProcessResult, error: BaseException | None) -> RunFailure:
    if isinstance(error, JobError | UsageError | LogError):  # written for users
        return RunFailure(str(error), ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.NOT_CHECKED)
    failures = [event for event in result.all_events if event.is_step_failure]
    if not failures:
        message = f"The run {result.run_id} did not finish; Dagster's pages have the details."
        return RunFailure(message, ExitCode.NOT_CHECKED)
    failure = failures[0].step_failure_data
    if failure.user_failure_data is not None and failure.user_failure_data.description:
        return RunFailure(failure.user_failure_data.description, ExitCode.NOT_CHECKED)
    innermost = failure.error
    while innermost is not None and innermost.cause is not None:
        innermost = innermost.cause
    what = innermost.message.strip() if innermost is not None else "no reason was recorded"
    step = failures[0].step_key
    message = f"The step {step} of run {result.run_id} failed: {what} Dagster's page of the run has the details."
    return RunFailure(message, ExitCode.NOT_CHECKED)


def announcer() -> Announce | None:
    """Return a function that prints on the terminal which job begins; None if stderr is not a terminal.

    Dagster replaces stderr by a file while a step runs, so this keeps the terminal.
    """
    if not sys.stderr.isatty():
        return None
    terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w", buffering=1)

    def announce(config: JobConfig) -> None:
        terminal.write(f"{os.path.basename(config.lake)}: {config.JOB} …\n")

    return announce


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
