"""What a person sees in the UI: metadata, Markdown tables, and a picture of what became of every offset.

Only figures, names, places and messages come in here, never keys or values of records; whatever comes in is escaped.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from pipelines.picture import ledger_picture, most_telling, states_seen
from pipelines.state import MEANINGS, Alarm, LogState
from spark_jobs.contracts import LogChange
from spark_jobs.lake.tables import TABLES, table_uri

MetadataMap = dict[str, Any]

MAX_ROWS = 50


def table_schema(name: str) -> dg.TableSchema:
    """The columns of a table of the lake, as the UI shows them."""
    spec = TABLES[name]
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                field.name, str(field.type), tags={"partitioned": ""} if field.name in spec.partition_by else {}
            )
            for field in spec.schema
        ]
    )


def segment_metadata(log: LogState, change: LogChange | None) -> MetadataMap:
    """A topic partition of ``archived_segments``."""
    row = log.row
    return {
        **_common(log, "segments"),
        "dagster/partition_row_count": log.segments,
        "segments": log.segments,
        "archive bytes": log.archive_bytes,
        "next offset": row.next_offset,
        "high watermark": "unknown, the log end stands for it" if row.high_watermark is None else row.high_watermark,
        "source": dg.MetadataValue.path(row.source),
        **({"stopped": dg.MetadataValue.text(f"{row.stopped}: {row.stopped_because}")} if row.stopped else {}),
        **_this_run(change, {"segments": "new segments", "bytes": "new bytes", "start_offset": "from offset"}),
    }


def validation_metadata(log: LogState, change: LogChange | None) -> MetadataMap:
    """A topic partition of ``validated_segments``."""
    return {
        **_common(log, "offset_ledger"),
        "dagster/partition_row_count": len(log.ledger),
        "picture": picture_metadata([log]),
        "offsets by state": ledger_table(log),
        "batches": log.batches,
        "records": log.records,
        "quarantined bytes": log.quarantined_bytes,
        "findings": findings_text(log.findings),
        **_this_run(change, {"segments": "new segments", "batches": "new batches", "records": "new records"}),
    }


def publish_metadata(log: LogState, change: LogChange | None) -> MetadataMap:
    """A topic partition of ``records``."""
    end = log.ledger[-1].end_offset if log.ledger else log.row.next_offset
    to = log.published_to or 0
    return {
        **_common(log, "records"),
        "dagster/partition_row_count": log.published_records,
        "published up to offset": to,
        "offsets not published": max(end - to, 0),
        **_this_run(
            change, {"records": "new rows", "start_offset": "from offset", "files": "new files", "bytes": "new bytes"}
        ),
    }


def maintenance_metadata(log: LogState, change: LogChange | None) -> MetadataMap:
    """A topic partition after retention, compaction or an index rebuild."""
    return {
        **_common(log, "segments"),
        "segments": log.segments,
        "archive bytes": log.archive_bytes,
        **({label.replace("_", " "): value for label, value in change.metrics.items()} if change else {}),
    }


def _common(log: LogState, table: str) -> MetadataMap:
    return {
        "dagster/uri": table_uri(log.lake, table),
        "lake": dg.MetadataValue.path(log.lake),
        "log": dg.MetadataValue.text(log.log),
    }


def _this_run(change: LogChange | None, labels: Mapping[str, str]) -> MetadataMap:
    if change is None:
        return {"this run": dg.MetadataValue.text("nothing new")}
    return {label: change.metrics[name] for name, label in labels.items() if name in change.metrics}


def ledger_table(log: LogState) -> dg.TableMetadataValue:
    """Ledger states of one log, most telling first."""
    offsets, records = log.offsets_by_state, {}
    for r in log.ledger:
        records[str(r.state)] = records.get(str(r.state), 0) + r.records
    return dg.MetadataValue.table(
        records=[
            dg.TableRecord(
                {"state": state, "offsets": offsets[state], "records": records.get(state, 0), "means": MEANINGS[state]}
            )
            for state in offsets
        ],
        schema=dg.TableSchema(
            columns=[
                dg.TableColumn("state", "string"),
                dg.TableColumn("offsets", "int"),
                dg.TableColumn("records", "int"),
                dg.TableColumn("means", "string"),
            ]
        ),
    )


def findings_text(findings: Mapping[str, int]) -> str:
    """``2 errors, 1 warning`` or ``none``."""
    parts = [
        f"{count} {severity}{'s' if count != 1 and severity != 'info' else ''}"
        for severity in ("error", "warning", "info")
        if (count := findings.get(severity, 0))
    ]
    return ", ".join(parts) or "none"


# --- Markdown ---------------------------------------------------------------------------------------------------------


def escape(text: object) -> str:
    """Text that Markdown and HTML show as it is, on one line."""
    flat = " ".join(str(text).split())
    out = html.escape(flat, quote=True)
    for sign in "\\`*_[]|~":
        out = out.replace(sign, f"&#{ord(sign)};")
    return out


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; numbers to the right, everything escaped, at most :data:`MAX_ROWS` rows."""
    all_rows = [list(row) for row in rows]
    numeric = [bool(all_rows) and all(isinstance(row[i], int | float) for row in all_rows) for i in range(len(columns))]
    lines = [
        "| " + " | ".join(escape(name) for name in columns) + " |",
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


def alarm_table(alarms: Sequence[Alarm], name: Callable[[str], str]) -> str:
    """Markdown: where the damage is."""
    return markdown_table(
        ["lake", "topic partition", "rule", "offsets", "file", "position", "bytes", "what"],
        [
            [
                name(a.lake),
                a.topic_partition,
                a.rule,
                a.offsets,
                a.file,
                "" if a.position is None else str(a.position),
                "" if a.nbytes is None else str(a.nbytes),
                a.message,
            ]
            for a in alarms
        ],
    )


def picture_metadata(logs: Sequence[LogState]) -> dg.MarkdownMetadataValue:
    """The picture as Markdown, with the same figures below as text for those who cannot see it."""
    rows = [
        [log.topic_partition, *(offsets.get(state, 0) for state in states_seen(logs))]
        for log in most_telling(logs)
        if (offsets := log.offsets_by_state) is not None
    ]
    image = base64.b64encode(ledger_picture(logs).encode()).decode()
    return dg.MetadataValue.md(
        f"![Offsets of each topic partition by ledger state](data:image/svg+xml;base64,{image})\n\n"
        + markdown_table(["topic partition", *states_seen(logs)], rows)
    )
