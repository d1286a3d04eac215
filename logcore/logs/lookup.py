"""The offset of a timestamp in a log: a broker's answer to ListOffsets.

    -1 latest          the end of what the isolation level allows a consumer to fetch
    -2 earliest        the log start offset
    -3 max timestamp   the first record with the greatest timestamp, of the first segment that reaches it
    -4 earliest local  the first offset of the local segments; without tiered storage the log start offset
    -5 latest tiered   the last offset in remote storage, -1 if there is none
    -6 earliest pending upload
                       the offset after it, or the log start if that is higher; -1 if there is none
    0 and above        the first record with that timestamp or a later one, of the first segment that reaches it

-3 looks at local segments only, as a broker does. -5 and -6 need remote storage. A log of which nothing is there gets
-1, as one without tiered storage does. If its topic is known to be tiered, the answer to -6 is the log start.

A timestamp is searched in one segment, the first whose largest timestamp is not below it. If nothing is found there the
answer is "none", although a later segment may have it. A segment may have no timestamps that its broker knows (format
v0, or a lost time index). Then it counts as reaching up to the mtime of its file: a file that was copied or touched
hides what comes after it. Transaction markers have timestamps and are found like records. An answer at or above the end
of what may be fetched is "none" too.

A segment is read from its start, and bytes that cannot be trusted are skipped. An index makes a broker's search
shorter, and its answer is the same.

Sources: Kafka UnifiedLog.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp, LogSegment.translateOffset,
FileRecords.searchForTimestamp, Partition.fetchOffsetForTimestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from logcore.records.model import BatchHeader, Record
from logcore.segments.side_files.leader_epochs import EpochEntry, epoch_for_offset
from logcore.segments.side_files.time_index import NO_TIMESTAMP

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

UNKNOWN_OFFSET = -1


@dataclass(frozen=True, slots=True)
class OffsetAnswer:
    """An answer to ListOffsets.

    Attributes:
        offset: Of the first record that fits; -1 where there is none.
        timestamp: Of that record in epoch milliseconds; -1 where none is given.
        leader_epoch: Of its batch; None where none is known.
    """

    offset: int
    timestamp: int = NO_TIMESTAMP
    leader_epoch: int | None = None


NOTHING = OffsetAnswer(UNKNOWN_OFFSET)
"""A broker's answer if there is no such record."""


class LookupBatch(Protocol):
    """A batch that can be trusted."""

    @property
    def header(self) -> BatchHeader:
        """Its header, unfolded."""

    def records(self) -> Iterable[Record]:
        """Return its records."""


@dataclass(frozen=True, slots=True)
class LookupSegment:
    """A segment to search in.

    Attributes:
        base_offset: The segment's base offset.
        batches: Returns its batches that can be trusted, in order. Called only if they are needed.
        max_timestamp: The greatest timestamp of its batches that its broker knows, in ms; -1 if there is none.
        modified_ms: The mtime of the file.
    """

    base_offset: int
    batches: Callable[[], Iterable[LookupBatch]]
    max_timestamp: int
    modified_ms: int

    @property
    def largest_timestamp(self) -> int:
        """The timestamp (ms) up to which the segment counts as reaching."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms


@dataclass(frozen=True, slots=True)
class LookupLog:
    """A log to search in.

    Attributes:
        segments: By base offset.
        log_start_offset: The first offset that may be fetched.
        last_fetchable_offset: Exclusive: the high watermark, or for read_committed the last stable offset.
        leader_epochs: The history of leader epochs.
        remote_start_offset: Where the log begins in the remote tier; None if it has no part there that was not read.
        local_start_offset: Where its local segments begin, if remote ones are among `segments`; else None.
        tiered_end_offset: After the last offset in remote storage; None if there is none, 0 if none is there yet.
    """

    segments: Sequence[LookupSegment]
    log_start_offset: int
    last_fetchable_offset: int
    leader_epochs: Sequence[EpochEntry] = ()
    remote_start_offset: int | None = None
    local_start_offset: int | None = None
    tiered_end_offset: int | None = None

    @property
    def has_only_local_segments(self) -> bool:
        """Whether nothing of it was copied to remote storage."""
        return (self.remote_start_offset, self.local_start_offset, self.tiered_end_offset) == (None, None, None)


def list_offsets(log: LookupLog, at: int) -> OffsetAnswer:
    """Answer a ListOffsets request as a broker does.

    Args:
        log: The log to search in.
        at: A timestamp in ms, or one of the special values.

    Raises:
        ValueError: `at` is negative and not a special value.
    """
    epochs = log.leader_epochs
    if at in (EARLIEST, EARLIEST_LOCAL):
        if at == EARLIEST_LOCAL:
            local = max(log.log_start_offset, log.local_start_offset or 0)
            return OffsetAnswer(local, leader_epoch=epoch_for_offset(epochs, local))
        start = log.log_start_offset if log.remote_start_offset is None else log.remote_start_offset
        # Epochs may begin later than the log: they were not recorded before format v2.
        return OffsetAnswer(start, leader_epoch=epochs[0].epoch if epochs and epochs[0].start_offset <= start else None)
    if at == LATEST:
        epoch = epochs[-1].epoch if epochs else None
        return OffsetAnswer(log.last_fetchable_offset, leader_epoch=epoch)
    if at in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _of_remote_storage(log, at)
    if at == MAX_TIMESTAMP:
        first_local = log.local_start_offset or 0
        answer = _of_max_timestamp([each for each in log.segments if each.base_offset >= first_local])
    elif at >= 0:
        answer = _of_timestamp(log, at)
    else:
        raise ValueError(f"{at} is neither a timestamp nor a special value that a directory can answer")
    return answer if answer.offset < log.last_fetchable_offset else NOTHING


def _of_remote_storage(log: LookupLog, at: int) -> OffsetAnswer:
    if log.tiered_end_offset is None or (at == LATEST_TIERED and log.tiered_end_offset == 0):
        return NOTHING
    offset = log.tiered_end_offset - 1 if at == LATEST_TIERED else max(log.tiered_end_offset, log.log_start_offset)
    return OffsetAnswer(offset, leader_epoch=epoch_for_offset(log.leader_epochs, offset))


def _of_timestamp(log: LookupLog, timestamp: int) -> OffsetAnswer:
    segment = next((segment for segment in log.segments if segment.largest_timestamp >= timestamp), None)
    if segment is None:
        return NOTHING
    for batch in segment.batches():
        if batch.header.max_timestamp >= timestamp:
            for record in batch.records():
                if record.timestamp >= timestamp and record.offset >= log.log_start_offset:
                    return _answer(record, batch)
    return NOTHING


def _of_max_timestamp(segments: Sequence[LookupSegment]) -> OffsetAnswer:
    segment = max(segments, key=lambda segment: segment.max_timestamp, default=None)  # the first of equal ones
    if segment is None or segment.max_timestamp < 0:
        return NOTHING
    greatest = segment.max_timestamp
    for batch in segment.batches():
        if batch.header.max_timestamp == greatest:
            for record in batch.records():
                if record.timestamp == greatest:
                    return _answer(record, batch)
            return NOTHING
    return NOTHING


def _answer(record: Record, batch: LookupBatch) -> OffsetAnswer:
    epoch = batch.header.partition_leader_epoch
    return OffsetAnswer(record.offset, record.timestamp, epoch if epoch >= 0 else None)
