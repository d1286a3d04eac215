"""The state of a cluster at an offset or a time: the latest snapshot at or before it, then the log.

A snapshot is a run of batches from offset 0, from its header to its footer. One that is not whole, or damaged, is
reported, and an earlier one is used. A dedicated finding says that the log begins after the end of all snapshots, and
another that several snapshots end at one offset.

The offsets of a metadata log have no gaps, and the name of a snapshot says how far the log reached. So records that are
lost are noticed, and a state after them is in doubt until a snapshot that ends after them.

Source: org.apache.kafka.snapshot RecordsSnapshotReader, org.apache.kafka.raft.internals KafkaRaftLog.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from logcore.errors import LogError
from logcore.garbage_collection import collector_paused
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SourceLog
from logcore.messages.known_messages import MessageFamily, message_named
from logcore.messages.reader import ReadMessage, UnreadMessage, UnreadReason, read_message
from logcore.reading.internal_topics.internal_logs import InternalRecord, internal_records, not_read
from logcore.reading.internal_topics.zookeeper_nodes import read_nodes
from logcore.reading.read_options import Notes
from logcore.records.batch import LENGTH_AT, LOG_OVERHEAD, BatchHeader
from logcore.records.control import ControlType
from logcore.records.record import Record
from logcore.segments.filenames import DirectoryKind
from logcore.segments.scanning.scan import SegmentScan, Stretch
from logcore.storage.discovery import read_file, shown
from logcore.storage.source_reads import read_range
from logcore.topics.cluster_states import TOPIC_RESOURCE, ClusterState
from logcore.topics.internal_topics import InternalTopic
from logcore.zookeeper.kafka_nodes import UnreadNodes, chroots, cluster_state

TIERED = "remote.storage.enable"
"""Kafka's name for the setting of a topic that has tiered storage."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When a state is wanted. Without bounds: at the end of the log.

    Attributes:
        offset: Records from this offset on do not count.
        time_ms: Records after this time in epoch milliseconds, and all that follow, do not count.
    """

    offset: int | None = None
    time_ms: int | None = None

    def up_to(self, offset: int) -> Moment:
        """Return the same moment, and no later than an offset."""
        return Moment(offset if self.offset is None else min(offset, self.offset), self.time_ms)

    def is_before(self, offset: int, timestamp_ms: int) -> bool:
        """Whether a record is too late to count."""
        if self.offset is not None and offset >= self.offset:
            return True
        return self.time_ms is not None and timestamp_ms > self.time_ms


@dataclass(frozen=True, slots=True)
class ReadState:
    """A state.

    Attributes:
        state: The state.
        end_offset: The offset after the last record that counts.
        snapshot_end: The end of the snapshot that it begins with; None without one.
        committed_end: The offset up to which the log is known to be committed: the end of its latest snapshot.
        lost_from: The offset of the first record that is lost or cannot be read; None: there is none.
    """

    state: ClusterState
    end_offset: int
    snapshot_end: int | None
    committed_end: int
    lost_from: int | None = None

    @property
    def doubt(self) -> str | None:
        """Why the state may be another, as a sentence; None if it is certain."""
        return doubt_from(self.lost_from)


def doubt_from(lost_from: int | None) -> str | None:
    """Return the sentence about the first record that is lost; None if there is none."""
    if lost_from is None:
        return None
    return f"Records of __cluster_metadata-0 from offset {lost_from} on are lost or cannot be read."


@dataclass(slots=True)
class MetadataRecords:
    """Reads the records of a metadata log in their order, and notices those that are lost.

    Attributes:
        log: A log of `__cluster_metadata`.
        notes: Gets the findings.
        start: The first offset to read.
        lost_from: The offset of the first record that is lost or cannot be read, as far as the log was read.
    """

    log: SourceLog
    notes: Notes
    start: int
    lost_from: int | None = None
    _next_offset: int = field(init=False)

    def __post_init__(self) -> None:
        self._next_offset = self.start

    def read(self, end: int | None = None) -> Iterator[InternalRecord]:
        """Yield the records. Of damage between two records their offsets say whether it hides others.

        Args:
            end: The offset after the last one; None: the end of the log.
        """
        seen, forwarded = Notes(), 0
        for record in internal_records(self.log, seen, start=self.start, end=end):
            self.notes.say_all(seen.findings[forwarded:])
            forwarded = len(seen.findings)
            if record.offset > self._next_offset:
                self._lose(self._next_offset)
            self._next_offset = record.offset + 1
            yield record
        self.notes.say_all(seen.findings[forwarded:])
        if (end is None or self._next_offset < end) and (
            self._ends_too_early or any(map(self._hides_the_end, seen.findings))
        ):
            self._lose(self._next_offset)

    def add_to(self, state: ClusterState, record: InternalRecord) -> None:
        """Add a record to a state. One that cannot be read counts as lost, unless no state follows from its type."""
        unread = add_record(state, record, record.offset, self.notes, str(self.log.topic_partition))
        if unread is not None and unread.reason is not UnreadReason.UNKNOWN_TYPE:
            self._lose(record.offset)

    @property
    def _ends_too_early(self) -> bool:
        """Whether there were records after the last one: a snapshot covers them, or their segment cannot be opened."""
        if any(end > self._next_offset for end, _ in self.log.metadata_snapshots):
            return True
        last = max((segment.base_offset for segment in self.log.segments), default=-1)
        return any(base > last for base in self.log.unreadable)

    def _hides_the_end(self, finding: Finding) -> bool:
        """Whether a finding is about bytes after the last record that may have been records."""
        if finding.rule == "zero-padding":
            return False
        if finding.rule == "torn-tail":
            return _is_whole_batch(self.log, finding)
        return finding.start_offset is None or finding.start_offset >= self._next_offset

    def _lose(self, offset: int) -> None:
        if self.lost_from is None:
            self.lost_from = offset


def _is_whole_batch(log: SourceLog, finding: Finding) -> bool:
    """Whether the bytes at the end of a log are as long as their batch says: the broker may have written all of it.

    A shorter batch was not written to its end. No reader has seen its records.
    """
    segment = next((segment for segment in log.segments if shown(segment.path) == finding.file), None)
    position = finding.position or 0
    if segment is None or segment.size - position < LOG_OVERHEAD:
        return False
    try:
        header = read_range(segment.path, position, position + LOG_OVERHEAD, segment)
    except LogError:
        return True
    length = int.from_bytes(header[LENGTH_AT:], "big", signed=True)
    return length <= segment.size - position - LOG_OVERHEAD


@dataclass(slots=True)
class SnapshotRecords:
    """The records of a snapshot, control records included.

    Attributes:
        content: The bytes of its file.
        is_whole: Whether all bytes could be read and the last record is a footer; known after `read`.
    """

    content: bytes
    is_whole: bool = False

    def read(self) -> Iterator[tuple[BatchHeader, Record]]:
        """Yield each record that can be read, and the header of its batch."""
        records: list[tuple[BatchHeader, Record]] = []
        is_damaged, last = False, None
        walk = SegmentScan(
            self.content,
            base_offset=0,
            sealed=True,
            inspect=lambda header, record: records.append((header, record)),
        )
        for item in walk:
            is_damaged |= isinstance(item, Stretch)
            yield from records
            last = records[-1] if records else last
            records.clear()
        footer = None if last is None else InternalRecord.of(*last)
        is_closed = footer is not None and footer.is_control and footer.control_type is ControlType.SNAPSHOT_FOOTER
        self.is_whole = is_closed and not is_damaged


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """A snapshot that is whole.

    Attributes:
        state: The state in it.
        time_ms: The time in its header, epoch milliseconds; -1 if it has none.
        lost_from: As in `ReadState`: the end of the snapshot, if one of its records cannot be read.
    """

    state: ClusterState
    time_ms: int
    lost_from: int | None


@collector_paused()  # it makes many objects that stay
def read_cluster_state(log: SourceLog, notes: Notes, moment: Moment) -> ReadState:
    """Read the state of a cluster.

    Args:
        log: A log of `__cluster_metadata`, or the data of a ZooKeeper: of several clusters the one with most topics.
        notes: Gets the findings.
        moment: When.
    """
    if log.kind is DirectoryKind.ZOOKEEPER:
        return next(zookeeper_states(log, notes, moment))
    state, start, snapshot_end, lost_from = ClusterState(), 0, None, None
    note_snapshots_at_one_offset(log, notes)
    for end, path in reversed(log.metadata_snapshots):
        if moment.offset is not None and end > moment.offset:
            continue
        snapshot = snapshot_state(path, end, notes)
        if snapshot is None or (moment.time_ms is not None and snapshot.time_ms > moment.time_ms):
            continue
        state, start, snapshot_end, lost_from = snapshot.state, end, end, snapshot.lost_from
        break
    if log.segments and log.segments[0].base_offset > start:
        first = log.segments[0].base_offset
        message = f"{log.topic_partition} begins at offset {first}, and no usable snapshot ends there or after it."
        notes.say(found("metadata-log-starts-late", message, start_offset=start, end_offset=first))
        lost_from = start if lost_from is None else lost_from
    end_offset, records = start, MetadataRecords(log, notes, start, lost_from)
    for record in records.read(moment.offset):
        if moment.is_before(record.offset, record.timestamp):
            break
        end_offset = record.offset + 1
        records.add_to(state, record)
    note_what_does_not_count(state, log, notes)
    return ReadState(state, end_offset, snapshot_end, log.high_watermark or 0, records.lost_from)


def partitions_there(
    logs: Iterable[SourceLog], others: Iterable[SourceLog], topic: InternalTopic
) -> tuple[list[int], int | None]:
    """Return which partitions of a topic are at a source, and how many it has.

    Args:
        logs: Logs of the topic.
        others: All logs at the source: a log of `__cluster_metadata` among them says how many partitions there are.
        topic: The topic.
    """
    there = sorted({log.topic_partition.partition for log in logs})
    metadata = next((log for log in others if log.is_metadata), None)
    if metadata is None:
        return there, None
    state = read_cluster_state(metadata, Notes(), Moment()).state
    found_ids = (key for key, row in state.topics.items() if row.fields["topic"] == topic)
    return there, next((len(state.partitions.get(topic_id, ())) or None for topic_id in found_ids), None)


def zookeeper_states(log: SourceLog, notes: Notes, moment: Moment) -> Iterator[ReadState]:
    """Yield the state of each cluster in the data of a ZooKeeper; an empty one if there is none.

    What a transaction log has counts as committed, because ZooKeeper itself applies all of it when it starts.

    Args:
        log: The data of a ZooKeeper.
        notes: Gets the findings.
        moment: When; the number of a transaction is its offset.
    """
    read = read_nodes(log, notes, moment.is_before)
    for chroot in chroots(read.nodes) or [""]:
        unread = UnreadNodes()
        state = cluster_state(read.nodes, chroot, unread)
        note_unread_nodes(unread, log, notes)
        note_what_does_not_count(state, log, notes)
        lost = [each for each in (read.lost_from, unread.first_changed) if each is not None]
        yield ReadState(state, read.end, read.snapshot_end, read.end, min(lost, default=None))


def note_unread_nodes(unread: UnreadNodes, log: SourceLog, notes: Notes) -> None:
    """Report nodes of a ZooKeeper that could not be read, with the first one."""
    if unread.count:
        message = f"{shown(log.directory)}: {unread.count} nodes cannot be read, and do not count. {unread.first}."
        notes.say(found("message-not-read", message, file=log.directory))


def left_out(log: SourceLog, end_offset: int, time_ms: int) -> str | None:
    """Return why a state at a time may be incomplete, as a sentence; None if nothing was said by then and left out.

    The state ends at the first record of a later time. What follows may be of an earlier time: clocks differ.

    Args:
        log: A log of `__cluster_metadata`.
        end_offset: Where the state ends.
        time_ms: The time, epoch milliseconds.
    """
    if log.kind is DirectoryKind.ZOOKEEPER:
        return None  # one server orders its transactions and says their times
    for record in MetadataRecords(log, Notes(), end_offset).read():
        if record.timestamp <= time_ms and not record.is_control:
            return (
                f"Its record at offset {record.offset} is of an earlier time than one before it, and not later than "
                "the clock of the command."
            )
    return None


def tiered_topics(logs: Iterable[SourceLog], notes: Notes) -> frozenset[str]:
    """Return the topics with `remote.storage.enable`, by the log of `__cluster_metadata` among some logs.

    Args:
        logs: The logs, one copy of each.
        notes: Gets the findings about the log of the metadata.
    """
    metadata = next((log for log in logs if log.is_metadata and log.kind is DirectoryKind.LIVE), None)
    if metadata is None:
        return frozenset()
    state = read_cluster_state(metadata, notes, Moment()).state
    names = (resource for kind, resource in state.settings if kind == TOPIC_RESOURCE)
    return frozenset(name for name in names if state.settings_of(TOPIC_RESOURCE, name).get(TIERED) == "true")


def note_snapshots_at_one_offset(log: SourceLog, notes: Notes) -> None:
    """Report snapshots that end at the same offset. The one with the highest epoch, and so the last name, is used."""
    for end, count in sorted(Counter(end for end, _ in log.metadata_snapshots).items()):
        if count > 1:
            message = (
                f"{log.topic_partition}: {count} snapshots end at offset {end}; the one with the highest epoch counts."
            )
            notes.say(found("snapshots-at-one-offset", message, start_offset=end, end_offset=end))


def note_what_does_not_count(state: ClusterState, log: SourceLog, notes: Notes) -> None:
    """Report what is not in a state: records of a transaction that did not end, and what is not interpreted."""
    place = shown(log.directory) if log.kind is DirectoryKind.ZOOKEEPER else str(log.topic_partition)
    if state.is_in_transaction:
        message = f"{log.topic_partition}: a transaction has begun and not ended. Its records do not count."
        notes.say(found("metadata-transaction-open", message))
    for name, count in sorted(state.not_interpreted.items()):
        message = f"{place}: {count} records of type {name} are read and not interpreted."
        notes.say(found("message-not-interpreted", message))


def snapshot_state(path: str, end: int, notes: Notes) -> ReadSnapshot | None:
    """Return the state in a snapshot; None if it is not whole."""
    try:
        content = read_file(path)
    except LogError as error:
        notes.say(found("unreadable", str(error.at(file=shown(path))), file=path))
        return None
    state, time_ms, lost_from = ClusterState(), -1, None
    records = SnapshotRecords(content)
    for header, found_record in records.read():
        record = InternalRecord.of(header, found_record)
        if record.is_control and record.control_type is ControlType.SNAPSHOT_HEADER:
            time_ms = _header_time(record)
        unread = add_record(state, record, end - 1, notes, shown(path))
        if unread is not None and unread.reason is not UnreadReason.UNKNOWN_TYPE:
            lost_from = end
    if not records.is_whole:
        message = f"{shown(path)} is damaged or does not end with a snapshot's footer; an earlier one is used."
        notes.say(found("snapshot-not-whole", message, file=path))
        return None
    return ReadSnapshot(state, time_ms, lost_from)


def add_record(
    state: ClusterState, record: InternalRecord, offset: int, notes: Notes, place: str
) -> UnreadMessage | None:
    """Add a record to a state; one that cannot be read is reported, and changes nothing.

    Args:
        state: The state.
        record: The record.
        offset: The offset that the state shows; of a snapshot that of its last record.
        notes: Gets the findings.
        place: The log or the file, for findings.

    Returns:
        What could not be read, and why.
    """
    value = record.value or b""
    if record.is_control:
        if record.control_type is ControlType.KRAFT_VERSION:
            state.add_kraft_version(offset, record.timestamp, value)
        return None
    unread = state.add(offset, record.timestamp, value)
    if unread is not None:
        notes.say(not_read(place, record.offset, unread))
    return unread


def _header_time(record: InternalRecord) -> int:
    schema = message_named(MessageFamily.SHARED_PARTS, "SnapshotHeaderRecord")
    message = read_message(schema, 0, record.value or b"")
    time_ms = message.fields["lastContainedLogTimestamp"] if isinstance(message, ReadMessage) else -1
    return time_ms if isinstance(time_ms, int) else -1
