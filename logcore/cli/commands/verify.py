"""`loglake verify`: every rule over every byte; one line for each finding, and the sums of all bytes.

Each segment is validated batch by batch and record by record, then its indexes against its batches, then the log as a
whole with its side files. Findings are this command's output: they are written to stdout.

A lake (a directory or URL with `lake.json`) is verified by the entry point of the group `loglake.lake_verify`, a
function from the parsed arguments to the exit code.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

from logcore.cli.output.advice_lines import AdviceLines
from logcore.cli.output.command_notes import CommandNotes, kind_text
from logcore.cli.output.progress import ReadProgress
from logcore.cli.output.record_lines import json_line
from logcore.cli.output.terminal import FILE, OF_SEVERITY, Style, Terminal, duration_text, size_text
from logcore.cli.reading.arguments import add_choice, add_paths, add_remote, add_topic_settings, read_options
from logcore.errors import LogError
from logcore.library.validation import LogValidation, ValidationTotals
from logcore.logs.growth.histories import CopyHistory
from logcore.logs.model.findings import RULES, Finding, Outcome, Severity
from logcore.logs.model.sources import SourceLog
from logcore.logs.rules.advice import HarmedPlace
from logcore.ranges import Range, joined, left_out
from logcore.reading.chosen_logs import find_logs
from logcore.reading.compared_copies import ComparedCopies, fill_command
from logcore.reading.copy_histories import compare_log, copies_of_one_topic
from logcore.reading.read_options import Notes
from logcore.reading.segment_reading import rules_of_gaps
from logcore.segments.filenames import DirectoryKind, parse_topic_partition
from logcore.storage.discovery import shown
from logcore.storage.objects.addresses import absolute, is_object
from logcore.storage.objects.listing import has_objects
from logcore.storage.source_reads import exists
from logcore.texts import shell_word

LAKE_FILE = "lake.json"
_PARTS = ("archive", "tables")


class Verdict(StrEnum):
    """The result for a log in the summary; the last applicable one in this order counts."""

    CLEAN = "clean"
    TAIL_ONLY = "tail only"
    WARNINGS = "warnings only"
    DAMAGED = "damaged"
    MISSING = "missing"
    NOT_CHECKED = "not checked"


_WORSE = {verdict: number for number, verdict in enumerate(Verdict)}
_TAILS = frozenset({"torn-tail", "zero-padding"})
_MISSING = frozenset({"missing-offsets", "high-watermark-beyond-log-end"})
_LOST = frozenset({Verdict.DAMAGED, Verdict.MISSING})
_NOT_READ = frozenset({"unreadable", "source-changed"})


def verdict_of(finding: Finding) -> Verdict:
    """Return the verdict for a log with only this finding."""
    if finding.severity is Severity.ERROR:
        if RULES[finding.rule].outcome is Outcome.UNCHECKED:
            return Verdict.NOT_CHECKED
        return Verdict.MISSING if finding.rule in _MISSING else Verdict.DAMAGED
    if finding.severity is Severity.WARNING:
        return Verdict.WARNINGS
    return Verdict.TAIL_ONLY if finding.rule in _TAILS else Verdict.CLEAN


@dataclass(slots=True)
class Lines(CommandNotes):
    """Findings of the command. Each is a line on stdout as soon as it is known."""

    form: str = "text"
    terminal: Terminal = FILE
    """What stdout can show."""
    log: str | None = None
    """Directory of the log that is being validated, as it is shown."""
    log_directory: str | None = None
    """The same as it is."""
    path: str | None = None
    """The first path that was named."""
    unread: set[str] = field(default_factory=set)
    """Paths that could not be read when logs were looked for."""
    severities: Counter[Severity] = field(default_factory=Counter)
    verdict: Verdict = Verdict.CLEAN
    """The verdict of the findings since it was last set."""
    advice: AdviceLines = field(default_factory=AdviceLines)
    _heading: str | None = None
    """The last printed one."""
    _places: dict[str, Verdict] = field(default_factory=dict)
    """The verdicts of files and directories, and of the directories that contain those files."""

    def verdict_at(self, directory: str) -> Verdict:
        """The worst verdict of a directory, or of a file in it."""
        return self._places.get(directory, Verdict.CLEAN)

    def say(self, finding: Finding) -> None:
        """Count a finding in the verdict, and in that of its file and folder."""
        self.verdict = max(self.verdict, verdict_of(finding), key=_WORSE.__getitem__)
        for place in (finding.file, os.path.dirname(finding.file)) if finding.file is not None else ():
            self._places[place] = max(self.verdict_at(place), verdict_of(finding), key=_WORSE.__getitem__)
        if finding.rule in _NOT_READ and self.log is None and finding.file is not None:
            self.unread.add(finding.file)
        directory = self.log_directory or finding.file or self.path
        of_log = None if directory is None else parse_topic_partition(os.path.basename(directory))
        topic, partition = (None, None) if of_log is None else (of_log.topic, of_log.partition)
        self.advice.add(finding, HarmedPlace(directory=directory, topic=topic, partition=partition))
        if finding.file is not None:
            finding = replace(finding, file=shown(finding.file))
        # Kept only for the exit code: a log may have very many.
        if finding.rule not in {known.rule for known in self.findings}:
            self.findings.append(finding)
        self.severities[finding.severity] += 1
        self.clear_progress()
        if self.form == "jsonl":
            sys.stdout.write(_json(finding))
        elif self.terminal.is_terminal:
            self._print_below_heading(finding)
        else:
            sys.stdout.write(_text(finding))

    def _print_below_heading(self, finding: Finding) -> None:
        """Print a finding for a person: indented below the directory of its log."""
        directory, name = os.path.split(finding.file or "")
        heading = directory if self.log is None else self.log
        if heading != self._heading:
            self._heading = heading
            sys.stdout.write(f"{self.terminal.styled(heading or 'all logs', Style.BOLD)}\n")
        if directory == heading:
            finding = replace(finding, file=name or None)
        sys.stdout.write(f"  {_text(finding, self.terminal)}")


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `verify`."""
    parser.description = (
        "Check every byte of segments and of their side files, and report the sums of all bytes. "
        "For a lake: verify its archive, its tables and its offset ledger."
    )
    add_paths(parser, also="; or one LAKE: a directory with lake.json, or s3://bucket/prefix")
    add_choice(parser)
    add_remote(parser)
    add_topic_settings(parser)
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.add_argument(
        "--sample",
        type=_sample,
        metavar="N/T",
        help="for a lake: only the N-th of T equal parts; all parts together are the whole lake",
    )
    parser.add_argument(
        "--resume",
        metavar="FILE",
        help="for a lake: record in FILE, outside of the lake, what is verified, and continue from there",
    )
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    lakes = [path for path in arguments.paths if _is_lake(path)]
    if len(lakes) > 1 or (lakes and len(arguments.paths) > 1):
        arguments.parser.error("a lake is verified separately: name one lake, or paths of logs")
    if lakes:
        if arguments.config:
            arguments.parser.error("--config is for logs; a lake has its policies")
        if arguments.remotes:
            arguments.parser.error("--remote is for paths of logs, not for a lake")
        return _verify_lake(arguments)
    if arguments.sample or arguments.resume:
        arguments.parser.error("--sample and --resume are for a lake; none of these paths is one")
    is_text = arguments.format == "text"
    lines, options = Lines(form=arguments.format, path=arguments.paths[0]), read_options(arguments)
    lines.terminal = Terminal.of(sys.stdout) if is_text else FILE
    logs = tuple(log for log in find_logs(options, lines, is_check=True) if log.kind is DirectoryKind.LIVE)
    progress = ReadProgress(sum(segment.log_bytes for log in logs for segment in log.segments))
    lines.progress = progress.line
    validation = LogValidation(logs, lines, progress)
    progress.line.begin()  # kernels were compiled, if necessary: that time says nothing about the bytes
    found = {shown(log.directory) for log in logs}
    lost = [place for place in lines.unread if not {place, os.path.dirname(place)} & found]
    verdicts: Counter[Verdict] = Counter({Verdict.NOT_CHECKED: len(lost)})
    try:
        for log in logs:
            lines.log, lines.log_directory = shown(log.directory), log.directory
            lines.verdict = lines.verdict_at(lines.log)
            validation.validate(log, rules_of_gaps(log, lines, options.is_compacted))
            verdicts[lines.verdict] += 1
        lines.log = lines.log_directory = None
        _look_into_copies(logs, lines)
        validation.validate_bootstrap_files(is_choice=not options.selection.is_everything)
    finally:
        progress.close()  # also before an error or an interrupt is reported
    totals = validation.totals
    summary: dict[str, object] = {each.name: getattr(totals, each.name) for each in fields(totals)}
    summary["findings"] = {str(severity): lines.severities[severity] for severity in Severity}
    summary["logs"] = {str(verdict): verdicts[verdict] for verdict in Verdict}
    if not is_text:
        sys.stdout.write(json_line({"summary": summary}))
        return lines.exit_code
    sys.stdout.write(str(lines.advice))
    if lines.terminal.is_terminal:
        sys.stdout.write(_summary_for_person(totals, lines, verdicts, progress.line.seconds))
    else:
        sys.stdout.write(_summary_text(totals, lines, verdicts))
    return lines.exit_code


