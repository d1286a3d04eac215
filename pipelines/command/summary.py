"""The text that the command line prints about lakes, from their state and the results of a run.

A rerun with nothing new prints the same.

What the plans of maintenance say, as sentences: what is done to which log, how much, and why.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from logcore import texts
from logcore.cli.output.aligned_table import aligned_table
from logcore.cli.output.terminal import size_text
from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Finding, Severity
from logcore.logs.rules.advice import HarmedPlace, advice_for_all, filled
from logcore.segments.filenames import segment_base_offset
from spark_jobs.lake.view.alarms import Alarm, damage_of, stops_of
from spark_jobs.lake.view.harmed_places import harmed_place
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.lake.view.ledger_states import ALARMING, MEANINGS
from spark_jobs.lake.view.log_state import LogState, states_seen
from spark_jobs.lake.view.open_transactions import duration
from spark_jobs.lake.view.shown_tables import tables_to_query
from spark_jobs.lake.view.unread_sources import unread_copies
from spark_jobs.outlines import (
    DirtyLog,
    DoubtedLog,
    DueLog,
    ExpiredLog,
    KeptFiles,
    KeptLog,
    LakeFiles,
    LeftTable,
    Mergeable,
    MergeOutline,
    NotCleaned,
    OldRuns,
    Outline,
    Skipped,
    UnexpiredLog,
    UnfinishedOutline,
    UnindexedLog,
    UnusedFiles,
)

from ..run.check_definitions import (
    ABOUT_DAMAGE,
    NO_DAMAGE,
    NO_HANGING_TRANSACTION,
    SOURCES_AGREE,
    CheckAnswer,
    Failure,
    sentence,
)

if TYPE_CHECKING:
    from ..run.outcome import RunOutcome


LISTED_TABLES = 30
"""Maximum number of tables whose paths are shown."""
LISTED_PLANS = 20
"""Maximum number of entries of one kind shown of a plan."""


def described_plan(plan: Outline, names: Mapping[str, str]) -> list[str]:
    """Return the lines of a plan; none if nothing is due.

    Args:
        plan: As a job reports it.
        names: Topic partitions by log key.
    """
    lines: list[str] = []
    for entry in fields(plan):  # type: ignore[arg-type]
        value = getattr(plan, entry.name)
        items = value if isinstance(value, tuple) else (value,)
        said = [_sentence(item, _name(item, names), entry.name) for item in items[:LISTED_PLANS]]
        said = [each for each in said if each]
        lines += said
        lines += [f"and {len(items) - LISTED_PLANS:,} more"] if said and len(items) > LISTED_PLANS else []
    return lines


def _name(item: object, names: Mapping[str, str]) -> str:
    log = getattr(item, "log", "")
    return str(getattr(item, "topic_partition", None) or names.get(log, log))


def _sentence(item: object, name: str, entry: str) -> str:
    """What an entry of a plan says of the log `name`. Empty: it is a detail of another entry, or nothing is due."""
    match item:
        case DueLog():
            deleted = f"delete {_counted(len(item.segments), 'segment')}, {size_text(item.bytes)}"
            last = item.segments[-1].why
            return f"{name}: {deleted}, below offset {item.log_start_offset}. The last one: {last}. {_stay(item)}"
        case KeptLog():
            return f"{name}: nothing is deleted. {_stay(item)}"
        case DoubtedLog():
            return f"{name}: nothing is deleted, because its settings are in doubt: {item.why}"
        case ExpiredLog():
            rows = f"remove {_counted(item.records, 'row')} of offsets [{item.start_offset}, {item.end_offset})"
            why = "an earlier run recorded that" if item.retention_ms is None else "they are older than"
            age = "" if item.retention_ms is None else f" {duration(item.retention_ms)}"
            return f"{name}: {rows} from the tables: {why}{age}"
        case OldRuns():
            return f"remove {_counted(item.count, 'row')} of the table runs"
        case UnexpiredLog():
            return f"{name}: its rows do not expire: {item.why}"
        case DirtyLog():
            dirty = f"[{item.first_dirty}, {item.end_offset}), {item.dirty_ratio:.0%} of the bytes"
            segments = f"{_counted(len(item.segments), 'segment')}, {size_text(item.bytes)}"
            return f"{name}: compact {segments}; not compacted yet: {dirty}"
        case NotCleaned():
            return f"{name}: is not compacted: {item.reason}"
        case UnindexedLog():
            segments = f"{_counted(item.segments, 'segment')} of {size_text(item.bytes)}"
            return f"{name}: write the missing index files of {segments}"
        case Skipped():
            return f"{name}: the segment at offset {item.base_offset} gets no index files: {item.reason}"
        case UnfinishedOutline():
            counts = ((len(item.segments), "retired segment"), (len(item.ledgers), "ledger"))
            said = " and ".join(_counted(count, what) for count, what in counts if count)
            return f"finish what a stopped run began: {said}" if said else ""
        case LakeFiles() if entry == "kept_orphans":
            return ""  # a note of the check, also after `--apply`
        case LakeFiles():
            orphans = "files of the archive that belong to no segment"
            what = "the archived files of retired segments" if entry == "deletable" else orphans
            return _deleted(what, item.count, item.bytes)
        case UnusedFiles():
            return _deleted(f"files of tables, unused for {duration(item.floor_ms)}", item.count, item.bytes)
        case KeptFiles(count=count) if count:
            reasons = "; ".join(dict.fromkeys(each.reason for each in item.segments))
            return f"keep the files of {_counted(count, 'retired segment')}: {reasons}"
        case Mergeable(count=count) if count:
            return f"join the slices of {_counted(count, 'segment')}, {size_text(item.bytes)}"
        case MergeOutline():
            log = f", {item.topic}-{item.partition}" if item.log is not None else ""
            figures = f"{size_text(item.bytes)}, {_counted(item.rows, 'row')}"
            return f"table {item.table}{log}: merge {_counted(item.files, 'file')} into {item.into:,} ({figures})"
        case LeftTable():
            return f"table {item.table}: its files stay as they are: {item.why}"
        case Mapping() if item:
            return f"write checkpoints of the tables {', '.join(item)}"
    return ""


def _stay(log: DueLog | KeptLog) -> str:
    why = "; ".join(log.why_it_stays)
    return "No segment stays" if log.stays is None else f"The segment at offset {log.stays} stays: {why}"


def _deleted(what: str, count: int, size: int) -> str:
    return f"delete {what}: {_counted(count, 'file')}, {size_text(size)}" if count else ""


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


LISTED_FAILURES = 5
"""Maximum number of failures shown per check."""

SHOWN_BY_LINES = frozenset({NO_DAMAGE.name, SOURCES_AGREE.name, NO_HANGING_TRANSACTION.name})
"""Checks whose failures the lines about damage, stopped logs, paths and open transactions show."""

LISTED = 20
"""Maximum number of warnings shown, of damaged places, and of logs that a note names."""


def logs_table(states: Sequence[LakeState], *, name_lakes: bool = False) -> str:
    """One line per topic partition; columns of ledger states that no log has are left out."""
    logs = [log for state in states for log in state.logs]
    seen = states_seen(logs)
    is_short = any(log.not_read for log in logs)
    lake_column = ["lake"] if name_lakes else []
    header = [*lake_column, "topic partition", "segments", "batches", "records", "findings", *seen]
    header += ["not read"] * is_short + ["published to"]
    rows = [_row(state, log, seen, name_lakes, is_short) for state in states for log in state.logs]
    return aligned_table(header, rows, range(len(lake_column) + 1, len(header))).removesuffix("\n")


def _row(state: LakeState, log: LogState, seen: Sequence[str], name_lake: bool, is_short: bool) -> list[str]:
    offsets = log.offsets_by_state
    figures = [log.segments, log.batches, log.records]
    published = "-" if log.published_to is None else f"{log.published_to:,}"
    return [
        *([state.name] if name_lake else []),
        log.label,
        *(f"{figure:,}" for figure in figures),
        _short_findings(log),
        *(f"{offsets[name]:,}" if name in offsets else "" for name in seen),
        *([f"{log.not_read:,}" if log.not_read else ""] * is_short),
        published,
    ]


def _short_findings(log: LogState) -> str:
    counts = log.findings_by_severity
    signs = ((Severity.ERROR, "E"), (Severity.WARNING, "W"), (Severity.INFO, "i"))
    return " ".join(f"{counts[severity]}{sign}" for severity, sign in signs if counts.get(severity)) or "0"


def damage_lines(states: Sequence[LakeState], *, advises: bool = True, said: Sequence[Finding] = ()) -> list[str]:
    """Where there is damage, and which logs have stopped, one line each; below it what to do, once for equal advice.

    Args:
        states: The lakes.
        advises: Say what to do.
        said: Findings about the sources that were printed. Alarms that repeat one of them have no line.
    """
    alarms = []
    files = [os.path.split(each.file or "") for each in said if each.severity is Severity.ERROR]
    unread = {(directory, segment_base_offset(name)) for directory, name in files}
    for state in states:
        names = {log.topic_partition for log in state.logs}
        of_lake = [("damage", alarm) for alarm in damage_of(state)] + [("stopped", alarm) for alarm in stops_of(state)]
        alarms += [
            (word, alarm)
            for word, alarm in of_lake
            if alarm.topic_partition in names and not _repeats(word, alarm, unread)
        ]
    found = [
        (f"{word}: {_here(alarm).where}: {alarm.message}", alarm.rule, alarm.place) for word, alarm in alarms[:LISTED]
    ]
    lines = list(_with_advice(found)) if advises else [line for line, *_ in found]
    if advises and any(word == "damage" for word, _ in alarms):
        lines += [
            f"  A registered copy to fill from is missing: {why} Put it back; then `{harmed_place(state.lake).run}` "
            "takes lost offsets from it."
            for state in states
            for why in unread_copies(state.lake).values()
        ]
    return list(map(texts.shown, [*lines, *_more(alarms, "damaged or stopped places")]))


def _repeats(word: str, alarm: Alarm, unread: Collection[tuple[str, int | None]]) -> bool:
    """Whether an alarm only says that a segment was not read, or that its offsets are missing.

    Args:
        word: Its kind.
        alarm: The alarm.
        unread: Segments that could not be read: the directory, as findings name it, and the base offset.
    """
    row = alarm.row
    if row is None or row.stopped != "unreadable":
        return False
    bases = {base for directory, base in unread if directory == texts.shown(row.source)}
    # Damage with a file is of bytes that were read, also where they have the offsets of a segment that was not.
    return bool(bases) if word == "stopped" else alarm.file is None and alarm.start_offset in bases - {None}


def _here(alarm: Alarm) -> Alarm:
    return alarm if alarm.file is None else replace(alarm, file=shown_path(alarm.file))


def _with_advice(found: Sequence[tuple[str, str, HarmedPlace]]) -> Iterator[str]:
    """Lines with their rules and places. Below those of one rule and one source is what to do about all of them."""
    groups: dict[tuple[str, str | None, str | None], list[tuple[str, HarmedPlace]]] = {}
    for line, rule, place in found:
        groups.setdefault((rule, place.lake, place.run), []).append((line, place))
    said = {""}
    for (rule, *_), members in groups.items():
        yield from (line for line, _ in members)
        to_do = advice_for_all(rule, [place for _, place in members])
        if to_do not in said:
            said.add(to_do)
            yield f"  What to do: {to_do}"


def _more(all_of_them: Sequence[object], what: str) -> list[str]:
    more = len(all_of_them) - LISTED
    return [f"{more:,} more {what} are in the table findings"] if more > 0 else []


def shown_path(path: str) -> str:
    """A path for use here: relative if it is below the current directory."""
    if "://" in path:
        return path
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


def meanings_lines(states: Sequence[LakeState]) -> list[str]:
    """What the findings column's letters and the alarming states among those shown mean; nothing if none is shown."""
    logs = [log for state in states for log in state.logs]
    seen = {name for log in logs for name in log.offsets_by_state}
    parts = ["findings: E error, W warning, i information"] if any(log.findings for log in logs) else []
    parts += [f"{name}: {MEANINGS[name]}" for name in ("open", *ALARMING) if name in seen]
    parts += ["not read: committed offsets after the last one that was read"] * any(log.not_read for log in logs)
    return ["; ".join(parts)] if parts else []


