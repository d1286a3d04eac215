"""`loglake transactions`: the committed, aborted and open transactions of a log, and the last stable offset."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.record_lines import json_line, time_text
from logcore.cli.reading.arguments import add_choice, add_meaning, add_paths, add_remote, clock_ms, read_options
from logcore.errors import LogError
from logcore.library.log_meaning import listed_transactions
from logcore.logs.model.findings import found
from logcore.logs.model.sources import SourceLog
from logcore.logs.model.transactions import Transaction, TransactionState
from logcore.reading.chosen_logs import find_logs, labels_of
from logcore.reading.log_reading import LogReading, read_log, time_of
from logcore.segments.filenames import DirectoryKind
from logcore.storage.discovery import shown

_Line = dict[str, object]


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `transactions`."""
    parser.description = (
        "List the transactions of logs, only from the markers below the high watermark. Then report for "
        "each log the number of transactions in each state and its last stable offset."
    )
    add_paths(parser)
    add_choice(parser)
    add_remote(parser)
    add_meaning(parser)
    parser.add_argument(
        "--state",
        action="append",
        choices=[str(state) for state in TransactionState],
        help="list only transactions in this state; repeatable",
    )
    parser.add_argument(
        "--as-of", type=clock_ms, metavar="TIME", help="the clock for the age of open transactions (now)"
    )
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    notes, options = CommandNotes(), read_options(arguments)
    now = arguments.now_ms if arguments.as_of is None else arguments.as_of
    quiet = () if options.rules.high_watermark == "checkpoint" else ("no-high-watermark",)
    logs = find_logs(options, notes, quiet=quiet)
    labels = labels_of(logs)
    for log in logs:
        if log.kind is not DirectoryKind.LIVE:
            continue
        try:
            reading = read_log(log, options, notes)
        except LogError as error:
            message = f"{log.topic_partition} cannot be checked: {error}"
            notes.say(found("log-not-judged", message, file=shown(log.directory)))
            continue
        for finding in reading.view.findings:
            notes.say(finding)
        _write(reading, labels[log.directory], arguments, now)
    return notes.exit_code


def _write(reading: LogReading, label: str, arguments: argparse.Namespace, now: int) -> None:
    log = reading.log
    listed = listed_transactions(reading)
    for transaction in listed:
        if arguments.state is None or transaction.state in arguments.state:
            line = _fields(log, transaction, reading, now)
            sys.stdout.write(json_line(line) if arguments.format == "jsonl" else _text(line, label))
    counts = Counter(transaction.state for transaction in listed)
    summary: _Line = {str(state): counts[state] for state in TransactionState}
    summary |= {
        "high_watermark": reading.high_watermark,
        "last_stable_offset": reading.view.last_stable_offset,
        "log_end_offset": reading.log_end_offset,
    }
    if arguments.format == "jsonl":
        sys.stdout.write(json_line(_place(log) | {"summary": summary}))
    else:
        text = "  ".join(f"{name} {value}" for name, value in summary.items())
        sys.stdout.write(f"{label}  {text}\n")


_OF_TRANSACTION = ("producer_id", "producer_epoch", "first_offset", "last_offset", "marker_offset")


def _place(log: SourceLog) -> _Line:
    name = log.topic_partition
    return {"topic": name.topic, "partition": name.partition, "directory": shown(log.directory)}


def _fields(log: SourceLog, transaction: Transaction, reading: LogReading, now: int) -> _Line:
    since = None
    if transaction.state is TransactionState.OPEN:
        begun = reading.begun.get((transaction.producer_id, transaction.first_offset))
        time = -1 if begun is None else time_of(log, begun)
        since = time if time >= 0 else None
    return _place(log) | {
        **{name: getattr(transaction, name) for name in _OF_TRANSACTION},
        "state": str(transaction.state),
        "since": since,
        "age_ms": None if since is None else now - since,
    }


def _text(line: _Line, label: str) -> str:
    text = (
        f"{label}  producer {line['producer_id']} epoch {line['producer_epoch']}  "
        f"offsets [{line['first_offset']}, {int(str(line['last_offset'])) + 1})  {line['state']}"
    )
    if line["marker_offset"] is not None:
        text += f" at {line['marker_offset']}"
    since, age = line["since"], line["age_ms"]
    if isinstance(since, int) and isinstance(age, int):
        text += f" since {time_text(since)}, {age / 1000:.0f} s"
    return text + "\n"
