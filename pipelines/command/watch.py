"""Executes ``loglake watch``: rounds of the same steps as ``loglake run``, in a process that stays.

    look     a digest of the source's listing; a round follows if it changed, or if the last round failed
    again    once a minute at most: offsets that only remote storage has, and files that could not be copied
    round    the steps of an intake, with the lease of the lake for the round only; `cluster` once a minute at most
    merge    after many rounds that published, small table files are merged

A round that fails is one line on stderr; the next one tries again, later each time, at most a minute later. The same
error is not printed twice in a row. A log that is damaged or stops is one line too, and the other logs go on. Once a
minute at most, the rounds since then are reported to Dagster as one run.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from logcore.errors import LogError
from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Severity
from logcore.logs.model.offset_ledger import OffsetState
from spark_jobs import launch
from spark_jobs.contracts import ClusterConfig, OptimizeConfig, TidyArchiveConfig
from spark_jobs.errors import JobError, LeaseHeld, UsageError, error_name
from spark_jobs.lake.view.alarms import problems_of
from spark_jobs.lake.view.lake_state import LakeState, read_state
from spark_jobs.lake.view.open_findings import path_findings
from spark_jobs.lake.view.registered_lakes import dagster_home, ingest_commands
from spark_jobs.lake.view.runs.run_ends import keep_run_end
from spark_jobs.lake.view.unfinished_run import UnfinishedRun
from spark_jobs.launch import IntakeResults
from spark_jobs.policies.policies_file import NO_POLICIES
from spark_jobs.prestart import start_workers

from ..errors.interrupts import stopped_by_signals
from ..run.chains import INTAKE, INTAKE_JOB, MAINTENANCE_JOB
from ..run.direct import FinishedRun, FinishedSteps, run_steps
from ..run.outcome import RunFailure, StepResult
from ..run.run_request import RunRequest
from ..run.run_row_writer import RunRowWriter
from ..run.source_listing import listing_digest
from ..run.steps import Launcher, Run
from .history import prepare_history
from .progress_lines import ProgressLines
from .running import DirectLauncher, HistoryInBackground, open_dagster_history

ROUND_ERRORS = (JobError, UsageError, LogError, OSError)
"""Errors that end a round, and not the watch."""
TIDY_ROUNDS = 50
"""Rounds with new rows after which small files are merged. So a table has at most some twice as many live files."""
VACUUM_MS = 3_600_000
"""Time between two searches for files of tables that no version names: they list all files."""
SMALL_SLICE_BYTES = 4 << 20
"""Slices below this are joined. Growth that makes larger ones in a round does not need it."""
MOST_WAIT_S = 60.0
"""The longest wait between two tries after failures."""
MINUTE_MS = 60_000
"""Least time between two rounds that write the tables of the cluster, because internal topics are read from their
beginning; between two rounds that a source did not ask for, which list remote storage and try unreadable files; between
two reports to Dagster; and between two records that there was nothing to do.
"""
SHARE = 20
"""After such a step or round the next one waits this many times as long as it took."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a round did."""

    records: int = 0
    logs: int = 0
    lag: int = 0
    """Offsets from the frontiers to the ends of the logs."""
    seconds: float = 0.0
    error: str | None = None
    """Why it did not finish; None: it did."""
    is_full: bool = False
    """Whether it took as much as a round may take, so that the next one has more to do."""

    @property
    def line(self) -> str:
        """One line for a person."""
        what = f"{self.records:,} records of {self.logs:,} logs"
        return f"published {what} in {self.seconds:.1f} s, lag {self.lag:,} offsets"


