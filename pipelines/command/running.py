"""Runs from the command line: first the steps, so that the data is readable early, then their record in Dagster.

Dagster takes a second until it is loaded. A thread loads it while the first tasks run in worker processes.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.exit_codes import ExitCode
from spark_jobs import launch
from spark_jobs.contracts import JobConfig, JobReport
from spark_jobs.errors import LakeRefused, NothingChosen, UsageError
from spark_jobs.lake.view.registered_lakes import lake_path
from spark_jobs.lake.view.unfinished_run import UnfinishedRun
from spark_jobs.launch import IntakeResults, JobListener
from spark_jobs.outlines import Outline, Outline_co
from spark_jobs.policies.policies_file import Policies

from ..errors.interrupts import is_interrupt
from ..errors.step_errors import sentence_of
from ..run.chains import CHAINS, INTAKE_JOB, MAINTENANCE_JOB
from ..run.direct import FinishedRun, outcome_of, run_steps
from ..run.outcome import RunFailure, RunOutcome
from ..run.run_request import RunRequest
from ..run.run_row_writer import RunRowWriter, system_clock_ms
from ..run.source_listing import listing_digest
from ..run.steps import Announce, Launcher, Run

if TYPE_CHECKING:
    from .dagster_history import DagsterHistory


class RunRecorder(Protocol):
    """Records runs whose steps have run."""

    def record(self, run: FinishedRun) -> None:
        """Record a run. Raises any error of what keeps it."""

    def close(self) -> None:
        """End recording."""


OpenHistory = Callable[[], RunRecorder]


@dataclass(frozen=True, slots=True)
class DirectLauncher:
    """Starts jobs in this process."""

    listener: JobListener | None = None
    """Gets what happens while a job runs; None: no listener."""

    def run(
        self, config: JobConfig[Outline_co], engine: str = "auto", results: IntakeResults | None = None
    ) -> JobReport[Outline_co]:
        """Run the job of this configuration. An empty plan starts nothing."""
        return launch.run(config, engine=engine, listener=self.listener, results=results)


class HistoryInBackground:
    """Dagster's history, opened in a thread from the first :meth:`begin` on; a context that closes it.

    Args:
        open_history: Opens it.
    """

    def __init__(self, open_history: OpenHistory) -> None:
        self._open = open_history
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._opened: Future[RunRecorder] | None = None

    def begin(self) -> None:
        """Begin to open it, once."""
        if self._opened is None:
            self._opened = self._thread.submit(self._open)

    def record(self, run: FinishedRun) -> RunFailure | None:
        """Wait until it is open, and report the steps of a run that have run.

        After a failure the next report opens it again: somebody may have repaired or replaced it.

        Returns:
            Why the report is not complete; None: it is.
        """
        self.begin()
        assert self._opened is not None
        opened = self._opened
        try:
            opened.result().record(run)
        except Exception as error:  # noqa: BLE001 - the run is complete, whatever Dagster does
            self._opened = None
            _close(opened)
            what = sentence_of(error, "of the report", run.run_id)
            message = f"The run {run.run_id} is complete, but Dagster could not record it: {what}"
            return RunFailure(message, ExitCode.NOT_CHECKED)
        return None

    def __enter__(self) -> HistoryInBackground:
        """Return it."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close it; without an open history nothing happens.

        After an error or an interrupt it does not wait for a history that is still being opened: that takes seconds,
        and the lease of the lake is held meanwhile. The thread of the history closes it.
        """
        self._thread.shutdown(wait=kind is None)
        if self._opened is None:
            return
        if self._opened.done():
            _close(self._opened)
        else:
            self._opened.add_done_callback(_close)


def _close(opened: Future[RunRecorder]) -> None:
    if opened.exception() is None:
        opened.result().close()


@dataclass(slots=True)
class Runner:
    """Runs chains of steps in this process and records each run in Dagster.

    Attributes:
        history: Where the runs are recorded.
        now_ms: The clock of runs whose request has none, epoch milliseconds.
        launcher: Starts the jobs.
        announce: Gets each job before it is started; None without a terminal.
        command: The command, as the table `runs` names it.
    """

    history: HistoryInBackground
    now_ms: int
    launcher: Launcher = field(default_factory=DirectLauncher)
    announce: Announce | None = None
    command: str = "run"

    def run(self, job: str, lake: str, request: RunRequest, policies: Policies) -> RunOutcome:
        """Run the chain of a job on ``lake`` once.

        Args:
            job: Name of Dagster's job.
            lake: Path or address of the lake.
            request: The options of the run.
            policies: Of the run.

        Raises:
            KeyboardInterrupt: The user interrupted the run from the terminal.
        """
        # Compile the workers' kernels now, or warn that it is impossible.
        is_chosen(Work.DECODE)
        lake = lake_path(lake)
        as_of_ms = self.now_ms if request.as_of_ms is None else request.as_of_ms
        chain, run_id = CHAINS[job], str(uuid.uuid4())
        self.history.begin()
        # Before the run: what grows while it works is none of it.
        seen = None if request.logs or job != INTAKE_JOB else listing_digest(request.sources)
        is_plan = job == MAINTENANCE_JOB and not request.apply
        so_far = UnfinishedRun(run_id, job, self.command, as_of_ms, system_clock_ms(), is_plan=is_plan)
        recorder = RunRowWriter(lake, so_far, seen=seen)
        run = Run(run_id, lake, as_of_ms, request, policies, self.launcher, recorder=recorder, announce=self.announce)
        with launch.intake(lake, request.engine) as results:
            finished = run_steps(chain, replace(run, results=results))
        if is_interrupt(finished.error):
            raise KeyboardInterrupt
        for step, error in finished.errors.items():
            # What is typed and refused is no failure of the lake's intake.
            is_refused = isinstance(error, (UsageError, LakeRefused)) and not request.is_registered(lake)
            if not (is_refused or isinstance(error, NothingChosen)):
                recorder.failed(step, error)
        problem = self.history.record(FinishedRun(job, run_id, lake, as_of_ms, finished))
        return replace(outcome_of(chain, run_id, finished), unrecorded=problem)


def open_dagster_history(folder: str) -> DagsterHistory:
    """Load Dagster and open the history in this folder."""
    from .dagster_history import DagsterHistory

    return DagsterHistory.open(folder)


def announcer() -> Announce | None:
    """Return a function that prints on the terminal which job begins; None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        return None
    terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w", buffering=1)

    def announce(config: JobConfig[Outline]) -> None:
        terminal.write(f"{os.path.basename(config.lake)}: {config.JOB} …\n")

    return announce
