"""`loglake ledger`: what became of every offset of a log, as ranges that tile [0, log end), or up to the high watermark
where that is higher."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from logcore.cli.output.record_lines import json_line
from logcore.cli.reading import arguments as options
from logcore.cli.reading import log_reading
from logcore.cli.reading.looking import Notes, committed_end, committed_word, find_logs
from logcore.errors import LogError
from logcore.logs.ledger.ledger_builder import ledger_ranges
from logcore.logs.model.findings import found
from logcore.logs.model.offset_ledger import LedgerRange, ledger_findings
from logcore.logs.model.sources import SourceLog
from logcore.segments.filenames import DirectoryKind
from logcore.storage.local import shown


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], parent: argparse.ArgumentParser
) -> None:
    """Add `ledger` to the command line."""
    parser = subparsers.add_parser(
        "ledger",
        parents=[parent],
        help="what became of every offset",
        description="Say of every offset from 0 to the log's end, or to a high watermark above it, what became of it: "
        "present, aborted, compacted away, lost. Gaps are losses unless the cleaner's checkpoint beside the log, or "
        "--config cleanup.policy=compact, says that the log is cleaned.",
    )
    options.add_paths(parser)
    options.add_choice(parser)
    log_reading.add_meaning(parser)
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.set_defaults(func=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    notes = Notes()
    quiet = () if arguments.high_watermark == "checkpoint" else ("no-high-watermark",)
    write = _jsonl if arguments.format == "jsonl" else _text
    for log in find_logs(arguments, notes, quiet=quiet):
        if log.kind is DirectoryKind.LIVE:
            for each in _ranges(log, arguments, notes):
                committed = None
                if log.is_metadata:
                    committed = each.end_offset <= committed_end(log, arguments.high_watermark)
                sys.stdout.write(write(log, each, committed))
    return notes.exit_code


def _ranges(log: SourceLog, arguments: argparse.Namespace, notes: Notes) -> Iterator[LedgerRange]:
    """The ranges of a log, in order; what alarms is said once it was told. A log that cannot be judged is said, and
    left."""
    try:
        reading = log_reading.read_log(log, arguments, notes)
        for finding in reading.view.findings:
            notes.say(finding)
        ranges = ledger_ranges(
            reading.facts,
            reading.view,
            start_offset=0,
            log_start_offset=min(log.log_start_offset, reading.log_end_offset),
            high_watermark=reading.high_watermark,
            log_end_offset=reading.log_end_offset,
            rules=reading.rules,
            records_from=log_reading.records_from,
        )
        for each in ranges:
            yield each
            for finding in ledger_findings([each]):
                notes.say(finding)
        if reading.lost is not None:  # it was reported already
            yield reading.lost
    except LogError as error:
        message = f"{log.topic_partition} cannot be judged: {error}"
        notes.say(found("log-not-judged", message, file=shown(log.directory)))


def _jsonl(log: SourceLog, each: LedgerRange, committed: bool | None) -> str:
    return json_line(
        {
            "topic": log.topic_partition.topic,
            "partition": log.topic_partition.partition,
            "start_offset": each.start_offset,
            "end_offset": each.end_offset,
            "state": str(each.state),
            "records": each.records,
            "gaps": each.gaps,
            "evidence": each.said_by,
            **({} if committed is None else {"committed": committed}),
        }
    )


def _text(log: SourceLog, each: LedgerRange, committed: bool | None) -> str:
    counts = f"  {each.records} records" if each.records or each.gaps else ""
    if each.gaps:
        counts += f", {each.gaps} offsets compacted away"
    if committed is not None:
        counts += f"  {committed_word(committed)}"
    span = f"[{each.start_offset}, {each.end_offset})"
    return f"{log.topic_partition}  {span:<24}  {each.state:<9}  {each.said_by}{counts}\n"
