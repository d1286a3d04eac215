"""Shared parts of `recover`, `reindex`, `retain` and `compact`: arguments, and the run on one partition directory.

    loglake <command> SRC --out DST [--plan] [--config name=value ...] [--as-of TIME] [--compat LINE] [...]

SRC is only read. DST must not exist and becomes a complete partition directory; with `--plan` nothing is written.
`recover` and `reindex` also take whole log directories: see `recovered_logs`. Settings that are not typed are those of
the metadata beside SRC, or defaults:

    1  --config NAME=VALUE
    2  `__cluster_metadata-0` in the log directory of the partition, at the clock of the command
    3  Kafka's defaults

Only settings that were made for the topic are in the metadata. If records of it are lost, or it does not name the
topic at that time, the settings are in doubt: a command that removes records then refuses, and the others go on without
them and say so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

from logcore.cli.maintenance.copy_progress import CopyProgress
from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.reading.arguments import add_choice, clock_ms, local_path, natural
from logcore.errors import LogError
from logcore.exit_codes import ExitCode
from logcore.logs.model.broker_line import DEFAULT_LINE, BrokerLine
from logcore.logs.model.findings import Finding, Severity, found
from logcore.logs.model.partition_directory import PartitionDirectory, Proposal, RootLines
from logcore.logs.model.sources import SourceLog
from logcore.logs.model.topic_config import TopicConfig, kafka_name, topic_config
from logcore.logs.rules.advice import HarmedPlace, advice
from logcore.reading.checked_segments import OF_LOST_OFFSETS, lost_offsets
from logcore.reading.chosen_logs import find_logs
from logcore.reading.internal_topics.cluster_metadata import Moment, left_out, read_cluster_state
from logcore.reading.read_options import Notes, ReadOptions
from logcore.segments.filenames import METADATA_DIRECTORY, METADATA_TOPIC, TopicPartition, parse_partition_directory
from logcore.storage.broker_state import StateReader
from logcore.storage.discovery import discover
from logcore.storage.partition_directories import partition_directory, refuse_changes
from logcore.storage.partition_output import (
    PartitionOutput,
    check_root_files,
    refuse_below,
    write_lines_of_logs,
    write_root_files,
)
from logcore.storage.source_errors import shown
from logcore.texts import sentences
from logcore.topics.topic_settings import TopicSetting, TopicSettings, settings_of_topics


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The settings of one log.

    Attributes:
        config: The settings.
        typed: Names that were typed.
        said: Settings of the metadata that are used, by name.
        used: Names that the command uses.
        doubt: A finding, if the metadata is in doubt.
    """

    config: TopicConfig
    typed: frozenset[str]
    said: Mapping[str, TopicSetting]
    used: Sequence[str]
    doubt: Finding | None = None

    def as_dict(self) -> dict[str, Any]:
        """Each setting that the command uses, and where its value is from."""
        shown_settings: dict[str, Any] = {}
        for each in fields(TopicConfig):
            name = kafka_name(each.name)
            if name not in self.used:
                continue
            value = getattr(self.config, each.name)
            plain: dict[str, Any] = {"value": ",".join(value) if isinstance(value, tuple) else value}
            if name in self.typed:
                plain["from"] = "--config"
            elif name in self.said:
                plain |= {"from": METADATA_DIRECTORY, "offset": self.said[name].offset}
                plain["committed"] = self.said[name].is_committed
            else:
                plain["from"] = "default"
            shown_settings[name] = plain
        return shown_settings

    @property
    def is_compacted(self) -> bool | None:
        """Whether the topic is compacted; None if its cleanup.policy is not stated."""
        return self.config.compacts if self.typed.union(self.said) & {"cleanup.policy"} else None

    @property
    def lines(self) -> str:
        """A line for each setting that is from the metadata."""
        lines = []
        for name, setting in self.said.items():
            standing = "committed" if setting.is_committed else "tentative"
            lines.append(f"{name} is {setting.value}: {METADATA_DIRECTORY}, offset {setting.offset}, {standing}\n")
        return "".join(lines)


