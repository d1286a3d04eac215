"""What the records of `__remote_log_metadata` at a source say of remote segments.

Only committed records count. A record that cannot be decoded, or cannot follow those before it, is a finding; the
others still count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from logcore.errors import LogError
from logcore.logs.model.findings import found
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.read_options import Notes, ReadRules
from logcore.reading.segment_reading import cannot_read, open_segment, steps
from logcore.reading.visible_offsets import visible_window
from logcore.records.record import Record
from logcore.remote.metadata_records import metadata_event
from logcore.remote.segment_states import SegmentStates
from logcore.segments.filenames import REMOTE_METADATA_TOPIC, DirectoryKind, TopicPartition
from logcore.segments.scanning.scan import ScannedBatch
from logcore.storage.discovery import shown


def segment_states(logs: Iterable[SourceLog], notes: Notes) -> SegmentStates | None:
    """Read the metadata of remote segments.

    Args:
        logs: The logs at the source.
        notes: Gets the findings.

    Returns:
        The segments; None if no partition of the metadata topic is among the logs.
    """
    states: SegmentStates | None = None
    for log in _one_replica_of_each(logs):
        states = SegmentStates() if states is None else states
        for segment, record in _records(log, notes):
            if record.value is None:
                continue
            try:
                problem = states.add(metadata_event(bytes(record.value)))
            except LogError as error:
                problem = error.message
            if problem is not None:
                file = shown(segment.path)
                message = f"{log.topic_partition}, offset {record.offset}: {problem}. The record is left out."
                after = record.offset + 1
                notes.say(found("remote-metadata", message, file=file, start_offset=record.offset, end_offset=after))
    return states


def _one_replica_of_each(logs: Iterable[SourceLog]) -> tuple[SourceLog, ...]:
    """The logs of the metadata topic, of each partition the replica with the greatest high watermark.

    The replicas have the same committed records. Read one after another, the states of a segment would go back.
    """
    chosen: dict[TopicPartition, SourceLog] = {}
    for log in logs:
        if log.topic_partition.topic == REMOTE_METADATA_TOPIC and log.kind is DirectoryKind.LIVE:
            known = chosen.get(log.topic_partition)
            if known is None or _reach(log) > _reach(known):
                chosen[log.topic_partition] = log
    return tuple(chosen.values())


def _reach(log: SourceLog) -> tuple[int, int]:
    """The high watermark of a log, and its last base offset for logs without one."""
    last = log.segments[-1].base_offset if log.segments else -1
    return -1 if log.high_watermark is None else log.high_watermark, last


def _records(log: SourceLog, notes: Notes) -> Iterator[tuple[SegmentFile, Record]]:
    """The committed records of a log. What is missing is reported here, also inside of a segment."""
    window = visible_window(log, ReadRules())
    reached, committed = log.log_start_offset, window.end
    for segment in log.segments:
        records: list[Record] = []
        try:
            source, walk = open_segment(log, segment, records)
        except LogError as error:
            cannot_read(segment, error, notes)
            continue
        for item in steps(log, segment, source, walk, notes, GapRules(compacted_by_policy=True)):
            if isinstance(item, ScannedBatch):
                _report_lost(log, reached, min(item.header.base_offset, committed), notes)
                reached = item.header.next_offset
                if not item.header.is_control:
                    yield from ((segment, record) for record in records if window.start <= record.offset < window.end)
            records.clear()
    end = log.high_watermark
    if end is not None:
        _report_lost(log, reached, end, notes)


def _report_lost(log: SourceLog, start: int, end: int, notes: Notes) -> None:
    """Report committed offsets that are not there. The topic is never compacted, so its offsets have no gaps."""
    if start < end:
        message = f"{log.topic_partition}: offsets [{start}, {end}) are committed, and cannot be read."
        notes.say(found("remote-metadata", message, file=shown(log.directory), start_offset=start, end_offset=end))
