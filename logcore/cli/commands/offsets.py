"""`loglake offsets`: what a broker's ListOffsets would answer for each topic partition.

Bounds and timestamps come from batch headers; a segment is read as a whole only where a timestamp is looked for in it.
Index files are not used to find a place, for a wrong one would hide records. A time index only counts for being there:
without it a broker does not know a segment's timestamps, unless it recovers the segment when it starts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace

from logcore.cli.output.record_lines import json_line, time_text
from logcore.cli.reading import arguments as options
from logcore.cli.reading.looking import (
    Notes,
    cannot_read,
    committed_end,
    committed_word,
    find_logs,
    one_of_each,
    window,
)
from logcore.errors import LogError
from logcore.logs import lookup
from logcore.logs.lookup import LookupLog, LookupSegment, OffsetAnswer
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.segments import filenames
from logcore.segments.filenames import DirectoryKind
from logcore.segments.side_files import time_index
from logcore.segments.side_files.leader_epochs import epoch_for_offset
from logcore.storage.local import LocalReader, read_file

NAMES = {
    "earliest": lookup.EARLIEST,
    "latest": lookup.LATEST,
    "max-timestamp": lookup.MAX_TIMESTAMP,
    "earliest-local": lookup.EARLIEST_LOCAL,
}
_MAX_INDEX_BYTES = 1 << 30


def moment(text: str) -> int:
    """A name of `NAMES`, the number Kafka's protocol has for it, or a time."""
    numbers = {str(number): number for number in NAMES.values()}
    at = (NAMES | numbers)[text] if text in NAMES or text in numbers else options.time_ms(text)
    if at < 0 and at not in NAMES.values():
        raise argparse.ArgumentTypeError(f"{text!r} is neither a time from 1970 on nor one of {', '.join(NAMES)}")
    return at


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], parent: argparse.ArgumentParser
) -> None:
    """Add `offsets` to the command line."""
    parser = subparsers.add_parser(
        "offsets",
        parents=[parent],
        help="what a broker's ListOffsets would answer",
        description="Print the offset that a broker would answer for a time: that of the first record with this "
        "timestamp or a later one, -1 if there is none. A segment whose timestamps a broker does not know (format v0, "
        "a lost time index) counts by its file's time of change, as it does for a broker.",
    )
    options.add_paths(parser)
    options.add_choice(parser)
    parser.add_argument(
        "--at", type=moment, required=True, metavar="TIME|" + "|".join(NAMES), help="what to look for in each log"
    )
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.add_argument(
        "--isolation.level",
        dest="isolation_level",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="up to the high watermark, or to the last stable offset",
    )
    parser.add_argument(
        "--high-watermark",
        type=options.high_watermark,
        default="checkpoint",
        metavar="checkpoint|log-end|N",
        help="where a directory's records end (default: its replication-offset-checkpoint)",
    )
    parser.set_defaults(func=run, parser=parser, all=False)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    notes = Notes()
    quiet = ["no-high-watermark"] if arguments.high_watermark != "checkpoint" else []
    if arguments.at < 0:  # a broker looks for these in what is local, or knows them without a look
        quiet.append("remote-tier")
    logs = tuple(log for log in find_logs(arguments, notes, quiet=quiet) if log.kind is DirectoryKind.LIVE)
    for log in one_of_each(logs, notes):
        end = committed_end(log, arguments.high_watermark)
        try:
            looked = lookup_log(log, arguments, notes)
            answer = lookup.list_offsets(looked, arguments.at)
        except LogError as error:
            # One log that cannot be answered for leaves the others.
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


def lookup_log(log: SourceLog, arguments: argparse.Namespace, notes: Notes) -> LookupLog:
    """A log as a lookup takes it. Only headers are read yet, and only as far as `arguments.at` needs them."""
    timed = arguments.at >= 0 or arguments.at == lookup.MAX_TIMESTAMP
    segments = []
    log_end_offset = log.log_start_offset
    for segment in log.segments:
        max_timestamp, next_offset = time_index.NO_TIMESTAMP, segment.base_offset
        if timed or segment is log.segments[-1]:
            try:
                max_timestamp, next_offset = _headers(segment)
            except LogError as error:
                cannot_read(segment, error, notes)
        if not _is_known(log, segment):
            max_timestamp = time_index.NO_TIMESTAMP
        log_end_offset = max(log_end_offset, next_offset)
        segments.append(LookupSegment(segment.base_offset, _reader(segment), max_timestamp, segment.modified_ms))
    # A broker clamps a checkpoint that says more than there is, or less than the log start.
    end = min(max(window(log, arguments).end, log.log_start_offset), log_end_offset)
    remote = None if log.remote is None else log.remote[0]
    return LookupLog(segments, log.log_start_offset, end, log.leader_epochs, remote)


def _headers(segment: SegmentFile) -> tuple[int, int]:
    """The greatest timestamp of a segment's batches, -1 without any, and the offset behind its last batch."""
    max_timestamp, next_offset = time_index.NO_TIMESTAMP, segment.base_offset
    for _, header in LocalReader().headers(segment):
        if header is not None:
            max_timestamp = max(max_timestamp, header.max_timestamp)
            next_offset = max(next_offset, header.next_offset)
    return max_timestamp, next_offset


def _is_known(log: SourceLog, segment: SegmentFile) -> bool:
    """Whether a broker would know the segment's timestamps: from the time index, or because its start recovers the
    segment (no offset index, or at and behind the recovery point after an unclean stop) and rebuilds it."""
    path = segment.side_file(filenames.TIME_INDEX_SUFFIX)
    if log.named_files or segment.side_file(filenames.OFFSET_INDEX_SUFFIX) is None:
        return True
    if log.is_clean is False:
        following = log.next_base_offset(segment)
        if following is None or following > (log.recovery_point or 0):
            return True
    if path is None:
        return False
    try:
        return bool(time_index.parse(read_file(path, _MAX_INDEX_BYTES), segment.base_offset))
    except LogError:
        return True  # what a broker makes of junk is of no use to anyone


def _reader(segment: SegmentFile) -> Callable[[], bytes]:
    return lambda: read_file(segment.path)


def _write(log: SourceLog, answer: OffsetAnswer, committed: bool | None, arguments: argparse.Namespace) -> None:
    """A line; committed: of KRaft's metadata log alone, whether a snapshot says so."""
    if arguments.format == "jsonl":
        sys.stdout.write(json_line(_fields(log, answer) | ({} if committed is None else {"committed": committed})))
    else:
        word = "" if committed is None or answer == lookup.NOTHING else f"  {committed_word(committed)}"
        sys.stdout.write(_text_line(log, answer).rstrip("\n") + word + "\n")


def _fields(log: SourceLog, answer: OffsetAnswer) -> dict[str, object]:
    return {
        "topic": log.topic_partition.topic,
        "partition": log.topic_partition.partition,
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
