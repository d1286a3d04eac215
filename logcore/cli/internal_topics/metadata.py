"""`loglake metadata`: topics, partitions, settings, brokers and features of a cluster.

They are in `__cluster_metadata`, or in the data of a ZooKeeper.

`loglake topics` prints the topics alone, each with its partitions and settings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.record_lines import fields_line, json_line
from logcore.cli.reading.arguments import add_choice_of_moment, add_paths, moment_of, read_options
from logcore.reading.chosen_logs import find_logs
from logcore.reading.internal_topics.cluster_metadata import ReadState, read_cluster_state, zookeeper_states
from logcore.reading.internal_topics.internal_logs import internal_logs
from logcore.segments.filenames import DirectoryKind
from logcore.texts import time_text
from logcore.topics.cluster_states import TOPIC_RESOURCE, StateRow
from logcore.topics.internal_topics import InternalTopic

_Line = dict[str, object]
_OF_BOOTSTRAP = -1
"""Offset of what only the snapshot at offset 0 says, with which a cluster begins."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `metadata`."""
    parser.description = (
        "Print the state of a cluster from the snapshots and the log of __cluster_metadata. PATH may also be the data "
        "directory of a ZooKeeper (before KRaft) or its folder version-2; an offset then is the number of a "
        "transaction, and all transactions count as committed."
    )
    add_options(parser)
    parser.set_defaults(func=run)


def add_options(parser: argparse.ArgumentParser, formats: tuple[str, ...] = ("text", "jsonl")) -> None:
    """Add the options that `metadata` and `topics` share."""
    add_paths(parser)
    add_choice_of_moment(parser)
    parser.add_argument(
        "--committed",
        action="store_true",
        help="only what the latest snapshot covers; the end of the log may still change",
    )
    parser.add_argument("--format", choices=formats, default="text")
    parser.set_defaults(parser=parser, topic=None, partition=None)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    notes = CommandNotes()
    for read in states(arguments, notes):
        for line in _lines(read):
            sys.stdout.write(json_line(line) if arguments.format == "jsonl" else _text(line))
    return notes.exit_code


def states(arguments: argparse.Namespace, notes: CommandNotes) -> Iterator[ReadState]:
    """Read the state in each metadata log, and of each cluster in the data of ZooKeepers, at the paths."""
    options, quiet = read_options(arguments), ("no-high-watermark",)
    logs = find_logs(options, notes, quiet=quiet, is_one_copy=True, with_zookeeper=True)
    for log in internal_logs(logs, notes, InternalTopic.CLUSTER_METADATA):
        moment = moment_of(arguments)
        if log.kind is DirectoryKind.ZOOKEEPER:
            yield from zookeeper_states(log, notes, moment)
            continue
        if arguments.committed:
            end = log.high_watermark or 0
            moment = moment.up_to(end)
        yield read_cluster_state(log, notes, moment)


def topic_lines(read: ReadState) -> Iterator[_Line]:
    """Yield a line for each topic, ordered by name, with its partitions and settings."""
    for topic_id, topic in sorted(read.state.topics.items(), key=lambda item: str(item[1].fields["topic"])):
        name = str(topic.fields["topic"])
        partitions = [
            {key: value for key, value in row.fields.items() if key != "topic_id"}
            | {"committed": _is_committed(row, read)}
            for row in read.state.partitions_of(topic_id)
        ]
        yield {
            "topic": name,
            "topic_id": topic.fields["topic_id"],
            "settings": read.state.settings_of(TOPIC_RESOURCE, name),
            "partitions": partitions,
            **_place(topic, read),
        }


def _lines(read: ReadState) -> Iterator[_Line]:
    state = read.state
    if state.cluster is not None:
        yield {"kind": "cluster", **_row(state.cluster, read)}
    if state.controller is not None:
        yield {"kind": "controller", **_row(state.controller, read)}
    for feature in sorted(state.features):
        yield {"kind": "feature", **_row(state.features[feature], read)}
    for broker in sorted(state.brokers):
        yield {"kind": "broker", **_row(state.brokers[broker], read)}
    if state.producer_ids is not None:
        yield {"kind": "producer-ids", **_row(state.producer_ids, read)}
    for resource in sorted(state.settings):
        rows = state.settings[resource]
        for name in sorted(rows):
            yield {"kind": "setting", **_row(rows[name], read)}
    for line in topic_lines(read):
        yield {"kind": "topic", **line}
    yield {
        "kind": "summary",
        "end_offset": read.end_offset,
        "snapshot_end": read.snapshot_end,
        "committed_end": read.committed_end,
        "topics": len(state.topics),
        "partitions": sum(map(len, state.partitions.values())),
        "not_interpreted": dict(sorted(state.not_interpreted.items())),
    }


def _row(row: StateRow, read: ReadState) -> _Line:
    return {**row.fields, **_place(row, read)}


def _place(row: StateRow, read: ReadState) -> _Line:
    return {"offset": row.offset, "timestamp": row.timestamp_ms, "committed": _is_committed(row, read)}


def _is_committed(row: StateRow, read: ReadState) -> bool:
    return row.offset < read.committed_end


def _text(line: _Line) -> str:
    """Format a line for a person. A topic has a line for each of its partitions below it."""
    kind, fields = line["kind"], {name: value for name, value in line.items() if name != "kind"}
    partitions = fields.pop("partitions") if kind == "topic" else []
    points, timestamp = fields.get("end_points"), fields.get("timestamp")
    if isinstance(points, list):
        fields["end_points"] = [f"{point['name']}://{point['host']}:{point['port']}" for point in points]
    if fields.get("offset") == _OF_BOOTSTRAP:
        fields["offset"] = "bootstrap"
    if isinstance(timestamp, int):
        fields["timestamp"] = time_text(timestamp)
    first = fields_line(fields) if kind in fields else f"{kind}  {fields_line(fields)}"
    return first + "".join(f"  {fields_line(row)}" for row in (partitions if isinstance(partitions, list) else ()))