@dataclass(frozen=True, slots=True)
class NewDirectory:
    """The output of a command: the files of DST, the lines of the root files, and the report on stdout."""

    files: Proposal
    root: RootLines
    summary: str
    keeps_other_lines: bool = True
    """Whether root files keep the lines of the other logs of the source: so partitions are put together one by one."""


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
    else:
        parser.add_argument(
            "source",
            type=local_path,
            metavar="SRC",
            help="a partition directory (orders-0), or for --plan a whole log directory; it is only read",
        )
        parser.add_argument("--out", metavar="DST", help="the new partition directory; it must not exist yet")
    add_choice(parser)
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


def of_one_partition(sources: Sequence[str]) -> tuple[SourceLog, ...] | None:
    """Return the logs that were found, if only a partition directory is named. A log directory may have such a name."""
    if len(sources) != 1 or parse_partition_directory(os.path.basename(os.path.abspath(sources[0]))) is None:
        return None
    discovery = discover(sources)
    logs, whole = (*discovery.logs, *discovery.set_aside), os.path.abspath(sources[0])
    return logs if all(os.path.abspath(log.directory) == whole for log in logs) else None


_OF_ONE_LOG = (
    "recovery_point",
    "log_start_offset",
    "high_watermark",
    "first_dirty_offset",
    "cleaner_upper_bound",
    "delete_records_before",
)


def refuse_options_of_one_log(arguments: argparse.Namespace) -> None:
    """Refuse as wrong usage (64) what makes sense for one log only, where several are named."""
    for name in _given(arguments, _OF_ONE_LOG):
        option = f"--{name.replace('_', '-')}"
        arguments.parser.error(f"{option} is for one log: name only its partition directory")


