"""One Dagster run from the command line: in this process, recorded in a persistent instance, quiet on the console."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from logcore.columns.kernels.library import is_chosen
from logcore.logs.model.findings import Finding, Severity, found
from pipelines.command.instance import end_dead_runs, process_tags
from pipelines.command.interrupts import INTERRUPTS
from pipelines.definitions import build_definitions
from pipelines.jobs import run_config
from pipelines.questions import FAILING, NOTES, UNANSWERED, WHAT_TO_DO, Failure
from pipelines.resources import LAKE_TAG, JobLauncher
from pipelines.steps import REFUSED, path_findings
from spark_jobs.contracts import JobConfig, JobReport
from spark_jobs.lake.setup import registry
from spark_jobs.lake.store import storage

USAGE_ERRORS = ("UsageError", "NoLakeError", "RegistryError")

_announce: Callable[[JobConfig], None] = lambda config: None  # noqa: E731
_reports: list[JobReport] = []


class AnnouncingLauncher(JobLauncher):
    """Says which job begins, to whoever watches the terminal, and keeps what each reports."""

    def run(self, config: JobConfig) -> JobReport:
        _announce(config)
        report = super().run(config)
        _reports.append(report)
        return report


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """How a run answered one check."""

    name: str
    passed: bool
    is_unanswered: bool
    """Whether there was nothing to look at yet."""
    description: str
    failures: tuple[Failure, ...]
    what_to_do: str
    notes: tuple[str, ...] = ()
    """What a person should know although nothing failed."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What came of a run."""

    run_id: str
    changed: Mapping[str, tuple[str, ...]]
    """Partition keys that were materialized, by asset."""
    plans: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Plans that were made and not carried out, by asset."""
    refused: tuple[Finding, ...] = ()
    """What the run was asked for and left as it is."""
    of_paths: tuple[Finding, ...] = ()
    """What there is to say of the source paths, as the run saw them."""
    checks: tuple[CheckOutcome, ...] = ()
    """Every check that the run answered."""
    error: str | None = None
    """Why the run did not come to its end, as a paragraph for a person."""
    is_usage_error: bool = False

    @property
    def found_nothing_new(self) -> bool:
        """Whether the run changed nothing."""
        return self.error is None and not any(self.changed.values())


class Runner:
    """Runs jobs of the code location on one instance, in one process and so with one Spark session.

    Args:
        announce: told of each job before it is started; None where nobody watches.
    """

    def __init__(self, instance: dg.DagsterInstance, announce: Callable[[JobConfig], None] | None = None) -> None:
        global _announce
        _quiet()
        is_chosen()  # warns where the compiled engine is not available; during Dagster's steps stderr is a file
        _announce = announce or (lambda config: None)
        self._instance = instance
        # Without pools: a run of one lake must not wait for one of another that hangs, and the lease keeps each lake
        # to one run.
        self._definitions = build_definitions(AnnouncingLauncher(), {"console": _silent}, pool=None)
        end_dead_runs(instance)

    def run(self, job: str, lake: str, **settings: Any) -> RunOutcome:
        """One run of ``job`` on ``lake``; ``settings`` as :class:`pipelines.resources.LakeResource` has them."""
        _reports.clear()
        result = self._definitions.resolve_job_def(job).execute_in_process(
            instance=self._instance,
            # Named here, or Dagster adds a console logger of its own.
            run_config={**run_config(lake=storage.absolute(lake), **settings), "loggers": {"console": {}}},
            tags={LAKE_TAG: registry.key_of(lake), **process_tags()},
            raise_on_error=False,
        )
        changed: dict[str, list[str]] = {}
        for event in result.get_asset_materialization_events():
            asset = event.materialization.asset_key.to_user_string()
            changed.setdefault(asset, []).append(str(event.partition))
        if _was_interrupted(result):
            raise KeyboardInterrupt
        error, is_usage_error = _error_of(result)
        return RunOutcome(
            result.run_id,
            {asset: tuple(keys) for asset, keys in changed.items()},
            dict(_plans_of(result)),
            tuple(_refusals_of(result)),
            path_findings(_reports),
            tuple(_check(evaluation) for evaluation in result.get_asset_check_evaluations()),
            error,
            is_usage_error,
        )


def _was_interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Whether somebody ended the run from the terminal; Dagster makes an error of its own of that."""
    failures = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
    return any(INTERRUPTS & set(_classes(error)) for error in failures)


