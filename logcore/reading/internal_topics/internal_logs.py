"""The logs of Kafka's own topics among the chosen ones, and their records in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from logcore.errors import CorruptRecordError, LogError
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SourceLog
from logcore.messages.reader import UnreadMessage
from logcore.reading.read_options import Notes
from logcore.reading.segment_reading import cannot_read, is_read_in_bulk, open_segment, steps
from logcore.records.batch import BatchHeader
from logcore.records.control import ControlType, control_type
from logcore.records.record import Record
from logcore.segments.scanning.scan import ScannedBatch
from logcore.topics.internal_topics import InternalTopic, internal_topic


class InternalRecord(NamedTuple):
    """A record, control records included, and what the header of its batch says of it. There may be millions.

    Attributes:
        offset: Its offset.
        timestamp: Its time in epoch milliseconds.
        key: Its key.
        value: Its value.
        is_control: Whether it is a control record.
        is_transactional: Whether its batch is part of a transaction.
        producer_id: Of its batch; -1 without one.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    is_control: bool
    is_transactional: bool
    producer_id: int

    @property
    def control_type(self) -> ControlType:
        """What a control record says; UNKNOWN if its key cannot be read."""
        try:
            return control_type(self.key)
        except CorruptRecordError:
            return ControlType.UNKNOWN

    @classmethod
    def of(cls, header: BatchHeader, record: Record) -> InternalRecord:
        """A record and the header of its batch."""
        key, value = (None if part is None else bytes(part) for part in (record.key, record.value))
        return cls(
            record.offset,
            record.timestamp,
            key,
            value,
            header.is_control,
            header.is_transactional,
            header.producer_id,
        )


def internal_logs(
    logs: tuple[SourceLog, ...], notes: Notes, topic: InternalTopic | None = None
) -> tuple[SourceLog, ...]:
    """Return the logs of an internal topic, and report if there are none.

    Args:
        logs: The chosen logs.
        notes: Gets the finding.
        topic: The topic; None: any internal topic.
    """
    names = [internal_topic(log.topic_partition.topic) for log in logs]
    chosen = tuple(log for log, name in zip(logs, names, strict=True) if name is not None and topic in (None, name))
    if logs and not chosen:
        wanted = "an internal topic" if topic is None else f"the topic {topic}"
        place = " Name the folder metadata.log.dir of a controller." if topic is InternalTopic.CLUSTER_METADATA else ""
        notes.say(found("no-internal-topic", f"None of the {len(logs)} chosen logs is of {wanted}.{place}"))
    return chosen


def not_read(place: object, offset: int, unread: UnreadMessage) -> Finding:
    """Return the finding about a record that cannot be read, and so does not count."""
    message = f"{place}, offset {offset}: {unread.detail}. The record does not count."
    return found("message-not-read", message, start_offset=offset, end_offset=offset + 1)


def internal_records(
    log: SourceLog, notes: Notes, *, start: int = 0, end: int | None = None
) -> Iterator[InternalRecord]:
    """Yield the records of a log in order, and report damage.

    Args:
        log: The log.
        notes: Gets the findings.
        start: The first offset.
        end: The offset after the last one; None: the end of the log.
    """
    if is_read_in_bulk(log):
        return _records_in_blocks(log, notes, start, end)
    return each_record(log, notes, start, end)


def _records_in_blocks(log: SourceLog, notes: Notes, start: int, end: int | None) -> Iterator[InternalRecord]:
    from logcore.reading.internal_topics.record_blocks import bytes_of, record_blocks

    for block in record_blocks(log, notes, start, end):
        rows = block.rows
        yield from map(
            InternalRecord,
            rows.column("offset").to_numpy().tolist(),
            rows.column("timestamp_ms").to_numpy().tolist(),
            bytes_of(rows.column("key")),
            bytes_of(rows.column("value")),
            block.is_control.tolist(),
            block.is_transactional.tolist(),
            block.producer_ids.tolist(),
        )


def each_record(log: SourceLog, notes: Notes, start: int = 0, end: int | None = None) -> Iterator[InternalRecord]:
    """Yield the records of a log one by one; arguments as `internal_records`, for which it is the specification."""
    for segment in log.segments:
        following = log.next_base_offset(segment)
        if (end is not None and segment.base_offset >= end) or (following is not None and following <= start):
            continue
        records: list[Record] = []
        try:
            source, walk = open_segment(log, segment, records)
        except LogError as error:
            cannot_read(segment, error, notes)
            continue
        for item in steps(log, segment, source, walk, notes):
            if isinstance(item, ScannedBatch):
                for record in records:
                    if record.offset >= start and (end is None or record.offset < end):
                        yield InternalRecord.of(item.header, record)
            records.clear()