def open_transaction_lines(states: Sequence[LakeState], as_of_ms: int) -> list[str]:
    """Logs that wait for the end of a transaction, one line each; one that hangs is a warning."""
    lines = []
    for state in states:
        for log in state.logs:
            for oldest in log.open_transactions[:1]:
                word = "warning" if log.hanging(as_of_ms) is not None else "waits"
                place = f"{log.label} of lake {state.name}"
                what = f"the transaction of {oldest.described(as_of_ms)}; nothing from there on is published"
                if log.unread_rest:
                    what += f". The rest of the log was not read, because {log.unread_rest}: it may end there"
                elif log.is_given_up:
                    what += ", but to records_uncommitted up to the high watermark. You accepted that nothing ends it"
                elif word == "warning" and log.is_source_gone:
                    what += f". Its source {log.row.source} is gone: if the log goes on elsewhere, it may end there"
                lines.append(f"{word}: {place}: {what}")
                if word == "warning":
                    where = harmed_place(state.lake, log=log.row)
                    lines.append(f"  What to do: {filled(NO_HANGING_TRANSACTION.what_to_do, where)}")
    return lines


def warning_lines(states: Sequence[LakeState]) -> list[str]:
    """The open warnings of logs, one line each: they make the exit code 1. Below it is what to do."""
    warnings = [
        (state, log, placed.finding)
        for state in states
        for log in state.logs
        for placed in log.findings
        if placed.finding.severity is Severity.WARNING
    ]
    found = [
        (
            f"warning: {log.label} of lake {state.name}: {finding.rule}: {finding.message}",
            finding.rule,
            harmed_place(state.lake, log=log.row, finding=finding),
        )
        for state, log, finding in warnings[:LISTED]
    ]
    return [*_with_advice(found), *_more(warnings, "warnings")]


