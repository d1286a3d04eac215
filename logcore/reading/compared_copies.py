"""Topic partitions that lie in several directories: which copy has the history, and how the others differ.

`logcore.logs.growth.copies` compares. Here are the logs at some paths, the cluster metadata among them, and findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from logcore.logs.growth.copies import CopyComparison, Leadership, LogCopy, compare_copies
from logcore.logs.model.findings import Finding, Severity, found
from logcore.logs.model.sources import SourceLog
from logcore.reading.internal_topics.cluster_metadata import Moment, read_cluster_state
from logcore.reading.notes import Notes
from logcore.segments.filenames import DirectoryKind, TopicPartition
from logcore.storage.discovery import HeaderReader, shown
from logcore.topics.cluster_states import ClusterState

_NAMED = 3


class ComparedCopies:
    """Compares the copies of each log at some paths: once, and only if a caller needs it.

    Args:
        logs: All logs at the paths, those of `__cluster_metadata` included.
    """

    def __init__(self, logs: Iterable[SourceLog]) -> None:
        self._logs: dict[TopicPartition, list[SourceLog]] = {}
        for log in logs:
            if log.kind is DirectoryKind.LIVE:
                self._logs.setdefault(log.topic_partition, []).append(log)
        self._known: dict[TopicPartition, CopyComparison] = {}
        self._states: dict[str | None, ClusterState] | None = None

    def of(self, name: TopicPartition) -> CopyComparison | None:
        """Return the comparison of a log's copies; None if it is in one directory only."""
        logs = self._logs.get(name, [])
        if len(logs) > 1 and name not in self._known:
            self._known[name] = self.compare([LogCopy(log) for log in logs])
        return self._known.get(name)

    def compare(self, copies: Sequence[LogCopy]) -> CopyComparison:
        """Compare copies of one log, of which more is known than their directories show."""
        return compare_copies(copies, HeaderReader(), self._leadership(copies[0].log))

    def of_each(self, logs: Iterable[SourceLog]) -> tuple[tuple[SourceLog, ...], list[Finding]]:
        """Return one copy of each log, and a finding for each log of which none can be used."""
        chosen, findings = [], []
        for log in logs:
            compared = self.of(log.topic_partition)
            if compared is None or (compared.undecided is None and compared.best.log.directory == log.directory):
                chosen.append(log)
            elif compared.undecided is not None and compared.best.log.directory == log.directory:
                findings.append(not_decided(compared))
        return tuple(chosen), findings

    def findings(self, logs: Sequence[SourceLog]) -> list[Finding]:
        """Say which of the logs are in several directories, and which topics have several ids."""
        said, plain = [], []
        for name in dict.fromkeys(log.topic_partition for log in logs):
            compared = self.of(name)
            if compared is None:
                continue
            brokers = [log.broker_id for log in self._logs[name] if log.broker_id is not None]
            is_once = len(set(brokers)) == len(brokers)
            if (
                is_once
                and len(brokers) == len(self._logs[name])
                and compared.undecided is None
                and all(each.parts_at is None for each in compared.others)
            ):
                plain.append(str(name))
                continue
            twice = "" if is_once else " A broker does not start if two of its log directories have the same log."
            place = shown(compared.others[0].copy.log.directory)
            said.append(found("several-copies", f"{described(compared)}{twice}", file=place))
        if plain:
            names = ", ".join(plain[:_NAMED]) + (f" and {len(plain) - _NAMED} more" if len(plain) > _NAMED else "")
            message = f"{names}: in several of the directories, as copies that do not part."
            said.append(replace(found("several-copies", message), severity=Severity.INFO))
        return [*said, *topic_ids_of(logs)]

    def _leadership(self, log: SourceLog) -> Leadership | None:
        if log.is_metadata:
            return None
        if self._states is None:
            self._states = {}
            metadata, _ = self.of_each(each for logs in self._logs.values() for each in logs if each.is_metadata)
            for each in metadata:
                read = read_cluster_state(each, Notes(), Moment())
                if read.doubt is None:
                    self._states[each.cluster_id] = read.state
        state, name = self._states.get(log.cluster_id, ClusterState()), log.topic_partition
        named = (each for each, topic in state.topics.items() if topic.fields["topic"] == name.topic)
        row = state.partitions.get(log.topic_id or next(named, ""), {}).get(name.partition)
        if row is None:
            return None
        in_sync = frozenset((*row.fields["isr"], *row.fields["eligible_leader_replicas"]))
        return Leadership(row.fields["leader"], row.fields["leader_epoch"], in_sync)


def topic_ids_of(logs: Iterable[SourceLog]) -> list[Finding]:
    """Say which topics have several ids."""
    ids: dict[str, dict[str, str]] = {}
    for log in logs:
        if log.topic_id is not None:
            ids.setdefault(log.topic_partition.topic, {}).setdefault(log.topic_id, shown(log.directory))
    several = {topic: places for topic, places in ids.items() if len(places) > 1}
    return [
        found(
            "topic-ids-differ", f"{topic} has several topic ids: {', '.join(f'{i} in {p}' for i, p in places.items())}."
        )
        for topic, places in several.items()
    ]


def described(compared: CopyComparison) -> str:
    """Return sentences about the copies of a log: which one has the history, and what the others have and lack."""
    best = compared.best.log
    first = compared.undecided or f"its history is that of {shown(best.directory)} ({compared.evidence})"
    others = " ".join(f"{shown(each.copy.log.directory)}: {each}." for each in compared.others)
    return f"{best.topic_partition} is in {len(compared.others) + 1} directories: {first}. {others}"


def not_decided(compared: CopyComparison) -> Finding:
    """Return the finding that none of the copies can be used before one of them is named."""
    places = [shown(log.directory) for log in (compared.best.log, *(each.copy.log for each in compared.others))]
    message = f"{described(compared)} None of them is used. Name only the one to use: {' or '.join(places)}."
    return found("copies-undecided", message, file=places[0])
