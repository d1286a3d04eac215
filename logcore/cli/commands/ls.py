"""`loglake ls`: topic partitions with segments, offsets, bytes, formats, codecs and time range, of good batches."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field

from logcore.cli.output.aligned_table import aligned_table
from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.record_lines import json_line, value_text
from logcore.cli.reading.arguments import add_choice, add_paths, add_remote, read_options
from logcore.logs.model.sources import SourceLog
from logcore.reading.checked_segments import checked_batches
from logcore.reading.chosen_logs import find_logs, labels_of
from logcore.reading.read_options import Notes
from logcore.records.batch import BatchHeader
from logcore.segments.filenames import DirectoryKind
from logcore.segments.scanning.scan import ScannedBatch
from logcore.storage.discovery import shown
from logcore.texts import time_text


@dataclass(slots=True)
class Summary:
    """A summary of a log's batches.

    `log_end_offset` is after the last batch. `first_timestamp` is that of the first batch with one, `max_timestamp` the
    greatest; both are None if no batch has any.
    """

    log_end_offset: int
    batches: int = 0
    records: int = 0
    formats: set[str] = field(default_factory=set)
    codecs: set[str] = field(default_factory=set)
    first_timestamp: int | None = None
    max_timestamp: int | None = None

    def add(self, header: BatchHeader) -> None:
        """Count one batch."""
        self.log_end_offset = max(self.log_end_offset, header.next_offset)
        self.batches += 1
        self.formats.add(f"v{header.magic}")
        if header.is_control:
            return
        self.records += header.record_count
        self.codecs.add(header.codec.kafka_name)
        if header.max_timestamp >= 0:
            self.max_timestamp = max(self.max_timestamp or 0, header.max_timestamp)
            if self.first_timestamp is None:
                self.first_timestamp = header.max_timestamp if header.base_timestamp < 0 else header.base_timestamp


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `ls`."""
    parser.description = "List the topic partitions at some paths. Each byte is checked, and damage is left out."
    add_paths(parser)
    add_choice(parser)
    add_remote(parser)
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    notes = CommandNotes()
    logs = find_logs(read_options(arguments), notes, is_check=True, with_aside=True)
    rows = [_fields(log, summarize(log, notes)) for log in logs]
    if arguments.format == "jsonl":
        for row in rows:
            sys.stdout.write(json_line(row))
    elif rows:
        labels = labels_of(logs)
        cells = [_cells(row, labels[log.directory]) for row, log in zip(rows, logs, strict=True)]
        sys.stdout.write(aligned_table(_HEADINGS, cells, _NUMBERS))
    return notes.exit_code


def summarize(log: SourceLog, notes: Notes) -> Summary:
    """Summarize the batches of a log that can be trusted. Damage is reported."""
    summary = Summary(max([log.log_start_offset, *(segment.base_offset for segment in log.segments[-1:])]))
    for _, item in checked_batches(log, log.segments, notes):
        if isinstance(item, ScannedBatch):
            summary.add(item.header)
    return summary


def _fields(log: SourceLog, summary: Summary) -> dict[str, object]:
    return {
        **log.topic_partition.columns,
        "directory": shown(log.directory),
        "kind": str(log.kind),
        "topic_id": log.topic_id,
        "segments": len(log.segments),
        "bytes": sum(segment.log_bytes for segment in log.segments),
        "log_start_offset": log.log_start_offset,
        "high_watermark": log.high_watermark,
        "log_end_offset": summary.log_end_offset,
        "batches": summary.batches,
        "records": summary.records,
        "formats": sorted(summary.formats),
        "codecs": sorted(summary.codecs),
        "first_timestamp": summary.first_timestamp,
        "max_timestamp": summary.max_timestamp,
    }


_HEADINGS = ("TOPIC PARTITION", "SEGMENTS", "START", "HIGH WATERMARK", "END", "BYTES", "FORMAT", "CODECS", "FROM", "TO")
_NUMBERS = range(1, 6)


def _cells(row: dict[str, object], name: str) -> tuple[str, ...]:
    if row["kind"] != DirectoryKind.LIVE:
        name += f" ({row['kind']})"
    return (
        name,
        str(row["segments"]),
        str(row["log_start_offset"]),
        "?" if row["high_watermark"] is None else str(row["high_watermark"]),
        str(row["log_end_offset"]),
        str(row["bytes"]),
        value_text(row["formats"]),
        value_text(row["codecs"]),
        _moment(row["first_timestamp"]),
        _moment(row["max_timestamp"]),
    )


def _moment(timestamp: object) -> str:
    return time_text(timestamp) if isinstance(timestamp, int) else "-"
