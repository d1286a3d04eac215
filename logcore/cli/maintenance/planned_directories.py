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
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from logcore.cli.maintenance.maintenance import (
    LogSettings,
    SettingsOfLogs,
    as_of_ms,
    of_one_partition,
    refuse_options_of_one_log,
)
from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.progress import ProgressLine
from logcore.cli.reading.arguments import selection_of
from logcore.errors import LogError
from logcore.logs.model.findings import Finding
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.sources import SourceLog
from logcore.reading.checked_segments import lost_offsets
from logcore.reading.chosen_logs import find_logs
from logcore.reading.internal_topics.cluster_metadata import Moment, ReadState, read_cluster_state
from logcore.reading.internal_topics.log_ends import log_end
from logcore.reading.read_options import Notes, ReadOptions
from logcore.segments.filenames import METADATA_DIRECTORY, DirectoryKind
from logcore.segments.scanning.scan import Stretch
from logcore.storage.broker_state import StateReader
from logcore.storage.partition_directories import partition_directory
from logcore.storage.source_errors import shown
from logcore.storage.source_reads import read_file

_QUIET = ("no-meta-properties", "remote-tier", "several-copies")


@dataclass(frozen=True, slots=True)
class PlannedWork:
    """What one round does with a log.

    Attributes:
        reason: Why it is done now, or why nothing is done.
        rank: The log with the greatest one is first; None: nothing is done.
        figures: More fields of the row.
        findings: About the files of the log.
    """

    reason: str
    rank: float | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    findings: Sequence[Finding] = ()


WorkPlanner = Callable[[PartitionDirectory, LogSettings, str], PlannedWork]
"""Plans a log, given its directory, its settings and its path. Raises LogError."""


def is_whole(arguments: argparse.Namespace) -> bool:
    """Whether SRC is a log directory instead of a partition directory. Of one log no part can be chosen (64)."""
    if os.path.isdir(arguments.source) and of_one_partition([arguments.source]) is None:
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
    cluster = _ClusterStates(live, as_of_ms(arguments))
    planned: list[tuple[SourceLog, PlannedWork]] = []
    for number, log in enumerate(live):
        progress.show(partial(_counted, number, len(live)))
        if log.is_metadata:
            planned.append((log, PlannedWork("its snapshots decide what goes of it")))
            continue
        try:
            with partition_directory(log.directory, state=states[os.path.dirname(log.directory)]) as directory:
                of_log = settings.of(log.directory)
                work = plan_of(directory, of_log, log.directory)
            planned.append((log, work))
            notes.say_all(lost_offsets(log, is_compacted=of_log.is_compacted, reads_all=False))
            for finding in work.findings:
                file = finding.file and os.path.join(shown(log.directory), finding.file)
                notes.say(replace(finding, file=file, message=f"{log.topic_partition}: {finding.message}"))
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
            removable, reason = _set_aside(log, live, cluster)
            _print({"directory": shown(log.directory), "removable": removable, "reason": reason})
    return notes.exit_code


def _counted(number: int, logs: int, _: float) -> str:
    return f"{number:,} of {logs:,} logs planned"


def _print(row: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")


def _row(log: SourceLog, work: PlannedWork, order: int | None) -> dict[str, Any]:
    place = {"directory": shown(log.directory), "order": order, "reason": work.reason}
    return log.topic_partition.columns | place | work.figures


def _set_aside(log: SourceLog, live: Sequence[SourceLog], states: _ClusterStates) -> tuple[bool, str]:
    """Whether a directory that a broker set aside may be removed, and why.

    It may only go if something proves that it is no only copy, or that the cluster gave the log up.
    """
    name = log.topic_partition
    beside = [each for each in live if each.topic_partition == name]
    placed = states.replicas_of(log)
    is_assigned = log.broker_id is not None and int(log.broker_id) in placed if isinstance(placed, list) else None
    if log.kind is DirectoryKind.FUTURE:
        why = f"{name} was being moved between directories"
        for other in beside:
            lack = _lack(other, log)
            if lack is None:
                return True, f"{why}, and {shown(other.directory)} has all of it: a move begins again"
            why += f"; {shown(other.directory)} {lack}"
        return False, why if beside else f"{why}, and no log beside it has {name}"
    if log.kind is DirectoryKind.DELETE:
        if is_assigned and not beside:
            return False, f"{name} was deleted here, but {METADATA_DIRECTORY} assigns it to broker {log.broker_id}"
        return True, f"{name} was deleted: a broker removes the directory by itself after file.delete.delay.ms"
    if is_assigned is None:
        return False, f"a broker found that {name} is not assigned to it, and nothing here proves that: {placed}"
    if is_assigned:
        return False, f"{METADATA_DIRECTORY} assigns {name} to broker {log.broker_id}: move the directory back"
    return True, f"{METADATA_DIRECTORY} assigns {name} to brokers {placed}, not to {log.broker_id}"


def _lack(other: SourceLog, log: SourceLog) -> str | None:
    """What a log lacks of a copy that is set aside; None if it has all of it, whole."""
    from logcore.columns.verified_batches import read_verified

    if log.topic_id is None or other.topic_id != log.topic_id:
        return "is perhaps another topic of that name"
    end, set_aside = log_end(other), log_end(log)
    if end is None or set_aside is None or end < set_aside:
        return f"ends at {end}, and it at {set_aside}"
    first = min((segment.base_offset for segment in log.segments), default=end)
    if other.log_start_offset > first or (other.segments and other.segments[0].base_offset > first):
        return "begins later"
    try:
        for segment in other.segments:
            following = other.next_base_offset(segment)
            steps = read_verified(read_file(segment.path), segment.base_offset, following)
            if any(isinstance(step, Stretch) and not step.tail for step in steps):
                return f"is damaged in {os.path.basename(segment.path)}"
    except (LogError, OSError) as error:
        return f"cannot be read: {error}"
    return None


@dataclass(slots=True)
class _ClusterStates:
    """The metadata beside logs that are set aside, read once for each log directory."""

    live: Sequence[SourceLog]
    as_of_ms: int
    _read: dict[str, ReadState | None] = field(default_factory=dict)

    def replicas_of(self, log: SourceLog) -> list[int] | str:
        """Return the brokers to which a partition is assigned, or why that is not known."""
        root = os.path.dirname(log.directory)
        if root not in self._read:
            here = [each for each in self.live if each.is_metadata and os.path.dirname(each.directory) == root]
            state = read_cluster_state(here[0], Notes(), Moment(time_ms=self.as_of_ms)) if here else None
            self._read[root] = state
        read = self._read[root]
        if read is None:
            return f"no {METADATA_DIRECTORY} lies beside it"
        if read.doubt is not None:
            return read.doubt.rstrip(".")
        if log.topic_id is None or log.broker_id is None:
            return "its partition.metadata or meta.properties does not say which log of which broker it is"
        row = read.state.partitions.get(log.topic_id, {}).get(log.topic_partition.partition)
        if row is None:
            return f"{METADATA_DIRECTORY} names no topic {log.topic_id}: it was deleted, or the cluster is a new one"
        return [int(broker) for broker in row.fields["replicas"]]