def given_up_lines(state: LakeState) -> list[str]:
    """Offsets that a run gave up because its options said so, one line each."""
    found = (placed.finding for log in state.logs for placed in log.findings)
    return [f"information: {each.message}" for each in found if each.rule == "offsets-given-up"]


def accepted_gone_lines(names: Collection[str]) -> list[str]:
    """The logs without a directory that the policy on_gone accepts, in one line: later ones are not overlooked."""
    if not names:
        return []
    return [f"note: on_gone accepts that these logs have no directory any more: {_named(names)}"]


def read_elsewhere_lines(findings: Mapping[str, Finding]) -> list[str]:
    """The logs whose directory is missing, and which the lake reads from another one, in one line.

    Args:
        findings: By topic partition.
    """
    if not findings:
        return []
    (_, finding), *others = findings.items()
    more = f" The same holds for {_named([name for name, _ in others])}." if others else ""
    return [f"note: {finding.message}{more}"]


def _named(names: Collection[str]) -> str:
    more = len(names) - LISTED
    return ", ".join([*names][:LISTED]) + (f" and {more:,} more" if more > 0 else "")


def refused_lines(outcome: RunOutcome) -> list[str]:
    """Refused parts of the request, one line each."""
    return [f"refused: {finding.message}" for finding in outcome.refused]


