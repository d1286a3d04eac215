"""``loglake metrics [LAKE...] [-o FILE]``: figures of lakes for Prometheus.

    loglake metrics LAKE
    loglake metrics -o /var/lib/node_exporter/loglake.prom

Without LAKE all lakes that are registered in the home. The file gets its name when it is complete, so that a reader
never sees a part of it. A lake that cannot be read has only the figure `loglake_lake_up 0`, and the others follow.
FILE is never in a lake or in a source.

Exit codes: 0 written; 3 a lake cannot be read, or the file cannot be written; 64 wrong usage.

The figures of a lake for Prometheus. Names, labels and units are a contract: docs/operations.md lists them.

Figures in the text format of Prometheus, version 0.0.4, as the textfile collector of node_exporter reads it.

Source: the page "Exposition formats" of Prometheus' documentation.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from logcore.cli.reading.arguments import add_lakes
from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Severity
from spark_jobs.errors import JobError, UsageError, guarded
from spark_jobs.lake.delta.tables.delta_log import Commit, newest_version, read_commit
from spark_jobs.lake.store import lease, storage
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.lake.view.alarms import KINDS, UNREAD_LAKE, problems_of, problems_of_files, run_problems
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake.view.log_state import LogState
from spark_jobs.lake.view.registered_lakes import chosen_lakes, home_folder, read_home, read_registered
from spark_jobs.lake.view.runs.run_ends import run_ends
from spark_jobs.lake.view.runs.run_rows import JOBS, RunRow, newest_run_of_each_job
from spark_jobs.lake.view.unread_sources import begin_looks
from spark_jobs.lake_commands.outcome import lake_at, refuse_inside


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One value of a metric."""

    metric: str
    """Name of the metric."""
    labels: tuple[tuple[str, str], ...]
    """Names and values of the labels, in the order of the text."""
    value: float


def as_text(metrics: Mapping[str, str], samples: Iterable[MetricSample]) -> str:
    """Return the text: all samples of a metric together, after its lines HELP and TYPE.

    A metric without samples has no lines.

    Args:
        metrics: What each metric is, by name, in the order of the text. All are gauges: each can fall as well as rise.
        samples: In any order; those of one metric stay in their order.

    Raises:
        KeyError: A sample is of no metric.
        ValueError: Two samples have the same metric and labels.
    """
    found: Mapping[str, dict[str, float]] = {name: {} for name in metrics}
    for sample in samples:
        series = _labels(sample.labels)
        if series in found[sample.metric]:
            raise ValueError(f"{sample.metric}{series} has two values")
        found[sample.metric][series] = sample.value
    lines: list[str] = []
    for name, meaning in metrics.items():
        if values := found[name]:
            help_text = meaning.replace("\\", "\\\\").replace("\n", "\\n")
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge"]
            lines += [f"{name}{labels} {_number(value)}" for labels, value in values.items()]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Sequence[tuple[str, str]]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}" if labels else ""


def _escaped(value: str) -> str:
    # A path may have bytes that are no text; the format is UTF-8.
    text = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


UP = "loglake_lake_up"
PROBLEM_KINDS = tuple(kind for kind in KINDS if kind not in ("lag", UNREAD_LAKE))
"""Kinds of problems that are counted. The others have figures of their own; the limit of lag belongs to the alert."""

