"""Shared parts of `recover`, `reindex`, `retain` and `compact`: arguments, and the run on one partition directory.

    loglake <command> SRC --out DST [--plan] [--config name=value ...] [--as-of TIME] [--compat LINE] [...]

SRC is only read. DST must not exist and becomes a complete partition directory; with `--plan` nothing is written.
`recover` and `reindex` also take whole log directories: see `recovered_logs`. Settings that are not typed are those of
the metadata beside SRC: see `log_settings`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from logcore.cli.maintenance.copy_progress import CopyProgress
from logcore.cli.maintenance.log_settings import LogSettings, SettingsOfLogs
from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.reading.arguments import add_choice, clock_ms, local_path, natural
from logcore.exit_codes import ExitCode
from logcore.logs.model.broker_line import DEFAULT_LINE, BrokerLine
from logcore.logs.model.findings import Finding
from logcore.logs.model.partition_directory import PartitionDirectory, Proposal, RootLines
from logcore.logs.model.topic_config import topic_config
from logcore.logs.rules.advice import HarmedPlace, advice
from logcore.segments.filenames import TopicPartition
from logcore.storage.partition_directories import partition_directory, refuse_changes
from logcore.storage.partition_output import PartitionOutput, check_root_files, refuse_below, write_root_files


@dataclass(frozen=True, slots=True)
class NewDirectory:
    """The output of a command: the files of DST, the lines of the root files, and the report on stdout."""

    files: Proposal
    root: RootLines
    summary: str


@dataclass(frozen=True, slots=True)
class DirectoryPlan:
    """The decision of a command about one partition directory."""

    decision: dict[str, Any]
    """The output of `--plan`."""
    make: Callable[[PartitionOutput], NewDirectory]
    """Called once, when DST can be written. It writes the files that are not in memory."""
    findings: Sequence[Finding] = ()
    refusal: str | None = None
    """Why nothing is written."""
    exit_code: ExitCode = ExitCode.CLEAN


Planner = Callable[[PartitionDirectory, LogSettings, Sequence[Finding], CommandNotes], DirectoryPlan]
"""Decides about a directory by its settings, and reports through the notes those findings about its root files that
matter."""


def add_arguments(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add SRC and the options of every maintenance command.

    Args:
        parser: The parser of the command.
        several: SRC may also be log directories, with options that choose logs.
    """
    if several:
        parser.add_argument(
            "sources",
            nargs="+",
            type=local_path,
            metavar="SRC",
            help="a partition directory (orders-0), or log directories; only read",
        )
        out = "the new partition directory, which must not exist yet; for log directories DST/<topic-partition>"
        parser.add_argument("--out", metavar="DST", help=out)
        add_choice(parser)
    else:
        parser.add_argument(
            "source", type=local_path, metavar="SRC", help="a partition directory (orders-0); it is only read"
        )
        parser.add_argument("--out", metavar="DST", help="the new partition directory; it must not exist yet")
    parser.add_argument("--plan", action="store_true", help="print the decision as JSON and write nothing")
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="topic configuration by Kafka's name; repeatable",
    )
    parser.add_argument(
        "--config-from",
        choices=("metadata", "none"),
        default="metadata",
        help="where settings without --config are from: __cluster_metadata-0 beside SRC, if it is there, or nowhere "
        "(default: %(default)s); settings that are in neither have Kafka's defaults",
    )
    parser.add_argument("--as-of", type=clock_ms, metavar="TIME", help="the clock (default: now)")
    parser.add_argument(
        "--compat",
        type=BrokerLine,
        choices=list(BrokerLine),
        default=DEFAULT_LINE,
        help="the broker line whose bytes to write; 4.0 means 4.0 to 4.3 (default: %(default)s)",
    )
    for option, meaning in (
        ("--recovery-point", "first offset not known to be on disk"),
        ("--log-start-offset", "first offset that is part of the log"),
        ("--high-watermark", "first offset that is not known to be committed"),
        ("--first-dirty-offset", "where the last cleaning ended"),
        ("--cleaner-upper-bound", "offsets from here on are not cleaned"),
    ):
        parser.add_argument(
            option, type=natural, metavar="N", help=f"{meaning} (default: from the root files beside SRC)"
        )
    parser.add_argument(
        "--checkpoints-out",
        metavar="DIR",
        help="also write the root files of a log directory there, with new lines for this partition",
    )


def check_arguments(
    arguments: argparse.Namespace, used: Sequence[str], *, refuses_doubt: bool = False
) -> SettingsOfLogs:
    """Return the settings of a command line. Options that contradict each other are wrong usage (64).

    Args:
        arguments: The options of `add_arguments`.
        used: Kafka's names of the settings that the command uses.
        refuses_doubt: The command refuses a log whose settings in the metadata are in doubt.
    """
    parser: argparse.ArgumentParser = arguments.parser
    if not arguments.plan and arguments.out is None:
        parser.error("name the new directory with --out DST, or print only the decision with --plan")
    values: dict[str, str] = {}
    for text in arguments.config:
        name, equals, value = text.partition("=")
        if not equals:
            parser.error(f"--config takes NAME=VALUE, not {text!r}")
        values[name.strip()] = value
    try:
        topic_config(values)
    except ValueError as error:
        parser.error(str(error))
    reads_metadata = arguments.config_from == "metadata"
    return SettingsOfLogs(values, used, as_of_ms(arguments), reads_metadata, refuses_doubt)


