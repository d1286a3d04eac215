"""The text that the command line prints about lakes, from their state and the results of a run.

A rerun with nothing new prints the same.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Severity
from pipelines.run.check_definitions import CheckAnswer, Failure, sentence
from spark_jobs.lake.view.alarms import damage_of, stops_of
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.lake.view.ledger_states import ALARMING, MEANINGS
from spark_jobs.lake.view.log_state import LogState, states_seen
from spark_jobs.lake.view.shown_tables import tables_to_query

if TYPE_CHECKING:
    from pipelines.run.listener import RunOutcome


LISTED_FAILURES = 5
"""Maximum number of failures shown per check."""

LISTED = 20
"""Maximum number of entries of one kind shown of a plan, and of warnings."""


def logs_table(states: Sequence[LakeState], *, name_lakes: bool = False) -> str:
    """One line per topic partition; columns of ledger states that no log has are left out."""
    logs = [log for state in states for log in state.logs]
    seen = states_seen(logs)
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
    counts = log.findings_by_severity
    signs = ((Severity.ERROR, "E"), (Severity.WARNING, "W"), (Severity.INFO, "i"))
    return " ".join(f"{counts[severity]}{sign}" for severity, sign in signs if counts.get(severity)) or "0"


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
    """Where there is damage, and which logs have stopped, one line each."""
    lines = []
    for state in states:
        names = {log.topic_partition for log in state.logs}
        for word, alarms in (("damage", damage_of(state)), ("stopped", stops_of(state))):
            for alarm in alarms:
                if alarm.topic_partition in names:
                    file = None if alarm.file is None else shown_path(alarm.file)
                    lines.append(f"{word}: {replace(alarm, file=file).where}: {alarm.message}")
    return lines


def shown_path(path: str) -> str:
    """A path for use here: relative if it is below the current directory."""
    if "://" in path:
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
    """Logs that wait for the end of a transaction, one line each; one that hangs is a warning."""
    lines = []
    for state in states:
        for log in state.logs:
            for oldest in log.open_transactions[:1]:
                word = "warning" if oldest.hangs(as_of_ms) else "waits"
                place = f"{log.label} of lake {state.name}"
                what = f"the transaction of {oldest.described(as_of_ms)}; nothing from there on is published"
                lines.append(f"{word}: {place}: {what}")
    return lines


def warning_lines(states: Sequence[LakeState]) -> list[str]:
    """The open warnings of logs, one line each: they make the exit code 1."""
    lines = [
        f"warning: {log.label} of lake {state.name}: {placed.finding.rule}: {placed.finding.message}"
        for state in states
        for log in state.logs
        for placed in log.findings
        if placed.finding.severity is Severity.WARNING
    ]
    more = len(lines) - LISTED
    return lines if more <= 0 else [*lines[:LISTED], f"{more:,} more warnings are in the table findings"]


def refused_lines(outcome: RunOutcome) -> list[str]:
    """Refused parts of the request, one line each."""
    return [f"refused: {finding.message}" for finding in outcome.refused]


def check_lines(outcome: RunOutcome, logs: Collection[str] | None) -> list[str]:
    """A paragraph for each failed check, and a line for each check without data.

    Args:
        logs: Log keys of the run; None: all. Failures of other logs are left out.
    """
    lines = []
    for answer in outcome.answers:
        lines += [f"note of check {answer.name}: {note}" for note in answer.notes]
        if answer.is_unanswered:
            lines.append(f"check {answer.name}: nothing to look at yet. {answer.description}")
            continue
        failures = failures_of(answer, logs)
        if failures:
            level = max((failure.severity for failure in failures), key=[*Severity].index)
            texts = sentence([failure.text for failure in failures], LISTED_FAILURES)
            lines.append(f"failed check {answer.name} ({level}): {texts}. What to do: {answer.what_to_do}")
    return lines


def failures_of(answer: CheckAnswer, logs: Collection[str] | None) -> list[Failure]:
    """Failures of a check for the selected logs. A failure without a log is always included."""
    if answer.passed or answer.is_unanswered:
        return []
    return [failure for failure in answer.failures if logs is None or failure.log is None or failure.log in logs]


def checks_code(outcome: RunOutcome, logs: Collection[str] | None) -> int:
    """Exit code of a run's checks: 2 for a failed error-level one, 1 for a warning."""
    code = ExitCode.CLEAN
    for answer in outcome.answers:
        if answer.is_of_plan:
            continue  # the user requested a plan: what is due is the answer, not a fault
        for failure in failures_of(answer, logs):
            code = max(code, ExitCode.DAMAGE if failure.severity is Severity.ERROR else ExitCode.WARNING)
    return code


def plan_lines(outcome: RunOutcome) -> list[str]:
    """The result of maintenance, or its plan."""
    lines = ["", "maintenance:"]
    for asset, keys in outcome.changed.items():
        more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
        lines.append(f"  {asset}: {', '.join(keys[:8])}{more}")
    for asset, plan in outcome.plans.items():
        lines.append(f"  {asset}, a plan only:")
        lines += [f"    {line}" for line in describe(plan)]
    return lines


def describe(plan: Mapping[str, Any]) -> list[str]:
    """A plan as short lines, without empty entries."""
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
    """Paths of the tables; the most used ones first."""
    return [f"{name:<20}{shown_path(address)}" for name, address in tables_to_query(lake).items()]
