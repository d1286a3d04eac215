"""`loglake topics`: the topics of a cluster with partitions and settings, as `loglake metadata` reads them."""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatchcase

from logcore.cli.internal_topics.metadata import add_options, states, topic_lines
from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.record_lines import fields_line, json_line, value_text
from logcore.logs.model.log_selection import LogSelection
from logcore.reading.chosen_logs import matches_nothing


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `topics`."""
    parser.description = (
        "List the topics of a cluster from the snapshots and the log of __cluster_metadata, or from the data directory "
        "of a ZooKeeper. Only settings that were made for a topic are there; the defaults of brokers are not in the "
        "metadata."
    )
    add_options(parser)
    parser.add_argument("--name", action="append", metavar="GLOB", help="only topics that match; repeatable")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    notes, is_read, seen = CommandNotes(), False, set[str]()
    for read in states(arguments, notes):
        is_read = True
        for line in topic_lines(read):
            name = str(line["topic"])
            seen.add(name)
            if arguments.name is None or any(fnmatchcase(name, pattern) for pattern in arguments.name):
                sys.stdout.write(json_line(line) if arguments.format == "jsonl" else _text(line))
    unmatched = LogSelection.of(arguments.name).unmatched_topics(seen) if is_read else ()
    for finding in matches_nothing("--name", "topic", unmatched, seen):
        notes.say(finding)
    return notes.exit_code


def _text(line: dict[str, object]) -> str:
    settings, partitions = line["settings"], line["partitions"]
    shown = f"  {value_text(settings)}" if settings else ""
    text = f"{value_text(line['topic'])}  {line['topic_id'] or '-'}{shown}\n"
    for entry in partitions if isinstance(partitions, list) else ():
        fields = {name: entry[name] for name in ("partition", "leader", "replicas", "isr", "committed")}
        text += f"  {fields_line(fields)}"
    return text