def as_of_ms(arguments: argparse.Namespace) -> int:
    """The clock of the command."""
    return int(arguments.now_ms if arguments.as_of is None else arguments.as_of)


@contextmanager
def source(arguments: argparse.Namespace, findings: list[Finding]) -> Iterator[PartitionDirectory]:
    """Read SRC and apply the options. Raises as `partition_directory`."""
    around = getattr(arguments, "salvage", False)
    with partition_directory(arguments.source, findings, reads_around=around) as directory:
        stated = {
            name: getattr(arguments, name)
            for name in ("recovery_point", "log_start_offset", "high_watermark", "first_dirty_offset")
            if getattr(arguments, name) is not None
        }
        if arguments.high_watermark is not None:
            stated["high_watermark_ms"] = None  # it is from no file
        yield replace(directory, **stated)


def say_salvage(source: str, name: TopicPartition) -> None:
    """Write the command on stderr that makes a copy of a log without its damage."""
    place = HarmedPlace(directory=source, topic=name.topic, partition=name.partition)
    sys.stderr.write(f"What to do about corrupt-bytes of {name}: {advice('corrupt-bytes', place)}\n")


def say_source_findings(findings: Iterable[Finding], arguments: argparse.Namespace, notes: CommandNotes) -> None:
    """Report the findings about the source. A high watermark in the arguments replaces a missing one."""
    for finding in findings:
        if finding.rule != "no-high-watermark" or arguments.high_watermark is None:
            notes.say(finding)


def run(
    arguments: argparse.Namespace,
    settings: SettingsOfLogs,
    plan_of: Planner,
    notes: CommandNotes,
    progress: CopyProgress | None = None,
) -> int:
    """Run a command on one partition directory: read it, plan, report, write.

    Args:
        arguments: The options of `add_arguments`.
        settings: Finds the settings of the directory.
        plan_of: Makes the decision.
        notes: Collects the findings.
        progress: Shows how far the new directory is written.

    Returns:
        The exit code: the worse one of the decision's and the findings'.

    Raises:
        LogError: The directory cannot be read, planned or written.
    """
    read: list[Finding] = []
    with source(arguments, read) as directory:
        of_log = settings.of(arguments.source)
        if of_log.doubt is not None:
            notes.say(of_log.doubt)
        plan = plan_of(directory, of_log, read, notes)
        for finding in plan.findings:
            notes.say(finding)
        if any(finding.rule == "corrupt-bytes" for finding in plan.findings):
            say_salvage(arguments.source, directory.topic_partition)
        if arguments.plan:
            refuse_changes(directory)
            sys.stdout.write(json.dumps(plan_head(arguments, directory, of_log) | plan.decision, indent=2) + "\n")
        if plan.refusal is not None:
            sys.stderr.write(f"error: {directory.topic_partition}: {plan.refusal}\n")
        elif not arguments.plan:
            summary = _write(arguments, directory, plan, progress).summary
            sys.stdout.write(of_log.lines + summary)
    return max(plan.exit_code, notes.exit_code)


def _write(
    arguments: argparse.Namespace, directory: PartitionDirectory, plan: DirectoryPlan, progress: CopyProgress | None
) -> NewDirectory:
    """Write the new directory, and `--checkpoints-out` if requested. All outputs are checked before the first write."""
    root = os.path.dirname(os.path.abspath(str(arguments.source)))
    if arguments.checkpoints_out is not None:
        refuse_below(arguments.source, arguments.checkpoints_out)
        check_root_files(root, arguments.checkpoints_out)
    with PartitionOutput(arguments.source, arguments.out) as output:
        made = plan.make(output)
        put(output, directory, made.files, progress)
    if arguments.checkpoints_out is not None:
        write_root_files(root, arguments.checkpoints_out, directory.topic_partition, made.root)
    return made


def put(
    new: PartitionOutput, directory: PartitionDirectory, files: Proposal, progress: CopyProgress | None = None
) -> None:
    """Write the files of a proposal, unless the source changed since the decision. Raises SourceChanged."""
    refuse_changes(directory)
    if progress is None:
        new.put(files)
    else:
        sizes = progress.writes(files, directory)
        new.put(files, lambda name: progress.wrote(sizes[name]))
        progress.line.clear()
    refuse_changes(directory)


def plan_head(arguments: argparse.Namespace, directory: PartitionDirectory, settings: LogSettings) -> dict[str, Any]:
    """Return the first lines of `--plan`: the command, the directory, the clock and the settings."""
    return {
        "command": arguments.command,
        "topic": directory.topic_partition.topic,
        "partition": directory.topic_partition.partition,
        "compat": str(arguments.compat),
        "as_of_ms": as_of_ms(arguments),
        "settings": settings.as_dict(),
    }
