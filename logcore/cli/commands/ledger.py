"""`loglake ledger`: the outcome of every offset of a log, as ranges from 0 to the log end or a later high watermark."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import nullcontext

from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.record_lines import committed_word, json_line
from logcore.cli.output.terminal import FILE, OF_STATE, Style, Terminal
from logcore.cli.reading.arguments import (
    add_choice,
    add_meaning,
    add_paths,
    add_remote,
    read_options,
    refuse_inside_source,
)
from logcore.errors import LogError
from logcore.library.log_meaning import ledger_of
from logcore.logs.ledger.ledger_picture import LogPicture, ledger_picture
from logcore.logs.model.offset_ledger import EVIDENCE_TRANSACTION, LedgerRange
from logcore.logs.model.sources import SourceLog
from logcore.reading.chosen_logs import find_logs, labels_of
from logcore.reading.log_reading import read_log
from logcore.reading.read_options import ReadOptions
from logcore.reading.visible_offsets import committed_end
from logcore.segments.filenames import DirectoryKind
from logcore.storage.discovery import shown
from logcore.storage.files import new_text


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `ledger`."""
    parser.description = (
        "Report the outcome of every offset from 0 to the log's end, or to a high watermark above it: "
        "present, aborted, compacted away, lost. Gaps are losses unless the cleaner's checkpoint beside the log, "
        "a later batch that only cleaning leaves, or --config cleanup.policy=compact shows that the log is cleaned."
    )
    add_paths(parser)
    add_choice(parser)
    add_remote(parser)
    add_meaning(parser)
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.add_argument("--svg", metavar="FILE", help="also draw the ranges, as a new SVG file")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    refuse_inside_source(arguments, arguments.svg)
    with nullcontext() if arguments.svg is None else new_text(arguments.svg) as drawing:
        notes, pictures = _show(arguments)
        if drawing is not None:
            drawing.write(ledger_picture(pictures))
    return notes.exit_code


def _show(arguments: argparse.Namespace) -> tuple[CommandNotes, list[LogPicture]]:
    """Write the ranges of each log; with ``--svg`` return what a picture shows of them."""
    notes, options = CommandNotes(), read_options(arguments)
    pictures: list[LogPicture] = []
    # Missing offsets are reported with their range.
    quiet = ["missing-offsets", *(["no-high-watermark"] if options.rules.high_watermark != "checkpoint" else [])]
    terminal = Terminal.of(sys.stdout) if arguments.format == "text" else FILE
    logs = find_logs(options, notes, quiet=quiet, is_check=True)
    labels = labels_of(logs)
    for log in logs:
        if log.kind is DirectoryKind.LIVE:
            drawn = []
            if terminal.is_terminal:
                sys.stdout.write(f"{terminal.styled(labels[log.directory], Style.BOLD)}\n")
            for each in _ranges(log, options, notes):
                committed = None
                if log.is_metadata:
                    committed = each.end_offset <= committed_end(log, options.rules.high_watermark)
                if arguments.format == "jsonl":
                    sys.stdout.write(_jsonl(log, each, committed))
                elif terminal.is_terminal:
                    sys.stdout.write(_below_heading(each, committed, terminal))
                else:
                    sys.stdout.write(_text(labels[log.directory], each, committed))
                if arguments.svg is not None:
                    drawn.append(each)
            if arguments.svg is not None:
                pictures.append(_picture(log, labels[log.directory], drawn))
    return notes, pictures


def _picture(log: SourceLog, label: str, ranges: list[LedgerRange]) -> LogPicture:
    waiting = [each.start_offset for each in ranges if each.evidence == EVIDENCE_TRANSACTION]
    segments = tuple(segment.base_offset for segment in log.segments)
    return LogPicture(label, ranges, segments, log.high_watermark, None, tuple(waiting[:1]))


def _ranges(log: SourceLog, options: ReadOptions, notes: CommandNotes) -> Iterator[LedgerRange]:
    """Yield the ranges of a log, in order, and report findings. A log that cannot be checked is reported."""
    try:
        yield from ledger_of(read_log(log, options, notes, says_gaps=False), notes)
    except LogError as error:
        notes.not_checked(log, error)


def _jsonl(log: SourceLog, each: LedgerRange, committed: bool | None) -> str:
    return json_line(
        {
            **log.topic_partition.columns,
            "directory": shown(log.directory),
            "start_offset": each.start_offset,
            "end_offset": each.end_offset,
            "state": str(each.state),
            "records": each.records,
            "gaps": each.gaps,
            "markers": each.markers,
            "evidence": each.shown_by,
            **({} if committed is None else {"committed": committed}),
        }
    )


def _text(label: str, each: LedgerRange, committed: bool | None) -> str:
    span = f"[{each.start_offset}, {each.end_offset})"
    return f"{label}  {span:<24}  {each.state:<9}  {each.shown_by}{_counts(each, committed)}\n"


def _below_heading(each: LedgerRange, committed: bool | None, terminal: Terminal) -> str:
    """A range for a person: indented below the name of its log."""
    span = f"[{each.start_offset}, {each.end_offset})"
    state = terminal.styled(f"{each.state:<9}", OF_STATE[each.state])
    return f"  {span:<24}  {state}  {each.shown_by}{_counts(each, committed, ',')}\n"


def _counts(each: LedgerRange, committed: bool | None, form: str = "") -> str:
    """Records, markers and offsets of a range. `form`: the format of numbers."""
    counts = f"  {each.records:{form}} records" if each.records or each.gaps else ""
    if each.markers:
        counts += f", {each.markers:{form}} markers"
    if each.compacted:
        counts += f", {each.compacted:{form}} offsets compacted away"
    if committed is not None:
        counts += f"  {committed_word(committed)}"
    return counts
