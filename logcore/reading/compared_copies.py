"""Topic partitions that lie in several directories: which copy has the history, and how the others differ.

`logcore.logs.growth.copies` compares. Here are the logs at some paths, the cluster metadata among them, and findings.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from logcore.errors import LogError
from logcore.logs.growth.copies import CopyComparison, Leadership, LogCopy, compare_copies
from logcore.logs.model.findings import Finding, Severity, found
from logcore.logs.model.gaps import is_compacted
from logcore.logs.model.sources import SourceLog
from logcore.reading.exchanged_logs import exchanged_logs
from logcore.reading.internal_topics.cluster_metadata import Moment, read_cluster_state
from logcore.reading.internal_topics.log_ends import header_reaching, log_end
from logcore.reading.read_options import Notes
from logcore.segments.filenames import DirectoryKind, TopicPartition
from logcore.storage.discovery import HeaderReader, shown
from logcore.texts import shell_word
from logcore.topics.cluster_states import TOPIC_RESOURCE, ClusterState, StateRow

_NAMED = 3


class ComparedCopies:
    """Compares the copies of each log at some paths: once, and only if a caller needs it.

    Args:
        logs: All logs at the paths, those of `__cluster_metadata` included.
        findings: About the paths. A directory that they call a copy under another name is one.
    """

    def __init__(self, logs: Iterable[SourceLog], findings: Iterable[Finding] = ()) -> None:
        self._misnamed = {each.file: each for each in findings if each.rule == "copy-under-another-name"}
        self._logs: dict[TopicPartition, list[SourceLog]] = {}
        for log in logs:
            if log.kind is DirectoryKind.LIVE:
                self._logs.setdefault(log.topic_partition, []).append(log)
        self._known: dict[TopicPartition, CopyComparison] = {}
        self._states: dict[str | None, ClusterState] | None = None
        self._exchanged: dict[str, Finding] | None = None

    def of(self, name: TopicPartition) -> CopyComparison | None:
        """Return the comparison of a log's copies; None if it is in one directory only."""
        logs = self._logs.get(name, [])
        if len(logs) > 1 and name not in self._known:
            self._known[name] = self.of_all(logs)
        return self._known.get(name)

    def of_all(self, logs: Sequence[SourceLog]) -> CopyComparison:
        """Compare these copies of one log."""
        return self.compare([LogCopy(log, holes=tuple(holes_of(log, logs))) for log in logs])

    def compare(
        self,
        copies: Sequence[LogCopy],
        forks: Mapping[frozenset[str], int | None] | None = None,
        side: str | None = None,
    ) -> CopyComparison:
        """Compare copies of one log, of which more is known than their directories show.

        Args:
            copies: The copies.
            forks: As for `compare_copies`.
            side: As for `compare_copies`.
        """
        return compare_copies(copies, HeaderReader(), self._leadership(copies[0].log), forks, side)

    def of_each(self, logs: Iterable[SourceLog]) -> tuple[tuple[SourceLog, ...], list[Finding]]:
        """Return one copy of each log, and a finding for each log of which none can be used.

        A copy under another name is left out; :meth:`findings` has its finding.
        """
        logs = tuple(logs)
        renamed = self.under_other_names(logs)
        chosen, findings = [], []
        for log in logs:
            if log.directory in renamed:
                continue
            compared = self.of(log.topic_partition)
            if compared is None or (compared.undecided is None and compared.best.log.directory == log.directory):
                chosen.append(log)
            elif compared.undecided is not None and compared.best.log.directory == log.directory:
                findings.append(not_decided(compared))
        return tuple(chosen), findings

    def findings(self, logs: Sequence[SourceLog], *, compares: bool = True) -> list[Finding]:
        """Say which of the logs are in several directories, and which topics have several ids.

        Args:
            logs: The logs.
            compares: Compare copies; else only names and ids are looked at.
        """
        said, plain = [], []
        for name in dict.fromkeys(log.topic_partition for log in logs) if compares else ():
            compared = self.of(name)
            if compared is None:
                continue
            same = compared.undecided is None and not any(each.fills for each in compared.others)
            same = same and all(each.parts_at is None for each in compared.others)
            if same and are_of_different_brokers(self._logs[name]):
                plain.append(str(name))
                continue
            brokers = [log.broker_id for log in self._logs[name] if log.broker_id is not None]
            is_twice = len(set(brokers)) < len(brokers)
            twice = " A broker does not start if two of its log directories have the same log." if is_twice else ""
            place = shown(compared.others[0].copy.log.directory)
            said.append(found("several-copies", f"{described(compared)}{twice}", file=place))
        if plain:
            names = ", ".join(plain[:_NAMED]) + (f" and {len(plain) - _NAMED} more" if len(plain) > _NAMED else "")
            message = f"{names}: in several of the directories, as copies that do not part."
            said.append(replace(found("several-copies", message), severity=Severity.INFO))
        return [*said, *topic_ids_of(logs), *dict.fromkeys(self.under_other_names(logs).values())]

    def under_other_names(self, logs: Iterable[SourceLog], lake: Mapping[str, str] | None = None) -> dict[str, Finding]:
        """Return a finding for each log, by directory, that is of another partition than its name says.

        A broker gives an id to one name only, so somebody kept a copy of a partition directory, or renamed one. Or
        directories were exchanged.

        Args:
            logs: The logs.
            lake: Names of topics by id, as a lake has them; None: there is no lake.
        """
        by_id: dict[str, dict[str, list[SourceLog]]] = {}
        if self._exchanged is None:
            self._exchanged = exchanged_logs(log for copies in self._logs.values() for log in copies)
        said = {log.directory: self._exchanged[log.directory] for log in logs if log.directory in self._exchanged}
        said |= {log.directory: self._misnamed[at] for log in logs if (at := shown(log.directory)) in self._misnamed}
        for log in logs:
            if log.topic_id is not None and log.directory not in said:
                by_id.setdefault(log.topic_id, {}).setdefault(log.topic_partition.topic, []).append(log)
        of_topic = [log for named in by_id.values() for each in named.values() if len(each) > 1 for log in each]
        unstated = [(log, first) for log in of_topic if _is_unstated(log) and (first := _first_batch(log)) is not None]
        stated = [log for log in of_topic if unstated and not _is_unstated(log)]
        twins = {_first_batch(log): log for log in reversed(stated)}
        for log, first in unstated:
            twin = twins.get(first)
            if twin is not None and twin.topic_partition != log.topic_partition:
                place = shown(log.directory)
                message = (
                    f"{place} has the records of {twin.topic_partition} ({shown(twin.directory)}), and no checkpoint "
                )
                message += f"names {log.topic_partition}: it is a copy under another name, and no partition."
                said[log.directory] = _of_kept(log, found("copy-under-another-name", message, file=place), [twin])
        for topic_id, named in by_id.items():
            shown_name = self._name_of(topic_id, named) if len(named) > 1 else None
            right = (lake or {}).get(topic_id, shown_name)
            is_wrong = shown_name not in (None, right)
            copies = [log for name, of_name in named.items() if name != right for log in of_name]
            if right is not None:
                said |= {log.directory: _under_another_name(log, right, is_wrong=is_wrong) for log in copies}
                for log in () if is_wrong else copies:
                    first = _first_batch(log)
                    originals = [each for each in named.get(right, ()) if _first_batch(each) == first]
                    said[log.directory] = _of_kept(log, said[log.directory], originals)
            elif len(named) > 1:
                said |= dict.fromkeys((log.directory for log in copies), _not_named(topic_id, copies))
        return said

    def _name_of(self, topic_id: str, names: Mapping[str, Sequence[SourceLog]]) -> str | None:
        """The name of a topic by the cluster metadata, else by the broker's checkpoints, else the name that is in the
        names of all the other directories; None: nothing says which.
        """
        rows = (state.topics.get(topic_id) for state in self._read_states().values())
        stated = {row.fields["topic"] for row in rows if row is not None}

        def evidence(name: str) -> tuple[bool, ...]:
            logs, others = names[name], [log for other in names if other != name for log in names[other]]
            return (
                name in stated,
                any(log.high_watermark for log in logs),
                any(log.recovery_point is not None for log in logs),
                all(name in os.path.basename(log.directory) for log in others),
            )

        second, best = sorted(names, key=evidence)[-2:]
        return best if evidence(best) > evidence(second) else None

    def _read_states(self) -> dict[str | None, ClusterState]:
        """The cluster metadata among the logs, by cluster."""
        if self._states is None:
            self._states = {}
            metadata, _ = self.of_each(each for logs in self._logs.values() for each in logs if each.is_metadata)
            for each in metadata:
                read = read_cluster_state(each, Notes(), Moment())
                if read.doubt is None:
                    self._states[each.cluster_id] = read.state
        return self._states

    def replicas_of(self, log: SourceLog) -> Collection[int] | None:
        """Return the brokers that hold a log, by the cluster metadata among the logs; None if it does not say it."""
        row = self._row(log)
        return None if row is None else row.fields["replicas"]

    def is_compacted(self, log: SourceLog) -> bool:
        """Whether the topic of a log is compacted, by the cluster metadata among the logs or by its name."""
        state = ClusterState() if log.is_metadata else self._read_states().get(log.cluster_id, ClusterState())
        row = state.settings.get((TOPIC_RESOURCE, log.topic_partition.topic), {}).get("cleanup.policy")
        return is_compacted(log, None if row is None else "compact" in str(row.fields["value"]).split(","))

    def _leadership(self, log: SourceLog) -> Leadership | None:
        row = self._row(log)
        if row is None:
            return None
        in_sync = frozenset((*row.fields["isr"], *row.fields["eligible_leader_replicas"]))
        return Leadership(row.fields["leader"], row.fields["leader_epoch"], in_sync)

    def _row(self, log: SourceLog) -> StateRow | None:
        """The row of a partition in the cluster metadata."""
        if log.is_metadata:
            return None
        state, name = self._read_states().get(log.cluster_id, ClusterState()), log.topic_partition
        named = (each for each, topic in state.topics.items() if topic.fields["topic"] == name.topic)
        return state.partitions.get(log.topic_id or next(named, ""), {}).get(name.partition)