def check_lines(
    outcome: RunOutcome, logs: Collection[str] | None, *, shown: Collection[str] = (), said: Collection[str] = ()
) -> list[str]:
    """A paragraph for each failed check.

    Args:
        logs: Log keys of the run; None: all. Failures of other logs are left out.
        shown: Names of checks that other lines are about: they are left out.
        said: Lines before these. Advice that one of them has is not repeated, also if it is for several damaged logs.
    """
    lines = []
    for answer in outcome.answers:
        lines += [f"note of check {answer.name}: {note}" for note in answer.notes]
        failures = [] if answer.name in shown else failures_of(answer, logs)
        if failures:
            level = max((failure.severity for failure in failures), key=[*Severity].index)
            sentences = sentence([failure.text for failure in failures], LISTED_FAILURES)
            damaged = [line for line in said if line.startswith("damage: ")]
            is_said = all(
                each.what.startswith(ABOUT_DAMAGE) and any(f" {each.topic_partition}," in line for line in damaged)
                for each in failures
            )
            is_said = is_said or any(answer.what_to_do in line for line in said)
            to_do = "the same as above." if is_said else answer.what_to_do
            paragraph = texts.sentences([sentences, f"What to do: {to_do}"])
            lines.append(f"failed check {answer.name} ({level}): {paragraph}")
    return list(map(texts.shown, lines))


