"""`loglake dump`: the records of logs, or their batch headers, index entries and checkpoints, one line each.

Damage is reported on stderr and skipped.

The files beside segments, one line for each entry: indexes, snapshots, checkpoints, topic ids, KRaft's files.

Files are shown as they are on disk; whether they match their segment is not checked.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from itertools import groupby, islice
from typing import TextIO, TypeVar

from logcore.cli.output.bulk import LineMaker, can_write_lines, write_first_lines, write_lines
from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.decoded_lines import DecodedLines, is_long_log_of_commits
from logcore.cli.output.plain_lines import PlainLines
from logcore.cli.output.record_lines import fields_line, json_line
from logcore.cli.reading.arguments import (
    add_choice,
    add_high_watermark,
    add_isolation_level,
    add_paths,
    add_remote,
    binary,
    header_match,
    natural,
    offset_range,
    read_options,
    refuse_inside_source,
    time_ms,
)
from logcore.columns.decoding.line_forms import LineForm, LineFormat
from logcore.columns.wanted import Wanted
from logcore.errors import CorruptIndexError, CorruptionReason, LogError, UnsupportedFormatError
from logcore.logs.model.findings import found
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.checked_segments import checked_batches
from logcore.reading.chosen_logs import beyond_offsets, find_logs
from logcore.reading.consumer_log import ChosenRecords, ConsumerLog
from logcore.reading.internal_topics.internal_logs import internal_logs
from logcore.reading.read_options import Notes, OffsetRange, ReadOptions
from logcore.reading.shown_segments import ShownSegment, columns_of
from logcore.reading.visible_offsets import committed_end
from logcore.records.batch import BatchHeader, read_header
from logcore.segments import filenames
from logcore.segments.filenames import MAX_OFFSET, TopicPartition
from logcore.segments.scanning.scan import Stretch
from logcore.segments.side_files import checkpoints, offset_index, producer_state, time_index, transaction_index
from logcore.storage.discovery import SourceUnreadable, new_text, read_file, read_range, shown
from logcore.storage.objects.addresses import absolute, directory_of, is_object
from logcore.storage.source_reads import exists, sizes_in
from logcore.topics.internal_topics import InternalTopic

MAX_INDEX_BYTES = 1 << 30
"""No index is larger: brokers limit it to 10 MiB by default, and positions to 32 bits."""

MAX_CHECKPOINT_BYTES = 64 << 20

_Entry = TypeVar("_Entry")
_Parsed = TypeVar("_Parsed")
_Line = dict[str, object]


def index_lines(logs: Iterable[SourceLog], chosen: OffsetRange, notes: Notes) -> Iterator[_Line]:
    """Yield the entries of the indexes of each segment; a damaged index is reported and skipped."""
    for log in logs:
        for segment in log.segments:
            place = log.topic_partition.columns | {"segment": segment.base_offset}
            for entry in _entries(segment, filenames.OFFSET_INDEX_SUFFIX, offset_index.parse, notes):
                if entry.offset in chosen:
                    yield place | {"index": "offset", "offset": entry.offset, "position": entry.position}
            for stamp in _entries(segment, filenames.TIME_INDEX_SUFFIX, time_index.parse, notes):
                if stamp.offset in chosen:
                    yield place | {"index": "time", "offset": stamp.offset, "timestamp": stamp.timestamp}
            for aborted in _entries(segment, filenames.TRANSACTION_INDEX_SUFFIX, transaction_index.parse, notes):
                if chosen.overlaps(aborted.first_offset, aborted.last_offset):
                    yield place | {"index": "transaction", **asdict(aborted)}


def snapshot_lines(
    logs: Iterable[SourceLog], chosen: OffsetRange, producer_id: int | None, notes: Notes
) -> Iterator[_Line]:
    """Yield the entries of the producer snapshots of each log, for snapshots at a chosen offset.

    The field `snapshot` is the exclusive end offset of the snapshot. A snapshot without entries is a line too. A
    damaged one is reported and skipped.
    """
    for log in logs:
        place = log.topic_partition.columns
        for end_offset, path in log.snapshots:
            if end_offset not in chosen:
                continue
            entries = _read(path, producer_state.parse, "broken-snapshot", notes)
            if entries is not None and not entries and producer_id is None:
                yield place | {"snapshot": end_offset, "entries": 0}
            for entry in entries or ():
                if producer_id in (None, entry.producer_id):
                    yield place | {"snapshot": end_offset, **asdict(entry)}


def checkpoint_lines(options: ReadOptions, logs: Sequence[SourceLog], notes: Notes) -> Iterator[_Line]:
    """Yield the content of the files in log directories, then in each log's directory.

    These are checkpoints, properties, marks and KRaft's files. A file whose content is not shown is a line with its
    size.

    For a named log directory these are all lines that the options choose, also of missing partitions. For the log
    directory of a named partition these are that partition's lines.

    Args:
        options: The paths and the selection.
        logs: The chosen logs.
        notes: Gets the findings.
    """
    held = {log.topic_partition for log in logs}
    beside = {absolute(log.directory) for log in logs}
    named = [path for path in map(absolute, options.paths) if _is_directory(path) and path not in beside]
    holding = [directory_of(log.directory) for log in logs]
    for root in dict.fromkeys((*named, *holding)):
        yield from _root_lines(root, options.selection, None if root in named else held, notes)
    for log in logs:
        place = log.topic_partition.columns
        if log.topic_id is not None:
            yield {"file": filenames.PARTITION_METADATA_FILE, **place, "topic_id": log.topic_id}
        for entry in log.leader_epochs:
            line: _Line = {"epoch": entry.epoch, "start_offset": entry.start_offset}
            yield {"file": filenames.LEADER_EPOCH_FILE, **place, **line}
        state = _parsed(log.directory, filenames.QUORUM_STATE_FILE, checkpoints.parse_quorum_state, notes)
        if state is not None:
            yield {"file": filenames.QUORUM_STATE_FILE, **place, **state}
        for name, size in _sizes(log.directory):
            snapshot = filenames.metadata_snapshot(name)
            if snapshot is not None:
                yield {"file": name, **place, "end_offset": snapshot[0], "epoch": snapshot[1], "bytes": size}


def _root_lines(root: str, selection: LogSelection, held: set[TopicPartition] | None, notes: Notes) -> Iterator[_Line]:
    properties = _parsed(root, filenames.META_PROPERTIES_FILE, checkpoints.parse_meta_properties, notes)
    if properties:
        yield {"file": filenames.META_PROPERTIES_FILE, **properties}
    sizes = dict(_sizes(root))
    if filenames.CLEAN_SHUTDOWN_FILE in sizes:
        epoch = _parsed(root, filenames.CLEAN_SHUTDOWN_FILE, checkpoints.parse_clean_shutdown, notes)
        yield {"file": filenames.CLEAN_SHUTDOWN_FILE, "broker_epoch": epoch}
    for name in (filenames.LOCK_FILE, filenames.BOOTSTRAP_FILE):
        if name in sizes:
            yield {"file": name, "bytes": sizes[name]}
    for name in (
        filenames.HIGH_WATERMARK_FILE,
        filenames.LOG_START_FILE,
        filenames.RECOVERY_POINT_FILE,
        filenames.CLEANER_FILE,
    ):
        offsets = _parsed(root, name, checkpoints.parse_offset_checkpoint, notes) or {}
        for key, offset in sorted(offsets.items()):
            if (held is None or key in held) and selection.matches(key.topic, key.partition):
                yield {"file": name, **key.columns, "offset": offset}


def _entries(
    segment: SegmentFile, suffix: str, parse: Callable[[bytes, int], tuple[_Entry, ...]], notes: Notes
) -> tuple[_Entry, ...]:
    path = segment.side_file(suffix)
    if path is None or not exists(path):
        return ()
    return _read(path, lambda data: parse(data, segment.base_offset), "corrupt-index", notes) or ()


def _read(path: str, parse: Callable[[bytes], _Parsed], rule: str, notes: Notes) -> _Parsed | None:
    """Return a file's content; None, and a finding, if it cannot be used."""
    try:
        return parse(read_file(path, MAX_INDEX_BYTES))
    except (CorruptIndexError, UnsupportedFormatError) as error:
        notes.say(found(rule, str(error.at(file=shown(path))), file=shown(path)))
    except LogError as error:
        notes.say(found("unreadable", str(error.at(file=shown(path))), file=shown(path)))
    return None


