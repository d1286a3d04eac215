"""`loglake groups`: consumer groups with their members, committed offsets and lag.

They are in `__consumer_offsets`; those of old consumers in the data of a ZooKeeper.
"""

from __future__ import annotations

import argparse
import os
import sys

from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.record_lines import json_line, value_text
from logcore.cli.reading.arguments import add_choice_of_moment, add_high_watermark, add_paths, moment_of, read_options
from logcore.logs.model.sources import SourceLog
from logcore.reading.chosen_logs import find_logs, matches_nothing
from logcore.reading.internal_topics.consumer_groups import FoundGroup, note_absent_partitions, read_groups
from logcore.reading.internal_topics.internal_logs import internal_logs
from logcore.reading.internal_topics.log_ends import LogEnds
from logcore.reading.read_options import Notes
from logcore.segments.filenames import DirectoryKind
from logcore.texts import java_text, shown
from logcore.topics.internal_topics import InternalTopic


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `groups`."""
    parser.description = (
        "List the groups in __consumer_offsets as a coordinator would load them: state, members with their "
        "assignments, committed offsets, and the lag to the high watermarks of the logs at PATH. Groups of old "
        "consumers are in the data directory of a ZooKeeper: their members, what each owns, and their offsets."
    )
    add_paths(parser)
    parser.add_argument(
        "--group",
        action="append",
        type=lambda name: java_text(os.fsencode(name)),
        metavar="NAME",
        help="only this group; repeatable",
    )
    end = "the end of committed records (default: a directory's replication-offset-checkpoint)"
    add_high_watermark(parser, f"{end}; N is an offset of __consumer_offsets")
    add_choice_of_moment(parser)
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.set_defaults(func=run, parser=parser, topic=None, partition=None)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    notes, options = CommandNotes(), read_options(arguments)
    quiet = [] if arguments.high_watermark == "checkpoint" else ["no-high-watermark"]
    logs = find_logs(options, notes, quiet=quiet, is_one_copy=True, with_zookeeper=True)
    has_zookeeper = any(log.kind is DirectoryKind.ZOOKEEPER for log in logs)
    chosen = internal_logs(logs, Notes() if has_zookeeper else notes, InternalTopic.CONSUMER_OFFSETS)
    note_absent_partitions(chosen, logs, notes)
    ends, seen = LogEnds(logs, arguments.high_watermark), set[str]()
    for group in read_groups(chosen, logs, notes, moment_of(arguments), options.rules):
        seen.add(group.state.group)
        if arguments.group is None or group.state.group in arguments.group:
            line = _fields(group, ends, notes)
            sys.stdout.write(json_line(line) if arguments.format == "jsonl" else _text(line))
    unmatched = [
        name for name in dict.fromkeys(arguments.group or ()) if (chosen or has_zookeeper) and name not in seen
    ]
    notes.say_all(matches_nothing("--group", "group", unmatched, seen))
    return notes.exit_code


def _fields(found_group: FoundGroup, ends: LogEnds, notes: CommandNotes) -> dict[str, object]:
    state, log = found_group.state, found_group.log
    offsets: list[dict[str, object]] = []
    for (topic, partition), commit in sorted(state.offsets.items()):
        place = (state.group, topic, partition, commit.offset)
        outside = ends.commit_beyond(*place) or ends.commit_below(*place)
        if outside is not None:
            notes.say(outside)
        end = ends.high_watermark(topic, partition)
        offsets.append(
            {
                "topic": topic,
                "partition": partition,
                "offset": commit.offset,
                "leader_epoch": commit.leader_epoch,
                "metadata": commit.metadata,
                "commit_time": commit.commit_time_ms,
                "high_watermark": end,
                "lag": None if end is None else end - commit.offset,
                "out_of_range": outside is not None,
            }
        )
    members = [
        member.columns
        | {
            "assignment": [
                {"topic": topic, "partitions": list(numbers)} for topic, numbers in sorted(member.assignment.items())
            ]
        }
        for member in state.members
    ]
    rest = {"coordinator_partition": _partition(log), "members": members, "offsets": offsets}
    return {"group": state.group} | state.columns | rest


def _partition(log: SourceLog) -> int | None:
    return None if log.kind is DirectoryKind.ZOOKEEPER else log.topic_partition.partition


def _text(line: dict[str, object]) -> str:
    members, offsets = line["members"], line["offsets"]
    assert isinstance(members, list)
    assert isinstance(offsets, list)
    lines = [
        f"{value_text(line['group'])}  {line['type']}  {line['state'] or 'not interpreted'}  {len(members)} members"
    ]
    for member in members:
        assigned = [f"{part['topic']}-{number}" for part in member["assignment"] for number in part["partitions"]]
        names = "  ".join(value_text(member[name]) for name in ("member_id", "client_id", "host"))
        lines.append(f"  member {names}  {shown(' '.join(assigned)) or '-'}")
    for commit in offsets:
        lag = "" if commit["lag"] is None else f"  lag {commit['lag']}"
        range_text = "  out of range" if commit["out_of_range"] else ""
        place = f"{value_text(commit['topic'])}-{commit['partition']}"
        lines.append(f"  {place}  offset {commit['offset']}{lag}{range_text}")
    return "\n".join(lines) + "\n"
