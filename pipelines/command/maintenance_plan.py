"""What the plans of maintenance say, as sentences: what is done to which log, how much, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from logcore.cli.output.terminal import size_text
from spark_jobs.lake.view.open_transactions import duration
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

LISTED = 20
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
        said = [_sentence(item, _name(item, names), entry.name) for item in items[:LISTED]]
        said = [each for each in said if each]
        lines += said
        lines += [f"and {len(items) - LISTED:,} more"] if said and len(items) > LISTED else []
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
