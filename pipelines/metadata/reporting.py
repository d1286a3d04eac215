"""Content of the UI: metadata, Markdown tables, and a picture of each log.

Input is figures, names, places and messages, never keys or values of records. All of it is escaped.
"""

from __future__ import annotations

import base64
import html
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from logcore.logs.ledger.ledger_picture import LogPicture, ledger_picture
from logcore.logs.model.findings import Severity
from spark_jobs.contracts import LogChange
from spark_jobs.lake.view.alarms import Alarm
from spark_jobs.lake.view.ledger_states import MEANINGS
from spark_jobs.lake.view.log_state import LogState, states_seen
from spark_jobs.lake.view.registered_lakes import lake_name
from spark_jobs.lake.view.shown_tables import table_address

from .values import MAX_ROWS, MarkdownValue, Metadata, PathValue, TableValue, table_value


def picture_of(logs: Sequence[LogState]) -> str:
    """One strip per topic partition, as an SVG document; damaged ones first if there are very many."""
    return ledger_picture([pictured(log) for log in logs])


def pictured(log: LogState) -> LogPicture:
    """What a picture shows of a log."""
    return LogPicture(
        log.label,
        log.ledger,
        log.segment_offsets,
        log.row.high_watermark,
        log.published_to,
        tuple(each.first_offset for each in log.open_transactions),
    )


_NAMED_RANGES = 10
"""Damaged ranges that the metadata of a topic partition names at most."""

SUMMED = ("segments", "bytes", "batches", "records", "files")
"""Figures of changes that can be added."""


def segment_metadata(log: LogState, change: LogChange | None, as_of_ms: int) -> Metadata:
    """Metadata of a topic partition of ``archived_segments``."""
    row = log.row
    return {
        "this run": _this_run(change, ("segments", "bytes")),
        **({"stopped": f"{row.stopped}: {row.stopped_because}"} if row.stopped else {}),
        "segments": log.segments,
        "archive bytes": log.archive_bytes,
        "next offset": row.next_offset,
        "high watermark": "unknown, the log end is used" if row.high_watermark is None else row.high_watermark,
        "source": PathValue(row.source),
        "dagster/partition_row_count": log.segments,
        **_place(log, "segments"),
    }


def validation_metadata(log: LogState, change: LogChange | None, as_of_ms: int) -> Metadata:
    """Metadata of a topic partition of ``validated_segments``."""
    return {
        "this run": _this_run(change, ("segments", "batches")),
        "damaged offsets": _damaged_offsets(log),
        "findings": findings_text(log.findings_by_severity),
        "quarantined bytes": log.quarantined_bytes,
        "batches": log.batches,
        "records": log.records,
        "dagster/partition_row_count": len(log.ledger),
        **_place(log, "offset_ledger"),
    }


def _damaged_offsets(log: LogState) -> str:
    """``none``, or the damaged ranges with their states; ends are exclusive, as in the picture."""
    if not log.is_damaged:
        return "none"
    damage = pictured(log).damage
    shown = [f"[{each.start_offset}, {each.end_offset}) {each.state}" for each in damage[:_NAMED_RANGES]]
    more = len(damage) - len(shown)
    return ", ".join(shown) + (f", and {more:,} more ranges" if more else "")


def validation_pictures(log: LogState) -> Metadata:
    """A table and a picture of a topic partition of ``validated_segments``."""
    return {"offsets by state": ledger_table(log), "picture": picture_metadata([log])}


def publish_metadata(log: LogState, change: LogChange | None, as_of_ms: int) -> Metadata:
    """Metadata of a topic partition of ``records``."""
    return {
        "this run": _this_run(change, ("records", "files", "bytes")),
        "published up to offset": log.published_to or 0,
        "offsets not published": log.lag,
        "open transactions": _open_transactions(log, as_of_ms),
        "dagster/partition_row_count": log.published_records,
        **_place(log, "records"),
    }


def _open_transactions(log: LogState, as_of_ms: int) -> str:
    """``none``, or how many and which is the oldest; nothing after it is published."""
    if not log.open_transactions:
        return "none"
    oldest = log.open_transactions[0]
    warning = " (longer than transaction.max.timeout.ms allows)" if log.hanging(as_of_ms) else ""
    return f"{len(log.open_transactions):,}; the oldest: {oldest.described(as_of_ms)}{warning}"


def maintenance_metadata(log: LogState, change: LogChange | None, as_of_ms: int) -> Metadata:
    """Metadata of a topic partition after retention, compaction or an index rebuild."""
    return {
        "this run": _this_run(change, tuple(change.metrics) if change else ()),
        "segments": log.segments,
        "archive bytes": log.archive_bytes,
        **_place(log, "segments"),
    }