def holes_of(log: SourceLog, copies: Sequence[SourceLog]) -> Iterator[tuple[int, int]]:
    """Yield offsets between two segments of a copy that it lost, if another copy has a segment there."""
    bases = sorted({segment.base_offset for copy in copies for segment in copy.segments})
    cleaned_to = max(copy.cleaner_checkpoint or 0 for copy in copies)
    for segment in log.segments:
        following = log.next_base_offset(segment)
        at = bisect_right(bases, segment.base_offset)
        if following is None or following <= cleaned_to or bases[at] == following:
            continue
        with suppress(LogError):
            header = header_reaching(segment, following - 1)
            end = segment.base_offset if header is None else header.next_offset
            if end < following:
                yield end, following


def fill_command(kept: SourceLog, copy: SourceLog, lake: str | None = None) -> str:
    """The command that publishes a log with the offsets that only a copy of it has."""
    place = shell_word(shown(copy.directory))
    run = f"loglake run {shell_word(shown(kept.directory))} --lake {shell_word(lake) if lake else 'LAKE'}"
    return f"`{run} --fill-from {place}` takes these offsets too{'' if lake else '; LAKE is the directory of a lake'}."


def _is_unstated(log: SourceLog) -> bool:
    """Whether the checkpoints of its broker are there and name other logs only."""
    return log.high_watermark == 0 and log.recovery_point is None and not log.is_metadata


