"""Copies of a log that a run leaves alone, because it reads the log from another directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from logcore.logs.growth.copies import LogCopy
from logcore.logs.model.findings import Severity, found
from logcore.ranges import Range
from logcore.reading.compared_copies import ComparedCopies, are_of_different_brokers, fill_command
from logcore.reading.internal_topics.cluster_metadata import Moment, read_cluster_state
from logcore.reading.internal_topics.log_ends import ends_inside, log_end, whole_log_end
from logcore.reading.read_options import Notes
from logcore.segments.filenames import DirectoryKind, TopicPartition
from logcore.storage.discovery import SourceLog
from logcore.texts import sentences
from spark_jobs.contracts import IngestConfig
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.repair_commands import move_command
from spark_jobs.lake.segments.archive import LogRow, read_logs
from spark_jobs.lake.store.referenced_bytes import is_gone
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.policies.policies_file import Policies

_UNREAD = "second-source"
_MOST_NAMED = 5
"""Logs beyond this many are only counted."""


def compared_copy(
    copies: ComparedCopies,
    kept: SourceLog,
    other: SourceLog,
    known: LogRow | None,
    refused: Sequence[PlacedFinding],
    lake: str,
    fills: Sequence[Range] = (),
    is_left: bool = False,
) -> PlacedFinding:
    """Say what another copy of a log has and lacks. It is offered only if it has more, and the lake would take it.

    A replica of another broker, with nothing that the source lacks, is information. So is a copy that the log was moved
    away from, if its end is known too.

    Args:
        kept: The source.
        other: The copy.
        known: The log in the lake; None: it is new.
        refused: Why the lake would not take the copy; empty: it would.
        lake: The lake.
        fills: Offsets that the lake lost and the copy has.
        is_left: Whether the log was moved away from the copy.
    """
    ours, theirs = log_end(kept), log_end(other)
    # What the archive agrees with needs no comparison, which reads all headers of segments.
    if known is not None and ours is not None and theirs is not None and (not refused or ends_inside(other, kept)):
        has_more, parts, why = not refused and theirs > ours, False, "it has the same history"
        if theirs < ours:
            why = f"it ends at offset {theirs}, not at {ours}; it lacks [{theirs}, {ours})"
        if fills or has_more:
            ranges = [*fills, *([(ours, theirs)] if has_more else [])]
            why = f"only it has {' and '.join(f'[{start}, {end})' for start, end in ranges)}"
    else:
        holed = [LogCopy(kept, holes=tuple(fills)), LogCopy(other)]
        compared = copies.compare(holed) if fills else copies.of_all([kept, other])
        (difference,) = compared.others
        fills = difference.fills if compared.best.log.directory == kept.directory else ()
        is_best = compared.best.log.directory == kept.directory
        has_more, parts = bool(difference.has) or not is_best, difference.parts_at is not None
        why = str(difference) if is_best else f"the copies part at offset {difference.parts_at}" if parts else ""
        why = "; ".join(filter(None, (why, not_moved(refused) if refused else "")))
    is_offered = has_more and not (parts or refused or known is None)
    placed = left_copy(kept, other, why, _UNREAD if is_offered else "several-copies")
    if fills and not parts:
        message = sentences([placed.finding.message, fill_command(kept, other, lake)])
        placed = replace(placed, finding=replace(placed.finding, message=message))
    is_known = are_of_different_brokers([kept, other]) or (is_left and whole_log_end(other) is not None)
    return placed if parts or has_more or fills or not is_known else _as_information(placed)


def unread_copy(
    known: LogRow,
    other: SourceLog,
    refused: Sequence[PlacedFinding],
    fills: Callable[[], Sequence[Range]],
    is_archived: Callable[[], bool],
) -> PlacedFinding:
    """Say that a copy of a log is left alone, whose source is not among the sources of the run.

    It is information if the copy has nothing that the lake lacks. A copy whose end is not known may have more.

    Args:
        known: The log in the lake.
        other: The copy.
        refused: Why the lake would not take the copy; empty: it would.
        fills: Offsets that the lake lost and the copy has.
        is_archived: Whether the log was moved away from a refused copy, and the lake has all of it.
    """
    if not refused:
        end = whole_log_end(other)
        if end is None or end > known.next_offset or fills():
            return left_copy(known, other, "", _UNREAD)
        return _as_information(left_copy(known, other, "it has nothing that the lake lacks", _UNREAD))
    placed = refused_copy(known, other, refused)
    if is_gone(known.source) or not is_archived() or fills():
        return placed
    return _as_information(replace(placed, finding=replace(placed.finding, rule=_UNREAD)))


def _as_information(placed: PlacedFinding) -> PlacedFinding:
    return replace(placed, finding=replace(placed.finding, severity=Severity.INFO))


def left_directories(lake: str) -> frozenset[tuple[str | None, str]]:
    """Return from which directories logs were moved: the key of the log, and the directory."""
    moves = read_rows(lake, "findings", ["log", "file"], [("rule", "in", ["source-moved"])]).to_pylist()
    return frozenset((row["log"], row["file"]) for row in moves)


def not_moved(refused: Sequence[PlacedFinding]) -> str:
    """Why the lake would not take a copy, as a part of a sentence."""
    return f"it cannot be taken: {refused[-1].finding.message.split(' stops: ', 1)[-1]}"


def refused_copy(known: LogRow, other: SourceLog, refused: Sequence[PlacedFinding]) -> PlacedFinding:
    """Say why the lake would not take a copy, and whether the source is gone. Then nothing is read of the log."""
    if refused[-1].finding.rule == "source-gone":
        return left_copy(known, other, not_moved(refused), "source-gone")
    gone = f". Its source {known.source} is gone" if is_gone(known.source) else ""
    return left_copy(known, other, f"{not_moved(refused).rstrip('.')}{gone}")


def left_copy(kept: LogRow | SourceLog, other: SourceLog, why: str = "", rule: str = "several-copies") -> PlacedFinding:
    """Say that a copy of a log is left alone, and why."""
    directory = kept.source if isinstance(kept, LogRow) else kept.directory
    left = f"the copy in {other.directory} is left alone{f': {why}' if why else ''}"
    message = f"{other.topic_partition} is taken from {directory}; {left.rstrip('.')}."
    finding = found(rule, message, file=other.directory)
    log = kept.log if isinstance(kept, LogRow) else None
    return PlacedFinding(finding, log, other.topic_partition.topic, other.topic_partition.partition)


@dataclass(frozen=True)
class WhyGone:
    """Why it is information that a log has no directory in a log directory of a lake."""

    lake: str
    policies: Policies

    @cached_property
    def _sources(self) -> Mapping[str, str]:
        """Where the lake reads each log, by topic partition."""
        rows = sorted(read_logs(self.lake).values(), key=lambda row: row.incarnation)
        return {row.topic_partition: row.source for row in rows}

    def of(self, log: TopicPartition) -> str:
        """Return the reason; empty: there is none."""
        if self.policies.accepts_gone(log.topic):
            return "The policy on_gone of the topic accepts that."
        source = self._sources.get(str(log))
        if source is None or is_gone(source):
            return ""
        return (
            f"The lake reads it from {source}, so it loses nothing. If the directory was not moved, the copy here is "
            "lost."
        )


def vanished_logs(rows: Iterable[LogRow], there: Sequence[SourceLog], policies: Policies) -> list[PlacedFinding]:
    """Say which logs of the lake are no longer in a log directory that was read, although no checkpoint misses them.

    Args:
        rows: The logs that are chosen.
        there: What the sources have, in any directory.
        policies: Say of which topics that is accepted.
    """
    names = {str(log.topic_partition) for log in there}
    beside = {os.path.dirname(log.directory) for log in there if not log.named_files}
    metadata = _Metadata(there)
    placed = []
    for row in rows:
        directory = os.path.dirname(row.source)
        if row.topic_partition not in names and directory in beside and is_gone(row.source):
            message = f"{row.topic_partition} is not read: {directory} no longer has its directory."
            is_deleted = metadata.lacks(row)
            message += " By the metadata of its cluster the topic was deleted." if is_deleted else ""
            finding = found("log-gone", message, file=row.source)
            severity = Severity.INFO if is_deleted or policies.accepts_gone(row.topic) else finding.severity
            placed.append(PlacedFinding(replace(finding, severity=severity), row.log, row.topic, row.partition))
    return placed


@dataclass(frozen=True)
class _Metadata:
    """What `__cluster_metadata` among the logs of a source proves; it is read at the first use."""

    logs: Sequence[SourceLog]

    @cached_property
    def _topic_ids(self) -> Mapping[str | None, frozenset[str]]:
        """The ids of the topics that exist, by cluster; without a cluster whose metadata lacks records."""
        found: dict[str | None, frozenset[str]] = {}
        for log in self.logs:
            if log.is_metadata and log.kind is DirectoryKind.LIVE:
                read = read_cluster_state(log, Notes(), Moment())
                if read.doubt is None and read.state.topics:
                    ids = frozenset(str(topic.fields["topic_id"]) for topic in read.state.topics.values())
                    found[log.cluster_id] = found.get(log.cluster_id, frozenset()) | ids
        return found

    def lacks(self, row: LogRow) -> bool:
        """Whether the topic of a log was deleted: the metadata of its cluster no longer has its id."""
        ids = self._topic_ids.get(row.cluster) if row.topic_id is not None and row.cluster is not None else None
        return ids is not None and row.topic_id not in ids


def gone_sources(
    config: IngestConfig, moved: Mapping[str, tuple[LogRow, SourceLog]], has_others: bool
) -> list[PlacedFinding]:
    """Say that sources are gone which named directories continue: one finding, because one command moves all.

    Args:
        config: Of the run.
        moved: The logs by name, with the directory that continues each.
        has_others: Whether the directories have copies of other logs. The command leaves those logs where they are.
    """
    if not moved:
        return []
    ends = {name: (row.next_offset, log_end(source) or 0) for name, (row, source) in moved.items()}
    waiting = {name: f"{name} [{start}, {end})" for name, (start, end) in ends.items() if end > start}
    name = next(iter(waiting), next(iter(moved)))
    row, source = moved[name]
    rows = [each for each, _ in moved.values()]
    logs = [(each.topic, each.partition) for each in rows] if has_others or config.logs else []
    command = move_command(config.lake, config.intake, [each.source for each in rows], logs)
    if len(moved) == 1:
        said = f"{name} is not read: its source {row.source} is gone, and {source.directory} continues it."
    else:
        said = (
            f"{len(moved):,} logs are not read: the source of each is gone, and a named directory continues "
            f"it. For {name} its source {row.source} is gone, and {source.directory} continues it."
        )
    if waiting:
        more = f" and {len(waiting) - _MOST_NAMED:,} more" if len(waiting) > _MOST_NAMED else ""
        said = f"{said} What waits: {', '.join([*waiting.values()][:_MOST_NAMED])}{more}."
    finding = found("source-gone", f"{said} `{command}` goes on there.", file=os.path.dirname(source.directory))
    return [PlacedFinding(finding)]
