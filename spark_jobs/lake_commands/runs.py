"""``loglake runs LAKE``: the latest runs of a lake, from its table ``runs``.

    loglake runs LAKE
    loglake runs LAKE --since 2026-03-01T18:00:00Z --job maintenance
    loglake runs LAKE --last 1 --format jsonl

The newest run is first. A run that found nothing to do has no row, nor has one that was killed. The newest failure of a
job without a row is a line before the table. A jsonl line has the
columns of the table but `logs`, in their order and with their names, times in epoch milliseconds; docs/tables.md says
what they mean. Only reads, without a JVM and without Dagster.

Exit codes: 0 shown, also if a run failed; 3 the lake cannot be read; 64 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from logcore.cli.output.aligned_table import aligned_table
from logcore.cli.output.record_lines import json_line
from logcore.cli.reading.arguments import natural, time_ms
from logcore.exit_codes import ExitCode
from logcore.texts import shown
from spark_jobs.errors import guarded
from spark_jobs.lake_commands.outcome import lake_at

if TYPE_CHECKING:
    from spark_jobs.lake.view.runs.run_rows import RunRow

JOB_NAMES = ("intake", "maintenance", "decode", "latest", "cluster", "withdraw", "repair")
SHOWN = 20
"""Runs that are shown without ``--last`` and ``--since``."""


def runs_command(parser: argparse.ArgumentParser) -> None:
    """``loglake runs LAKE``."""
    parser.description = (
        "Print the latest runs of a lake that did work or failed, the newest first: outcome, figures "
        "and the time of each phase. Only reads."
    )
    parser.add_argument("lake", metavar="LAKE", help="a lake: a directory, or s3://bucket/prefix")
    parser.add_argument("--last", type=natural, metavar="N", help=f"at most N runs; default: {SHOWN}, with --since all")
    parser.add_argument("--since", type=time_ms, metavar="TIME", help="only runs that began at this time or later")
    parser.add_argument("--job", choices=JOB_NAMES, help="only runs of this job")
    parser.add_argument("--failed", action="store_true", help="only runs that failed, or had failed checks")
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.set_defaults(func=guarded(_show))


def _show(options: argparse.Namespace) -> int:
    from spark_jobs.lake.view.runs.run_ends import killed_run
    from spark_jobs.lake.view.runs.run_rows import FAILED, newest_runs

    lake = lake_at(options.lake)
    most = options.last if options.last is not None or options.since is not None else SHOWN

    def is_wanted(run: RunRow) -> bool:
        is_failed = run.outcome == FAILED or run.failed_checks > 0
        return options.job in (None, run.job) and (not options.failed or is_failed)

    found = newest_runs(lake, most, options.since, is_wanted)
    if options.format == "jsonl":
        sys.stdout.writelines(json_line(run.columns) for run in found)
        return ExitCode.CLEAN
    sys.stdout.writelines(f"{shown(line)}\n" for line in _without_row(lake, options))
    if found:
        sys.stdout.writelines(f"{shown(line)}\n" for line in _text(found))
    else:
        sys.stdout.write("no run of this kind did work or failed\n")
    if options.format == "text" and (killed := killed_run(lake, options.now_ms)) is not None:
        sys.stdout.write(f"{shown(killed)}\n")
    return ExitCode.CLEAN


def _without_row(lake: str, options: argparse.Namespace) -> Iterator[str]:
    """The newest failure of each job, if it changed nothing: the run did not begin, or failed as the one before."""
    from spark_jobs.lake.view.runs.run_ends import run_ends
    from spark_jobs.lake.view.runs.run_rows import JOBS, newest_run_of_each_job

    rows = newest_run_of_each_job(lake, JOBS)
    for job, ends in run_ends(lake, rows).items():
        is_wanted = options.job in (None, job) and (ends.failed_ms or 0) >= (options.since or 0)
        if is_wanted and ends.is_failing and (job not in rows or rows[job].ended_ms != ends.failed_ms):
            why = f"{ends.error}: {ends.unread}" if ends.unread else ends.error
            yield f"{_time(ends.failed_ms or 0)}  {job}  failed and changed nothing, so it has no row: {why}"


def _text(runs: Sequence[RunRow]) -> Iterator[str]:
    """A table of the runs; below each its phases, and what was wrong."""
    names = ("started", "job", "by", "outcome", "took", "logs", "segments", "bytes", "records", "lag")
    rows = [
        (
            _time(run.started_ms),
            run.job,
            run.started_by,
            run.outcome,
            _seconds(run.duration_ms),
            f"{run.changed_logs:,}",
            f"{run.segments:,}",
            f"{run.bytes:,}",
            f"{run.records:,}",
            "?" if run.lag_offsets is None else f"{run.lag_offsets:,}",
        )
        for run in runs
    ]
    headings, *lines = aligned_table(names, rows, range(4, len(names))).splitlines()
    yield headings
    for run, line in zip(runs, lines, strict=True):
        yield line
        yield from (f"  {note}" for note in _notes(run))


def _notes(run: RunRow) -> Iterator[str]:
    if run.error is not None:
        yield f"failed in the step {run.failed_step}: {run.error}; run {run.run_id}"
    if run.phases:
        yield ", ".join(f"{phase} {_seconds(took_ms)}" for phase, took_ms in run.phases.items())
    wrong = [
        f"{count:,} {name}"
        for name, count in (
            ("failed checks", run.failed_checks),
            ("open errors", run.findings_error),
            ("open warnings", run.findings_warning),
            ("open transactions", run.open_transactions),
        )
        if count
    ]
    if wrong:
        yield ", ".join(wrong)


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(ms: int) -> str:
    return f"{ms / 1000:,.1f} s" if ms >= 100 else f"{ms} ms"