def _first_batch(log: SourceLog) -> tuple[str | None, int, int, int] | None:
    """The topic id of a log, and what its first batch has also in a copy; None if it has none."""
    with suppress(LogError):
        header = HeaderReader().header_at(log.segments[0], 0) if log.segments else None
        if header is not None:
            return log.topic_id, *header.identity
    return None


def _of_kept(log: SourceLog, finding: Finding, originals: Sequence[SourceLog]) -> Finding:
    """The finding about a copy under another name: information, if the log itself has all that the copy has."""
    is_there = any((log_end(each) or 0) >= (log_end(log) or 0) for each in originals)
    return replace(finding, severity=Severity.INFO) if is_there else finding


def _under_another_name(log: SourceLog, right: str, *, is_wrong: bool) -> Finding:
    place = shown(log.directory)
    message = f"{place} has the topic id of {right} ({log.topic_id}): it is a copy under another name, and no topic."
    if is_wrong:
        message = (
            f"{place} has the topic id that the lake knows as {right} ({log.topic_id}), from a renamed directory. "
        )
        message += f"It is not read: read the topic {log.topic_partition.topic} into a new lake."
    return found("copy-under-another-name", message, file=place)


def _not_named(topic_id: str, logs: Sequence[SourceLog]) -> Finding:
    places = [shown(log.directory) for log in logs]
    message = f"Several names have the topic id {topic_id}, and nothing says which is right. None of them is used."
    return found("copies-undecided", f"{message} Name only the one to use: {' or '.join(places)}.", file=places[0])


def topic_ids_of(logs: Iterable[SourceLog]) -> list[Finding]:
    """Say which topics have several ids."""
    ids: dict[str, dict[str, str]] = {}
    for log in logs:
        if log.topic_id is not None:
            ids.setdefault(log.topic_partition.topic, {}).setdefault(log.topic_id, shown(log.directory))
    several = {topic: places for topic, places in ids.items() if len(places) > 1}
    return [
        found(
            "topic-ids-differ",
            f"{topic} has several topic ids: {', '.join(f'{i} in {p}' for i, p in places.items())}.",
            file=next(iter(places.values())),
        )
        for topic, places in several.items()
    ]


def are_of_different_brokers(logs: Sequence[SourceLog]) -> bool:
    """Return whether each log directory names its broker, and no two the same one: then copies are replicas."""
    return len({log.broker_id for log in logs} - {None}) == len(logs)


def described(compared: CopyComparison) -> str:
    """Return sentences about the copies of a log: which one has the history, and what the others have and lack."""
    best = compared.best.log
    first = compared.undecided or f"its history is that of {shown(best.directory)} ({compared.evidence})"
    others = " ".join(f"{shown(each.copy.log.directory)}: {each}." for each in compared.others)
    for each in compared.others:
        others += f" {fill_command(best, each.copy.log)}" if each.fills else ""
    return f"{best.topic_partition} is in {len(compared.others) + 1} directories: {first}. {others}"


def not_decided(compared: CopyComparison) -> Finding:
    """Return the finding that none of the copies can be used before one of them is named."""
    places = [shown(log.directory) for log in (compared.best.log, *(each.copy.log for each in compared.others))]
    message = f"{described(compared)} None of them is used. Name only the one to use: {' or '.join(places)}."
    return found("copies-undecided", message, file=places[0])
