"""Runs the steps of a chain one after another in this process, without Dagster."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import found
from spark_jobs.contracts import JobReport
from spark_jobs.errors import UsageError
from spark_jobs.lake.view.open_findings import path_findings
from spark_jobs.outlines import Outline

from ..errors.step_errors import sentence_of
from .chains import Step
from .check_definitions import CheckAnswer
from .outcome import REFUSED, RunFailure, RunOutcome, StepResult, written_by
from .steps import Run


@dataclass(slots=True)
class FinishedSteps:
    """What the steps of a run did."""

    results: dict[str, StepResult] = field(default_factory=dict)
    """By name of the step."""
    errors: dict[str, BaseException] = field(default_factory=dict)
    """The error of the failed step, by its name; no later step has run."""
    reports: list[JobReport[Outline]] = field(default_factory=list)
    """Of all jobs, those of a failed step too."""
    took_ms: dict[str, int] = field(default_factory=dict)
    """By name of the step."""

    @property
    def answers(self) -> list[CheckAnswer]:
        """The answers to the checks, in the order of the steps."""
        return [answer for done in self.results.values() for answer in done.answers]

    @property
    def error(self) -> BaseException | None:
        """The error of the failed step."""
        return next(iter(self.errors.values()), None)

    def after(self, earlier: FinishedSteps) -> FinishedSteps:
        """An earlier run and this one as one: the reports of both, with the answers and the state of the later."""
        results = dict(earlier.results)
        for name, done in self.results.items():
            before = earlier.results.get(name)
            if before is None or done.state is not None:  # without a state the step did nothing
                reports = [] if before is None else before.reports
                results[name] = replace(done, reports=[*reports, *done.reports])
        return replace(self, results=results)

    def changed(self, chain: Sequence[Step]) -> dict[str, tuple[str, ...]]:
        """Topic partitions that changed, by asset."""
        changed: dict[str, tuple[str, ...]] = {}
        for step in chain:
            done = self.results.get(step.name)
            if step.asset is None or done is None or not done.changes:
                continue
            changes = done.changes
            names = [f"{change.topic}-{change.partition}" for change in changes.values()]
            changed[step.asset] = tuple(names)
        return changed


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run whose steps have run, as it is recorded.

    Attributes:
        job: Name of Dagster's job.
        run_id: Identity of the run.
        lake: Path or address of the lake.
        as_of_ms: The clock of the run, epoch milliseconds.
        steps: The results of the steps.
    """

    job: str
    run_id: str
    lake: str
    as_of_ms: int
    steps: FinishedSteps


def run_steps(chain: Sequence[Step], run: Run) -> FinishedSteps:
    """Run the steps in their order, up to the first that fails.

    Args:
        chain: The steps.
        run: The run.

    Raises:
        KeyboardInterrupt: The user interrupted the run.
    """
    finished = FinishedSteps(reports=run.reports)
    for step in chain:
        begun = time.monotonic()
        try:
            done = step.work(run)
            run.step_done(done, is_last=step is chain[-1])
        except Exception as error:  # noqa: BLE001 - an error of any kind ends the run with one sentence
            finished.errors[step.name] = error
            break
        finished.results[step.name] = done
        finished.took_ms[step.name] = round((time.monotonic() - begun) * 1000)
    return finished


def outcome_of(chain: Sequence[Step], run_id: str, finished: FinishedSteps) -> RunOutcome:
    """What the run did, for the command line."""
    results = finished.results.values()
    return RunOutcome(
        run_id=run_id,
        changed=finished.changed(chain),
        plans={asset: plan for done in results for asset, plan in done.plans.items()},
        refused=tuple(found(REFUSED, message) for done in results for message in done.refused),
        of_paths=path_findings(finished.reports),
        answers=tuple(finished.answers),
        written=written_by(finished.reports),
        failure=_failure(run_id, finished),
    )


def _failure(run_id: str, finished: FinishedSteps) -> RunFailure | None:
    for name, error in finished.errors.items():
        code = ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.NOT_CHECKED
        return RunFailure(sentence_of(error, name, run_id), code)
    return None