def _parsed(directory: str, name: str, parse: Callable[[bytes], _Parsed], notes: Notes) -> _Parsed | None:
    """Return a small file's content; None if it does not exist; None, and a finding, if it cannot be used."""
    path = os.path.join(directory, name)
    if not exists(path):
        return None
    try:
        return parse(read_file(path, MAX_CHECKPOINT_BYTES))
    except LogError as error:
        notes.say(found("broken-root-file", str(error.at(file=shown(path))), file=shown(path)))
        return None


def _sizes(directory: str) -> list[tuple[str, int]]:
    """Return names and sizes (bytes) of a directory's files, by name. Unreadable directories were reported before."""
    try:
        return list(sizes_in(directory))
    except (OSError, SourceUnreadable):
        return []


def _is_directory(path: str) -> bool:
    """Whether a path is a directory. Of objects only segments are named one by one."""
    if is_object(path):
        return filenames.segment_base_offset(os.path.basename(path)) is None
    return os.path.isdir(path)


FORMATS = ("text", "jsonl", "csv", "arrow", "parquet")


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `dump`."""
    parser.description = (
        "Print the content of logs. Like a broker to a consumer, a directory shows the records from its "
        "log start to its high watermark; --all, or the name of a single file, shows everything."
    )
    add_paths(parser)
    add_choice(parser)
    add_remote(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--batches", action="store_true", help="batch headers instead of records")
    what.add_argument("--indexes", action="store_true", help="entries of offset, time and transaction indexes")
    what.add_argument(
        "--snapshots",
        action="store_true",
        help="entries of producer snapshots; with --decode records of metadata snapshots",
    )
    what.add_argument("--checkpoints", action="store_true", help="checkpoints, topic ids and broker properties")
    parser.add_argument("--format", choices=FORMATS, default="text")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there instead of to stdout; must not exist yet")
    add_isolation_level(parser)
    add_high_watermark(parser)
    parser.add_argument("--all", action="store_true", help="also below the log start and above the high watermark")
    parser.add_argument("--offsets", type=offset_range, default=OffsetRange(), metavar="A..B")
    parser.add_argument("--since", type=time_ms, metavar="TIME", help="timestamps from here on")
    parser.add_argument("--until", type=time_ms, metavar="TIME", help="timestamps before this")
    parser.add_argument("--key", type=binary, metavar="STRING|0xHEX")
    parser.add_argument("--header", type=header_match, metavar="NAME[=VALUE]")
    parser.add_argument("--producer-id", type=int, metavar="N")
    parser.add_argument("--limit", type=natural, metavar="N", help="end after this many lines")
    parser.add_argument("--tail", type=natural, metavar="N", help="only the last N chosen records of each log")
    parser.add_argument("--control", action="store_true", help="also control records")
    parser.add_argument(
        "--decode", action="store_true", help="text, jsonl: internal topics as Kafka's decoders print them"
    )
    parser.add_argument("--text", action="store_true", help="jsonl, csv: keys and values as text where they are UTF-8")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    notes = CommandNotes()
    try:
        return _run(arguments, notes)
    finally:
        notes.clear_progress()  # also before an error or an interrupt is reported


def _run(arguments: argparse.Namespace, notes: CommandNotes) -> int:
    options = read_options(arguments)
    side = arguments.batches or arguments.indexes or arguments.snapshots or arguments.checkpoints
    _refuse_nonsense(arguments, side)
    uses_checkpoint = not (side or arguments.all) and arguments.high_watermark == "checkpoint"
    quiet = [] if uses_checkpoint else ["no-high-watermark"]
    if arguments.checkpoints:  # root files may name partitions whose directories are gone
        quiet.append("nothing-chosen")
    logs = find_logs(options, notes, quiet=quiet, is_one_copy=True)
    logs = tuple(ConsumerLog(log, options.rules).log for log in logs)
    beyond = None if arguments.checkpoints else beyond_offsets(options, logs, everything=side or arguments.all)
    if beyond is not None:
        notes.say(beyond)
    with nullcontext(sys.stdout) if arguments.output is None else new_text(arguments.output) as out:
        if arguments.decode and arguments.snapshots:
            _dump_snapshots(arguments, options, logs, notes, out)
        elif side:
            lines = _side_lines(arguments, options, logs, notes)
            for number, line in enumerate(lines):
                if number == arguments.limit:
                    break
                out.write(json_line(line) if arguments.format == "jsonl" else fields_line(line))
        else:
            _dump_records(arguments, options, logs, notes, out)
    return notes.exit_code


def _refuse_nonsense(arguments: argparse.Namespace, side: bool) -> None:
    """Report wrong usage if options contradict each other."""
    error: Callable[[str], object] = arguments.parser.error
    if side and arguments.format not in ("text", "jsonl"):
        error(f"--format {arguments.format} is for records; use text or jsonl")
    record_options = ["key", "header", "since", "until", "control", "text"]
    if not arguments.snapshots:
        record_options.append("decode")
    for name in record_options if side else ():
        if getattr(arguments, name):
            error(f"--{name} is for records")
    if side and arguments.tail is not None:
        error("--tail is for records")
    if arguments.tail is not None and arguments.limit is not None:
        error("--tail and --limit are not for the same command")
    if arguments.text and arguments.format not in ("jsonl", "csv"):
        error("--text is for --format jsonl and csv")
    if arguments.decode and (arguments.text or arguments.format not in ("text", "jsonl")):
        error("--decode is for --format text and jsonl, without --text")
    if arguments.format in ("arrow", "parquet") and arguments.output is None and sys.stdout.isatty():
        error(f"--format {arguments.format} is not for a terminal; use -o FILE")
    refuse_inside_source(arguments, arguments.output)


def _committed_end(log: SourceLog, arguments: argparse.Namespace) -> int | None:
    """The end of committed offsets in KRaft's metadata log; None for any other log."""
    return committed_end(log, arguments.high_watermark) if log.is_metadata else None