def _look_into_copies(logs: Sequence[SourceLog], lines: Lines) -> None:
    """Advise the command that takes offsets that a copy of a log lost from another copy."""
    copies = ComparedCopies(logs)
    for name, number in Counter(log.topic_partition for log in logs).items():
        of_name = [log for log in logs if log.topic_partition == name]
        if number == 1 or not any(lines.verdict_at(shown(log.directory)) in _LOST for log in of_name):
            continue
        for group in copies_of_one_topic(of_name):
            kept = (compared := compare_log(group, copies, Notes())).kept
            histories = {log.directory: of for log, of in zip(compared.logs, compared.histories, strict=True)}
            said: list[str] = []
            filled: list[Range] = []
            for other in compared.decision.others if kept is not None else ():
                if kept is None or other.parts_at is not None:
                    continue
                best, place = shown(kept.directory), shown(other.copy.log.directory)
                ours, theirs = histories[kept.directory], histories[other.copy.log.directory]
                if fills := _held(theirs, (*other.fills, *ours.damaged)):
                    filled += fills
                    said += [f"{place} has {_spans(fills)}, which {best} lost.", fill_command(kept, other.copy.log)]
                elif lacks := _held(ours, (*other.lacks, *theirs.damaged)):
                    writes = (
                        f"recover {shell_word(best)} {shell_word(place)} --out DIR` writes the log as {best} has it."
                    )
                    said += [f"{best} has {_spans(lacks)}, which {place} lost.", f"`loglake {writes}"]
            if said and kept is not None:
                wanted, there = histories[kept.directory].not_held, joined(filled)
                is_all = not any(any(left_out(start, end, there)) for start, end in wanted)
                lines.advice.from_copies(str(name), " ".join(said), is_all=is_all)