def given_root_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that replace lines of the root files of SRC, by their names in a `PartitionDirectory`."""
    return _given(arguments, ("recovery_point", "log_start_offset", "high_watermark", "first_dirty_offset"))


def _given(arguments: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(arguments, name, None)) is not None}


def as_of_ms(arguments: argparse.Namespace) -> int:
    """The clock of the command."""
    return int(arguments.now_ms if arguments.as_of is None else arguments.as_of)


@contextmanager
def source(arguments: argparse.Namespace, findings: list[Finding]) -> Iterator[PartitionDirectory]:
    """Read SRC and apply the options. Raises as `partition_directory`."""
    around = getattr(arguments, "salvage", False)
    with partition_directory(arguments.source, findings, reads_around=around) as directory:
        stated = given_root_options(arguments)
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


def say_lost_offsets(arguments: argparse.Namespace, notes: CommandNotes, *, is_compacted: bool | None) -> None:
    """Report offsets that should be in the source and are not, as `verify` does. Values in the arguments count."""
    of_paths = Notes()
    stated = _given(arguments, ("log_start_offset", "high_watermark"))
    logs = find_logs(ReadOptions((arguments.source,)), of_paths)
    notes.say_all(each for each in of_paths.findings if each.rule in OF_LOST_OFFSETS and not stated)
    for log in logs:
        notes.say_all(lost_offsets(replace(log, **stated), is_compacted=is_compacted))


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
        notes.say_all(plan.findings)
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
        if made.keeps_other_lines:
            write_root_files(root, arguments.checkpoints_out, directory.topic_partition, made.root)
        else:
            write_lines_of_logs(arguments.checkpoints_out, {directory.topic_partition: made.root})
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
        **directory.topic_partition.columns,
        "compat": str(arguments.compat),
        "as_of_ms": as_of_ms(arguments),
        "settings": settings.as_dict(),
    }


_ADVICE = "Type settings with --config, or leave the metadata out with --config-from none."
_SHOWN_FINDINGS = 3


@dataclass(slots=True)
class SettingsOfLogs:
    """Finds the settings of each log of a command.

    Attributes:
        typed: Texts by Kafka's names.
        used: Names that the command uses.
        as_of_ms: The clock of the command, epoch milliseconds.
        reads_metadata: Whether the metadata beside a log is read.
        refuses_doubt: Whether the command refuses a log whose settings are in doubt.
    """

    typed: Mapping[str, str]
    used: Sequence[str]
    as_of_ms: int
    reads_metadata: bool = True
    refuses_doubt: bool = True
    _said: dict[str, dict[str, TopicSettings] | Finding | None] = field(default_factory=dict)
    """By log directory: settings by topic, the reason why there are none, or None without metadata."""

    def of(self, path: str) -> LogSettings:
        """Return the settings of a partition directory.

        Raises:
            LogError: They are in doubt, and the command refuses that.
        """
        said, doubt = self._of_metadata(os.path.abspath(path))
        if doubt is not None and self.refuses_doubt:
            raise LogError(doubt.message, advice=_ADVICE)
        taken = {name: said[name] for name in self.used if name in said and name not in self.typed}
        config = topic_config({name: setting.value for name, setting in taken.items()} | dict(self.typed))
        return LogSettings(config, frozenset(self.typed), taken, self.used, doubt)

    def _of_metadata(self, path: str) -> tuple[Mapping[str, TopicSetting], Finding | None]:
        parsed = parse_partition_directory(os.path.basename(path))
        if parsed is None or not self.reads_metadata or set(self.used) <= set(self.typed):
            return {}, None
        root, topic = os.path.dirname(path), parsed[0].topic
        if topic == METADATA_TOPIC:  # no record of the metadata names it
            return {}, None
        if root not in self._said:
            self._said[root] = self._read(root)
        known = self._said[root]
        if not isinstance(known, dict):
            return {}, known
        metadata = shown(os.path.join(root, METADATA_DIRECTORY))
        settings = known.get(topic)
        if settings is None:
            return {}, _in_doubt(metadata, f"It does not name the topic {topic} at the time of the command.")
        topic_id, is_unusable = StateReader().topic_id(path)
        if is_unusable:
            why = f"partition.metadata of {parsed[0]} cannot be used, so that the topic {topic} there may be another."
            return {}, _in_doubt(metadata, why)
        other = settings.other_topic(topic_id)
        if other is not None:
            return {}, _in_doubt(metadata, other)
        for name in self.used:
            setting = None if name in self.typed else settings.settings.get(name)
            try:
                topic_config({} if setting is None else {name: setting.value})
            except ValueError:
                at = -1 if setting is None else setting.offset
                return {}, _in_doubt(metadata, f"Its {name} of {topic}, offset {at}, is no value that Kafka allows.")
        return settings.settings, None

    def _read(self, root: str) -> dict[str, TopicSettings] | Finding | None:
        path = os.path.join(root, METADATA_DIRECTORY)
        if not os.path.lexists(path):
            return None
        notes = Notes()
        logs = [log for log in find_logs(ReadOptions((path,)), notes) if log.directory.endswith(METADATA_DIRECTORY)]
        if not logs:
            return _in_doubt(shown(path), "It cannot be read.", notes)
        read = read_cluster_state(logs[0], notes, Moment(time_ms=self.as_of_ms))
        doubt = read.doubt or left_out(logs[0], read.end_offset, self.as_of_ms)
        if doubt is not None:
            return _in_doubt(shown(path), doubt, notes)
        return settings_of_topics(read.state, read.committed_end, None)


def _in_doubt(path: str, why: str, notes: Notes | None = None) -> Finding:
    """Return the finding; its message has the first findings about the metadata that are not for information only."""
    findings = [] if notes is None else [each for each in notes.findings if each.severity is not Severity.INFO]
    reasons = sentences([why, *(each.message for each in findings[:_SHOWN_FINDINGS])])
    return found("settings-in-doubt", f"{path}: what it says of settings is in doubt. {reasons}", file=path)
