"""Segments of a partition directory for retention. They are read only as far as a decision needs it.

A broker uses the last entry of a segment's time index and does not read the batches. If the index is missing or empty,
it uses the file's mtime. If the index was never trimmed (zeros to its end), everything seems to be from 1970. Here the
batches are read, and it is reported if a broker would decide differently because of the time index.

    largest timestamp     of a readable segment           greatest of its batches; without one the file's mtime; the
                                                          last entry of its time index if that is later, because then
                                                          the segment may have lost batches at its end
                          of a damaged one                the last entry of its time index, if it is at least the
                                                          greatest of the readable batches; else unknown
    size                  bytes of batches: no torn tail, no reserved space, nothing that cannot be trusted

Source: Kafka LogSegment.largestTimestamp, readMaxTimestampAndOffsetSoFar, TimeIndex.lastEntry; UnifiedLog.size.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from logcore.errors import CorruptIndexError
from logcore.logs.model.partition_directory import PartitionDirectory, PartitionFile
from logcore.records.varint import Buffer
from logcore.segments.filenames import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, segment_base_offset, segment_file_name
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.scan import End, ScannedBatch, SegmentScan
from logcore.segments.side_files import time_index
from logcore.segments.startup import StartFiles

NO_TIMESTAMP = time_index.NO_TIMESTAMP
_TIME_ENTRY = struct.Struct(">qi")


class TimestampSource(StrEnum):
    """The source of a segment's largest timestamp."""

    BATCHES = "batches"
    TIME_INDEX = "time index"
    FILE = "time of change of the file"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SegmentReading:
    """The results of a segment's scan.

    Attributes:
        valid: Bytes of good batches.
        next_offset: The offset after the last good batch.
        max_timestamp: The greatest of the good batches; -1 if none has one.
        is_damaged: Whether bytes were lost that should be there.
        last_batch: The last good batch. The type of a control batch is not always set.
    """

    valid: int
    next_offset: int
    max_timestamp: int
    is_damaged: bool
    last_batch: ScannedBatch | None


ReadSegment = Callable[[Buffer, int, bool, int | None, FetchedBytes | None], SegmentReading]
"""The type of `read_segment`, plain and compiled."""


def read_segment(
    content: Buffer, base_offset: int, sealed: bool, next_base_offset: int | None, fetched: FetchedBytes | None
) -> SegmentReading:
    """Scan a segment by headers and checksums.

    Args:
        content: The segment's bytes.
        base_offset: Base offset of the segment.
        sealed: Whether a later segment follows.
        next_base_offset: Base offset of the next segment.
        fetched: Loads the bytes of `content` into memory; its errors pass through.
    """
    walk = SegmentScan(
        content,
        base_offset=base_offset,
        sealed=sealed,
        decode=False,
        next_base_offset=next_base_offset,
        fetched=fetched,
    )
    greatest = NO_TIMESTAMP
    for step in walk:
        if isinstance(step, ScannedBatch):
            greatest = max(greatest, step.header.max_timestamp)
        if fetched is not None:
            fetched.release(step.position)
    is_damaged = walk.end is End.CORRUPT
    return SegmentReading(walk.accounting.valid, walk.next_offset, greatest, is_damaged, walk.last_batch)


class DirectorySegment:
    """One segment of a directory; a `retention.RetainedSegment`. Its bytes are read once, at the first use."""

    def __init__(
        self,
        log: PartitionFile,
        beside: Mapping[str, PartitionFile],
        base_offset: int,
        next_base_offset: int | None,
        read: ReadSegment = read_segment,
    ) -> None:
        self.log = log
        self.base_offset = base_offset
        self.next_base_offset = next_base_offset
        self._beside, self._read = beside, read
        self._reading: SegmentReading | None = None
        self._largest: tuple[int | None, TimestampSource] | None = None

    @property
    def reading(self) -> SegmentReading:
        """The content of the file."""
        if self._reading is None:
            following, log = self.next_base_offset, self.log
            self._reading = self._read(log.content, self.base_offset, following is not None, following, log.fetched)
        return self._reading

    @property
    def size(self) -> int:
        """Bytes of batches that can be trusted."""
        return self.reading.valid

    @property
    def largest_timestamp(self) -> int | None:
        """Kafka's LogSegment.largestTimestamp with a rebuilt time index; None if damage hides it."""
        if self._largest is None:
            self._largest = self._find_largest()
        return self._largest[0]

    @property
    def timestamp_source(self) -> TimestampSource | None:
        """The source of `largest_timestamp`; None if that was not needed."""
        return None if self._largest is None else self._largest[1]

    def _find_largest(self) -> tuple[int | None, TimestampSource]:
        greatest, indexed = self.reading.max_timestamp, self._indexed()
        if indexed is not None and (indexed > greatest or (self.reading.is_damaged and indexed == greatest)):
            return indexed, TimestampSource.TIME_INDEX
        if self.reading.is_damaged:
            return None, TimestampSource.UNKNOWN
        if greatest >= 0:
            return greatest, TimestampSource.BATCHES
        return self.log.modified_ms, TimestampSource.FILE

    def _indexed(self) -> int | None:
        """The last timestamp of a valid time index; None if there is none."""
        file = self._beside.get(TIME_INDEX_SUFFIX)
        if file is None:
            return None
        try:
            entries = time_index.parse(bytes(file.content), self.base_offset)
        except CorruptIndexError:
            return None
        return entries[-1].timestamp if entries else None

    def seen_by_broker(self) -> tuple[int, str] | None:
        """The largest timestamp for a broker that starts on these files, and why it differs from ours.

        None if it does not differ, or if the broker rebuilds the time index.
        """
        if OFFSET_INDEX_SUFFIX not in self._beside:
            return None  # it recovers the segment
        file = self._beside.get(TIME_INDEX_SUFFIX)
        content = b"" if file is None else bytes(file.content)
        whole = len(content) - len(content) % _TIME_ENTRY.size
        timestamp = NO_TIMESTAMP
        if whole:
            timestamp, _ = _TIME_ENTRY.unpack_from(content, whole - _TIME_ENTRY.size)
        seen = timestamp if timestamp >= 0 else self.log.modified_ms
        if seen == self.largest_timestamp:
            return None
        if file is None:
            state = "its time index is missing"
        elif not whole:
            state = "its time index is empty"
        elif not any(content[whole - _TIME_ENTRY.size : whole]):
            state = "its time index ends in zeros"
        else:
            state = "its time index does not end in its greatest timestamp"
        return seen, state


def directory_segments(
    directory: PartitionDirectory, start: StartFiles, read: ReadSegment = read_segment
) -> tuple[DirectorySegment, ...]:
    """The segments that a start would find, ascending. `start` is its result for the names."""
    found = (segment_base_offset(name) for name in start.kept)
    bases = sorted(base for base in found if base is not None)
    following: Sequence[int | None] = [*bases[1:], None]
    return tuple(
        DirectorySegment(
            directory.files[start.kept[segment_file_name(base)]],
            {suffix: directory.files[now] for suffix, now in start.beside(base).items()},
            base,
            next_base,
            read,
        )
        for base, next_base in zip(bases, following, strict=False)
    )
