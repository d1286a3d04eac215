"""`loglake verify`: every rule over every byte; a line for each finding, and where all bytes went.

Each segment is judged batch by batch and record by record, then its indexes against its batches, then the log as a
whole with what lies beside it. Findings are this command's output: they go to stdout.

A lake (a directory, or the URL of one, that holds `lake.json`) is proved by whoever knows its tables: the entry point
of the group `loglake.lake_verify`, a function from the parsed arguments to the exit code.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

from logcore.cli.output.checked_logs import CheckedLogs
from logcore.cli.output.record_lines import json_line
from logcore.cli.reading import arguments as options
from logcore.cli.reading.log_reading import gap_rules, is_compacted, topic_setting
from logcore.cli.reading.looking import Notes, find_logs
from logcore.errors import LogError
from logcore.logs.checks.log_check import check_log
from logcore.logs.checks.validation import BatchVerdict, SegmentJudgement, validate_segment
from logcore.logs.model.findings import RULES, Finding, Outcome, Severity, found
from logcore.logs.model.sources import SourceLog
from logcore.records.control import ControlType
from logcore.segments.filenames import BOOTSTRAP_FILE, DirectoryKind
from logcore.storage.local import read_file, shown

LAKE_FILE = "lake.json"
LAKE_ENTRY_POINTS = "loglake.lake_verify"

MAX_SIDE_FILE = 1 << 30
"""Bytes of an index or a snapshot, at most: brokers preallocate 10 MiB."""


@dataclass(slots=True)
class Totals:
    """What was looked at, over all logs. bytes = valid + tail + padding + quarantined + unreadable, of segments."""

    files: int = 0
    bytes: int = 0
    valid_bytes: int = 0
    tail_bytes: int = 0
    padding_bytes: int = 0
    quarantined_bytes: int = 0
    unreadable_bytes: int = 0
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
        self.unreadable_bytes += accounting.unreadable
        self.batches += validation.counts.batches
        self.records += validation.counts.records


class Verdict(StrEnum):
    """What becomes of a log in the summary; of several the last one in this order counts."""

    CLEAN = "clean"
    TAIL_ONLY = "tail only"
    WARNINGS = "warnings only"
    DAMAGED = "damaged"
    MISSING = "missing"
    NOT_CHECKED = "not checked"


_WORSE = {verdict: number for number, verdict in enumerate(Verdict)}
_TAILS = frozenset({"torn-tail", "zero-padding"})
_MISSING = frozenset({"missing-offsets", "high-watermark-beyond-log-end"})


def verdict_of(finding: Finding) -> Verdict:
    """What one finding makes of its log."""
    if finding.severity is Severity.ERROR:
        if RULES[finding.rule].outcome is Outcome.UNCHECKED:
            return Verdict.NOT_CHECKED
        return Verdict.MISSING if finding.rule in _MISSING else Verdict.DAMAGED
    if finding.severity is Severity.WARNING:
        return Verdict.WARNINGS
    return Verdict.TAIL_ONLY if finding.rule in _TAILS else Verdict.CLEAN


@dataclass(slots=True)
class Lines(Notes):
    """Findings of the command, each a line on stdout as soon as it is known."""

    form: str = "text"
    severities: Counter[Severity] = field(default_factory=Counter)
    verdict: Verdict = Verdict.CLEAN
    """Of the findings since it was last set."""
    _places: dict[str, Verdict] = field(default_factory=dict)
    """Of the findings of files and directories, and of the directories that hold those files."""

    def verdict_at(self, directory: str) -> Verdict:
        """The worst that was found of a directory, or of a file that lies in it."""
        return self._places.get(directory, Verdict.CLEAN)

    def say(self, finding: Finding) -> None:
        self.verdict = max(self.verdict, verdict_of(finding), key=_WORSE.__getitem__)
        for place in (finding.file, os.path.dirname(finding.file)) if finding.file is not None else ():
            self._places[place] = max(self.verdict_at(place), verdict_of(finding), key=_WORSE.__getitem__)
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
        description="Judge every byte of segments and of what lies beside them, and say where all bytes went. "
        "Of a lake: prove its archive, its tables and its offset ledger.",
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
    parser.add_argument(
        "--sample",
        type=_sample,
        metavar="N/T",
        help="of a lake: only the N-th of T equal parts; all parts together are the whole lake",
    )
    parser.add_argument(
        "--resume",
        metavar="FILE",
        help="of a lake: remember in FILE, outside of the lake, what is proved, and go on from there",
    )
    parser.set_defaults(func=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    lakes = [path for path in arguments.paths if _is_lake(path)]
    if len(lakes) > 1 or (lakes and len(arguments.paths) > 1):
        arguments.parser.error("a lake is proved by itself: name one lake, or paths of logs")
    if lakes:
        if arguments.config:
            arguments.parser.error("--config is for logs; a lake has its policies")
        return _verify_lake(arguments)
    if arguments.sample or arguments.resume:
        arguments.parser.error("--sample and --resume are for a lake; these paths are none")
    lines = Lines(form=arguments.format)
    totals = Totals()
    logs = tuple(log for log in find_logs(arguments, lines, is_check=True) if log.kind is DirectoryKind.LIVE)
    checked = CheckedLogs(logs, lines, _read, totals.add)
    verdicts: Counter[Verdict] = Counter()
    for log in logs:
        lines.verdict = lines.verdict_at(shown(log.directory))
        rules = gap_rules(log, is_compacted(log, arguments.config))
        for finding in check_log(log, checked.segments(log), _read, rules=rules):
            lines.say(finding)
        for path in _metadata_snapshots(log):
            _verify_snapshot(path, lines, totals)
        verdicts[lines.verdict] += 1
    for path in _bootstrap_files(arguments, logs):
        _verify_snapshot(path, lines, totals)
    summary: dict[str, object] = {each.name: getattr(totals, each.name) for each in fields(totals)}
    summary["findings"] = {str(severity): lines.severities[severity] for severity in Severity}
    summary["logs"] = {str(verdict): verdicts[verdict] for verdict in Verdict}
    if arguments.format == "jsonl":
        sys.stdout.write(json_line({"summary": summary}))
    else:
        sys.stdout.write(_summary_text(totals, lines, verdicts))
    return lines.exit_code


def _metadata_snapshots(log: SourceLog) -> list[str]:
    """Paths of KRaft's snapshots, where this is the metadata log."""
    return [path for _, path in log.metadata_snapshots] if log.is_metadata and not log.named_files else []


