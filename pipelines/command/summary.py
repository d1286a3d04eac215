"""What the command line prints about lakes, and the exit code that it comes to.

Both are made from what the tables say now, so that a rerun with nothing new prints and answers the same.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Finding, Severity, exit_code, found
from pipelines.questions import sentence
from pipelines.view.standing import ALARMING, alarming_ranges, standing_findings
from pipelines.view.state import MEANINGS, STATES, LakeState, LogState, read_alarms, read_stops
from spark_jobs.lake.delta.tables import TABLES, table_uri
from spark_jobs.lake.store import storage

if TYPE_CHECKING:
    from pipelines.command.running import CheckOutcome, RunOutcome
    from pipelines.questions import Failure


LISTED_FAILURES = 5
"""So many failures of one check are named."""

LISTED = 20
"""So many things of one kind are shown of a plan."""


def logs_table(states: Sequence[LakeState], *, name_lakes: bool = False) -> str:
    """One line a topic partition; columns of ledger states that no log has are left out."""
    logs = [log for state in states for log in state.logs]
    seen = [state for state in STATES if any(state in log.offsets_by_state for log in logs)]
    lake_column = ["lake"] if name_lakes else []
    header = [*lake_column, "topic partition", "segments", "batches", "records", "findings", *seen, "published to"]
    rows = [_row(state, log, seen, name_lakes) for state in states for log in state.logs]
    return _aligned(header, rows, left=len(lake_column) + 1)


def _row(state: LakeState, log: LogState, seen: Sequence[str], name_lake: bool) -> list[str]:
    offsets = log.offsets_by_state
    figures = [log.segments, log.batches, log.records]
    published = "-" if log.published_to is None else f"{log.published_to:,}"
    return [
        *([state.name] if name_lake else []),
        log.label,
        *(f"{figure:,}" for figure in figures),
        _short_findings(log),
        *(f"{offsets[name]:,}" if name in offsets else "" for name in seen),
        published,
    ]


def _short_findings(log: LogState) -> str:
    severities = (("error", "E"), ("warning", "W"), ("info", "i"))
    return " ".join(f"{log.findings[name]}{sign}" for name, sign in severities if log.findings.get(name)) or "0"


def _aligned(header: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> str:
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def damage_lines(states: Sequence[LakeState]) -> list[str]:
    """Where there is damage and which logs have stopped, a line each."""
    lines = []
    for state in states:
        names = {log.topic_partition for log in state.logs}
        for word, alarms in (("damage", read_alarms(state.lake)), ("stopped", read_stops(state.lake))):
            for alarm in alarms:
                if alarm.topic_partition in names:
                    file = None if alarm.file is None else shown_path(alarm.file)
                    lines.append(f"{word}: {replace(alarm, file=file).where}: {alarm.message}")
    return lines


def shown_path(path: str) -> str:
    """A path as one would type it here: relative where it lies below the current directory."""
    if storage.is_remote(path):
        return path
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


def meanings_line(states: Sequence[LakeState]) -> str:
    """What the findings column's letters and the alarming states among those shown mean."""
    seen = {name for state in states for log in state.logs for name in log.offsets_by_state}
    parts = ["findings: E error, W warning, i information"]
    parts += [f"{name}: {MEANINGS[name]}" for name in ("open", *ALARMING) if name in seen]
    return "; ".join(parts)


def open_transaction_lines(states: Sequence[LakeState], as_of_ms: int) -> list[str]:
    """Logs that wait for the end of a transaction, a line each; one that hangs is a warning."""
    lines = []
    for state in states:
        for log in state.logs:
            for oldest in log.open_transactions[:1]:
                word = "warning" if oldest.hangs(as_of_ms) else "waits"
                place = f"{log.label} of lake {state.name}"
                what = f"the transaction of {oldest.told(as_of_ms)}; nothing from there on is published"
                lines.append(f"{word}: {place}: {what}")
    return lines


def refused_lines(outcome: RunOutcome) -> list[str]:
    """What was asked for and left as it is, a line each."""
    return [f"refused: {finding.message}" for finding in outcome.refused]


