"""The logs of Kafka's own topics among the chosen ones, and their records in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from logcore.errors import LogError
from logcore.logs.model.findings import found
from logcore.logs.model.sources import SourceLog
from logcore.reading.notes import Notes
from logcore.reading.segment_reading import cannot_read, open_segment, steps
from logcore.records.batch import BatchHeader
from logcore.records.record import Record
from logcore.segments.scanning.scan import ScannedBatch
from logcore.topics.internal_topics import InternalTopic, internal_topic


@dataclass(frozen=True, slots=True)
class InternalRecord:
    """A record, control records included, and the header of its batch."""

    header: BatchHeader
    record: Record

    @property
    def key(self) -> bytes | None:
        """The record's key."""
        return None if self.record.key is None else bytes(self.record.key)

    @property
    def value(self) -> bytes | None:
        """The record's value."""
        return None if self.record.value is None else bytes(self.record.value)


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
        notes.say(found("no-internal-topic", f"None of the {len(logs)} chosen logs is of {wanted}."))
    return chosen


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
                        yield InternalRecord(item.header, record)
            records.clear()
