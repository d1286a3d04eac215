"""The figures of a lake for Prometheus. Names, labels and units are a contract: docs/operations.md lists them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from logcore.logs.model.findings import Severity
from spark_jobs.lake.delta.tables.delta_log import Commit, newest_version, read_commit
from spark_jobs.lake.store import lease
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.lake.view.alarms import KINDS, problems_of, problems_of_files, run_problems
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake.view.log_state import LogState
from spark_jobs.lake.view.registered_lakes import read_registered
from spark_jobs.lake.view.runs.run_ends import run_ends
from spark_jobs.lake.view.runs.run_rows import JOBS, RunRow, newest_run_of_each_job
from spark_jobs.lake_commands.metrics.text_format import Metric, MetricSample

UP = "loglake_lake_up"
PROBLEM_KINDS = tuple(kind for kind in KINDS if kind != "lag")
"""Kinds of problems that are counted. Lag has a figure of its own, and the limit for it belongs to the alert."""

METRICS = (
    Metric(UP, "1 if the figures of the lake could be read, else 0."),
    Metric("loglake_lag_offsets", "Offsets that are archived and not published yet."),
    Metric("loglake_published_records", "Records that the table records has."),
    Metric("loglake_archived_bytes", "Bytes of the live segments in the archive."),
    Metric("loglake_log_end_offset", "The offset after the last archived one."),
    Metric("loglake_open_findings", "Open findings, by severity."),
    Metric("loglake_open_transactions", "Transactions that have not ended."),
    Metric(
        "loglake_oldest_open_transaction_age_seconds",
        "Age of the oldest open transaction; 0 if there is none. No value if its beginning is unknown.",
    ),
    Metric("loglake_problems", "What `alerts` reports, by kind, without lag."),
    Metric("loglake_last_run_commit_timestamp_seconds", "Time of the newest commit of a run, seconds since the epoch."),
    Metric(
        "loglake_last_run_commits_duration_seconds",
        "Time from the first to the last commit of the run that made the newest commit.",
    ),
    Metric("loglake_last_run_timestamp_seconds", "Time when the newest run ended that did work or failed, by job."),
    Metric("loglake_last_run_duration_seconds", "Time that this run took, by job."),
    Metric("loglake_last_run_succeeded", "1 if the newest run succeeded, 0 if it failed, by job."),
    Metric("loglake_last_success_age_seconds", "Time since a run succeeded, also one that found nothing, by job."),
    Metric("loglake_last_run_phase_duration_seconds", "Time of each phase of this run that had work, by job."),
    Metric("loglake_lease_held", "1 if a process works on the lake, else 0."),
)
"""All figures, in the order of the text."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """The run that made the newest commit of a lake. A run that found nothing new made none."""

    run_id: str
    begun_ms: int
    """Time of its first commit, epoch milliseconds."""
    ended_ms: int
    """Time of its last commit."""


def lake_samples(lake: str, name: str, now_ms: int) -> Iterator[MetricSample]:
    """Yield the figures of a lake. Nothing is written into it.

    Args:
        lake: Its path.
        name: The value of the label `lake`.
        now_ms: The clock, epoch milliseconds.

    Raises:
        JobError: The lake, or its store, cannot be read.
    """
    of_lake = (("lake", name),)
    state = read_state(lake)
    for log in state.logs:
        yield from _of_log(log, of_lake, now_ms)
    rows = newest_run_of_each_job(lake, JOBS)
    ends = run_ends(lake, rows)
    of_runs = run_problems(lake, ends[JOBS[0]], now_ms, read_registered(lake).policy.ingest)
    problems = (*problems_of(state, now_ms, None), *problems_of_files(lake, now_ms), *of_runs)
    kinds = Counter(problem.kind for problem in problems)
    for kind in PROBLEM_KINDS:
        yield MetricSample("loglake_problems", (*of_lake, ("kind", kind)), kinds[kind])
    last = last_run(lake)
    if last is not None:
        seconds = (last.ended_ms - last.begun_ms) / 1000
        yield MetricSample("loglake_last_run_commit_timestamp_seconds", of_lake, last.ended_ms / 1000)
        yield MetricSample("loglake_last_run_commits_duration_seconds", of_lake, seconds)
    for job, run in rows.items():
        yield from _of_run(run, (*of_lake, ("job", job)))
    for job, end in ends.items():
        labels = (*of_lake, ("job", job))
        if (end.succeeded_ms, end.failed_ms) != (None, None):
            yield MetricSample("loglake_last_run_succeeded", labels, not end.is_failing)
        if end.succeeded_ms is not None:
            age_s = max(now_ms - end.succeeded_ms, 0) / 1000
            yield MetricSample("loglake_last_success_age_seconds", labels, age_s)
    yield MetricSample("loglake_lease_held", of_lake, lease.is_held(lake, now_ms))
    yield MetricSample(UP, of_lake, 1)


def last_run(lake: str) -> LastRun | None:
    """Return the run of the newest commit, by the logs of all tables; None if no run made a commit.

    Raises:
        JobError: A table cannot be read.
    """
    newest = {name: found for name in TABLES if (found := _newest(lake, name)) is not None}
    if not newest:
        return None
    latest = max(newest.values(), key=_time)
    times = [_time(latest)]
    for name in newest:
        commit: Commit | None = newest[name]
        while commit is not None and commit.run_id == latest.run_id:
            times.append(_time(commit))
            commit = read_commit(lake, name, commit.version - 1) if commit.version else None
    return LastRun(latest.run_id or "", min(times), max(times))


def _of_run(run: RunRow, labels: tuple[tuple[str, str], ...]) -> Iterator[MetricSample]:
    yield MetricSample("loglake_last_run_timestamp_seconds", labels, run.ended_ms / 1000)
    yield MetricSample("loglake_last_run_duration_seconds", labels, run.duration_ms / 1000)
    for phase, took_ms in run.phases.items():
        yield MetricSample("loglake_last_run_phase_duration_seconds", (*labels, ("phase", phase)), took_ms / 1000)


def _of_log(log: LogState, of_lake: tuple[tuple[str, str], ...], now_ms: int) -> Iterator[MetricSample]:
    row = log.row
    labels = (
        *of_lake,
        ("topic", row.topic),
        ("partition", str(row.partition)),
        ("incarnation", str(row.incarnation)),
    )
    yield MetricSample("loglake_lag_offsets", labels, log.lag)
    yield MetricSample("loglake_published_records", labels, log.published_records)
    yield MetricSample("loglake_archived_bytes", labels, log.archive_bytes)
    yield MetricSample("loglake_log_end_offset", labels, row.next_offset)
    for severity in Severity:
        counted = log.findings_by_severity.get(severity, 0)
        yield MetricSample("loglake_open_findings", (*labels, ("severity", str(severity))), counted)
    yield MetricSample("loglake_open_transactions", labels, len(log.open_transactions))
    age_ms = log.open_transactions[0].age_ms(now_ms) if log.open_transactions else 0
    if age_ms is not None:
        yield MetricSample("loglake_oldest_open_transaction_age_seconds", labels, age_ms / 1000)


def _newest(lake: str, name: str) -> Commit | None:
    """Return the newest commit of a table that a run made; None if there is none."""
    version = newest_version(lake, name)
    while version is not None and version >= 0:
        commit = read_commit(lake, name, version)
        if commit is None or (commit.run_id is not None and commit.timestamp_ms is not None):
            return commit
        version -= 1
    return None


def _time(commit: Commit) -> int:
    return commit.timestamp_ms or 0
