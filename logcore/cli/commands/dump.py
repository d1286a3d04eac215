"""`loglake dump`: the records of logs, or their batch headers, index entries and checkpoints, one line each.

Damage is reported on stderr and skipped.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Protocol, TextIO

from logcore.cli.output.bulk import can_write_lines, write_lines
from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.record_lines import (
    CSV_COLUMNS,
    committed_word,
    csv_line,
    json_line,
    record_fields,
    text_line,
)
from logcore.cli.output.side_files import checkpoint_lines, index_lines, snapshot_lines
from logcore.cli.reading.arguments import (
    add_choice,
    add_paths,
    binary,
    header_match,
    high_watermark,
    natural,
    offset_range,
    read_options,
    time_ms,
)
from logcore.columns.wanted import Wanted
from logcore.errors import CorruptionReason, LogError
from logcore.library.shown_segments import ShownSegment, columns_of, shown_segments
from logcore.logs.model.findings import Severity
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.chosen_logs import find_logs, one_of_each
from logcore.reading.notes import Notes
from logcore.reading.read_options import OffsetRange, ReadOptions
from logcore.reading.segment_reading import cannot_read, open_segment, steps
from logcore.reading.unmatched_options import beyond_offsets
from logcore.reading.visible_offsets import Window, committed_end, visible_window
from logcore.records.batch import BatchHeader, read_header
from logcore.records.record import Record
from logcore.segments.filenames import DirectoryKind
from logcore.segments.scanning.scan import ScannedBatch, Stretch
from logcore.storage.local import new_text, shown

FORMATS = ("text", "jsonl", "csv", "arrow", "parquet")


class Sink(Protocol):
    """Writes records in the requested format."""

    def write(
        self,
        log: SourceLog,
        segment: SegmentFile,
        batch: ScannedBatch,
        records: list[Record],
        committed_end: int | None = None,
    ) -> None:
        """Write records of one batch. `committed_end`: the end of committed offsets in KRaft's metadata log."""

    def close(self) -> None:
        """Write what is still in memory."""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], parent: argparse.ArgumentParser
) -> None:
    """Add `dump` to the command line."""
    parser = subparsers.add_parser(
        "dump",
        parents=[parent],
        help="records, or batch headers, index entries, checkpoints",
        description="Print the content of logs. Like a broker to a consumer, a directory shows the records from its "
        "log start to its high watermark; --all, or the name of a single file, shows everything.",
    )
    add_paths(parser)
    add_choice(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--batches", action="store_true", help="batch headers instead of records")
    what.add_argument("--indexes", action="store_true", help="entries of offset, time and transaction indexes")
    what.add_argument("--snapshots", action="store_true", help="entries of producer snapshots")
    what.add_argument("--checkpoints", action="store_true", help="checkpoints, topic ids and broker properties")
    parser.add_argument("--format", choices=FORMATS, default="text")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there instead of to stdout; must not exist yet")
    parser.add_argument(
        "--isolation.level",
        dest="isolation_level",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
    )
    parser.add_argument(
        "--high-watermark",
        type=high_watermark,
        default="checkpoint",
        metavar="checkpoint|log-end|N",
        help="where a directory's records end (default: its replication-offset-checkpoint)",
    )
    parser.add_argument("--all", action="store_true", help="also below the log start and above the high watermark")
    parser.add_argument("--offsets", type=offset_range, default=OffsetRange(), metavar="A..B")
    parser.add_argument("--since", type=time_ms, metavar="TIME", help="timestamps from here on")
    parser.add_argument("--until", type=time_ms, metavar="TIME", help="timestamps before this")
    parser.add_argument("--key", type=binary, metavar="STRING|0xHEX")
    parser.add_argument("--header", type=header_match, metavar="NAME[=VALUE]")
    parser.add_argument("--producer-id", type=int, metavar="N")
    parser.add_argument("--limit", type=natural, metavar="N", help="end after this many lines")
    parser.add_argument("--control", action="store_true", help="also control records")
    parser.add_argument("--text", action="store_true", help="jsonl: keys and values as strings where they are UTF-8")
    parser.set_defaults(func=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    notes, options = CommandNotes(), read_options(arguments)
    side = arguments.batches or arguments.indexes or arguments.snapshots or arguments.checkpoints
    _refuse_nonsense(arguments, side)
    uses_checkpoint = not (side or arguments.all) and arguments.high_watermark == "checkpoint"
    quiet = [] if uses_checkpoint else ["no-high-watermark"]
    if arguments.checkpoints:  # root files may name partitions whose directories are gone
        quiet.append("nothing-chosen")
    logs = find_logs(options, notes, quiet=quiet)
    logs = one_of_each(tuple(log for log in logs if log.kind is DirectoryKind.LIVE), notes)
    beyond = None if arguments.checkpoints else beyond_offsets(options, logs, everything=side or arguments.all)
    if beyond is not None:
        notes.say(replace(beyond, severity=Severity.INFO))
    with _output(arguments) as out:
        if side:
            lines = _side_lines(arguments, options, logs, notes)
            for number, line in enumerate(lines):
                if number == arguments.limit:
                    break
                out.write(json_line(line) if arguments.format == "jsonl" else _plain(line))
        else:
            _dump_records(arguments, options, logs, notes, out)
    return notes.exit_code


def _refuse_nonsense(arguments: argparse.Namespace, side: bool) -> None:
    """Report wrong usage if options contradict each other."""
    error: Callable[[str], object] = arguments.parser.error
    if side and arguments.format not in ("text", "jsonl"):
        error(f"--format {arguments.format} is for records; use text or jsonl")
    record_options = ("key", "header", "since", "until", "control", "text")
    for name in record_options if side else ():
        if getattr(arguments, name):
            error(f"--{name} is for records")
    if arguments.text and arguments.format != "jsonl":
        error("--text is for --format jsonl")
    if arguments.format in ("arrow", "parquet") and arguments.output is None and sys.stdout.isatty():
        error(f"--format {arguments.format} is not for a terminal; use -o FILE")
    if arguments.output is not None:
        target = os.path.realpath(arguments.output)
        for path in arguments.paths:
            source = os.path.realpath(path)
            if target == source or target.startswith(source.rstrip("/") + "/"):
                error(f"{shown(arguments.output)} is inside {shown(path)}, which is only read")


@contextmanager
def _output(arguments: argparse.Namespace) -> Iterator[TextIO]:
    if arguments.output is None:
        yield sys.stdout
        return
    with new_text(arguments.output) as stream:
        yield stream


def _committed_end(log: SourceLog, arguments: argparse.Namespace) -> int | None:
    """The end of committed offsets in KRaft's metadata log; None for any other log."""
    return committed_end(log, arguments.high_watermark) if log.is_metadata else None


def _sink(arguments: argparse.Namespace, out: TextIO, shows_committed: bool) -> Sink:
    if arguments.format in ("arrow", "parquet"):
        from logcore.cli.output.column_files import ColumnSink  # imports pyarrow

        return ColumnSink(out.buffer, arguments.format, shows_committed)
    return _LineSink(out, arguments.format, arguments.text, shows_committed)


class _LineSink:
    def __init__(self, out: TextIO, form: str, as_text: bool, shows_committed: bool) -> None:
        self._out, self._form, self._as_text, self._shows_committed = out, form, as_text, shows_committed
        if form == "csv":
            out.write(",".join((*CSV_COLUMNS, *(("committed",) if shows_committed else ()))) + "\n")

    def write(
        self,
        log: SourceLog,
        segment: SegmentFile,
        batch: ScannedBatch,
        records: list[Record],
        committed_end: int | None = None,
    ) -> None:
        control = None
        if batch.header.is_control:
            control = "UNKNOWN" if batch.control_type is None else str(batch.control_type)
        name, epoch = log.topic_partition, batch.header.partition_leader_epoch
        for record in records:
            committed = None if committed_end is None else record.offset < committed_end
            if self._form == "text":
                line = text_line(name, record, control)
                self._out.write(line if committed is None else f"{line[:-1]}  {committed_word(committed)}\n")
                continue
            fields = record_fields(name, record, epoch, control, self._as_text)
            if self._form == "csv":
                cell = "" if committed is None else str(committed).lower()
                line = csv_line(fields)
                self._out.write(f"{line[:-1]},{cell}\n" if self._shows_committed else line)
            else:
                self._out.write(json_line(fields if committed is None else fields | {"committed": committed}))

    def close(self) -> None:
        """Nothing is in memory."""


def _dump_records(
    arguments: argparse.Namespace, options: ReadOptions, logs: tuple[SourceLog, ...], notes: Notes, out: TextIO
) -> None:
    shows_committed = any(log.is_metadata for log in logs)
    looks_at_records = arguments.control or arguments.header or arguments.producer_id is not None
    if arguments.limit is None and not looks_at_records and not arguments.text:
        if arguments.format == "jsonl" and can_write_lines():
            # The kernels' lines cannot show what is committed, so KRaft's metadata log is dumped without them.
            for is_metadata, group in groupby(logs, lambda log: log.is_metadata):
                out.flush()
                if is_metadata:
                    _dump_one_by_one(arguments, options, tuple(group), notes, _sink(arguments, out, shows_committed))
                else:
                    write_lines(_shown_segments(arguments, options, tuple(group), notes), notes, out.buffer.write)
            return
        if arguments.format in ("arrow", "parquet"):
            from logcore.cli.output.column_files import ColumnSink  # imports pyarrow
            from logcore.columns.schema import RECORDS_SCHEMA
            from logcore.library.record_columns import joined

            columns = ColumnSink(out.buffer, arguments.format, shows_committed)
            for shows in _shown_segments(arguments, options, logs, notes):
                for rows in joined(columns_of(shows, notes), RECORDS_SCHEMA):
                    columns.add(rows, _committed_end(shows.log, arguments))
            columns.close()
            return
    sink = _sink(arguments, out, shows_committed)
    _dump_one_by_one(arguments, options, logs, notes, sink)
    sink.close()


def _shown_segments(
    arguments: argparse.Namespace, options: ReadOptions, logs: tuple[SourceLog, ...], notes: Notes
) -> Iterator[ShownSegment]:
    """Yield segments that may have records to show."""
    for log in logs:
        visible = visible_window(log, options.rules).ranges(options.offsets)
        wanted = Wanted(visible=visible, since=arguments.since, until=arguments.until, key=arguments.key)
        yield from shown_segments(log, wanted, notes)


def _dump_one_by_one(
    arguments: argparse.Namespace, options: ReadOptions, logs: tuple[SourceLog, ...], notes: Notes, sink: Sink
) -> None:
    left = sys.maxsize if arguments.limit is None else arguments.limit
    for log in logs:
        if left == 0:
            return
        shows = visible_window(log, options.rules)
        for segment, batch, records in _shown_batches(log, shows, arguments, notes):
            chosen = [record for record in records if _is_wanted(record, arguments, shows)][:left]
            left -= len(chosen)
            if chosen:
                sink.write(log, segment, batch, chosen, _committed_end(log, arguments))
            if left == 0:
                return


def _shown_batches(
    log: SourceLog, shows: Window, arguments: argparse.Namespace, notes: Notes
) -> Iterator[tuple[SegmentFile, ScannedBatch, list[Record]]]:
    """Yield batches that may have records to show, with their records."""
    start = max(shows.start, arguments.offsets.start or 0)
    end = shows.end if arguments.offsets.end is None else min(shows.end, arguments.offsets.end)
    for segment in log.segments:
        following = log.next_base_offset(segment)
        if segment.base_offset >= end or (following is not None and following <= start):
            continue
        records: list[Record] = []
        try:
            source, walk = open_segment(log, segment, records)
        except LogError as error:
            cannot_read(segment, error, notes)
            continue
        for item in steps(log, segment, source, walk, notes):
            if (
                isinstance(item, ScannedBatch)
                and shows.shows(item)
                and arguments.offsets.overlaps(item.header.base_offset, item.header.last_offset)
                and (arguments.control or not item.header.is_control)
                and arguments.producer_id in (None, item.header.producer_id)
            ):
                yield segment, item, list(records)
            records.clear()


def _is_wanted(record: Record, arguments: argparse.Namespace, shows: Window) -> bool:
    if not shows.start <= record.offset < shows.end or record.offset not in arguments.offsets:
        return False
    if arguments.since is not None and record.timestamp < arguments.since:
        return False
    if arguments.until is not None and record.timestamp >= arguments.until:
        return False
    if arguments.key is not None and record.key != arguments.key:
        return False
    if arguments.header is None:
        return True
    name, value = arguments.header
    return any(name == header[0] and value in (None, header[1]) for header in record.headers)


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

    Batches with a wrong crc are included if the rest of the header can be read.
    """
    for log in logs:
        for segment in log.segments:
            try:
                source, walk = open_segment(log, segment)
            except LogError as error:
                cannot_read(segment, error, notes)
                continue
            for item in steps(log, segment, source, walk, notes):
                control = None
                if isinstance(item, Stretch):
                    if item.reason is not CorruptionReason.CRC:
                        continue
                    header = read_header(source.content, item.position)
                else:
                    header, control = item.header, item.control_type
                if not arguments.offsets.overlaps(header.base_offset, header.last_offset):
                    continue
                if arguments.producer_id in (None, header.producer_id):
                    crc_ok = isinstance(item, ScannedBatch)
                    end = _committed_end(log, arguments)
                    committed = {} if end is None else {"committed": header.last_offset < end}
                    yield _batch_fields(log, segment, item.position, header, control, crc_ok) | committed


def _batch_fields(
    log: SourceLog, segment: SegmentFile, position: int, header: BatchHeader, control: object, crc_ok: bool
) -> dict[str, object]:
    return {
        "topic": log.topic_partition.topic,
        "partition": log.topic_partition.partition,
        "segment": segment.base_offset,
        "position": position,
        "size": header.size,
        "magic": header.magic,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "codec": header.codec.kafka_name,
        "timestamp_type": header.timestamp_type.kafka_name,
        "max_timestamp": header.max_timestamp,
        "delete_horizon_ms": header.delete_horizon_ms,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "control_type": None if control is None else str(control),
        "leader_epoch": header.partition_leader_epoch,
        "crc": header.crc,
        "crc_ok": crc_ok,
    }


def _plain(line: dict[str, object]) -> str:
    """Format a line for a person: the values that are not null, by name."""
    return "  ".join(f"{name} {value}" for name, value in line.items() if value is not None) + "\n"
