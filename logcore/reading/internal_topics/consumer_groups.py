"""The groups in the partitions of `__consumer_offsets` at a source, and those of old consumers in a ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from logcore.logs.model.findings import found
from logcore.logs.model.sources import SourceLog
from logcore.reading.internal_topics.cluster_metadata import Moment, note_unread_nodes, partitions_there
from logcore.reading.internal_topics.internal_logs import internal_records, not_read
from logcore.reading.internal_topics.zookeeper_nodes import read_nodes
from logcore.reading.read_options import Notes, ReadRules
from logcore.reading.visible_offsets import visible_high_watermark
from logcore.records.control import ControlType
from logcore.segments.filenames import DirectoryKind
from logcore.topics.group_states import GroupState, GroupStates
from logcore.topics.internal_topics import InternalTopic
from logcore.zookeeper.kafka_nodes import UnreadNodes, chroots
from logcore.zookeeper.old_consumers import old_groups


@dataclass(frozen=True, slots=True)
class FoundGroup:
    """A group, and the log of `__consumer_offsets`, or the data of a ZooKeeper, that it is in."""

    log: SourceLog
    state: GroupState


def note_absent_partitions(logs: Sequence[SourceLog], others: Iterable[SourceLog], notes: Notes) -> None:
    """Report which partitions of `__consumer_offsets` are there, unless the metadata of the cluster says it is all.

    Args:
        logs: Logs of `__consumer_offsets`.
        others: All logs at the source: a log of `__cluster_metadata` among them says how many partitions there are.
        notes: Gets the finding.
    """
    if not logs:
        return
    there, known = partitions_there(logs, others, InternalTopic.CONSUMER_OFFSETS)
    names = ", ".join(map(str, there))
    at_paths = f"Of __consumer_offsets the paths have {'partition' if len(there) == 1 else 'partitions'} {names}"
    if len(there) < (known or there[-1] + 1):
        total = f"{known}" if known else f"at least {there[-1] + 1}"
        message = f"{at_paths}, of {total}. The groups of all other partitions are missing here."
        notes.say(found("group-partitions-missing", message))
    elif known is None:
        message = f"{at_paths}. Whether the topic has more, with more groups, is not known without __cluster_metadata."
        notes.say(found("group-partitions-unknown", message))


def read_groups(
    logs: Iterable[SourceLog], others: Iterable[SourceLog], notes: Notes, moment: Moment, rules: ReadRules
) -> Iterator[FoundGroup]:
    """Read the groups of some logs.

    Args:
        logs: Logs of `__consumer_offsets`.
        others: All logs at the source: their topic ids name the topics of assignments. Groups of old consumers are read
            from the data of a ZooKeeper among them.
        notes: Gets the findings.
        moment: When.
        rules: The high watermark.
    """
    others = tuple(others)
    names = {log.topic_id: log.topic_partition.topic for log in others if log.topic_id is not None}
    for log in logs:
        for group in group_states(log, notes, moment, rules).groups(names):
            yield FoundGroup(log, group)
    for log in others:
        if log.kind is DirectoryKind.ZOOKEEPER:
            for group in zookeeper_groups(log, notes, moment):
                yield FoundGroup(log, group)


def zookeeper_groups(log: SourceLog, notes: Notes, moment: Moment) -> Iterator[GroupState]:
    """Yield the groups of old consumers in the data of a ZooKeeper; the arguments are those of :func:`read_groups`."""
    read = read_nodes(log, notes, moment.is_before)
    for chroot in chroots(read.nodes):
        unread = UnreadNodes()
        yield from old_groups(read.nodes, chroot, unread)
        note_unread_nodes(unread, log, notes)


def group_states(log: SourceLog, notes: Notes, moment: Moment, rules: ReadRules) -> GroupStates:
    """Read one log of `__consumer_offsets`; the arguments are those of :func:`read_groups`."""
    states = GroupStates()
    high_watermark = visible_high_watermark(log, rules.high_watermark)
    end = high_watermark if moment.offset is None else min(moment.offset, high_watermark)
    for record in internal_records(log, notes, end=end):
        if moment.is_before(record.offset, record.timestamp):
            break
        if record.is_control:
            if record.control_type in (ControlType.COMMIT, ControlType.ABORT):
                states.end_transaction(record.producer_id, record.control_type is ControlType.COMMIT)
            continue
        producer_id = record.producer_id if record.is_transactional else None
        for unread in states.add(record.offset, record.key, record.value, producer_id):
            notes.say(not_read(log.topic_partition, record.offset, unread))
    for number, count in sorted(states.not_interpreted.items()):
        message = f"{log.topic_partition}: {count} records of type {number} are read and not interpreted."
        notes.say(found("message-not-interpreted", message))
    return states