def _error_of(result: dg.ExecuteInProcessResult) -> tuple[str | None, bool]:
    if result.success:
        return None, False
    failures = [event for event in result.all_events if event.is_step_failure]
    if not failures:
        return f"The run {result.run_id} did not come to its end; Dagster's pages say more.", False
    failure = failures[0].step_failure_data
    if failure.user_failure_data is not None and failure.user_failure_data.description:
        causes = _classes(failure.error)
        return failure.user_failure_data.description, any(name in causes for name in USAGE_ERRORS)
    innermost = failure.error
    while innermost is not None and innermost.cause is not None:
        innermost = innermost.cause
    what = innermost.message.strip() if innermost is not None else "no reason was recorded"
    step = failures[0].step_key
    return f"The step {step} of run {result.run_id} failed: {what} Dagster's page of the run has the details.", False


def _check(evaluation: dg.AssetCheckEvaluation) -> CheckOutcome:
    metadata: dict[str, Any] = {name: each.value for name, each in evaluation.metadata.items()}
    description = evaluation.description or ""
    failures = [_failure(plain) for plain in metadata.get(FAILING, ())]
    if not failures and not evaluation.passed:  # it counts for every choice of logs
        level = Severity.ERROR if evaluation.severity is dg.AssetCheckSeverity.ERROR else Severity.WARNING
        failures = [Failure(description, severity=level)]
    return CheckOutcome(
        evaluation.check_name,
        evaluation.passed,
        bool(metadata.get(UNANSWERED, False)),
        description,
        tuple(failures),
        str(metadata.get(WHAT_TO_DO, "")),
        tuple(metadata.get(NOTES, ())),
    )


def _failure(plain: Mapping[str, Any]) -> Failure:
    return Failure(**{**plain, "severity": Severity(plain["severity"])})


def _classes(error: Any) -> list[str]:
    names = []
    while error is not None:
        names.append(str(error.cls_name))
        error = error.cause
    return names


def _plans_of(result: dg.ExecuteInProcessResult) -> list[tuple[str, Mapping[str, Any]]]:
    plans = []
    for observation in _observations(result):
        plan = observation.metadata.get("plan")
        if isinstance(plan, dg.JsonMetadataValue) and isinstance(plan.value, Mapping):
            plans.append((observation.asset_key.to_user_string(), plan.value))
    return plans


def _refusals_of(result: dg.ExecuteInProcessResult) -> Iterator[Finding]:
    for observation in _observations(result):
        refused = observation.metadata.get("refused")
        if isinstance(refused, dg.JsonMetadataValue) and isinstance(refused.value, Sequence):
            for message in refused.value:
                yield found(REFUSED, message)


def _observations(result: dg.ExecuteInProcessResult) -> Iterator[dg.AssetObservation]:
    for event in result.all_events:
        if event.event_type is dg.DagsterEventType.ASSET_OBSERVATION:
            yield event.asset_observation_data.asset_observation


def announcer() -> Callable[[JobConfig], None] | None:
    """Says on the terminal which job begins; None where stderr is no terminal.

    Dagster puts a file in the place of stderr while a step runs, so the terminal is kept here.
    """
    if not sys.stderr.isatty():
        return None
    terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w", buffering=1)

    def announce(config: JobConfig) -> None:
        terminal.write(f"{os.path.basename(config.lake)}: {config.JOB} …\n")

    return announce


def _quiet() -> None:
    """Hold log lines back by the console's own level: libraries set levels of their own when they are imported."""
    root = logging.getLogger()
    for handler in root.handlers:
        handler.setLevel(root.level)
    # An interrupt that arrives while a connection closes is logged there as an error with its trace, and then raised.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)


@dg.logger
def _silent(_: dg.InitLoggerContext) -> logging.Logger:
    """Dagster's console lines are in its pages; stdout and stderr belong to the command."""
    made = logging.Logger("loglake.silent")
    made.addHandler(logging.NullHandler())
    return made
