"""``loglake status [LAKE]``: is everything in order with a lake, and if not, what to type.

    loglake status                 all lakes that are registered in the home
    loglake status LAKE

It shows what alerts and figures show: open errors and warnings, lag, the newest runs, and when the policies start the
next one. Only reads, without a JVM and without Dagster.

Exit codes: 0 in order · 1 warnings · 2 damage, a stopped log, or red checks in the newest run · 3 the lake or a source
cannot be read, or runs fail · 64 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Severity
from logcore.texts import shown
from spark_jobs.lake_commands.outcome import guarded

if TYPE_CHECKING:
    from spark_jobs.lake.view.registered_lakes import RegisteredLake

_NIGHTLY_MS, _DAY_MS = {"nightly": 3 * 3_600_000, "verify": 4 * 3_600_000}, 86_400_000
"""When the nightly schedules are due, after midnight in UTC."""


class StatusCommand:
    """``loglake status [LAKE]``."""

    def add_parser(self, subparsers: Any) -> None:
        """Declare the command and its options."""
        parser = subparsers.add_parser(
            "status",
            help="whether a lake is in order: open errors, lag, runs, next schedule",
            description="Print what is wrong with a lake and what to type for it, its lag, its newest runs, and when "
            "its policies start the next one. Only reads.",
        )
        parser.add_argument("lake", nargs="?", metavar="LAKE", help="default: all lakes that are registered")
        parser.set_defaults(func=lambda options: guarded(lambda: _status(options)))


status_command = StatusCommand()


def _status(options: argparse.Namespace) -> int:
    from spark_jobs.lake.errors import JobError, UsageError
    from spark_jobs.lake.store import storage
    from spark_jobs.lake.view.registered_lakes import home_folder, read_home, read_registered, unused_home

    if options.lake is not None:
        return _of_lake(read_registered(storage.absolute(options.lake)), options.now_ms)
    home, unused = read_home(home_folder()), unused_home()
    for note in (*home.broken, *([unused] if unused else [])):
        sys.stderr.write(f"note: {note}\n")
    if not home.lakes and not home.broken:
        raise UsageError(f"no lake is named, and none is registered in {home_folder()}.")
    code = ExitCode.NOT_CHECKED if home.broken else ExitCode.CLEAN
    for lake in home.lakes:
        try:
            code = max(code, _of_lake(lake, options.now_ms))
        except (JobError, UsageError, OSError) as error:
            sys.stderr.write(f"error: {lake.name}: {error}\n")
            code = ExitCode.NOT_CHECKED
    return code


def _of_lake(lake: RegisteredLake, now_ms: int) -> ExitCode:
    """Print the status of a lake; return its exit code."""
    from spark_jobs.lake.errors import JobError, UsageError
    from spark_jobs.lake.setup.identity import read_identity
    from spark_jobs.lake.store import lease
    from spark_jobs.lake.view.alarms import problems_of, run_problems
    from spark_jobs.lake.view.lake_state import read_state
    from spark_jobs.lake.view.registered_lakes import check_policies
    from spark_jobs.lake.view.runs.run_ends import run_ends
    from spark_jobs.lake.view.runs.run_rows import JOBS, newest_run_of_each_job

    is_busy = lake.is_there and lease.is_held(lake.path, now_ms)
    if read_identity(lake.path) is None:
        if not is_busy:
            raise JobError(f"{lake.path} is no lake: it has no lake.json.")
        _print(f"{lake.name}: the first run is working on it; nothing is published yet")
        return ExitCode.CLEAN
    state, rows = read_state(lake.path), newest_run_of_each_job(lake.path, JOBS)
    ends = run_ends(lake.path, rows)
    of_runs = list(run_problems(lake.path, ends["intake"], now_ms, lake.policy.ingest))
    problems = [*of_runs, *problems_of(state, now_ms, lake.policy.alerts_max_lag)]
    red = max((row.failed_checks for row in rows.values()), default=0)
    code = state.exit_code((), now_ms)
    code = max(code, ExitCode.DAMAGE if red else ExitCode.CLEAN, ExitCode.NOT_CHECKED if of_runs else ExitCode.CLEAN)
    try:
        check_policies(lake.path)
    except UsageError as error:
        sys.stderr.write(f"error: {error}\n")
        code = ExitCode.NOT_CHECKED
    if problems:
        code = max(code, ExitCode.WARNING)
    words = {ExitCode.CLEAN: "in order", ExitCode.WARNING: "warnings", ExitCode.DAMAGE: "damage or red checks"}
    busy = f"; {'a' if rows else 'the first'} run is working on it" if is_busy else ""
    _print(f"{lake.name}: {words.get(code, 'not in order')}{busy}")
    for problem in problems:
        _print(f"  {problem.severity}: {problem.place}: {problem.what}")
        _print(f"    look: {problem.command}")
    levels = (Severity.ERROR, Severity.WARNING)
    counts = [f"{sum(log.findings_by_severity.get(each, 0) for log in state.logs):,} {each}" for each in levels]
    _print(f"  open findings: {', '.join(counts)}; red checks in the newest runs: {red:,}")
    _print(f"  logs: {len(state.logs):,}; lag: {sum(log.lag for log in state.logs):,} offsets")
    for job, end in ends.items():
        said = "never" if end.succeeded_ms is None else _time(end.succeeded_ms)
        failed = f"; last failure: {_time(end.failed_ms)}, {end.error}" if end.failed_ms is not None else ""
        _print(f"  {job}: last success: {said}{failed}")
    for line in _due(lake, now_ms):
        _print(f"  {line}")
    return code


def _due(lake: RegisteredLake, now_ms: int) -> Iterator[str]:
    """Yield when the policies start something by itself."""
    policy = lake.policy
    if isinstance(policy.ingest, int):
        yield f"next intake: {_time((now_ms // policy.ingest + 1) * policy.ingest)}, by the policies"
    else:
        yield f"next intake: {policy.ingest}, by the policies"
    for what, at_ms in _NIGHTLY_MS.items():
        mode = getattr(policy, what)
        if mode != "off":
            yield f"next {what}: {_time(now_ms + (at_ms - now_ms) % _DAY_MS)}, {mode}, if its schedule is on"


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _print(line: str) -> None:
    sys.stdout.write(f"{shown(line)}\n")
