"""What a step did: reports of its jobs, answers of checks, observations. And what a run did, for the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Finding
from spark_jobs.contracts import JobReport, LogChange
from spark_jobs.lake.view.decoded.topic_asset import TopicAsset
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.outlines import Outline

from ..metadata.values import Observation
from .check_definitions import CheckAnswer

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
    ("retention", "expired_rows"): "expired {} row{s}",
    ("compaction", "removed_records"): "removed {} record{s} by compaction",
    ("compaction", "replaced_segments"): "replaced {} segment{s} by cleaned ones",
    ("tidy_archive", "deleted_files"): "deleted {} archived file{s}",
    ("tidy_archive", "merged_segments"): "joined {} small segment{s}",
    ("rebuild_indexes", "files"): "wrote {} index file{s}",
    ("optimize", "merged_files"): "merged {} table file{s}",
    ("optimize", "removed_files"): "removed {} unused table file{s}",
}
"""Words for what a job wrote, by job and metric."""

_ADDED_UP = frozenset({"segments", "bytes", "batches", "records", "quarantined_bytes", "files"})
"""Figures of a log's change that rounds add up. Of the others the last round's counts."""


@dataclass(slots=True)
class StepResult:
    """What a step did."""

    reports: list[JobReport[Outline]] = field(default_factory=list)
    answers: list[CheckAnswer] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    """Observations to show although nothing changed."""
    state: LakeState | None = None
    """The lake after the step, if the step has read it."""
    plans: dict[str, Outline] = field(default_factory=dict)
    """Plans that the step made and was not allowed to execute, by asset."""
    refused: list[str] = field(default_factory=list)
    """Parts of the request that were refused: why."""
    topics: Sequence[TopicAsset] = ()
    """The topics whose tables the step writes."""

    @property
    def changes(self) -> dict[str, LogChange]:
        """The change of each log, by log key: of all rounds of the last job that changed it."""
        changes: dict[str, LogChange] = {}
        jobs: dict[str, str] = {}
        for report in self.reports:
            for change in report.changed:
                before = changes.get(change.log) if jobs.get(change.log) == report.job else None
                changes[change.log] = change if before is None else _joined(before, change)
                jobs[change.log] = report.job
        return changes


def _joined(before: LogChange, change: LogChange) -> LogChange:
    """One change of two of the same log by one job, the later one last."""
    metrics = dict(change.metrics)
    for name in _ADDED_UP & before.metrics.keys() & change.metrics.keys():
        metrics[name] = int(before.metrics[name] or 0) + int(change.metrics[name] or 0)
    if "start_offset" in before.metrics:
        metrics["start_offset"] = before.metrics["start_offset"]
    return replace(change, metrics=metrics)


def written_by(reports: Sequence[JobReport[Outline]]) -> dict[str, int]:
    """What jobs wrote: a number by the words for it, as in :data:`WRITTEN`."""
    counts = {
        words: sum(int(r.metrics.get(metric) or 0) for r in reports if r.job == job and r.metrics.get("applied", True))
        for (job, metric), words in WRITTEN.items()
    }
    return {words: count for words, count in counts.items() if count}


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
    unrecorded: RunFailure | None = None
    """Why Dagster does not show the run; it is complete all the same."""

    @property
    def found_nothing_new(self) -> bool:
        """Whether the run changed nothing."""
        return self.failure is None and not any(self.changed.values()) and not self.written