def _bootstrap_files(arguments: argparse.Namespace, logs: tuple[SourceLog, ...]) -> list[str]:
    """Paths of what the log directories were formatted with; where topics are chosen, of that of the metadata log."""
    is_choice = arguments.topic or arguments.partition
    of_metadata = [log for log in logs if log.is_metadata and not log.named_files]
    roots = {os.path.dirname(os.path.abspath(log.directory)) for log in (of_metadata if is_choice else logs)}
    paths = [os.path.join(root, BOOTSTRAP_FILE) for root in sorted(roots)]
    return [path for path in paths if os.path.lexists(path)]


def _verify_snapshot(path: str, lines: Lines, totals: Totals) -> None:
    """Judge a KRaft snapshot: batches of format v2 from offset 0 on, the first with its header, the last its footer."""
    try:
        content = _read(path)
    except LogError as error:
        lines.say(found("unreadable", str(error.at(file=shown(path))), file=path))
        return
    validation = validate_segment(content, base_offset=0, sealed=True, file=path)
    kinds = [item.control_type if isinstance(item, BatchVerdict) else None for item in validation]
    for finding in validation.findings:
        if finding.rule != "control-batch-shape":  # the first one holds KRaft's version and voters too
            lines.say(finding)
    totals.add(validation)
    is_damaged_inside = validation.accounting.quarantined > 0 and kinds[-1] == ControlType.SNAPSHOT_FOOTER
    if not is_damaged_inside and (kinds[:1], kinds[-1:]) != (
        [ControlType.SNAPSHOT_HEADER],
        [ControlType.SNAPSHOT_FOOTER],
    ):
        message = f"{shown(path)} does not begin with a snapshot's header and end with its footer: it is not whole."
        lines.say(found("snapshot-not-whole", message, file=path))


def _sample(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text, re.ASCII)
    number, total = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= total:
        raise argparse.ArgumentTypeError(f"{text!r} is no part of a whole; write N/T, for instance 1/7")
    return number, total


def _is_lake(path: str) -> bool:
    """Whether a path is a lake's, also where its description is lost; of a URL only who knows lakes can tell."""
    has_parts = all(os.path.isdir(os.path.join(path, name)) for name in ("archive", "tables"))
    return "://" in path or has_parts or os.path.isfile(os.path.join(path, LAKE_FILE))


def _verify_lake(arguments: argparse.Namespace) -> int:
    from importlib import metadata  # takes longer than most commands' own start

    points = list(metadata.entry_points(group=LAKE_ENTRY_POINTS))
    advice = "Install the distribution `loglake` with what it depends on."
    if not points:
        raise LogError(f"{shown(arguments.paths[0])} is a lake, and nothing here can read its tables.", advice=advice)
    try:
        verify = points[0].load()
    except ImportError as error:
        missing = error.name or "a package"
        message = f"{shown(arguments.paths[0])} is a lake; to verify it, {missing} is needed, which cannot be imported."
        raise LogError(message, advice=advice) from error
    return int(verify(arguments))


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
    return (
        ": ".join([f"{finding.severity} {finding.rule}", *([", ".join(place)] if place else []), finding.message])
        + "\n"
    )


def _summary_text(totals: Totals, lines: Lines, verdicts: Counter[Verdict]) -> str:
    logs = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in Verdict if verdicts[verdict])
    told = ", ".join(f"{lines.severities[severity]} {severity}" for severity in reversed(Severity))
    return (
        f"{totals.files} files, {totals.batches} batches, {totals.records} records; {totals.bytes} bytes: "
        f"{totals.valid_bytes} valid, {totals.quarantined_bytes} quarantined, {totals.unreadable_bytes} unreadable, "
        f"{totals.tail_bytes} tail, {totals.padding_bytes} padding\nlogs: {logs or 'none'}\nfindings: {told}\n"
    )