def summary_metadata(lake: str, changes: Iterable[LogChange]) -> Metadata:
    """Metadata of many topic partitions that changed in one run, together."""
    count, totals = 0, Counter[str]()
    for change in changes:
        count += 1
        totals.update(
            {name: value for name, value in change.metrics.items() if name in SUMMED and isinstance(value, int)}
        )
    return {
        "topic partitions": count,
        **{f"{name} of this run": value for name, value in sorted(totals.items())},
        "lake": PathValue(lake),
    }


def _place(log: LogState, table: str) -> Metadata:
    return {
        "lake": PathValue(log.lake),
        "log": log.log,
        "dagster/uri": table_address(log.lake, table),
    }


def _this_run(change: LogChange | None, names: Sequence[str]) -> str:
    """Changes as ``2 segments, 4,096 bytes``, or that there were none."""
    if change is None:
        return "nothing new"
    figures = [(name.replace("_", " "), change.metrics[name]) for name in names if name in change.metrics]
    return ", ".join(f"{v:,} {name}" if isinstance(v, int) else f"{name} {v}" for name, v in figures) or "checked again"


def ledger_table(log: LogState) -> TableValue:
    """Ledger states of one log."""
    offsets, records = log.offsets_by_state, Counter[str]()
    for r in log.ledger:
        records[str(r.state)] += r.records
    return table_value(
        ["state", "offsets", "records", "means"],
        [[state, offsets[state], records[state], MEANINGS[state]] for state in offsets],
    )


def findings_text(findings: Mapping[Severity, int]) -> str:
    """``2 errors, 1 warning`` or ``none``."""
    parts = [
        f"{count} {severity}{'s' if count != 1 and severity is not Severity.INFO else ''}"
        for severity in (Severity.ERROR, Severity.WARNING, Severity.INFO)
        if (count := findings.get(severity, 0))
    ]
    return ", ".join(parts) or "none"


# --- Markdown ---------------------------------------------------------------------------------------------------------


def escape(text: object) -> str:
    """Escape text so that Markdown and HTML show it unchanged, on one line."""
    flat = " ".join(str(text).split())
    out = html.escape(flat, quote=True)
    for sign in "\\`*_[]|~":
        out = out.replace(sign, f"&#{ord(sign)};")
    return out


def markdown_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table with numbers right-aligned, everything escaped, and at most :data:`MAX_ROWS` rows."""
    all_rows = [list(row) for row in rows]
    numeric = [bool(all_rows) and all(isinstance(row[i], int | float) for row in all_rows) for i in range(len(names))]
    lines = [
        "| " + " | ".join(escape(name) for name in names) + " |",
        "|" + "|".join(" ---: " if right else " --- " for right in numeric) + "|",
    ]
    lines += [
        "| "
        + " | ".join(f"{cell:,}" if isinstance(cell, int) else escape("" if cell is None else cell) for cell in row)
        + " |"
        for row in all_rows[:MAX_ROWS]
    ]
    if len(all_rows) > MAX_ROWS:
        lines.append(f"\n… and {len(all_rows) - MAX_ROWS:,} more rows")
    return "\n".join(lines)


def alarm_table(alarms: Sequence[Alarm]) -> TableValue:
    """Where the damage is, in a narrow table; offset ends are exclusive, files are named by their name in the log."""
    return table_value(
        ["lake", "topic partition", "offsets", "file, position", "what"],
        [
            [lake_name(a.lake), a.topic_partition, a.offsets, _file_and_position(a), f"{a.rule}: {a.message}"]
            for a in alarms
        ],
    )


def _file_and_position(alarm: Alarm) -> str:
    if alarm.file is None:
        return ""
    return os.path.basename(alarm.file) + ("" if alarm.position is None else f", {alarm.position}")


def picture_metadata(logs: Sequence[LogState]) -> MarkdownValue:
    """The picture as Markdown, followed by figures as text for users who cannot see it."""
    states = states_seen(logs)
    drawn = logs if len(logs) <= MAX_ROWS else sorted(logs, key=lambda log: not log.is_damaged)
    rows = [
        [log.topic_partition, *(offsets.get(state, 0) for state in states)]
        for log in drawn
        if (offsets := log.offsets_by_state) is not None
    ]
    image = base64.b64encode(picture_of(logs).encode()).decode()
    return MarkdownValue(
        f"![Ledger states of each topic partition by offset](data:image/svg+xml;base64,{image})\n\n"
        + markdown_table(["topic partition", *states], rows)
    )
