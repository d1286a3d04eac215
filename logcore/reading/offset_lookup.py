"""A log as `logcore.logs.lookup` takes it: what a broker's ListOffsets would answer from a directory.

Bounds and timestamps come from the batches that `verify` accepts. Index files are not used to find a place: a wrong one
would hide records. Of a time index only its presence counts: without it a
broker does not know a segment's timestamps, unless it recovers the segment when it starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from logcore.errors import LogError
from logcore.logs import lookup
from logcore.logs.lookup import LookupLog, LookupSegment
from logcore.logs.model import readable_end
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.checked_segments import checked_batches
from logcore.reading.log_batches import LogBatch
from logcore.reading.notes import Notes
from logcore.segments import filenames
from logcore.segments.scanning.scan import ScannedBatch
from logcore.segments.side_files import time_index
from logcore.storage.discovery import read_file

_MAX_INDEX_BYTES = 1 << 30


def lookup_log(log: SourceLog, at: int, visible_end: int, notes: Notes) -> LookupLog:
    """Return a log as a lookup takes it. For a timestamp all of it is read, for the log end its last segment.

    Args:
        log: The log.
        at: The target of the lookup: a timestamp in epoch milliseconds, or a special value of `logcore.logs.lookup`.
        visible_end: The end of the visible offsets: the high watermark, or the last stable offset.
        notes: Gets the findings about the bytes that are read.
    """
    timed = at >= 0 or at == lookup.MAX_TIMESTAMP
    segments = []
    log_end_offset = log.log_start_offset
    for segment in log.segments:
        max_timestamp, next_offset = time_index.NO_TIMESTAMP, segment.base_offset
        if timed or (at == lookup.LATEST and segment is log.segments[-1]):
            max_timestamp, next_offset = _extent(log, segment, notes)
            log_end_offset = max(log_end_offset, next_offset)
            if next_offset == segment.base_offset and segment.size:
                continue  # no batch of it can be trusted, and its mtime must not hide later segments
        if not _is_known(log, segment):
            max_timestamp = time_index.NO_TIMESTAMP
        log_end_offset = max(log_end_offset, next_offset)
        segments.append(
            LookupSegment(
                segment.base_offset, partial(_batches, log, segment, notes), max_timestamp, segment.modified_ms
            )
        )
    # As a broker does, which moves a checkpoint into the range from log start to log end.
    end = readable_end.high_watermark(visible_end, log_start_offset=log.log_start_offset, log_end_offset=log_end_offset)
    remote = None if log.remote is None else log.remote[0]
    return LookupLog(
        segments,
        log.log_start_offset,
        end,
        log.leader_epochs,
        remote,
        log.local_start_offset,
        log.tiered_end_offset,
    )


def offsets_before(
    log: SourceLog, at: int, count: int, as_of_ms: int, visible_end: int, notes: Notes
) -> tuple[int, ...]:
    """Return offsets at which segments begin, descending, as brokers before 4.0 answer version 0 of ListOffsets.

    A segment counts if its file was last changed at or before the time. The log end counts as changed now. Only local
    segments count.

    Args:
        log: The log.
        at: A time in epoch milliseconds, `lookup.LATEST` (all segments) or `lookup.EARLIEST` (the first).
        count: The most offsets.
        as_of_ms: The clock, epoch milliseconds.
        visible_end: The end of the visible offsets. It replaces those above it.
        notes: Gets the findings about the last segment.

    Source: Kafka 3.9 UnifiedLog.legacyFetchOffsetsBefore, Partition.legacyFetchOffsetsForTimestamp.
    """
    local = [segment for segment in log.segments if segment.base_offset >= (log.local_start_offset or 0)]
    known = [(max(segment.base_offset, log.log_start_offset), segment.modified_ms) for segment in local]
    end = max([log.log_start_offset, *(segment.base_offset for segment in local[-1:])])
    if local and local[-1].size:
        end = max(end, _extent(log, local[-1], notes)[1])
        known.append((end, as_of_ms))
    if at == lookup.EARLIEST:
        known = known[:1]
    elif at != lookup.LATEST:
        while known and known[-1][1] > at:
            known.pop()
    offsets = sorted((offset for offset, _ in known[::-1][:count]), reverse=True)
    bound = readable_end.high_watermark(visible_end, log_start_offset=log.log_start_offset, log_end_offset=end)
    above = [offset for offset in offsets if offset > bound]
    return (*([bound] if above else []), *offsets[len(above) :])


def _extent(log: SourceLog, segment: SegmentFile, notes: Notes) -> tuple[int, int]:
    """Return the greatest timestamp of a segment's batches, -1 without any, and the offset after its last batch."""
    max_timestamp, next_offset = time_index.NO_TIMESTAMP, segment.base_offset
    for _, item in checked_batches(log, (segment,), notes):
        if isinstance(item, ScannedBatch):
            max_timestamp = max(max_timestamp, item.header.max_timestamp)
            next_offset = item.header.next_offset
    return max_timestamp, next_offset


def _batches(log: SourceLog, segment: SegmentFile, notes: Notes) -> Iterator[LogBatch]:
    for _, item in checked_batches(log, (segment,), notes):
        if isinstance(item, ScannedBatch):
            yield LogBatch(segment.path, item.position, item.header, item.control_type)


def _is_known(log: SourceLog, segment: SegmentFile) -> bool:
    """Whether a broker would know the segment's timestamps: from the time index, or because its start recovers the
    segment (no offset index, or at and after the recovery point after an unclean stop) and rebuilds it.
    """
    path = segment.side_file(filenames.TIME_INDEX_SUFFIX)
    if log.named_files or segment.side_file(filenames.OFFSET_INDEX_SUFFIX) is None:
        return True
    if log.is_clean is False:
        following = log.next_base_offset(segment)
        if following is None or following > (log.recovery_point or 0):
            return True
    if path is None:
        return False
    try:
        return bool(time_index.parse(read_file(path, _MAX_INDEX_BYTES), segment.base_offset))
    except LogError:
        return True  # the entries that a broker would read from random bytes are useless
