"""`loglake topics`: the topics of a cluster with partitions and settings, as `loglake metadata` reads them."""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatchcase

from logcore.cli.internal_topics import placement
from logcore.cli.internal_topics.metadata import add_options, states, topic_lines
from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.record_lines import fields_line, json_line, value_text
from logcore.cli.reading.arguments import read_options
from logcore.logs.model.log_selection import LogSelection
from logcore.reading.chosen_logs import find_logs, matches_nothing
from logcore.reading.read_options import Notes
from logcore.reading.source_directories import source_directories


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `topics`."""
    parser.description = (
        "List the topics of a cluster from the snapshots and the log of __cluster_metadata, or from the data directory "
        "of a ZooKeeper. Only settings that were made for a topic are there; the defaults of brokers are not in the "
        "metadata."
    )
    add_options(parser, formats=("text", "jsonl", "reassignment"))
    parser.add_argument("--name", action="append", metavar="GLOB", help="only topics that match; repeatable")
    parser.add_argument(
        "--placement",
        action="store_true",
        help="where the replicas are, what is unbalanced, and the placement by Kafka's rule that moves the fewest",
    )
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    if arguments.format == "reassignment" and not arguments.placement:
        arguments.parser.error("--format reassignment is for --placement")
    notes, is_read, seen = CommandNotes(), False, set[str]()
    for read in states(arguments, notes):
        is_read = True
        lines = {str(line["topic"]): line for line in topic_lines(read)}
        seen |= lines.keys()
        patterns = arguments.name or ["*"]
        chosen = [name for name in lines if any(fnmatchcase(name, pattern) for pattern in patterns)]
        if arguments.placement:
            logs = find_logs(read_options(arguments), Notes())
            sys.stdout.write(placement.report(read.state, source_directories(logs), chosen, arguments.format))
            continue
        for name in chosen:
            sys.stdout.write(json_line(lines[name]) if arguments.format == "jsonl" else _text(lines[name]))
    unmatched = LogSelection.of(arguments.name).unmatched_topics(seen) if is_read else ()
    notes.say_all(matches_nothing("--name", "topic", unmatched, seen))
    return notes.exit_code


def _text(line: dict[str, object]) -> str:
    settings, partitions = line["settings"], line["partitions"]
    shown = f"  {value_text(settings)}" if settings else ""
    text = f"{value_text(line['topic'])}  {line['topic_id'] or '-'}{shown}\n"
    for entry in partitions if isinstance(partitions, list) else ():
        fields = {name: entry[name] for name in ("partition", "leader", "replicas", "isr", "committed")}
        text += f"  {fields_line(fields)}"
    return text