@dataclass(slots=True)
class Watch:
    """Publishes growth of sources into a lake until it is stopped.

    Attributes:
        lake: Absolute path or address of the lake.
        request: The options of each round.
        now_ms: Reads the clock, epoch milliseconds. A clock that steps back is ignored until it is ahead again.
        say: Gets a line for a person.
        complain: Gets a line about an error.
        launcher: Starts the jobs.
        interval_s: Seconds from one look to the next.
        intake: Encloses the jobs of a round, which hand results to one another.
        record: Reports a run to Dagster, and returns why that is not complete; None: nothing is reported.
    """

    lake: str
    request: RunRequest
    now_ms: Callable[[], int]
    say: Callable[[str], None]
    complain: Callable[[str], None]
    launcher: Launcher = field(default_factory=DirectLauncher)
    interval_s: float = 1.0
    intake: Callable[[], AbstractContextManager[IntakeResults | None]] = nullcontext
    record: Callable[[FinishedRun], RunFailure | None] | None = None
    _clock_ms: int = 0
    _is_registered: bool = False
    _seen: str | None = None
    _failures: int = 0
    _last_error: str | None = None
    _rounds_since_tidy: int = 0
    _vacuumed_ms: int = 0
    _problems: frozenset[tuple[str, str]] = frozenset()
    _is_full: bool = False
    _cluster_due_ms: int = 0
    _cluster_waits: bool = False
    """Whether the source has changed since the last round that wrote the tables of the cluster."""
    _again_ms: int | None = None
    """When a round follows also if no source changes; None: nothing waits for that."""
    _rested_ms: int = 0
    """When a look that found nothing was recorded last."""
    _recorded_error: str | None = None
    """Class of the error in the last row of this watch in `runs`; None: that run succeeded."""
    _unreported: FinishedRun | None = None
    """The rounds since the last report."""
    _report_due_ms: int = 0
    _last_unreported: str | None = None
    """Why the last report failed, without the id of its run; None: it succeeded."""

    def run(self, stop: threading.Event) -> None:
        """Look and publish until ``stop`` is set; a round that has begun ends first."""
        while not stop.is_set():
            made = self.look()
            if made is not None and made.error is None and made.records:
                self.say(made.line)
            if self.now_ms() >= self._report_due_ms:
                self.report()
            stop.wait(self.wait_s)
        self.report()

    def report(self) -> None:
        """Report the rounds since the last report as one run."""
        rounds, self._unreported = self._unreported, None
        if self.record is None or rounds is None:
            return
        self._report_due_ms = self.now_ms() + MINUTE_MS
        problem = self.record(rounds)
        before, self._last_unreported = self._last_unreported, None
        if problem is not None:
            self._last_unreported = problem.message.replace(rounds.run_id, "")
            if self._last_unreported != before:
                self.complain(problem.message)

    @property
    def wait_s(self) -> float:
        """Seconds until the next look; twice as long after each failure in a row. A full round is followed at once."""
        if self._is_full:
            return 0.0
        doubled: float = self.interval_s * 2 ** min(self._failures, 16)
        return min(doubled, max(MOST_WAIT_S, self.interval_s))

    def look(self) -> Round | None:
        """Run a round if the listing of the sources changed, the last round failed or was full, or one is due.

        Returns:
            What it did; None: there was nothing to do.
        """
        listing = listing_digest([*self.request.sources, *self.request.fill_from])
        is_due = self._cluster_waits and self.now_ms() >= self._cluster_due_ms
        is_due |= self._again_ms is not None and self.now_ms() >= self._again_ms
        if listing == self._seen and not self._failures and not self._is_full and not is_due:
            if self.now_ms() - self._rested_ms >= MINUTE_MS:
                self._rested_ms = self.now_ms()
                keep_run_end(self.lake, INTAKE_JOB, self._rested_ms)
            return None
        made = self.round(listing)
        self._is_full = made.is_full
        if made.error is None:
            if self._last_error is not None:
                self.say("going on")
            self._failures, self._last_error, self._seen = 0, None, listing
            return made
        self._failures += 1
        if made.error != self._last_error:
            self.complain(made.error)
        self._last_error = made.error
        return made

    def round(self, seen: str | None = None) -> Round:
        """Run all steps once and return what they did. Errors of ours are returned, not raised.

        Args:
            seen: Digest of the listing of the sources before the round; None: not known.
        """
        begun = time.monotonic()
        self._clock_ms = max(self._clock_ms, self.now_ms())
        run = replace(self._begin(INTAKE_JOB, seen), follows_cluster=self._clock_ms >= self._cluster_due_ms)
        try:
            run = self._with_policies(run)
            again = ingest_commands(self.lake, [self.request.intake]) if self.request.sources else ""
            with launch.open_lake(self.lake, "loglake watch", again):
                sources = launch.sources_of_logs(self.lake) if self.request.move_source else set()
                with self.intake() as results:
                    finished = run_steps(INTAKE, replace(run, results=results))
                before = self._unreported
                rounds = finished if before is None else finished.after(before.steps)
                self._unreported = FinishedRun(INTAKE_JOB, run.run_id, self.lake, run.as_of_ms, rounds)
                self._plan_cluster(run, finished)
                for step, error in finished.errors.items():
                    self._record_failure(run, step, error)
                    raise error
                self._recorded_error = None
                if not self._is_registered or self.request.move_source:  # a later round may move what one refused
                    for intake in self.request.to_register:
                        launch.register(self.lake, intake, sources)
                    self._is_registered = True
                published = [report for report in run.reports if report.job == "publish"]
                records = sum(int(report.metrics.get("records") or 0) for report in published)
                self._tidy(records)
            state = read_state(self.lake)
            self._plan_another_try(run, state, time.monotonic() - begun)
            self._say_problems(state)
            errors = [f for f in path_findings(run.reports) if f.severity is Severity.ERROR]
        except LeaseHeld as error:
            return Round(error=f"waiting: {error}")
        except ROUND_ERRORS as error:
            return Round(error=f"error: {error}")
        if errors:  # a source is away; the others were read
            return Round(error=f"error: {errors[0].message}")
        logs = len({change.log for report in published for change in report.changed})
        is_full = any(report.left for report in run.reports)
        return Round(records, logs, sum(log.lag for log in state.logs), time.monotonic() - begun, is_full=is_full)

    def _plan_cluster(self, run: Run, finished: FinishedSteps) -> None:
        """Decide when the next round writes the tables of the cluster."""
        if not run.follows_cluster:
            self._cluster_waits = True
            return
        self._cluster_waits = False
        done = finished.results.get(ClusterConfig.JOB)
        if done is not None and done.reports:  # otherwise there are no internal topics
            self._cluster_due_ms = self._clock_ms + max(MINUTE_MS, SHARE * finished.took_ms[ClusterConfig.JOB])

    def _plan_another_try(self, run: Run, state: LakeState, took_s: float) -> None:
        """Decide when a round follows also if no source changes: remote storage or a file may be readable later."""
        waits = any(log.row.stopped_file is not None for log in state.logs)
        if not waits and any(OffsetState.REMOTE in log.offsets_by_state for log in state.logs):
            waits = bool(run.policies.lake.remote) or any(intake.remote for intake in run.intakes)
        delay_ms = max(MINUTE_MS, SHARE * round(took_s * 1000))
        self._again_ms = self._clock_ms + delay_ms if waits else None

    def _begin(self, job: str, seen: str | None = None) -> Run:
        """A run of this watch with an identity of its own."""
        run_id, as_of_ms, begun = str(uuid.uuid4()), self._clock_ms, time.monotonic()

        def now_ms() -> int:
            return as_of_ms + round((time.monotonic() - begun) * 1000)

        so_far = UnfinishedRun(run_id, job, "watch", as_of_ms, now_ms())
        return Run(
            run_id,
            self.lake,
            as_of_ms,
            self.request,
            NO_POLICIES,
            self.launcher,
            is_one_round=True,
            recorder=RunRowWriter(self.lake, so_far, now_ms, known_error=self._recorded_error, seen=seen),
        )

    def _with_policies(self, run: Run) -> Run:
        """The run with the policies that the file has now."""
        try:
            return replace(run, policies=self.request.policies_of(self.lake))
        except UsageError as error:
            self._record_failure(run, INTAKE[0].name, error)
            raise

    def _record_failure(self, run: Run, step: str, error: BaseException) -> None:
        """Write a row for the first round that fails with this error. The next rounds try the same again and again."""
        if run.recorder is not None:
            run.recorder.failed(step, error)
        self._recorded_error = error_name(error)

    def _say_problems(self, state: LakeState) -> None:
        """Print each problem of a log once: damage, a log that stopped, a transaction that hangs."""
        problems = {(each.kind, each.place): each for each in problems_of(state, self._clock_ms, None)}
        for key, problem in problems.items():
            if key not in self._problems:
                self.complain(f"{problem.kind}: {problem.place}: {problem.what}")
        self._problems = frozenset(problems)

    def _tidy(self, records: int) -> None:
        """Merge small files after many rounds that published. Rounds that did not publish leave none.

        If slices cannot be joined, the small files of tables are merged all the same. The first error is raised then.
        """
        self._rounds_since_tidy += bool(records)
        if self._rounds_since_tidy < TIDY_ROUNDS:
            return
        self._rounds_since_tidy = 0
        run = self._with_policies(self._begin(MAINTENANCE_JOB))
        is_due = self._clock_ms - self._vacuumed_ms >= VACUUM_MS
        errors: list[Exception] = []
        for config in (
            TidyArchiveConfig(
                self.lake,
                run.run_id,
                self._clock_ms,
                run.policies,
                apply=True,
                only_join=True,
                small_bytes=SMALL_SLICE_BYTES,
            ),
            OptimizeConfig(self.lake, run.run_id, self._clock_ms, apply=True, policies=run.policies, vacuum=is_due),
        ):
            try:
                run.start(config)
            except ROUND_ERRORS as error:
                self._record_failure(run, config.JOB, error)
                errors.append(error)
        if errors:
            raise errors[0]
        run.step_done(StepResult(), is_last=True)
        if is_due:
            self._vacuumed_ms = self._clock_ms


def watch_lake(lake: str, request: RunRequest, interval_s: float) -> int:
    """Watch until SIGTERM or SIGINT; the round that runs then is finished.

    Args:
        lake: Absolute path or address of the lake.
        request: The options of each round.
        interval_s: Seconds from one look to the next.

    Returns:
        The exit code: CLEAN.
    """
    beside = (*request.fill_from, *request.remote)
    launch.check_run(lake, request.sources, beside, request.policies_of(lake), request.engine, request.selection)
    history = dagster_home()
    prepare_history(history, lake)
    start_workers(request.engine)
    with (
        stopped_by_signals(twice_ends=True) as stop,
        HistoryInBackground(lambda: open_dagster_history(history)) as dagster,
    ):
        dagster.begin()
        Watch(
            lake,
            request,
            lambda: time.time_ns() // 1_000_000,
            lambda text: print(text, flush=True),
            lambda text: print(text, file=sys.stderr, flush=True),
            DirectLauncher(ProgressLines(sys.stderr)),
            interval_s,
            lambda: launch.intake(lake, request.engine),
            dagster.record,
        ).run(stop)
    return ExitCode.CLEAN