def _choices(
    arguments: argparse.Namespace, options: ReadOptions, logs: tuple[SourceLog, ...]
) -> Iterator[ChosenRecords]:
    wanted = Wanted(
        since=arguments.since,
        until=arguments.until,
        key=arguments.key,
        control=arguments.control,
        producer_id=arguments.producer_id,
        header=arguments.header,
    )
    for log in logs:
        chosen = ConsumerLog(log, options.rules).choose(options.offsets, wanted)
        yield chosen if arguments.tail is None else _tail_of(chosen, arguments.tail)


def _tail_of(chosen: ChosenRecords, count: int) -> ChosenRecords:
    """Reduce chosen records to their last `count`."""
    from logcore.cli.reading.tail import tail_start  # imports NumPy

    first = tail_start(chosen, count) if count else MAX_OFFSET
    if first is None:
        return chosen
    visible = tuple((max(start, first), end) for start, end in chosen.wanted.visible or () if end > first)
    return replace(chosen, wanted=replace(chosen.wanted, visible=visible), seek=first)


def _dump_records(
    arguments: argparse.Namespace, options: ReadOptions, logs: tuple[SourceLog, ...], notes: Notes, out: TextIO
) -> None:
    if arguments.decode:
        logs = internal_logs(logs, notes)
    shows_committed = any(log.is_metadata for log in logs)
    choices = _choices(arguments, options, logs)
    if arguments.format in ("csv", "arrow", "parquet"):
        _dump_columns(arguments, choices, notes, out, shows_committed)
        return
    form = LineForm(LineFormat(arguments.format), as_text=arguments.text, with_control=arguments.control)
    if arguments.decode:
        _dump_decoded(arguments, choices, notes, out, DecodedLines(out, form, shows_committed, notes), form)
        return
    plain = PlainLines(out, form, shows_committed)
    by_kernels = can_write_lines(form)
    left: int | None = arguments.limit
    # The kernels' lines cannot show what is committed.
    for is_plain, group in groupby(choices, lambda choice: choice.log.is_metadata or not by_kernels):
        if left == 0:
            return
        if is_plain:
            left = _dump_plainly(arguments, group, notes, plain, left)
            continue
        out.flush()
        segments = _shown(group, notes)
        if left is None:
            write_lines(segments, notes, out.buffer.write, LineMaker(form))
        else:
            left = write_first_lines(segments, notes, out.buffer.write, form, left)