METRICS: Mapping[str, str] = {
    UP: "1 if the figures of the lake could be read, else 0.",
    "loglake_lag_offsets": "Offsets that are archived and not published yet.",
    "loglake_published_records": "Records that the table records has.",
    "loglake_archived_bytes": "Bytes of the live segments in the archive.",
    "loglake_log_end_offset": "The offset after the last archived one.",
    "loglake_open_findings": "Open findings, by severity.",
    "loglake_open_transactions": "Transactions that have not ended.",
    "loglake_oldest_open_transaction_age_seconds": "Age of the oldest open transaction; 0 if there is none. "
    "No value if its beginning is unknown.",
    "loglake_problems": "What `alerts` reports, by kind, without lag and lakes that are down.",
    "loglake_last_run_commit_timestamp_seconds": "Time of the newest commit of a run, seconds since the epoch.",
    "loglake_last_run_commits_duration_seconds": "Time from the first to the last commit of the run that made "
    "the newest commit.",
    "loglake_last_run_timestamp_seconds": "Time when the newest run ended that did work or failed, by job.",
    "loglake_last_run_duration_seconds": "Time that this run took, by job.",
    "loglake_last_run_succeeded": "1 if the newest run succeeded, 0 if it failed, by job.",
    "loglake_last_success_age_seconds": "Time since a run succeeded, also one that found nothing, by job.",
    "loglake_last_run_phase_duration_seconds": "Time of each phase of this run that had work, by job.",
    "loglake_lease_held": "1 if a process works on the lake, else 0.",
}
"""What each figure is, with its unit, in the order of the text."""


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
    of_runs = list(run_problems(lake, ends[JOBS[0]], now_ms, read_registered(lake).policy.ingest))
    problems = (*problems_of(state, now_ms, None), *problems_of_files(lake, now_ms), *of_runs)
    kinds = Counter(problem.kind for problem in problems)
    for kind in PROBLEM_KINDS:
        yield MetricSample("loglake_problems", (*of_lake, ("kind", kind)), kinds[kind])
    times_ms = last_run_ms(lake)
    if times_ms:
        last_ms = max(times_ms)
        yield MetricSample("loglake_last_run_commit_timestamp_seconds", of_lake, last_ms / 1000)
        yield MetricSample("loglake_last_run_commits_duration_seconds", of_lake, (last_ms - min(times_ms)) / 1000)
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


def last_run_ms(lake: str) -> list[int]:
    """Return the times of the commits of the run that made the newest one, epoch milliseconds; none without a run.

    They are read from the logs of all tables. A run that found nothing new made no commit.

    Raises:
        JobError: A table cannot be read.
    """
    newest = {name: found for name in TABLES if (found := _newest(lake, name)) is not None}
    if not newest:
        return []
    latest = max(newest.values(), key=_time)
    times = [_time(latest)]
    for name in newest:
        commit: Commit | None = newest[name]
        while commit is not None and commit.run_id == latest.run_id:
            times.append(_time(commit))
            commit = read_commit(lake, name, commit.version - 1) if commit.version else None
    return times


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


def metrics_command(parser: argparse.ArgumentParser) -> None:
    """``loglake metrics``."""
    parser.description = (
        "Print figures of lakes in the text format of Prometheus: lag, records, bytes, findings, open "
        "transactions, the last run and the lease."
    )
    add_lakes(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write FILE, such as loglake.prom; it is replaced in one step"
    )
    parser.set_defaults(func=guarded(_write))


def _write(options: argparse.Namespace) -> int:

    if options.output is not None and storage.is_remote(options.output):
        raise UsageError("FILE must be on a local disk.")
    home = chosen_lakes(options.lakes)
    sys.stderr.writelines(f"{note}\n" for note in home.notes)
    # Lakes that are not registered have the name of their folder, which another one may have too.
    names = Counter(lake.name for lake in home.lakes)
    lakes = [(lake.path, lake.name if names[lake.name] == 1 else lake.path) for lake in home.lakes]
    if options.output is not None:
        registered = [lake.path for lake in read_home(home_folder()).lakes]
        refuse_inside(options.output, [*(path for path, _ in lakes), *registered])
    code, samples = _samples(lakes, options.now_ms)
    if home.broken:
        code = ExitCode.NOT_CHECKED
    text = as_text(METRICS, samples)
    if options.output is None:
        sys.stdout.write(text)
    else:
        storage.put(storage.absolute(options.output), text.encode())
    return code


def _samples(lakes: Sequence[tuple[str, str]], now_ms: int) -> tuple[ExitCode, list[Any]]:
    """Return the figures of lakes, and the exit code."""
    from logcore.storage.discovery import shown

    code, samples = ExitCode.CLEAN, []
    begin_looks(path for path, _ in lakes)
    for path, name in lakes:
        try:
            found = list(lake_samples(lake_at(path), name, now_ms))
            as_text(METRICS, found)  # refuses two values of one figure
        except (JobError, UsageError, OSError) as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - other lakes have figures; the text may have anything in it
            problem = f"{shown(path)}: the figures cannot be read ({type(error).__name__}); see `loglake verify`."
        else:
            samples += found
            continue
        sys.stderr.write(f"error: {problem}\n")
        samples.append(MetricSample(UP, (("lake", name),), 0))
        code = ExitCode.NOT_CHECKED
    return code, samples