def _held(history: CopyHistory, ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The parts of ranges of which a copy has batches that can be trusted."""
    bases, found = history.batches.bases, []
    for start, end in joined(ranges):
        for low, high in left_out(start, end, history.not_held):
            number = history.batches.first_from(low)
            if number < len(bases) and bases[number] < high:
                found.append((low, high))
    return tuple(found)


def _spans(ranges: Sequence[Range]) -> str:
    return " and ".join(f"[{start}, {end})" for start, end in ranges)


def _sample(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text, re.ASCII)
    number, total = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= total:
        raise argparse.ArgumentTypeError(f"{text!r} is not a part of a whole; write N/T, for instance 1/7")
    return number, total


def _is_lake(path: str) -> bool:
    """Whether a path is a lake, even if its description is lost."""
    if is_object(path):
        url = absolute(path)
        return exists(f"{url}/{LAKE_FILE}") or all(has_objects(f"{url}/{name}") for name in _PARTS)
    has_parts = all(os.path.isdir(os.path.join(path, name)) for name in _PARTS)
    return has_parts or os.path.isfile(os.path.join(path, LAKE_FILE))


def _verify_lake(arguments: argparse.Namespace) -> int:
    from logcore.cli import entry_points

    points = list(entry_points.of_group(entry_points.LAKE_VERIFY).values())
    lake = shown(arguments.paths[0])
    if not points:
        raise LogError(f"{lake} is a lake, and no installed package can read its tables.", advice=entry_points.ADVICE)
    return int(entry_points.load(points[0], f"Verifying the lake {lake}")(arguments))


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


def _text(finding: Finding, terminal: Terminal = FILE) -> str:
    place = [] if finding.file is None or finding.message.startswith(finding.file) else [finding.file]
    if finding.position is not None:
        place.append(f"position {finding.position}")
    if finding.start_offset is not None:
        place.append(f"offset {finding.start_offset}")
    return ": ".join([kind_text(finding, terminal), *([", ".join(place)] if place else []), finding.message]) + "\n"


def _summary_text(totals: ValidationTotals, lines: Lines, verdicts: Counter[Verdict]) -> str:
    logs = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in Verdict if verdicts[verdict])
    severities = ", ".join(f"{lines.severities[severity]} {severity}" for severity in reversed(Severity))
    return (
        f"{totals.files} files, {totals.batches} batches, {totals.records} records; {totals.bytes} bytes: "
        f"{totals.valid_bytes} valid, {totals.quarantined_bytes} quarantined, {totals.unreadable_bytes} unreadable, "
        f"{totals.tail_bytes} tail, {totals.padding_bytes} padding\nlogs: {logs or 'none'}\nfindings: {severities}\n"
    )


def _summary_for_person(totals: ValidationTotals, lines: Lines, verdicts: Counter[Verdict], seconds: float) -> str:
    """The summary with sizes and the duration for people; only kinds of bytes that there are."""
    terminal = lines.terminal
    kinds = ("valid", "quarantined", "unreadable", "tail", "padding")
    sizes = {kind: int(getattr(totals, f"{kind}_bytes")) for kind in kinds}
    of_bytes = ", ".join(f"{size_text(size)} {kind}" for kind, size in sizes.items() if size) or "0 B"
    logs = ", ".join(
        terminal.styled(f"{verdicts[verdict]:,} {verdict}", *_STYLE_OF[verdict])
        for verdict in Verdict
        if verdicts[verdict]
    )
    severities = ", ".join(
        terminal.styled(text, OF_SEVERITY[severity]) if lines.severities[severity] else text
        for severity in reversed(Severity)
        for text in (f"{lines.severities[severity]:,} {severity}",)
    )
    speed = f", {totals.bytes / seconds / 1e6:,.0f} MB/s" if seconds >= 1 else ""
    return (
        f"{totals.files:,} files, {totals.batches:,} batches, {totals.records:,} records, {size_text(totals.bytes)} in "
        f"{duration_text(seconds)}{speed}\nbytes: {of_bytes}\nlogs: {logs or 'none'}\nfindings: {severities}\n"
    )


_STYLE_OF: dict[Verdict, tuple[Style, ...]] = {
    Verdict.CLEAN: (Style.GREEN,),
    Verdict.TAIL_ONLY: (Style.GREEN,),
    Verdict.WARNINGS: (Style.YELLOW,),
    Verdict.DAMAGED: (Style.RED,),
    Verdict.MISSING: (Style.RED,),
    Verdict.NOT_CHECKED: (Style.RED,),
}
