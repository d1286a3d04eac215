"""Executes ``loglake status``: is everything in order with a lake, and if not, what to type.

The checks answer on the lake as it is now, in the words of a run, so that what a repair closed is closed here at once.
What only a run knows comes from the ends of the newest ones: sources that could not be read, and failures.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Severity
from logcore.logs.rules.advice import export_command, maintain_command
from logcore.texts import sentences, shell_word, shown
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.view.alarms import TIMED_INTAKE, problems_of, run_problems
from spark_jobs.lake.view.harmed_places import harmed_place
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake.view.registered_lakes import RegisteredLake, check_policies, chosen_lakes, is_lake
from spark_jobs.lake.view.runs.run_ends import first_run_killed, run_ends
from spark_jobs.lake.view.runs.run_rows import JOBS, newest_run_of_each_job
from spark_jobs.lake.view.unread_sources import begin_looks, unread_sources
from spark_jobs.policies.policies_file import read_policies

from ..run.check_definitions import TABLES_UNHARMED
from ..run.look import present_answers
from ..run.outcome import RunOutcome
from .summary import (
    LISTED,
    SHOWN_BY_LINES,
    accepted_gone_lines,
    check_lines,
    checks_code,
    damage_lines,
    failures_of,
    given_up_lines,
    open_transaction_lines,
    warning_lines,
)

_NIGHTLY_MS, _DAY_MS = {"maintenance": 3 * 3_600_000, "verification": 4 * 3_600_000}, 86_400_000
"""When the nightly schedules are due, after midnight in UTC."""


def status(named: Sequence[str], now_ms: int) -> int:
    """Print the status of lakes.

    Args:
        named: Their paths; empty: all that are registered in the home.
        now_ms: The clock, epoch milliseconds.

    Returns:
        The exit code.

    Raises:
        JobError: The only named lake cannot be read.
        UsageError: No lake is named or registered, or a registration cannot be used.
    """
    home = chosen_lakes(named)
    for note in home.notes:
        sys.stderr.write(f"{note}\n")
    code = ExitCode.NOT_CHECKED if home.broken else ExitCode.CLEAN
    begin_looks(lake.path for lake in home.lakes)
    for lake in home.lakes:
        try:
            code = max(code, _of_lake(lake, now_ms))
        except BrokenPipeError:
            raise
        except (JobError, UsageError, OSError) as error:
            if len(named) == 1 and not isinstance(error, UsageError):
                raise
            sys.stderr.write(f"error: {lake.name}: {error}\n")
            code = ExitCode.NOT_CHECKED
    return code


def _of_lake(lake: RegisteredLake, now_ms: int) -> ExitCode:
    """Print the status of a lake; return its exit code."""
    is_busy = lake.is_busy(now_ms)
    if not is_lake(lake.path):
        if not is_busy:
            raise JobError(first_run_killed(lake.path, now_ms) or lake.why_no_lake)
        _print(f"{lake.name}: the first run is working on it; nothing is published yet")
        return ExitCode.CLEAN
    state, rows = read_state(lake.path), newest_run_of_each_job(lake.path, JOBS)
    ends = run_ends(lake.path, rows)
    of_runs = list(run_problems(lake.path, ends["intake"], now_ms, lake.policy.ingest))
    of_lag = [each for each in problems_of(state, now_ms, lake.policy.alerts_max_lag) if each.kind == "lag"]
    explained = {log.topic_partition for log in state.logs if log.is_damaged or log.open_transactions}
    small_lag = [each for each in problems_of(state, now_ms, 0) if each.kind == "lag" and each not in of_lag]
    small_lag = [each for each in small_lag if each.place not in explained]
    # Between the commits of a run its tables do not agree.
    is_unfinished = is_busy or first_run_killed(lake.path, now_ms) is not None
    policies = read_policies(lake.policies)
    answers = () if is_unfinished else present_answers(lake.path, policies, now_ms)
    outcome = RunOutcome("", {}, answers=tuple(answers))
    if any(answer.name == TABLES_UNHARMED.name and failures_of(answer, None) for answer in outcome.answers):
        small_lag = []  # what follows from lost rows and tables is no lag
    maintenance = rows["maintenance"].failed_checks if "maintenance" in rows else 0
    code = max(state.exit_code((), now_ms), checks_code(outcome, None))
    warned = sentences(list(ends["intake"].warned.values()))
    code = max(code, ExitCode.DAMAGE if maintenance else code, ExitCode.WARNING if of_lag or warned else code)
    for problem in of_runs:
        code = max(code, ExitCode.DAMAGE if problem.kind == "damage" else ExitCode.NOT_CHECKED)
    code = ExitCode(code)
    try:
        check_policies(lake.path)
    except UsageError as error:
        sys.stderr.write(f"error: {error}\n")
        code = ExitCode.NOT_CHECKED
    words = {ExitCode.CLEAN: "in order", ExitCode.WARNING: "warnings", ExitCode.DAMAGE: "damage or failed checks"}
    busy = f"; {'a' if rows else 'the first'} run is working on it" if is_busy else ""
    _print(f"{lake.name}: {words.get(code, 'not in order')}{busy}")
    for problem in of_runs:
        _print(f"  {problem.severity}: {problem.place}: {problem.what}")
        _print(f"    look: `{problem.command}`")
        if problem.kind == "unread-source":
            _print(
                f"    If a source is lost for good: `{export_command(lake.path)}` writes all logs of the lake to new/, "
                "and what they lost to new.jsonl"
            )
            if gone := "".join(f" --forget-source {shell_word(path)}" for path in unread_sources(lake.path)):
                _print(f"    To go on without it: `loglake run --lake {shell_word(lake.path)}{gone}`")
    run = harmed_place(lake.path).run
    of_logs = (*damage_lines([state]), *warning_lines([state]), *open_transaction_lines([state], now_ms))
    for line in (*of_logs, *check_lines(outcome, None, shown=SHOWN_BY_LINES, said=of_logs)):
        _print(f"  {line}")
    evaluated = {each.log for answer in outcome.answers for each in answer.failures}
    for line in given_up_lines(state):
        _print(f"  {line}")
    for placed in (placed for log in state.logs for placed in log.findings):
        if placed.finding.rule == "expectation-failed" and placed.log not in evaluated:
            _print(f"  error: {placed.finding.message} The next run evaluates it again: `{run}`")
    if warned:
        _print(f"  warning: the sources at the newest run: {warned}")
    for problem in of_lag:
        _print(f"  {problem.severity}: {problem.place}: {problem.what}. What to type: `{problem.command}`")
    for problem in small_lag[:LISTED]:
        _print(f"  note: {problem.place}: {problem.what}. What to type: `{problem.command}`")
    if small_lag[LISTED:]:
        _print(f"  note: {len(small_lag) - LISTED:,} more logs have offsets that are not published")
    if maintenance:
        decides = maintain_command(state.lake)
        _print(f"  failed checks of maintenance: {maintenance:,}. The next one decides: `{decides}`")
    levels = (Severity.ERROR, Severity.WARNING)
    counts = [f"{state.open_findings.get(each, 0):,} {each}" for each in levels]
    failed = ", ".join(sorted(answer.name for answer in outcome.answers if failures_of(answer, None)))
    _print(f"  open findings: {', '.join(counts)}; failed checks: {'not asked' if is_unfinished else failed or 'none'}")
    _print(f"  logs: {len(state.logs):,}; lag: {sum(log.lag for log in state.logs):,} offsets")
    for job, end in ends.items():
        said = "never" if end.succeeded_ms is None else _time(end.succeeded_ms)
        said += "" if end.planned_ms is None else f"; last plan, without --apply: {_time(end.planned_ms)}"
        failure = f"; last failure: {_time(end.failed_ms)}, {end.error}" if end.failed_ms is not None else ""
        _print(f"  {job}: last success: {said}{failure}")
    lost = [log.topic_partition for log in state.logs if policies.accepts_gone(log.row.topic) and log.is_vanished]
    notes = (*accepted_gone_lines(lost), *policies.idle_notes(state.topics), *policies.unset_notes())
    for line in (*notes, *_due(lake, now_ms)):
        _print(f"  {line}")
    return code


def _due(lake: RegisteredLake, now_ms: int) -> Iterator[str]:
    """Yield when schedules start something by themselves."""
    if (why := lake.why_not_registered) is not None:
        yield why
        return
    policy = lake.policy
    if isinstance(policy.ingest, int):
        midnight = now_ms // _DAY_MS * _DAY_MS
        at_ms = min(midnight + ((now_ms - midnight) // policy.ingest + 1) * policy.ingest, midnight + _DAY_MS)
        at = _time(at_ms) if policy.ingest < _DAY_MS else f"every {policy.ingest // _DAY_MS} days"
        yield f"next intake: {at}, if the schedule {lake.name_of(TIMED_INTAKE)} is on"
    elif lake.is_watched_by_sensor:
        yield f"next intake: when a segment is closed, if the sensor {lake.name_of('new_segments')} is on; else by hand"
    else:
        yield "next intake: by hand, by the policies"
    modes = {"maintenance": f", {policy.nightly}"}
    for what, at_ms in _NIGHTLY_MS.items():
        at = _time(now_ms + (at_ms - now_ms) % _DAY_MS)
        yield f"next {what}: {at}{modes.get(what, '')}, if the schedule {lake.name_of(f'nightly_{what}')} is on"


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _print(line: str) -> None:
    sys.stdout.write(f"{shown(line)}\n")