def failures_of(answer: CheckAnswer, logs: Collection[str] | None) -> list[Failure]:
    """Failures of a check for the selected logs, given by their keys and topics. One of neither is always included."""
    if answer.passed or answer.is_unanswered:
        return []
    about = [(failure, failure.log or failure.topic) for failure in answer.failures]
    return [failure for failure, what in about if logs is None or what is None or what in logs]


def checks_code(outcome: RunOutcome, logs: Collection[str] | None) -> int:
    """Exit code of a run's checks: 2 for a failed error-level one, 1 for a warning."""
    code = ExitCode.CLEAN
    for answer in outcome.answers:
        if answer.is_of_plan:
            continue  # the user requested a plan: what is due is the answer, not a fault
        for failure in failures_of(answer, logs):
            code = max(code, ExitCode.DAMAGE if failure.severity is Severity.ERROR else ExitCode.WARNING)
    return code


def plan_lines(outcome: RunOutcome, state: LakeState) -> list[str]:
    """The result of maintenance, or its plan. A job without work has no line."""
    lines = []
    for asset, keys in outcome.changed.items():
        more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
        lines += [f"  {asset}: {', '.join(keys[:8])}{more}"] if keys else []
    names = {log.log: log.topic_partition for log in state.logs}
    for asset, plan in outcome.plans.items():
        described = described_plan(plan, names)
        title = f"  {asset}, a plan only; --apply carries it out:"
        lines += [title, *(f"    {line}" for line in described)] if described else []
    return ["", "maintenance:", *(lines or [f"  {', '.join(_written([outcome])) or 'nothing is due'}"])]


def _written(outcomes: Sequence[RunOutcome]) -> list[str]:
    """What runs wrote, such as ``archived 2 segments``."""
    return [
        words.format(f"{count:,}", s="" if count == 1 else "s")
        for outcome in outcomes
        for words, count in outcome.written.items()
    ]


def verdict_line(
    outcomes: Sequence[RunOutcome], state: LakeState, chosen: Collection[str] | None, *, replaces: bool = False
) -> str:
    """What the run wrote, and what is open: the last line of a run.

    Args:
        outcomes: Of the intake, then of maintenance.
        state: The chosen logs.
        chosen: Log keys of the run; None: all.
        replaces: Whether it was to replace published rows.
    """
    names = {log.topic_partition for log in state.logs}
    damaged = len({alarm.topic_partition for alarm in damage_of(state)} & names)
    stopped = len({alarm.topic_partition for alarm in stops_of(state)} & names)
    waiting = sum(bool(log.open_transactions) for log in state.logs)
    answers = [answer for outcome in outcomes for answer in outcome.answers]
    failed = sorted({answer.name for answer in answers if failures_of(answer, chosen)})
    counts = (
        (damaged, "damaged log{s}"),
        (stopped, "stopped log{s}"),
        (waiting, "log{s} with an open transaction"),
    )
    is_open = [f"{count:,} {words.format(s='' if count == 1 else 's')}" for count, words in counts if count]
    is_open += [f"failed checks: {', '.join(failed)}"] if failed else []
    is_new = not all(outcome.found_nothing_new for outcome in outcomes)
    nothing = "nothing new"
    if replaces:
        refused = any(outcome.refused for outcome in outcomes)
        nothing = f"replaced nothing: no {'other ' if refused else ''}chosen row differs from the archive"
    done = ", ".join(_written(outcomes)) or ("changed the lake" if is_new else nothing)
    return f"{done}; open: {', '.join(is_open)}" if is_open else done


def tables_lines(lake: str) -> list[str]:
    """Paths of the tables; the most used ones first."""
    tables = tables_to_query(lake)
    width = min(max(19, *map(len, tables)), 40) if tables else 0
    lines = [f"{name:<{width}} {shown_path(address)}" for name, address in tables.items()]
    left = len(lines) - LISTED_TABLES
    more = [f"and {left:,} more; `loglake query {shlex.quote(lake)}` lists all"] if left > 0 else []
    return [*lines[:LISTED_TABLES], *more]
