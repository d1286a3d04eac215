"""`loglake transactions`: the transactions of logs with their outcome, and those of coordinators across partitions."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.record_lines import json_line, value_text
from logcore.cli.reading.arguments import add_choice, add_meaning, add_paths, add_remote, clock_ms, read_options
from logcore.errors import LogError
from logcore.garbage_collection import collector_paused
from logcore.library.log_meaning import listed_transactions
from logcore.logs.model.paired_transactions import (
    PairedState,
    PairedTransaction,
    paired_transactions,
)
from logcore.logs.model.sources import SourceLog
from logcore.logs.model.transactions import Transaction, TransactionState
from logcore.reading.chosen_logs import find_logs, labels_of
from logcore.reading.internal_topics.internal_logs import internal_logs
from logcore.reading.internal_topics.transaction_coordinators import (
    finding_about,
    has_every_coordinator,
    partition_transactions,
    read_coordinators,
)
from logcore.reading.log_reading import LogReading, read_log, time_of
from logcore.reading.read_options import ReadOptions
from logcore.segments.filenames import DirectoryKind
from logcore.storage.discovery import shown
from logcore.texts import time_text
from logcore.topics.coordinated_transactions import CoordinatedTransactions
from logcore.topics.internal_topics import InternalTopic

_Line = dict[str, object]

_STATES = tuple(dict.fromkeys(map(str, (*TransactionState, *PairedState))))


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `transactions`."""
    parser.description = (
        "List the transactions of logs, only from the markers below the high watermark. Then report for "
        "each log the number of transactions in each state and its last stable offset. With __transaction_state "
        "among the logs, compare each transaction of a coordinator with what all partitions have of it: complete, "
        "ongoing, hanging (data without a marker, and no coordinator will write one), torn (partitions contradict "
        "each other or the coordinator) or unknown. Those that hang or are torn are listed, others with --state. "
        "Before transaction version 2 (KIP-890), late data of an ended transaction can hang or join the producer's "
        "next one; and once __transaction_state is compacted, the transactions of one epoch are not distinguished."
    )
    add_paths(parser)
    add_choice(parser)
    add_remote(parser)
    add_meaning(parser)
    parser.add_argument(
        "--state",
        action="append",
        choices=_STATES,
        help="list only transactions in this state; repeatable. Of a log: committed, aborted, open, unknown; across "
        "partitions: complete, ongoing, hanging, torn, unknown",
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
    paired = _one_copy(logs, options, notes, quiet)
    across = {*map(str, PairedState)} - {*map(str, TransactionState)}
    is_across = any(_is_coordinator(log) for log in paired)
    if across & {*(arguments.state or ())} and not is_across:
        internal_logs(logs, notes, InternalTopic.TRANSACTION_STATE)
    coordinators = [log for log in paired if _is_coordinator(log)]
    coordinated = read_coordinators(coordinators, notes, options.rules)
    compared = {log.directory for log in paired} if is_across else set()
    partitions, newest_ms = [], -1
    for log in logs:
        if log.kind is not DirectoryKind.LIVE:
            continue
        try:
            reading = read_log(log, options, notes, until_ms=now)
        except LogError as error:
            notes.not_checked(log, error)
            continue
        notes.say_all(reading.view.findings)
        listed = listed_transactions(reading)
        _write(reading, listed, labels[log.directory], arguments, now, coordinated)
        if log.directory in compared:
            partitions.append(partition_transactions(reading, listed))
            newest_ms = max(newest_ms, reading.newest_ms)
    if is_across:
        is_whole = has_every_coordinator(coordinators, logs, notes)
        _write_across(
            paired_transactions(partitions, coordinated, newest_ms=newest_ms, has_every_coordinator=is_whole),
            {(log.topic_partition.topic, log.topic_partition.partition): log.directory for log in paired},
            arguments,
            notes,
        )
    return notes.exit_code


def _is_coordinator(log: SourceLog) -> bool:
    return log.topic_partition.topic == InternalTopic.TRANSACTION_STATE


def _one_copy(
    logs: Sequence[SourceLog], options: ReadOptions, notes: CommandNotes, quiet: Collection[str]
) -> Sequence[SourceLog]:
    """One copy of each log; of several that which has its history."""
    live = [log for log in logs if log.kind is DirectoryKind.LIVE]
    if not any(map(_is_coordinator, live)) or len({log.topic_partition for log in live}) == len(live):
        return live
    return find_logs(options, notes, quiet=quiet, is_one_copy=True)


def _write(
    reading: LogReading,
    listed: Sequence[Transaction],
    label: str,
    arguments: argparse.Namespace,
    now: int,
    coordinated: CoordinatedTransactions,
) -> None:
    log = reading.log
    for transaction in listed:
        if arguments.state is None or transaction.state in arguments.state:
            of_id = coordinated.ids.get(transaction.producer_id)
            line = _fields(log, transaction, reading, now)
            line["transactional_id"] = None if of_id is None else of_id.name
            sys.stdout.write(json_line(line) if arguments.format == "jsonl" else _text(line, label))
    counts = Counter(transaction.state for transaction in listed)
    summary: _Line = {str(state): counts[state] for state in TransactionState}
    summary |= {
        "high_watermark": reading.high_watermark,
        "last_stable_offset": reading.view.last_stable_offset,
        "log_end_offset": reading.log_end_offset,
    }
    _write_summary(_place(log), summary, label, arguments)


def _write_summary(place: _Line, summary: _Line, label: str, arguments: argparse.Namespace) -> None:
    if arguments.format == "jsonl":
        sys.stdout.write(json_line(place | {"summary": summary}))
    else:
        text = "  ".join(f"{name} {value}" for name, value in summary.items())
        sys.stdout.write(f"{label}  {text}\n")


@collector_paused()  # of the many objects none is in a cycle
def _write_across(
    paired: Iterable[PairedTransaction],
    directories: dict[tuple[str, int], str],
    arguments: argparse.Namespace,
    notes: CommandNotes,
) -> None:
    counts: Counter[PairedState] = Counter()
    # Readers of lines that chose no state know only those of logs: no line is added where nothing is wrong.
    listed = arguments.state or (PairedState.TORN, PairedState.HANGING)
    for each in paired:
        counts[each.state] += 1
        if each.state in listed:
            if arguments.format == "jsonl":
                sys.stdout.write(json_line(_fields_across(each, directories)))
            else:
                sys.stdout.write(_text_across(each))
        finding = finding_about(each)
        if finding is not None:
            notes.say(finding)
    if arguments.format == "text" or arguments.state is not None:
        _write_summary({}, {str(state): counts[state] for state in PairedState}, "across partitions", arguments)


_OF_TRANSACTION = ("producer_id", "producer_epoch", "first_offset", "last_offset", "marker_offset")
_OF_PART = ("first_offset", "last_offset", "marker_offset")


def _place(log: SourceLog) -> _Line:
    return log.topic_partition.columns | {"directory": shown(log.directory)}


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


def _fields_across(each: PairedTransaction, directories: dict[tuple[str, int], str]) -> _Line:
    coordinated = each.coordinated
    return {
        "transactional_id": each.transactional_id,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "state": str(each.state),
        "reason": each.reason,
        "coordinator_state": None if coordinated is None else coordinated.state.kafka_name,
        "start_time": None if coordinated is None else coordinated.start_ms,
        "update_time": None if coordinated is None else coordinated.updated_ms,
        "timeout_ms": None if coordinated is None else coordinated.timeout_ms,
        "partitions": [
            {"topic": part.partition[0], "partition": part.partition[1]}
            | {"directory": shown(directories[part.partition])}
            | {name: getattr(part.transaction, name) for name in _OF_PART}
            | {"state": str(part.transaction.state)}
            for part in each.parts
        ],
    }


def _text_across(each: PairedTransaction) -> str:
    name = "-" if each.transactional_id is None else value_text(each.transactional_id)
    lines = [f"{name}  producer {each.producer_id} epoch {each.producer_epoch}  {each.state}: {each.reason}\n"]
    for part in each.parts:
        of_part = part.transaction
        marker = "" if of_part.marker_offset is None else f" at {of_part.marker_offset}"
        place = f"{value_text(part.partition[0])}-{part.partition[1]}"
        offsets = f"[{of_part.first_offset}, {of_part.last_offset + 1})"
        lines.append(f"  {place}  offsets {offsets}  {of_part.state}{marker}\n")
    return "".join(lines)
