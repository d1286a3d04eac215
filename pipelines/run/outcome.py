"""What a run did, for the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Finding
from spark_jobs.contracts import JobReport
from spark_jobs.outlines import Outline

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
