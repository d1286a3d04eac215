"""`retain --plan` and `compact --plan` over whole log directories: what would go of each log, or why nothing does.

One JSON line for each log, those with work first, then one for each directory that a broker set aside:

    {"topic", "partition", "directory", "order", "reason", ...}      `order` counts from 1; null: nothing is done
    {"directory", "removable", "reason"}                             -delete, -future and -stray directories

A log that cannot be read or planned has its reason, and does not stop the others.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from logcore.cli.maintenance.maintenance import (
    LogSettings,
    SettingsOfLogs,
    as_of_ms,
    refuse_options_of_one_log,
)
from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.progress import ProgressLine
from logcore.cli.reading.arguments import selection_of
from logcore.errors import LogError
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.sources import SourceLog
from logcore.reading.chosen_logs import find_logs
from logcore.reading.internal_topics.cluster_metadata import Moment, read_cluster_state
from logcore.reading.read_options import Notes, ReadOptions
from logcore.segments.filenames import METADATA_DIRECTORY, DirectoryKind, parse_partition_directory
from logcore.storage.broker_state import StateReader
from logcore.storage.partition_directories import partition_directory
from logcore.storage.source_errors import shown

_QUIET = ("no-high-watermark", "broken-root-file", "no-meta-properties", "remote-tier", "several-copies")


@dataclass(frozen=True, slots=True)
class PlannedWork:
    """What one round does with a log.

    Attributes:
        reason: Why it is done now, or why nothing is done.
        rank: The log with the greatest one is first; None: nothing is done.
        figures: More fields of the row.
    """

    reason: str
    rank: float | None = None
    figures: dict[str, Any] = field(default_factory=dict)


WorkPlanner = Callable[[PartitionDirectory, LogSettings, str], PlannedWork]
"""Plans a log, given its directory, its settings and its path. Raises LogError."""


def is_whole(arguments: argparse.Namespace) -> bool:
    """Whether SRC is a log directory instead of a partition directory. Of one log no part can be chosen (64)."""
    path = os.path.abspath(arguments.source)
    if os.path.isdir(path) and parse_partition_directory(os.path.basename(path)) is None:
        return True
    if arguments.topic or arguments.partition:
        arguments.parser.error("--topic and --partition choose logs of a whole log directory")
    return False


def run(arguments: argparse.Namespace, settings: SettingsOfLogs, notes: CommandNotes, plan_of: WorkPlanner) -> int:
    """Print the plan of each log below SRC; returns the exit code.

    Args:
        arguments: The command line, with `--plan`.
        settings: Finds the settings of a log.
        notes: Collects the findings.
        plan_of: Plans a log.
    """
    if not arguments.plan:
        arguments.parser.error("of a whole log directory only the plan is made: add --plan, or name one log")
    refuse_options_of_one_log(arguments)
    progress = ProgressLine()
    notes.progress = progress
    options = ReadOptions(paths=(arguments.source,), selection=selection_of(arguments))
    logs = find_logs(options, notes, quiet=_QUIET, is_check=True, with_aside=True, without_misnamed=True)
    live = [log for log in logs if log.kind is DirectoryKind.LIVE]
    if not logs and not notes.exit_code:
        notes.refuse(f"{shown(arguments.source)}: no log was found there.")
    states: dict[str, StateReader] = defaultdict(StateReader)
    planned: list[tuple[SourceLog, PlannedWork]] = []
    for number, log in enumerate(live):
        progress.show(partial(_counted, number, len(live)))
        if log.is_metadata:
            planned.append((log, PlannedWork("its snapshots decide what goes of it")))
            continue
        try:
            with partition_directory(log.directory, state=states[os.path.dirname(log.directory)]) as directory:
                planned.append((log, plan_of(directory, settings.of(log.directory), log.directory)))
        except LogError as error:
            notes.refuse(f"{log.topic_partition} ({shown(log.directory)}): {error}")
            planned.append((log, PlannedWork(str(error))))
    progress.clear()
    due = [each for each in planned if each[1].rank is not None]
    due.sort(key=lambda each: -(each[1].rank or 0))
    for order, (log, work) in enumerate(due, 1):
        _print(_row(log, work, order))
    for log, work in planned:
        if work.rank is None:
            _print(_row(log, work, None))
    for log in logs:
        if log.kind is not DirectoryKind.LIVE:
            removable, reason = _set_aside(log, live, as_of_ms(arguments))
            _print({"directory": shown(log.directory), "removable": removable, "reason": reason})
    return notes.exit_code


def _counted(number: int, logs: int, _: float) -> str:
    return f"{number:,} of {logs:,} logs planned"


def _print(row: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")


def _row(log: SourceLog, work: PlannedWork, order: int | None) -> dict[str, Any]:
    name = {"topic": log.topic_partition.topic, "partition": log.topic_partition.partition}
    return name | {"directory": shown(log.directory), "order": order, "reason": work.reason} | work.figures


def _set_aside(log: SourceLog, live: Sequence[SourceLog], as_of_ms: int) -> tuple[bool, str]:
    """Whether a directory that a broker set aside may be removed, and why."""
    name = log.topic_partition
    if log.kind is DirectoryKind.DELETE:
        return True, f"{name} was deleted: a broker removes the directory by itself after file.delete.delay.ms"
    if log.kind is DirectoryKind.FUTURE:
        for other in live:
            if other.topic_partition == name and _last_base(other) >= _last_base(log):
                where = shown(other.directory)
                return True, f"{name} was being moved between directories, and {where} has as much: a move begins again"
        return False, f"{name} was being moved between directories, and no log beside it has as much of {name}"
    for each in live:
        if each.is_metadata and os.path.dirname(each.directory) == os.path.dirname(log.directory):
            return _is_stray(log, each, as_of_ms)
    return False, f"a broker found that {name} is not assigned to it, and no {METADATA_DIRECTORY} beside it proves that"


def _last_base(log: SourceLog) -> int:
    return max((segment.base_offset for segment in log.segments), default=-1)


def _is_stray(log: SourceLog, metadata: SourceLog, as_of_ms: int) -> tuple[bool, str]:
    """Whether the cluster's metadata says that a log is not assigned to its broker (LogManager.isStrayKraftReplica)."""
    name, notes = log.topic_partition, Notes()
    read = read_cluster_state(metadata, notes, Moment(time_ms=as_of_ms))
    if read.doubt is not None or log.topic_id is None or log.broker_id is None:
        why = read.doubt or "its partition.metadata or meta.properties does not say which log of which broker it is"
        return False, f"whether {name} is assigned to its broker is in doubt: {why.rstrip('.')}"
    row = read.state.partitions.get(log.topic_id, {}).get(name.partition)
    if row is not None and int(log.broker_id) in row.fields["replicas"]:
        return False, f"{METADATA_DIRECTORY} assigns {name} to broker {log.broker_id}: move the directory back"
    what = f"names no topic {log.topic_id}" if row is None else f"does not assign {name} to broker {log.broker_id}"
    return True, f"{METADATA_DIRECTORY} {what}"
