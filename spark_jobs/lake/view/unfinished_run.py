"""What a run did so far, until its row is written.

The steps of a run in Dagster may have a process each. So what they did is kept in the operator's home, in
``<home>/unfinished_runs/<run id>.json``, until the last step writes the row. The file has figures and names only.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from logcore.logs.model.findings import Severity
from spark_jobs.contracts import JobReport
from spark_jobs.lake.setup import registry
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import PHASES
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.lake.view.runs.run_rows import TABLE, LogOffsets, RunRow
from spark_jobs.outlines import OptimizeOutline, Outline

FOLDER = "unfinished_runs"
OF_THE_LAKE = (
    "findings_error",
    "findings_warning",
    "findings_info",
    "lag_offsets",
    "open_transactions",
    "oldest_open_transaction_age_ms",
)
"""Columns about the whole lake, not about what the run did."""
_COLUMNS = {each.name for each in fields(RunRow)} - {"phases", "logs"}
"""Columns that have the names of fields here, among others."""
KEPT_MS = 7 * 86_400_000
"""Time after which the file of a run that was killed is removed."""


@dataclass(slots=True)
class UnfinishedRun:
    """Figures of a run, added up job by job."""

    run_id: str
    job: str
    started_by: str
    as_of_ms: int
    started_ms: int
    phases: dict[str, int] = field(default_factory=dict)
    """Milliseconds of each job that had work."""
    changed: list[str] = field(default_factory=list)
    """Keys of the logs that changed, each once."""
    engine: str | None = None
    segments: int = 0
    bytes: int = 0
    records: int = 0
    deleted_bytes: int = 0
    failed_checks: int = 0
    state: dict[str, int | None] = field(default_factory=dict)
    """Columns about the whole lake, after the last step that read it."""
    logs: list[tuple[str, int, int, int | None, int]] | None = None
    """Of each changed log the values of ``LogOffsets``, after that step."""
    wrote: bool = False
    """Whether it wrote something without a job."""
    is_plan: bool = False
    """Whether it only plans."""
    unread: str | None = None
    """Which source could not be read, and why."""
    warned: dict[str, str] | None = None
    """Warnings about source paths, by source; None: it did not look at them."""
    harmed: dict[str, str] | None = None
    """Damage at source paths; None: the same."""

    @property
    def did_work(self) -> bool:
        """Whether a job of the run had work, or the run wrote something else."""
        return bool(self.phases) or self.wrote

    def add(self, report: JobReport[Outline], took_ms: int) -> None:
        """Add a job that has ended; nothing if it had no work."""
        if not had_work(report):
            return
        self.took(report.job, took_ms)
        self.changed = list(dict.fromkeys([*self.changed, *(change.log for change in report.changed)]))
        if report.engine:
            self.engine = report.engine.split(":")[0]
        if report.job == "ingest":
            self.segments += _sum(report, "segments")
            self.bytes += _sum(report, "bytes")
        elif report.job in ("publish", "replace"):
            self.records += _sum(report, "records")
        else:
            self.deleted_bytes += sum(int(report.metrics.get(name) or 0) for name in ("deleted_bytes", "removed_bytes"))

    def took(self, job: str, took_ms: int) -> None:
        """Add the time of a job; its rounds are added up."""
        if job in PHASES:
            self.phases[job] = self.phases.get(job, 0) + took_ms

    def saw(self, state: LakeState) -> None:
        """Take over how the whole lake is now."""
        changed = set(self.changed)
        self.logs = [
            LogOffsets(
                log.log,
                log.row.source_log_start_offset,
                log.last_stable_offset,
                log.row.high_watermark,
                log.row.next_offset,
            )
            for log in state.logs
            if log.log in changed
        ]
        first = [log.open_transactions[0] for log in state.logs if log.open_transactions]
        ages = [age for each in first if (age := each.age_ms(self.as_of_ms)) is not None]
        self.state = {
            "lag_offsets": sum(log.lag for log in state.logs),
            "open_transactions": sum(len(log.open_transactions) for log in state.logs),
            "oldest_open_transaction_age_ms": max(ages, default=None),
        }
        self.state |= {f"findings_{severity}": state.open_findings.get(severity, 0) for severity in Severity}

    def row(self, outcome: str, ended_ms: int, failed_step: str | None = None, error: str | None = None) -> RunRow:
        """The row of the run, which ends now.

        Args:
            outcome: ``succeeded`` or ``failed``.
            ended_ms: The clock.
            failed_step: The step that failed.
            error: Class of its error.
        """
        done: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self) if each.name in _COLUMNS}
        done |= {name: self.state.get(name) for name in OF_THE_LAKE}
        return RunRow(
            **done,
            outcome=outcome,
            failed_step=failed_step,
            error=error,
            changed_logs=len(self.changed),
            ended_ms=max(ended_ms, self.started_ms),
            phases=dict(self.phases),
            logs=None if self.logs is None else [LogOffsets(*each) for each in self.logs],
        )

    # --- in the operator's home ---------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Keep what the run did so far.

        Raises:
            JobError: The home cannot be written.
        """
        registry.put_in_home(_file(self.run_id), json.dumps(asdict(self)).encode())

    def forget(self, now_ms: int) -> None:
        """Remove the file of this run, and files of runs that were killed long ago."""
        folder = os.path.dirname(_file(self.run_id))
        with suppress(OSError):
            for entry in os.scandir(folder):
                is_old = now_ms - entry.stat().st_mtime_ns // 1_000_000 > KEPT_MS
                if is_old or entry.path == _file(self.run_id):
                    os.remove(entry.path)

    @classmethod
    def kept(cls, run_id: str) -> UnfinishedRun | None:
        """What earlier steps of a run kept; None if there is nothing, or it is not what was written."""
        try:
            found = cls(**json.loads(storage.read(_file(run_id))))
        except (OSError, ValueError, TypeError):
            return None
        return found if found.run_id == run_id else None


def had_work(report: JobReport[Outline]) -> bool:
    """Whether a job did something. A plan that was not applied, and upkeep of the table `runs` alone, are no work."""
    if not report.metrics.get("applied", True):
        return False
    counted = any(value for name, value in report.metrics.items() if name not in ("applied", "waiting"))
    return bool(report.changed or counted) and not _is_upkeep_of_runs(report)


def _is_upkeep_of_runs(report: JobReport[Outline]) -> bool:
    """Whether `optimize` touched only the table `runs`. Otherwise each night would have work because of its own row."""
    plan = report.plan
    if not isinstance(plan, OptimizeOutline) or report.changed:
        return False
    touched = {*(each.table for each in plan.merges), *(each.table for each in plan.vacuum.files), *plan.checkpoints}
    return touched == {TABLE}


def _sum(report: JobReport[Outline], name: str) -> int:
    return sum(int(change.metrics.get(name) or 0) for change in report.changed)


def _file(run_id: str) -> str:
    return os.path.join(registry.home(), FOLDER, f"{os.path.basename(run_id)}.json")
