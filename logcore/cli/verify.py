"""`loglake verify`: every rule over every byte; a line for each finding, and where all bytes went.

Each segment is judged batch by batch and record by record, then its indexes against its batches, then the log as a
whole with what lies beside it. Findings are this command's output: they go to stdout.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, field, fields, replace

from logcore.cli import arguments as options
from logcore.cli.checked_logs import CheckedLogs
from logcore.cli.log_reading import gap_rules, is_compacted, topic_setting
from logcore.cli.looking import Notes, find_logs
from logcore.cli.record_lines import json_line
from logcore.logs.findings import Finding, Severity
from logcore.logs.log_check import check_log
from logcore.logs.validation import SegmentJudgement
from logcore.segments.filenames import DirectoryKind
from logcore.storage.local import read_file, shown

MAX_SIDE_FILE = 1 << 30
"""Bytes of an index or a snapshot, at most: brokers preallocate 10 MiB."""


@dataclass(slots=True)
class Totals:
    """What was looked at, over all logs. bytes = valid + tail + padding + quarantined, of segments."""

    files: int = 0
    bytes: int = 0
    valid_bytes: int = 0
    tail_bytes: int = 0
    padding_bytes: int = 0
    quarantined_bytes: int = 0
    batches: int = 0
    records: int = 0

    def add(self, validation: SegmentJudgement) -> None:
        """Account for a segment that was walked to its end."""
        accounting = validation.accounting
        self.files += 1
        self.bytes += accounting.file_size
        self.valid_bytes += accounting.valid
        self.tail_bytes += accounting.tail
        self.padding_bytes += accounting.padding
        self.quarantined_bytes += accounting.quarantined
        self.batches += validation.counts.batches
        self.records += validation.counts.records


@dataclass(slots=True)
class Lines(Notes):
    """Findings of the command, each a line on stdout as soon as it is known."""

    form: str = "text"
    severities: Counter[Severity] = field(default_factory=Counter)

    def say(self, finding: Finding) -> None:
        if finding.file is not None:
            finding = replace(finding, file=shown(finding.file))
        # Kept for the exit code alone: a log may have very many.
        if finding.rule not in {known.rule for known in self.findings}:
            self.findings.append(finding)
        self.severities[finding.severity] += 1
        sys.stdout.write(_json(finding) if self.form == "jsonl" else _text(finding))


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], parent: argparse.ArgumentParser
) -> None:
    """Add `verify` to the command line."""
    parser = subparsers.add_parser(
        "verify",
        parents=[parent],
        help="every rule over every byte",
        description="Judge every byte of segments and of what lies beside them, and say where all bytes went.",
    )
    options.add_paths(parser)
    options.add_choice(parser)
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        type=topic_setting,
        metavar="NAME=VALUE",
        help="topic configuration by Kafka's names; cleanup.policy=compact makes gaps legal",
    )
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.set_defaults(func=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    lines = Lines(form=arguments.format)
    totals = Totals()
    logs = tuple(log for log in find_logs(arguments, lines) if log.kind is DirectoryKind.LIVE)
    checked = CheckedLogs(logs, lines, _read, totals.add, arguments.now_ms)
    for log in logs:
        rules = gap_rules(log, is_compacted(log, arguments.config))
        for finding in check_log(log, checked.segments(log), _read, rules=rules):
            lines.say(finding)
    summary: dict[str, object] = {each.name: getattr(totals, each.name) for each in fields(totals)}
    summary["findings"] = {str(severity): lines.severities[severity] for severity in Severity}
    if arguments.format == "jsonl":
        sys.stdout.write(json_line({"summary": summary}))
    else:
        sys.stdout.write(_summary_text(totals, lines))
    return lines.exit_code


def _read(path: str) -> bytes:
    return read_file(path, MAX_SIDE_FILE)


def _json(finding: Finding) -> str:
    return json_line(
        {
            "rule": finding.rule,
            "severity": str(finding.severity),
            "file": finding.file,
            "position": finding.position,
            "nbytes": finding.nbytes,
            "offset": finding.start_offset,
            "message": finding.message,
        }
    )


def _text(finding: Finding) -> str:
    place = [] if finding.file is None else [finding.file]
    if finding.position is not None:
        place.append(f"position {finding.position}")
    if finding.start_offset is not None:
        place.append(f"offset {finding.start_offset}")
    return f"{finding.severity} {finding.rule}: {', '.join(place)}: {finding.message}\n"


def _summary_text(totals: Totals, lines: Lines) -> str:
    told = ", ".join(f"{lines.severities[severity]} {severity}" for severity in reversed(Severity))
    return (
        f"{totals.files} files, {totals.batches} batches, {totals.records} records; {totals.bytes} bytes: "
        f"{totals.valid_bytes} valid, {totals.quarantined_bytes} quarantined, {totals.tail_bytes} tail, "
        f"{totals.padding_bytes} padding\nfindings: {told}\n"
    )
