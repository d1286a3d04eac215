"""Records a run in the table ``runs`` of its lake, while its steps run.

A run that did work, or failed, gets one row, in one commit. The row of an intake is written before the last step
remembers the tables, so that the next run finds all tables as they were left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pipelines.run.step_result import StepResult
from spark_jobs.contracts import JobReport
from spark_jobs.lake.errors import JobError, UsageError
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake.view.runs.run_rows import FAILED, SUCCEEDED, append_run, has_row
from spark_jobs.lake.view.runs.unfinished_run import UnfinishedRun


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
        may_be_written: Whether an earlier attempt may have written the row, although its commit was not confirmed.
    """

    lake: str
    so_far: UnfinishedRun
    now_ms: Callable[[], int] = system_clock_ms
    is_kept: bool = False
    known_error: str | None = None
    may_be_written: bool = False
    _is_written: bool = False

    @contextmanager
    def timed(self, job: str) -> Iterator[Callable[[JobReport], None]]:
        """Measure a job. Yields a function that takes its report."""
        begun = time.monotonic()
        reports: list[JobReport] = []
        try:
            yield reports.append
        except Exception:
            self.so_far.took(job, _ms_since(begun))
            raise
        for report in reports:
            self.so_far.add(report, _ms_since(begun))

    def step_done(self, done: StepResult) -> None:
        """Take over what a step found."""
        if self._is_written:
            return
        self.so_far.failed_checks += sum(not answer.passed and not answer.is_unanswered for answer in done.answers)
        if done.state is not None:
            self.so_far.saw(done.state)
        self._keep()

    def attempt_failed(self) -> None:
        """Keep what a step did that is tried again, maybe in another process."""
        self._keep()

    def succeeded(self) -> None:
        """Write the row of a run whose last step has ended, if it did work.

        Raises:
            JobError: The row cannot be written. What the run did is complete.
        """
        if self._is_written or not self.so_far.did_work:
            return
        if not self.so_far.state:
            self.so_far.saw(read_state(self.lake))
        self._write(SUCCEEDED)

    def failed(self, step: str, error: BaseException) -> None:
        """Write the row of a run that failed. If that is impossible too, the run has no row: its own error counts.

        Args:
            step: Name of the step.
            error: Only its class is recorded. Its text may have anything in it.
        """
        kind = type(error).__name__
        if self._is_written or kind == self.known_error:
            return
        with suppress(JobError, UsageError, OSError):
            self._write(FAILED, step, kind)

    def _keep(self) -> None:
        if self.is_kept and self.so_far.did_work:
            self.so_far.keep()

    def _write(self, outcome: str, step: str | None = None, error: str | None = None) -> None:
        row = self.so_far.row(outcome, self.now_ms(), step, error)
        if not (self.may_be_written and has_row(self.lake, row)):
            append_run(self.lake, row)
        self._is_written = True
        if self.is_kept:
            self.so_far.forget(system_clock_ms())


def _ms_since(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)
