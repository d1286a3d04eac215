"""`loglake offsets`: what a broker's ListOffsets would answer for each topic partition."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.record_lines import committed_word, json_line
from logcore.cli.reading.arguments import (
    add_choice,
    add_high_watermark,
    add_isolation_level,
    add_paths,
    add_remote,
    natural,
    read_options,
    time_ms,
)
from logcore.errors import LogError
from logcore.logs import lookup
from logcore.logs.lookup import OffsetAnswer
from logcore.logs.model.findings import Severity
from logcore.logs.model.sources import SourceLog
from logcore.reading.chosen_logs import find_logs
from logcore.reading.consumer_log import ConsumerLog
from logcore.reading.internal_topics.cluster_metadata import tiered_topics
from logcore.reading.read_options import Notes, ReadOptions
from logcore.reading.visible_offsets import committed_end
from logcore.segments.side_files import time_index
from logcore.segments.side_files.leader_epochs import epoch_for_offset
from logcore.texts import time_text

NAMES = {
    "earliest": lookup.EARLIEST,
    "latest": lookup.LATEST,
    "max-timestamp": lookup.MAX_TIMESTAMP,
    "earliest-local": lookup.EARLIEST_LOCAL,
    "latest-tiered": lookup.LATEST_TIERED,
    "earliest-pending-upload": lookup.EARLIEST_PENDING_UPLOAD,
}
_OF_REMOTE_STORAGE = (lookup.LATEST_TIERED, lookup.EARLIEST_PENDING_UPLOAD)


def moment(text: str) -> int:
    """Parse a name of `NAMES`, its number in Kafka's protocol, or a time."""
    known = NAMES | {str(number): number for number in NAMES.values()}
    if text in known:
        return known[text]
    at = time_ms(text)
    if at < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a time from 1970 on nor one of {', '.join(NAMES)}")
    return at


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `offsets`."""
    parser.description = (
        "Print the offset that a broker would answer for a time: that of the first record with this "
        "timestamp or a later one, -1 if there is none. If a broker does not know the timestamps of a segment (format "
        "v0, a lost time index), the modification time of its file counts, as for a broker."
    )
    add_paths(parser)
    add_choice(parser)
    add_remote(parser)
    parser.add_argument(
        "--at", type=moment, required=True, metavar="TIME|" + "|".join(NAMES), help="what to find in each log"
    )
    parser.add_argument(
        "--before",
        type=natural,
        metavar="N",
        help="instead: at most N offsets at which segments begin, latest first, of segments that were last changed at "
        "or before the time, as brokers before 4.0 answer version 0 of ListOffsets",
    )
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    add_isolation_level(parser, "up to the high watermark, or to the last stable offset")
    add_high_watermark(parser)
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    notes, options = CommandNotes(), read_options(arguments)
    if arguments.at in _OF_REMOTE_STORAGE and not options.remotes:
        arguments.parser.error("latest-tiered and earliest-pending-upload need --remote with the remote storage")
    if arguments.before is not None and arguments.at < lookup.EARLIEST:
        arguments.parser.error("--before is for a time, latest or earliest")
    choice = options.rules.high_watermark
    quiet = ["no-high-watermark"] if choice != "checkpoint" else []
    if arguments.at < 0:  # a broker finds these in local segments, or knows them without a search
        quiet += ["remote-tier", "missing-offsets"]
    tiered = _tiered_topics(options, notes) if arguments.at == lookup.EARLIEST_PENDING_UPLOAD else frozenset()
    for log in find_logs(options, notes, quiet=quiet, is_one_copy=True):
        end = committed_end(log, choice)
        try:
            consumed = ConsumerLog(log, options.rules)
            if arguments.before is not None:
                found = consumed.offsets_before(arguments.at, arguments.before, arguments.now_ms, notes)
                sys.stdout.write(_segments_line(log, found, arguments.format))
                continue
            looked = consumed.lookup(arguments.at, notes)
            if log.topic_partition.topic in tiered and looked.has_only_local_segments:
                looked = replace(looked, tiered_end_offset=0)
            answer = lookup.list_offsets(looked, arguments.at)
        except LogError as error:
            # An error in one log does not stop the others.
            notes.refuse(f"{log.topic_partition}: {error}")
            continue
        if log.is_metadata and arguments.at == lookup.LATEST and end < answer.offset:
            stands = replace(answer, offset=end, leader_epoch=epoch_for_offset(log.leader_epochs, max(end - 1, 0)))
            _write(log, stands, True, arguments)
            _write(log, answer, False, arguments)
        elif log.is_metadata:
            _write(log, answer, answer.offset < end or arguments.at == lookup.LATEST, arguments)
        else:
            _write(log, answer, None, arguments)
    return notes.exit_code


def _tiered_topics(options: ReadOptions, notes: CommandNotes) -> frozenset[str]:
    """The tiered topics, by the cluster metadata at the paths."""
    heard = Notes()
    tiered = tiered_topics(find_logs(ReadOptions(paths=options.paths), Notes(), is_one_copy=True), heard)
    for finding in heard.findings:
        if finding.severity is not Severity.INFO:
            notes.say(finding)
    return tiered


def _write(log: SourceLog, answer: OffsetAnswer, committed: bool | None, arguments: argparse.Namespace) -> None:
    """Write a line. `committed`: only for KRaft's metadata log, whether a snapshot covers the offset."""
    if arguments.format == "jsonl":
        sys.stdout.write(json_line(_fields(log, answer) | ({} if committed is None else {"committed": committed})))
    else:
        word = "" if committed is None or answer == lookup.NOTHING else f"  {committed_word(committed)}"
        sys.stdout.write(_text_line(log, answer).rstrip("\n") + word + "\n")


def _segments_line(log: SourceLog, offsets: tuple[int, ...], form: str) -> str:
    if form == "jsonl":
        return json_line(log.topic_partition.columns | {"offsets": list(offsets)})
    return f"{log.topic_partition}  " + (f"offsets {' '.join(map(str, offsets))}" if offsets else "no segment") + "\n"


def _fields(log: SourceLog, answer: OffsetAnswer) -> dict[str, object]:
    return {
        **log.topic_partition.columns,
        "offset": answer.offset,
        "timestamp": answer.timestamp,
        "leader_epoch": answer.leader_epoch,
    }


def _text_line(log: SourceLog, answer: OffsetAnswer) -> str:
    if answer == lookup.NOTHING:
        return f"{log.topic_partition}  no such record\n"
    parts = [f"{log.topic_partition}  offset {answer.offset}"]
    if answer.timestamp != time_index.NO_TIMESTAMP:
        parts.append(time_text(answer.timestamp))
    if answer.leader_epoch is not None:
        parts.append(f"leader epoch {answer.leader_epoch}")
    return "  ".join(parts) + "\n"
