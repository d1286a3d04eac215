"""What `recover`, `reindex`, `retain` and `compact` share: their arguments, and one partition read by them.

    loglake <command> SRC --out DST [--plan] [--config name=value ...] [--as-of TIME] [--compat LINE] [...]

SRC is only read. DST must not exist and becomes a complete partition directory; with `--plan` nothing is written.
`recover` and `reindex` also take whole log directories: see `recovered_logs`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from logcore.cli.reading import arguments as options
from logcore.cli.reading.looking import Notes
from logcore.logs.model.broker_line import DEFAULT_LINE, BrokerLine
from logcore.logs.model.findings import Finding
from logcore.logs.model.partition_directory import PartitionDirectory, Proposal, RootLines
from logcore.logs.model.topic_config import TopicConfig, topic_config
from logcore.storage.partition_directories import partition_directory, refuse_changes
from logcore.storage.partition_output import PartitionOutput, check_root_files, refuse_below, write_root_files


def add_arguments(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """SRC and the options of every maintenance command. several: SRC may also be log directories, with a choice."""
    if several:
        parser.add_argument(
            "sources", nargs="+", metavar="SRC", help="a partition directory (orders-0), or log directories; only read"
        )
        out = "the new partition directory, which must not exist yet; of log directories DST/<topic-partition> for each"
        parser.add_argument("--out", metavar="DST", help=out)
        options.add_choice(parser)
    else:
        parser.add_argument("source", metavar="SRC", help="a partition directory (orders-0); it is only read")
        parser.add_argument("--out", metavar="DST", help="the new partition directory; it must not exist yet")
    parser.add_argument("--plan", action="store_true", help="print the decision as JSON and write nothing")
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="topic configuration by Kafka's name; repeatable",
    )
    parser.add_argument("--as-of", type=options.time_ms, metavar="TIME", help="the clock (default: now)")
    parser.add_argument(
        "--compat",
        type=BrokerLine,
        choices=list(BrokerLine),
        default=DEFAULT_LINE,
        help="the broker line whose bytes to write; 4.0 stands for 4.0 to 4.3 (default: %(default)s)",
    )
    for option, meaning in (
        ("--recovery-point", "first offset not known to be on disk"),
        ("--log-start-offset", "first offset that is part of the log"),
        ("--high-watermark", "first offset that is not known to be committed"),
        ("--first-dirty-offset", "where the last cleaning ended"),
        ("--cleaner-upper-bound", "nothing at or above it is cleaned"),
    ):
        parser.add_argument(
            option, type=options.natural, metavar="N", help=f"{meaning} (default: what the root files beside SRC say)"
        )
    parser.add_argument(
        "--checkpoints-out",
        metavar="DIR",
        help="also write the root files of a log directory there, with this partition's lines brought up to date",
    )


def check_arguments(arguments: argparse.Namespace) -> TopicConfig:
    """The topic configuration of a command line. Ends in wrong usage (64) where the options do not go together."""
    parser: argparse.ArgumentParser = arguments.parser
    if not arguments.plan and arguments.out is None:
        parser.error("name the new directory with --out DST, or ask for the decision alone with --plan")
    values: dict[str, str] = {}
    for text in arguments.config:
        name, equals, value = text.partition("=")
        if not equals:
            parser.error(f"--config takes NAME=VALUE, not {text!r}")
        values[name.strip()] = value
    try:
        return topic_config(values)
    except ValueError as error:
        parser.error(str(error))


def as_of_ms(arguments: argparse.Namespace) -> int:
    """The clock of the command."""
    return int(arguments.now_ms if arguments.as_of is None else arguments.as_of)


@contextmanager
def source(arguments: argparse.Namespace, findings: list[Finding]) -> Iterator[PartitionDirectory]:
    """SRC with what the options override. Raises as `partition_directory`."""
    around = getattr(arguments, "salvage", False)
    with partition_directory(arguments.source, findings, reads_around=around) as directory:
        stated = {
            name: getattr(arguments, name)
            for name in ("recovery_point", "log_start_offset", "high_watermark", "first_dirty_offset")
            if getattr(arguments, name) is not None
        }
        if arguments.high_watermark is not None:
            stated["high_watermark_ms"] = None  # of no file
        yield replace(directory, **stated)


def say_source_findings(findings: Iterable[Finding], arguments: argparse.Namespace, notes: Notes) -> None:
    """Print what reading the source found. A high watermark in the arguments replaces a missing one."""
    for finding in findings:
        if finding.rule != "no-high-watermark" or arguments.high_watermark is None:
            notes.say(finding)


@contextmanager
def output(arguments: argparse.Namespace) -> Iterator[PartitionOutput]:
    """DST, to be written while the context lasts. Refused before anything is written: what cannot be, and checkpoints
    that could not be written behind it."""
    if arguments.checkpoints_out is not None:
        refuse_below(arguments.source, arguments.checkpoints_out)
        check_root_files(_log_directory(arguments), arguments.checkpoints_out)
    with PartitionOutput(arguments.source, arguments.out) as new:
        yield new


def _log_directory(arguments: argparse.Namespace) -> str:
    return os.path.dirname(os.path.abspath(str(arguments.source)))


def write(arguments: argparse.Namespace, directory: PartitionDirectory, files: Proposal, root: RootLines) -> None:
    """The new directory, and `--checkpoints-out` if it was asked for."""
    with output(arguments) as new:
        put(new, directory, files)
    write_checkpoints(arguments, directory, root)


def put(new: PartitionOutput, directory: PartitionDirectory, files: Proposal) -> None:
    """Write the files of a proposal, if what they were decided on is still what lies there. Raises SourceChanged."""
    refuse_changes(directory)
    new.put(files)
    refuse_changes(directory)


def print_plan(arguments: argparse.Namespace, directory: PartitionDirectory, decision: dict[str, Any]) -> None:
    """What `--plan` prints: which command, on what and at which clock, and then what it decided. Raises SourceChanged
    where that is not of what lies there now."""
    refuse_changes(directory)
    sys.stdout.write(json.dumps(plan_head(arguments, directory) | decision, indent=2) + "\n")


def plan_head(arguments: argparse.Namespace, directory: PartitionDirectory) -> dict[str, Any]:
    """Which command plans, on what and at which clock."""
    return {
        "command": arguments.command,
        "topic": directory.topic_partition.topic,
        "partition": directory.topic_partition.partition,
        "compat": str(arguments.compat),
        "as_of_ms": as_of_ms(arguments),
    }


def write_checkpoints(arguments: argparse.Namespace, directory: PartitionDirectory, lines: RootLines) -> None:
    """`--checkpoints-out`, if it was asked for."""
    if arguments.checkpoints_out is not None:
        write_root_files(_log_directory(arguments), arguments.checkpoints_out, directory.topic_partition, lines)