def check_lines(outcome: RunOutcome, logs: Collection[str] | None) -> list[str]:
    """A paragraph for each check that failed, and a line for each with nothing to look at yet.

    Args:
        logs: log keys that the run was for; None: all. Failures of other logs are left out.
    """
    lines = []
    for check in outcome.checks:
        lines += [f"note of check {check.name}: {note}" for note in check.notes]
        if check.is_unanswered:
            lines.append(f"check {check.name}: nothing to look at yet. {check.description}")
            continue
        failures = failures_of(check, logs)
        if failures:
            level = max((failure.severity for failure in failures), key=[*Severity].index)
            told = sentence([failure.told for failure in failures], LISTED_FAILURES)
            lines.append(f"failed check {check.name} ({level}): {told}. What to do: {check.what_to_do}")
    return lines


def failures_of(check: CheckOutcome, logs: Collection[str] | None) -> list[Failure]:
    """Why a check failed, for the chosen logs; what is of no one log counts for each choice."""
    if check.passed or check.is_unanswered:
        return []
    return [failure for failure in check.failures if logs is None or failure.log is None or failure.log in logs]


def checks_code(outcome: RunOutcome, logs: Collection[str] | None) -> int:
    """Exit code of a run's checks: 2 for a failed error-level one, 1 for a warning."""
    code = ExitCode.CLEAN
    for check in outcome.checks:
        for failure in failures_of(check, logs):
            code = max(code, ExitCode.DAMAGE if failure.severity is Severity.ERROR else ExitCode.WARNING)
    return code


def plan_lines(outcome: RunOutcome) -> list[str]:
    """What maintenance did, or would do."""
    lines = ["", "maintenance:"]
    for asset, keys in outcome.changed.items():
        more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
        lines.append(f"  {asset}: {', '.join(keys[:8])}{more}")
    for asset, plan in outcome.plans.items():
        lines.append(f"  {asset}, a plan only:")
        lines += [f"    {line}" for line in describe(plan)]
    return lines


def describe(plan: Mapping[str, Any]) -> list[str]:
    """A plan as short lines: what is empty is left out."""
    lines = []
    for name, value in plan.items():
        if isinstance(value, dict):
            inner = ", ".join(f"{k} {v}" for k, v in value.items() if isinstance(v, int | str) and v != 0)
            lines += [f"{name}: {inner}"] if inner else []
        elif isinstance(value, list | tuple):
            for item in value[:LISTED]:
                text = item if isinstance(item, str) else _item(item)
                lines.append(text if name == "logs" else f"{name}: {text}")
            lines += [f"{name}: and {len(value) - LISTED:,} more"] if len(value) > LISTED else []
        elif value not in (None, 0, ""):
            lines.append(f"{name}: {value}")
    return lines or ["nothing"]


def _item(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    shown = {key: len(value) if isinstance(value, list | tuple) else value for key, value in item.items()}
    name = shown.pop("topic_partition", None)
    if name is not None:
        shown.pop("log", None)
    figures = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in shown.items())
    return figures if name is None else f"{name}: {figures}"


def tables_lines(lake: str) -> list[str]:
    """Where the tables are, those first that one asks first."""
    names = [spec.name for spec in TABLES.values() if spec.in_summary]
    here = [name for name in names if storage.has_files(storage.join(table_uri(lake, name), "_delta_log"))]
    return [f"{name:<20}{shown_path(table_uri(lake, name))}" for name in here]


def verdict(state: LakeState, now: Sequence[Finding], as_of_ms: int) -> int:
    """Exit code of a command on the logs of ``state``.

    Args:
        now: findings on the source paths as they are at this moment; older ones about paths are history.
        as_of_ms: the clock that open transactions are held against.
    """
    logs = {log.log: log.row for log in state.logs}
    standing = [
        Finding(f["rule"], Severity(f["severity"]), f["message"])
        for f in standing_findings(state.lake, logs, alarming_ranges(state.lake))
    ]
    code = exit_code([*now, *standing])
    if any(name in log.offsets_by_state for log in state.logs for name in ALARMING):
        code = max(code, ExitCode.DAMAGE)
    if any("remote" in log.offsets_by_state for log in state.logs):
        code = max(code, ExitCode.WARNING)
    if any(log.open_transactions[0].hangs(as_of_ms) for log in state.logs if log.open_transactions):
        code = max(code, ExitCode.WARNING)
    stopped = [found(log.row.stopped, "") for log in state.logs if log.row.stopped]
    return max(code, exit_code(stopped))
