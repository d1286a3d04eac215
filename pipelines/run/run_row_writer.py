"""Records a run in the table ``runs`` of its lake, while its steps run.

A run that did work, or failed, gets one row, in one commit. The row of an intake is written before the last step
remembers the tables, so that the next run finds all tables as they were left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from logcore.logs.model.findings import Severity
from spark_jobs.contracts import JobReport
from spark_jobs.errors import JobError, UsageError, error_name
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake.view.open_findings import path_findings, source_damage, source_warnings, unread_source
from spark_jobs.lake.view.runs.run_ends import SOURCE_UNREAD, keep_run_end
from spark_jobs.lake.view.runs.run_rows import FAILED, SUCCEEDED, append_run, has_row, newest_run_of_each_job
from spark_jobs.lake.view.unfinished_run import UnfinishedRun
from spark_jobs.outlines import Outline

from .outcome import StepResult


def system_clock_ms() -> int:
    """The clock of this machine, epoch milliseconds."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class RunRowWriter:
    """Collects what a run did, and writes its row once.

    Attributes:
        lake: Path or address of the lake.
        so_far: What the run did so far.
        now_ms: Reads the clock, epoch milliseconds.
        is_kept: Whether other processes may continue the run, so that it is kept in the operator's home.
        known_error: Class of an error that was recorded already; a run that fails with it gets no row.
        seen: Digest of the listing of the sources before the run; None: not known.
        may_be_written: Whether an earlier attempt may have written the row, although its commit was not confirmed.
    """

    lake: str
    so_far: UnfinishedRun
    now_ms: Callable[[], int] = system_clock_ms
    is_kept: bool = False
    known_error: str | None = None
    seen: str | None = None
    may_be_written: bool = False
    _is_written: bool = False

    @contextmanager
    def timed(self, job: str) -> Iterator[Callable[[JobReport[Outline]], None]]:
        """Measure a job. Yields a function that takes its report."""
        begun = time.monotonic()
        reports: list[JobReport[Outline]] = []
        try:
            yield reports.append
        except Exception:
            self.so_far.took(job, _ms_since(begun))
            raise
        for report in reports:
            self.so_far.add(report, _ms_since(begun))

    def step_done(self, done: StepResult, read: Sequence[str] = ()) -> None:
        """Take over what a step found; ``read``: the sources that it read."""
        if self._is_written:
            return
        self.so_far.failed_checks += sum(
            not answer.passed and not answer.is_unanswered and answer.severity is Severity.ERROR
            for answer in done.answers
        )
        of_paths = path_findings(done.reports)
        self.so_far.unread = self.so_far.unread or unread_source(of_paths)
        if done.state is not None:
            if any(report.job == "ingest" for report in done.reports):
                logs = [log.row for log in done.state.logs]
                if not any((self.so_far.warned or {}).values()):
                    self.so_far.warned = source_warnings(self.lake, logs, of_paths, read)
                if not any((self.so_far.harmed or {}).values()):
                    self.so_far.harmed = source_damage(self.lake, logs, of_paths, read)
            self.so_far.saw(done.state)
        self._keep()

    def attempt_failed(self) -> None:
        """Keep what a step did that is tried again, maybe in another process."""
        self._keep()

    def succeeded(self) -> None:
        """Write the row of a run whose last step has ended, if it did work, could not read a source, or had another
        number of failed checks than the run of the newest row.

        Raises:
            JobError: The row cannot be written. What the run did is complete.
        """
        if self._is_written:
            return
        is_read = self.so_far.unread is None
        outcome, step, error = (SUCCEEDED, None, None) if is_read else (FAILED, "ingest", SOURCE_UNREAD)
        ended_ms, is_known = self._keep_end(error)
        if not self.so_far.did_work and (is_known or (is_read and self.so_far.failed_checks == self._failed_before())):
            self._is_written = not is_read  # the run fails now, and an earlier row says why
            return
        if not self.so_far.state:
            self.so_far.saw(read_state(self.lake))
        self._write(ended_ms, outcome, step, error)

    def _failed_before(self) -> int:
        """The number of failed checks that the newest row has; 0 if there is none, or the table cannot be read."""
        with suppress(JobError, OSError):  # harm to this table stops no run
            row = newest_run_of_each_job(self.lake, (self.so_far.job,)).get(self.so_far.job)
            return 0 if row is None else row.failed_checks
        return 0

    def failed(self, step: str, error: BaseException) -> None:
        """Write the row of a run that failed. If that is impossible too, the run has no row: its own error counts.

        Args:
            step: Name of the step.
            error: Only its class is recorded, or that a disk is full. Its text may have anything in it.
        """
        kind = error_name(error)
        if self._is_written:
            return
        ended_ms, _ = self._keep_end(kind)
        if kind == self.known_error:
            return
        with suppress(JobError, UsageError, OSError):
            self._write(ended_ms, FAILED, step, kind)

    def _keep_end(self, error: str | None) -> tuple[int, bool]:
        """Record the end in the home. Returns its time, and whether the run before failed in the same way."""
        ended_ms = max(self.now_ms(), self.so_far.started_ms)
        unread = self.so_far.unread if error == SOURCE_UNREAD else None
        said = self.so_far.warned, self.so_far.harmed
        is_plan = self.so_far.is_plan
        known = keep_run_end(self.lake, self.so_far.job, ended_ms, error, unread, self.seen, *said, is_plan=is_plan)
        return ended_ms, known

    def _keep(self) -> None:
        said = (*(self.so_far.warned or {}).values(), *(self.so_far.harmed or {}).values())
        if self.is_kept and (self.so_far.did_work or self.so_far.unread or any(said)):
            self.so_far.keep()

    def _write(self, ended_ms: int, outcome: str, step: str | None = None, error: str | None = None) -> None:
        row = self.so_far.row(outcome, ended_ms, step, error)
        if not (self.may_be_written and has_row(self.lake, row)):
            append_run(self.lake, row)
        self._is_written = True
        if self.is_kept:
            self.so_far.forget(system_clock_ms())


def _ms_since(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)
