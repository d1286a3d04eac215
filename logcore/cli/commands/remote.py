"""`loglake remote`: the segments in remote storage, which of them count, and objects that have no use."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from logcore.cli.output.aligned_table import aligned_table
from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.record_lines import json_line
from logcore.cli.reading.arguments import add_choice, add_paths, selection_of
from logcore.reading.chosen_logs import find_logs, nothing_chosen
from logcore.reading.read_options import ReadOptions
from logcore.reading.remote_inventory import RemoteInventory, remote_inventory, report_overlaps
from logcore.remote.inventory import FoundSegment
from logcore.storage.discovery import shown


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `remote`."""
    parser.description = (
        "List the segments of tiered topics in remote storage. The records of __remote_log_metadata and "
        "the leader epochs of the logs decide which of them count. Objects that no metadata names, metadata without "
        "objects and half copies are reported with their bytes. Nothing is ever deleted."
    )
    add_paths(parser)
    parser.add_argument(
        "--remote",
        dest="remotes",
        action="append",
        required=True,
        metavar="DIR|s3://…",
        help="the remote storage: a directory of LocalTieredStorage, or what Aiven's plugin wrote; repeatable if it "
        "lies in several places",
    )
    add_choice(parser)
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    notes, selection = CommandNotes(), selection_of(arguments)
    # All logs: those of the metadata topic decide about the chosen ones.
    logs = find_logs(ReadOptions(paths=tuple(arguments.paths)), notes, quiet=("remote-tier",))
    whole = remote_inventory(logs, tuple(arguments.remotes), notes, selection)
    report_overlaps(whole, notes)
    if not whole.segments:
        notes.say_all(nothing_chosen(selection, (log.topic_partition for log in logs)))
    if arguments.format == "jsonl":
        for segment in whole.segments:
            sys.stdout.write(json_line(_fields(segment)))
        sys.stdout.write(json_line({"summary": _summary(whole)}))
    elif whole.segments:
        sys.stdout.write(aligned_table(_HEADINGS, [_cells(segment) for segment in whole.segments], _NUMBERS))
    return notes.exit_code


def _fields(segment: FoundSegment) -> dict[str, object]:
    objects = segment.objects
    return {
        **segment.topic_partition.columns,
        "topic_id": segment.topic_id,
        "segment_id": segment.segment_id,
        "start_offset": segment.start_offset,
        "end_offset": _end(segment),
        "lineage_end_offset": None if segment.part is None else segment.part.end_offset,
        "status": str(segment.status),
        "orphaned": segment.is_orphaned,
        "state": None if segment.state is None else segment.state.kafka_name,
        "layout": None if objects is None else str(objects.layout),
        "objects": 0 if objects is None else len(objects.parts),
        "stored_bytes": segment.nbytes,
        "segment_bytes": segment.size,
        "missing": [str(part) for part in segment.missing],
        "lineage_checked": segment.is_lineage_known,
    }


def _summary(whole: RemoteInventory) -> dict[str, object]:
    orphaned = [segment for segment in whole.segments if segment.is_orphaned]
    return {
        "remote": ", ".join(shown(listing.root) for listing in whole.listings),
        "metadata": whole.has_metadata,
        "segments": len(whole.segments),
        "by_status": dict(sorted(Counter(str(segment.status) for segment in whole.segments).items())),
        "stored_bytes": sum(segment.nbytes for segment in whole.segments),
        "orphaned_segments": len(orphaned),
        "orphaned_bytes": sum(segment.nbytes for segment in orphaned),
        "other_objects": sum(each.other + len(each.old) + len(each.iceberg) for each in whole.listings),
        "other_bytes": sum(each.other_bytes for each in whole.listings),
    }


_HEADINGS = ("TOPIC PARTITION", "FROM", "TO", "STATUS", "STORED BYTES", "OBJECTS", "LAYOUT", "SEGMENT ID")
_NUMBERS = (1, 2, 4, 5)


def _cells(segment: FoundSegment) -> tuple[str, ...]:
    end, objects = _end(segment), segment.objects
    return (
        str(segment.topic_partition),
        str(segment.start_offset),
        "?" if end is None else str(end),
        str(segment.status),
        str(segment.nbytes),
        "0" if objects is None else str(len(objects.parts)),
        "-" if objects is None else str(objects.layout),
        segment.segment_id,
    )


def _end(segment: FoundSegment) -> int | None:
    """The offset after the last one, as in all output; Kafka's metadata has the last one."""
    return None if segment.end_offset is None else segment.end_offset + 1