def _dump_decoded(
    arguments: argparse.Namespace,
    choices: Iterator[ChosenRecords],
    notes: Notes,
    out: TextIO,
    plain: DecodedLines,
    form: LineForm,
) -> None:
    """Write decoded records: those of long logs of commits many at once, all others one by one."""
    left: int | None = arguments.limit
    is_whole = left is None and not arguments.control
    for in_bulk, group in groupby(choices, lambda choice: is_whole and is_long_log_of_commits(choice.log)):
        if not in_bulk:
            left = _dump_plainly(arguments, group, notes, plain, left)
            if left == 0:
                return
            continue
        from logcore.cli.output.commit_lines import CommitLineMaker  # imports NumPy

        out.flush()
        write_lines(_shown(group, notes), notes, out.buffer.write, CommitLineMaker(form))


def _dump_snapshots(
    arguments: argparse.Namespace, options: ReadOptions, logs: tuple[SourceLog, ...], notes: Notes, out: TextIO
) -> None:
    """Write the decoded records of snapshots of the cluster's metadata."""
    from logcore.cli.output.decoded_snapshots import decoded_snapshot_lines

    of_metadata = internal_logs(logs, notes, InternalTopic.CLUSTER_METADATA)
    as_json = arguments.format == "jsonl"
    lines = decoded_snapshot_lines(of_metadata, options.offsets, notes, as_json=as_json)
    out.writelines(islice(lines, arguments.limit))


