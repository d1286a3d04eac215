"""A log as a consumer sees it: which offsets are visible, where a read begins, and the chosen records.

The command line, the library and every other reader of records take a log from here.

Bounds and timestamps come from the batches that `verify` accepts. Index files are not used to find a place: a wrong one
would hide records. Of a time index only its presence counts: without it a broker does not know a segment's timestamps,
unless it recovers the segment when it starts.

Record batches are also given as they are in the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal, get_args

from logcore.columns.wanted import EVERYTHING, Wanted
from logcore.errors import CorruptionReason, CorruptRecordError, LogError, OffsetOutOfRange
from logcore.logs import lookup
from logcore.logs.lookup import LookupLog, LookupSegment, OffsetAnswer
from logcore.logs.model import readable_end
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.checked_segments import checked_batches
from logcore.reading.chosen_logs import log_end
from logcore.reading.read_options import Notes, OffsetRange, ReadRules
from logcore.reading.segment_reading import cannot_read, reading_start, segment_bytes
from logcore.reading.shown_segments import ShownSegment, segments_among
from logcore.reading.visible_offsets import Window, visible_window, with_high_watermark
from logcore.records.batch import crc_matches, read_header
from logcore.records.control import ControlType
from logcore.records.model import BatchHeader, Record
from logcore.records.record import read_records
from logcore.segments import filenames
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scanning.scan import ScannedBatch, Stretch
from logcore.segments.side_files import time_index
from logcore.storage.discovery import read_file, read_range, shown

OffsetReset = Literal["none", "earliest", "latest"]
"""What a read does whose first offset is outside of the log, as a consumer's `auto.offset.reset`: `none` is an error,
`earliest` begins at the log start, `latest` begins at the end."""


@dataclass(frozen=True, slots=True)
class ChosenRecords:
    """The records of a log that a reader wants.

    Attributes:
        log: The log.
        wanted: The wanted records.
        seek: Begin at an entry of the index for this offset. Damage before it is not reported. None: at the beginning.
        end: Reading may end at this offset. Damage from there on is not reported. None: at the end of the files.
    """

    log: SourceLog
    wanted: Wanted
    seek: int | None = None
    end: int | None = None

    def files(self) -> Iterator[SegmentFile]:
        """Yield the segments that can hold a wanted offset. No file is opened."""
        return segments_among(self.log, self.wanted.visible)

    def segments(self, notes: Notes) -> Iterator[ShownSegment]:
        """Yield the segments that can hold a wanted offset, opened one by one.

        Args:
            notes: Reports a file that cannot be opened.
        """
        for segment in self.files():
            try:
                source = segment_bytes(self.log, segment)
                start = reading_start(segment, source, self.seek)
                yield ShownSegment(self.log, segment, source, self.wanted, start, self.end)
            except LogError as error:
                cannot_read(segment, error, notes)


@dataclass(frozen=True)
class ConsumerLog:
    """A log with the rules of its consumer. Reads are lazy.

    Attributes:
        source: The log, by its files.
        rules: The isolation level and the high watermark.
    """

    source: SourceLog
    rules: ReadRules

    @cached_property
    def log(self) -> SourceLog:
        """The log with the high watermark that the rules choose."""
        return with_high_watermark(self.source, self.rules.high_watermark)

    @cached_property
    def window(self) -> Window:
        """The visible offsets. For `read_committed` the whole log is read once."""
        return visible_window(self.log, self.rules)

    def position(self, offset: int, reset: OffsetReset = "none") -> int:
        """Return where a consumer with a position begins to read.

        Args:
            offset: The position.
            reset: What happens if the position is below the log start or above the log end.

        Raises:
            OffsetOutOfRange: The position is out of range, and `reset` is `none`.
            ValueError: There is no such value of `reset`.
        """
        if reset not in get_args(OffsetReset):
            raise ValueError(f"offset_reset is {', '.join(get_args(OffsetReset))}, not {reset!r}")
        log = self.log
        start = 0 if self.rules.show_all or log.named_files else log.log_start_offset
        is_last = not log.segments or offset > log.segments[-1].base_offset
        end = log_end(log) if is_last or reset == "latest" else None
        if start <= offset and (end is None or offset <= end):
            return offset
        if reset == "earliest":
            return start
        if reset == "latest":
            return self.window.end if end is None else min(self.window.end, end)
        bound = f"begins at offset {start}" if offset < start else f"ends at offset {end}"
        name = str(log.topic_partition)
        raise OffsetOutOfRange(f"it is out of range: the log {bound}", topic_partition=name, offset=offset)

    @cached_property
    def end_offset(self) -> int:
        """Where a consumer reaches the end: the high watermark or the last stable offset, at most the log end.

        The last segment is read only if its headers cannot be followed to its end.
        """
        end = log_end(self.log)
        if end is None:
            return self.list_offsets(lookup.LATEST, Notes()).offset
        return max(self.log.log_start_offset, min(self.window.end, end))

    def choose(self, offsets: OffsetRange, wanted: Wanted = EVERYTHING) -> ChosenRecords:
        """Return the visible records of a range of offsets that a reader wants.

        Args:
            offsets: The range.
            wanted: Which of the records are wanted; its visible offsets are replaced.
        """
        visible = self.window.ranges(offsets)
        seek = visible[0][0] if offsets.start is not None and visible else None
        return ChosenRecords(self.log, replace(wanted, visible=visible), seek, offsets.end)

    def lookup(self, at: int, notes: Notes) -> LookupLog:
        """Return the log as a lookup takes it. For a timestamp all of it is read, for the log end its last segment.

        Args:
            at: A timestamp in epoch milliseconds, or a special value of `logcore.logs.lookup`.
            notes: Gets the findings about the bytes that are read.
        """
        return lookup_log(self.log, at, self.window.end, notes)

    def offsets_before(self, at: int, count: int, as_of_ms: int, notes: Notes) -> tuple[int, ...]:
        """Return offsets at which segments begin; see `logcore.reading.consumer_log.offsets_before`."""
        return offsets_before(self.log, at, count, as_of_ms, self.window.end, notes)

    def list_offsets(self, at: int, notes: Notes) -> OffsetAnswer:
        """Answer a ListOffsets request as a broker does; the arguments are those of `lookup`."""
        return lookup.list_offsets(self.lookup(at, notes), at)


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


@dataclass(frozen=True, slots=True)
class LogBatch:
    """A record batch that can be trusted, and its place.

    Attributes:
        path: The segment file.
        position: Where the batch begins, in bytes from the start of the file.
        header: Its header. Of a compressed message of format v0 or v1 it has the offsets of the messages inside.
        control_type: The kind of a control batch; None for all other batches.

    Example:
        >>> for batch in log.batches():
        ...     print(batch.header.base_offset, batch.header.record_count, batch.header.codec.name)
    """

    path: str
    position: int
    header: BatchHeader
    control_type: ControlType | None = None

    def records(self) -> Iterator[Record]:
        """Yield the records of the batch, control records included. The bytes are read from the file again.

        Raises:
            CorruptRecordError: The records cannot be decoded, or the file has other bytes there now.
            SourceUnreadable: The file can no longer be read.
        """
        content = read_range(self.path, self.position, self.position + self.header.size)
        try:
            stored = read_header(content)
            if stored.crc != self.header.crc or not crc_matches(content, 0, stored):
                raise CorruptRecordError(CorruptionReason.CRC, "the file has other bytes there now")
            yield from read_records(content, 0, self.header)
        except CorruptRecordError as error:
            file = shown(self.path)
            raise CorruptRecordError(
                error.reason, error.message, file=file, position=self.position, offset=self.header.base_offset
            ) from error


def batches_of(log: SourceLog, start: int | None, end: int | None, notes: Notes) -> Iterator[LogBatch]:
    """Yield the batches that can be trusted. Damage in the files is reported, as far as they are read.

    Args:
        log: The log.
        start: Only batches that contain this offset or a later one; None: no lower bound.
        end: Only batches that begin before this offset; None: no upper bound.
        notes: Gets the findings.
    """
    low, high = start or 0, MAX_OFFSET if end is None else end
    for segment, item in checked_batches(log, segments_among(log, ((low, high),) if low < high else ()), notes):
        if isinstance(item, Stretch):
            continue
        if item.header.base_offset >= high:
            return
        if item.header.last_offset >= low:
            yield LogBatch(segment.path, item.position, item.header, item.control_type)
