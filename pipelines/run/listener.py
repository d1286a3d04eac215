"""What a run did, as values: collected by a listener while its steps run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Finding, found
from spark_jobs.contracts import JobConfig, JobReport
from spark_jobs.lake.view.open_findings import path_findings
from spark_jobs.outlines import Outline

from .check_definitions import CheckAnswer
from .step_result import StepResult

Announce = Callable[[JobConfig[Outline]], None]

REFUSED = "replacement-refused"
"""Rule of the findings on ranges that could not be published again."""


WRITTEN = {
    ("ingest", "segments"): "archived {} segment{s}",
    ("publish", "records"): "published {} record{s}",
    ("publish", "uncommitted_records"): "wrote {} uncommitted record{s}",
    ("replace", "records"): "wrote {} record{s} again",
    ("decode", "decoded"): "decoded {} record{s}",
    ("decode", "undecoded"): "could not decode {} record{s}",
    ("latest", "rows_read"): "read {} record{s} into tables of latest rows",
    ("cluster", "tables"): "wrote {} table{s} of the cluster",
    ("retention", "due_segments"): "retired {} segment{s}",
    ("compaction", "removed_records"): "removed {} record{s} by compaction",
    ("compaction", "replaced_segments"): "replaced {} segment{s} by cleaned ones",
    ("tidy_archive", "deleted_files"): "deleted {} archived file{s}",
    ("tidy_archive", "merged_segments"): "joined {} small segment{s}",
    ("rebuild_indexes", "files"): "wrote {} index file{s}",
    ("optimize", "merged_files"): "merged {} table file{s}",
    ("optimize", "removed_files"): "removed {} unused table file{s}",
}
"""Words for what a job wrote, by job and metric."""


def _written(reports: Sequence[JobReport[Outline]]) -> dict[str, int]:
    counts = {
        words: sum(int(r.metrics.get(metric) or 0) for r in reports if r.job == job and r.metrics.get("applied", True))
        for (job, metric), words in WRITTEN.items()
    }
    return {words: count for words, count in counts.items() if count}


class RunListener:
    """Receives the results of a run as values, in the process of the run. This one ignores everything.

    Dagster stores text of a run: events, metadata, names of errors. A caller that starts a run in its own process and
    needs the values passes its own listener as the resource ``listener``.
    """

    def job_begins(self, config: JobConfig[Outline]) -> None:
        """A job is about to start."""

    def job_reported(self, report: JobReport[Outline]) -> None:
        """A job has ended."""

    def reports_of(self, run_id: str, job: str) -> Sequence[JobReport[Outline]]:
        """Reports of a job in the earlier rounds of a run; none if this listener keeps none."""
        return ()

    def planned(self, asset: str, plan: Outline) -> None:
        """A job made a plan for an asset, and was not allowed to execute it."""

    def refused(self, message: str) -> None:
        """A part of the request was refused."""

    def answered(self, answer: CheckAnswer) -> None:
        """A check of the run has its answer."""

    def failed(self, error: BaseException) -> None:
        """A step ends with this error."""

    def step_done(self, run_id: str, step: str, done: StepResult) -> None:
        """A step has run; its events and evaluations follow."""

    def step_recorded(self, run_id: str, step: str) -> None:
        """Dagster has the events and evaluations of a step."""

    def result_of(self, run_id: str, step: str) -> StepResult | None:
        """The result of an earlier attempt whose events Dagster does not have; None: run the step."""
        return None


@dataclass(frozen=True, slots=True)
class RunFailure:
    """Why a run did not finish."""

    message: str
    """A paragraph for the user."""
    code: ExitCode
    """Exit code of the command: USAGE if the call was wrong, otherwise NOT_CHECKED."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The result of a run."""

    run_id: str
    changed: Mapping[str, tuple[str, ...]]
    """Partition keys that were materialized, by asset."""
    plans: Mapping[str, Outline] = field(default_factory=dict)
    """Plans that were made and not executed, by asset."""
    refused: tuple[Finding, ...] = ()
    """The refused parts of the request."""
    of_paths: tuple[Finding, ...] = ()
    """Findings about the source paths in this run."""
    answers: tuple[CheckAnswer, ...] = ()
    """Every check that the run answered."""
    written: Mapping[str, int] = field(default_factory=dict)
    """What the jobs of the run wrote: a number by the words for it, as in :data:`WRITTEN`."""
    failure: RunFailure | None = None

    @property
    def found_nothing_new(self) -> bool:
        """Whether the run changed nothing."""
        return self.failure is None and not any(self.changed.values()) and not self.written

    def failed(self, failure: RunFailure) -> RunOutcome:
        """The same with a failure."""
        return replace(self, failure=failure)


class ReportKeeper(RunListener):
    """Keeps the reports of jobs, so that a step can report what earlier rounds of its run did.

    It also keeps the result of a step until Dagster has its events. If recording them fails, the next attempt records
    this result: the step itself would find nothing new.
    """

    def __init__(self) -> None:
        self.reports: list[JobReport[Outline]] = []
        self._not_recorded: dict[tuple[str, str], StepResult] = {}

    def job_reported(self, report: JobReport[Outline]) -> None:
        """Keep the report."""
        self.reports.append(report)

    def reports_of(self, run_id: str, job: str) -> Sequence[JobReport[Outline]]:
        """Reports of a job in a run, so far."""
        return [report for report in self.reports if report.run_id == run_id and report.job == job]

    def step_done(self, run_id: str, step: str, done: StepResult) -> None:
        """Keep the result."""
        self._not_recorded[run_id, step] = done

    def step_recorded(self, run_id: str, step: str) -> None:
        """Forget the result."""
        self._not_recorded.pop((run_id, step), None)

    def result_of(self, run_id: str, step: str) -> StepResult | None:
        """The result of an attempt whose events Dagster does not have."""
        return self._not_recorded.get((run_id, step))


class CollectingListener(ReportKeeper):
    """Collects the results of one run.

    Args:
        announce: Gets each job before it is started; None without a terminal.
    """

    def __init__(self, announce: Announce | None = None) -> None:
        super().__init__()
        self._announce = announce
        self.plans: dict[str, Outline] = {}
        self.refusals: list[str] = []
        self.answers: list[CheckAnswer] = []
        self.error: BaseException | None = None
        """Error of the failed step; no later step begins."""

    def job_begins(self, config: JobConfig[Outline]) -> None:
        """Announce the job."""
        if self._announce is not None:
            self._announce(config)

    def planned(self, asset: str, plan: Outline) -> None:
        """Keep the plan."""
        self.plans[asset] = plan

    def refused(self, message: str) -> None:
        """Keep what was refused."""
        self.refusals.append(message)

    def answered(self, answer: CheckAnswer) -> None:
        """Keep the answer."""
        self.answers.append(answer)

    def failed(self, error: BaseException) -> None:
        """Keep the error."""
        self.error = error

    def outcome(self, run_id: str, changed: Mapping[str, tuple[str, ...]], failure: RunFailure | None) -> RunOutcome:
        """What the run did.

        Args:
            run_id: The run's identity.
            changed: Partition keys that were materialized, by asset.
            failure: Why the run did not finish; None: it finished.
        """
        return RunOutcome(
            run_id=run_id,
            changed=changed,
            plans=dict(self.plans),
            refused=tuple(found(REFUSED, message) for message in self.refusals),
            of_paths=path_findings(self.reports),
            answers=tuple(self.answers),
            written=_written(self.reports),
            failure=failure,
        )