def _shown(choices: Iterable[ChosenRecords], notes: Notes) -> Iterator[ShownSegment]:
    """The segments of some logs that have chosen records."""
    for choice in choices:
        yield from choice.segments(notes)


def _dump_plainly(
    arguments: argparse.Namespace, choices: Iterator[ChosenRecords], notes: Notes, plain: PlainLines, left: int | None
) -> int | None:
    for choice in choices:
        left = plain.write_log(choice, notes, left, committed_end=_committed_end(choice.log, arguments))
        if left == 0:
            break
    return left


def _dump_columns(
    arguments: argparse.Namespace, choices: Iterator[ChosenRecords], notes: Notes, out: TextIO, shows_committed: bool
) -> None:
    from logcore.cli.output.column_files import ColumnSink  # imports pyarrow
    from logcore.columns.records_columns import RECORDS_SCHEMA
    from logcore.library.record_columns import joined

    sink = ColumnSink(out.buffer, arguments.format, shows_committed, as_text=arguments.text)
    left = sys.maxsize if arguments.limit is None else arguments.limit
    for choice in choices if left else ():
        committed_end = _committed_end(choice.log, arguments)
        for shows in choice.segments(notes):
            if arguments.limit is None:
                columns = joined(columns_of(shows, notes), RECORDS_SCHEMA)
            else:
                columns = columns_of(shows, notes, in_steps=True)
            for rows in columns:
                sink.add(rows.slice(0, left), committed_end)
                left -= min(left, rows.num_rows)
                if not left:
                    sink.close()
                    return
    sink.close()


def _side_lines(
    arguments: argparse.Namespace, options: ReadOptions, logs: tuple[SourceLog, ...], notes: Notes
) -> Iterator[dict[str, object]]:
    if arguments.indexes:
        return index_lines(logs, arguments.offsets, notes)
    if arguments.snapshots:
        return snapshot_lines(logs, arguments.offsets, arguments.producer_id, notes)
    if arguments.checkpoints:
        return checkpoint_lines(options, logs, notes)
    return _batch_lines(arguments, logs, notes)


def _batch_lines(
    arguments: argparse.Namespace, logs: tuple[SourceLog, ...], notes: Notes
) -> Iterator[dict[str, object]]:
    """Yield the headers of all batches in the files, for any visibility of their records.

    Batches that cannot be trusted are included if their header can be read.
    """
    for log in logs:
        for segment, item in checked_batches(log, log.segments, notes):
            control, is_wrong = None, isinstance(item, Stretch) and item.reason is CorruptionReason.CRC
            if isinstance(item, Stretch):
                try:
                    header = read_header(read_range(segment.path, item.position, item.end, segment), whole=False)
                except LogError:
                    continue
                if header.size != item.size and not is_wrong:
                    continue
            else:
                header, control = item.header, item.control_type
            if not arguments.offsets.overlaps(header.base_offset, header.last_offset):
                continue
            if arguments.producer_id in (None, header.producer_id):
                end = _committed_end(log, arguments)
                committed = {} if end is None else {"committed": header.last_offset < end}
                yield _batch_fields(log, segment, item.position, header, control, not is_wrong) | committed


def _batch_fields(
    log: SourceLog, segment: SegmentFile, position: int, header: BatchHeader, control: object, crc_ok: bool
) -> dict[str, object]:
    place = log.topic_partition.columns | {"segment": segment.base_offset, "position": position}
    return place | header.columns(control) | {"crc_ok": crc_ok}
