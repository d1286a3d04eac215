"""Compaction: what cleaning a log by key would remove, the cleaning of one segment, and the proof that it was right.

A record of key K at offset O is obsolete if K occurs again at a higher published offset. Everything else stays, at its
offset, tombstones (null values) too: nothing here drops the last word on a key.

    choose   `cleanable_range`: which segments may be cleaned, how much of the log is dirty
    refuse   `why_not_now`, and each step below for what it meets: transactions, markers, damage, records without a key
    map      `newest_offset_by_key`
    clean    `clean_segment`: one segment's bytes to their cleaned form
    prove    `difference`: the cleaned bytes, decoded again, against what had to survive

    batch of which…     becomes
    all records stay    the same bytes
    some stay           rebuilt: base offset, last offset, codec, timestamp type, producer, base sequence, leader epoch
                        and delete horizon kept; max timestamp that of what stays (LogAppendTime: kept)
    none stays          nothing; as the last batch of the cleaned range the 61 bytes of an empty batch, so that the
                        next offset can still be told

Unlike Kafka's cleaner this one checks every crc first, because cleaning puts a fresh crc on whatever it rewrites; keeps
tombstones and stamps no delete horizon; keeps no empty batch for a producer's last sequence; keeps record header names
as they are, also where they are not UTF-8; and refuses what it cannot do yet instead of dropping records without a key.

Source: Kafka Cleaner, LogToClean, LogCleanerManager, MemoryRecords.filterTo.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

from logcore.logs.retention import SegmentFacts, check_order
from logcore.records.batch import MAGIC_V2, BatchHeader, TimestampType
from logcore.records.builder import build_batch
from logcore.records.record import DEFAULT_LIMITS, Limits, Record, read_records
from logcore.records.varint import Buffer
from logcore.segments.scan import ScannedBatch, Stretch, scan


class RefusalReason(StrEnum):
    """Why a log, or a segment, is not cleaned."""

    TRANSACTIONAL = "transactional"
    CONTROL = "control-batches"
    UNSUPPORTED_FORMAT = "unsupported-format"
    CORRUPT = "corrupt"
    NO_KEY = "records-without-key"
    NOT_REBUILDABLE = "not-rebuildable"
    NOTHING_CLEANABLE = "nothing-cleanable"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason, and one sentence for a person."""

    reason: RefusalReason
    message: str


@dataclass(frozen=True, slots=True)
class CleanableRange:
    """Where cleaning would work. segments: all below `end_offset`, from the oldest: those to rewrite.

    first_dirty, end_offset: what was not cleaned before lies in [first_dirty, end_offset).
    clean_bytes and cleanable_bytes: a segment that holds first_dirty in its middle counts in both, as in Kafka.
    """

    segments: tuple[SegmentFacts, ...]
    first_dirty: int
    end_offset: int
    clean_bytes: int
    cleanable_bytes: int

    @property
    def dirty_ratio(self) -> float:
        """Cleanable share of the bytes looked at; 0 for an empty log."""
        return dirty_ratio(self.clean_bytes, self.cleanable_bytes)


def dirty_ratio(clean_bytes: int, cleanable_bytes: int) -> float:
    """cleanable / (clean + cleanable), 0 for nothing (LogToClean)."""
    total = clean_bytes + cleanable_bytes
    return cleanable_bytes / total if total else 0.0


def cleanable_range(
    segments: Sequence[SegmentFacts],
    *,
    first_dirty: int | None,
    limit_offset: int,
    log_start_offset: int,
    log_end_offset: int,
    as_of_ms: int,
    min_compaction_lag_ms: int = 0,
) -> CleanableRange:
    """Kafka's choice of what may be cleaned (LogCleanerManager.cleanableOffsets), below `limit_offset`.

    segments: all live ones; the last counts as the active one and is never cleaned. first_dirty: where the last
    cleaning ended, None if there was none; one outside the log counts as none. limit_offset: nothing at or above it is
    touched (the frontier).

    Raises ValueError for segments whose base offsets do not rise.
    """
    check_order(segments)
    if first_dirty is None or not log_start_offset <= first_dirty <= log_end_offset:
        first_dirty = log_start_offset
    if not segments:
        return CleanableRange((), first_dirty, first_dirty, 0, 0)
    limit = min(limit_offset, segments[-1].base_offset)
    if min_compaction_lag_ms > 0:
        young = as_of_ms - min_compaction_lag_ms
        dirty = segments[_holding(segments, first_dirty) : -1]
        limit = min([limit, *(s.base_offset for s in dirty if s.largest_timestamp > young)])
    # Rounded down to the base of the segment that holds it: that segment as a whole stays.
    holding = _holding(segments, max(first_dirty, limit))
    end_offset = segments[holding].base_offset
    start = _holding(segments, min(first_dirty, end_offset))
    return CleanableRange(
        segments=tuple(segments[:holding]),
        first_dirty=first_dirty,
        end_offset=end_offset,
        clean_bytes=sum(s.size for s in segments if s.base_offset < first_dirty),
        cleanable_bytes=sum(s.size for s in segments[start:holding]),
    )


def _holding(segments: Sequence[SegmentFacts], offset: int) -> int:
    """Index of the segment whose offsets hold this one; the first where it lies before all."""
    return max(sum(segment.base_offset <= offset for segment in segments) - 1, 0)


def why_not_now(chosen: CleanableRange, *, min_cleanable_dirty_ratio: float) -> Refusal | None:
    """A refusal if there is nothing to clean, or too little by `min.cleanable.dirty.ratio`."""
    if not chosen.cleanable_bytes:
        return Refusal(RefusalReason.NOTHING_CLEANABLE, f"no whole segment at or above offset {chosen.first_dirty}")
    if chosen.dirty_ratio > min_cleanable_dirty_ratio:
        return None
    ratio = f"{chosen.dirty_ratio:.3f} of its bytes are dirty, min.cleanable.dirty.ratio is {min_cleanable_dirty_ratio}"
    return Refusal(RefusalReason.NOTHING_CLEANABLE, ratio)


def _refuse_batch(transactional: bool, offset: int) -> Refusal:
    if transactional:
        return Refusal(RefusalReason.TRANSACTIONAL, f"a transactional batch at offset {offset}")
    return Refusal(RefusalReason.CONTROL, f"a control batch at offset {offset}")


class _RefusedError(Exception):
    """Carries a refusal out of a walk."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class NewestOffsets:
    """The map of cleaning. by_key: of each key the highest offset below `end_offset`. records: how many were looked
    at."""

    by_key: Mapping[bytes, int]
    end_offset: int
    records: int

    def keeps(self, record: Record) -> bool:
        """Whether a record survives: it lies above the map, or nothing newer of its key lies in it."""
        if record.offset >= self.end_offset:
            return True
        return record.key is not None and self.by_key.get(record.key, -1) <= record.offset


def newest_offset_by_key(
    segments: Iterable[tuple[Buffer, int]], *, end_offset: int, limits: Limits = DEFAULT_LIMITS
) -> NewestOffsets | Refusal:
    """The newest offset of every key below `end_offset`.

    segments: (bytes, base offset) of all that hold offsets below `end_offset`, oldest first; also those that are not to
    be cleaned, because what they hold makes older records obsolete. Holds every key in memory.

    Refuses transactions, control batches, damage, formats v0 and v1, and records without a key, of which it tells
    how many there are: a broker drops them when it cleans.
    """
    newest: dict[bytes, int] = {}
    records = without_key = 0
    try:
        for buf, base_offset in segments:
            for _, record in _records(buf, base_offset, end_offset, limits):
                records += 1
                if record.key is None:
                    without_key += 1
                else:
                    newest[record.key] = record.offset
    except _RefusedError as refused:
        return refused.refusal
    if without_key:
        return Refusal(RefusalReason.NO_KEY, f"{without_key} of {records} records have no key and would be lost")
    return NewestOffsets(newest, end_offset, records)


@dataclass(frozen=True, slots=True)
class CleanedSegment:
    """A segment after cleaning; `data` may be empty. removed: records that went. rewritten: batches that were rebuilt
    or emptied. max_timestamp: greatest of a batch in `data`, None if none has one."""

    data: bytes
    records: int
    removed: int
    rewritten: int
    max_timestamp: int | None


def clean_segment(
    buf: Buffer,
    newest: NewestOffsets,
    *,
    base_offset: int,
    last_of_range: bool,
    limits: Limits = DEFAULT_LIMITS,
) -> CleanedSegment | Refusal:
    """One segment's bytes without the records that a newer one of their key makes obsolete.

    last_of_range: of the segments cleaned in this round it is the last one that is not empty, so its last batch stays,
    without records if need be.
    Refuses what `newest_offset_by_key` refuses, and a batch whose remaining records no encoder may write (a negative
    timestamp).
    """
    parts: list[bytes] = []
    kept = removed = rewritten = 0
    max_timestamp = -1
    try:
        for batch in _trusted(buf, base_offset, None, limits):
            header = batch.header
            records = list(read_records(buf, batch.position, header, limits))
            if any(record.key is None for record in records):
                at = f"the batch at offset {header.base_offset} has records without a key"
                return Refusal(RefusalReason.NO_KEY, at)
            stay = [record for record in records if newest.keeps(record)]
            last = last_of_range and batch.end == len(buf)
            if len(stay) == len(records) and (stay or last):
                part = bytes(buf[batch.position : batch.end])
            elif stay or last:
                part = _rebuilt(header, stay)
                rewritten += 1
            else:
                part = b""
                rewritten += 1
            if part:
                parts.append(part)
                stated = _max_timestamp(header, stay, unchanged=len(stay) == len(records))
                max_timestamp = max(max_timestamp, stated)
            kept += len(stay)
            removed += len(records) - len(stay)
    except _RefusedError as refused:
        return refused.refusal
    return CleanedSegment(b"".join(parts), kept, removed, rewritten, max_timestamp if max_timestamp >= 0 else None)


def _max_timestamp(header: BatchHeader, stay: Sequence[Record], *, unchanged: bool) -> int:
    if unchanged or not stay or header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return header.max_timestamp
    return max(record.timestamp for record in stay)


def _rebuilt(header: BatchHeader, stay: Sequence[Record]) -> bytes:
    keeps_max = not stay or header.timestamp_type is TimestampType.LOG_APPEND_TIME
    try:
        return build_batch(
            stay,
            base_offset=header.base_offset,
            codec=header.codec,
            timestamp_type=header.timestamp_type,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            leader_epoch=header.partition_leader_epoch,
            delete_horizon_ms=header.delete_horizon_ms,
            last_offset_delta=header.last_offset_delta,
            max_timestamp=header.max_timestamp if keeps_max else None,
        )
    except ValueError as error:
        message = f"the batch at offset {header.base_offset} cannot be written again: {error}"
        raise _RefusedError(Refusal(RefusalReason.NOT_REBUILDABLE, message)) from error


def _trusted(buf: Buffer, base_offset: int, end_offset: int | None, limits: Limits) -> Iterator[ScannedBatch]:
    """The batches of a segment that begin below `end_offset`, every one checked; refuses anything else."""
    walk = scan(buf, base_offset=base_offset, sealed=True, limits=limits)
    for item in walk:
        if isinstance(item, Stretch):
            message = f"bytes at offset {item.offset} cannot be trusted ({item.reason})"
            raise _RefusedError(Refusal(RefusalReason.CORRUPT, message))
        if item.header.magic != MAGIC_V2:
            message = f"a batch of format v{item.header.magic} at offset {item.header.base_offset}"
            raise _RefusedError(Refusal(RefusalReason.UNSUPPORTED_FORMAT, message))
        if item.header.is_transactional or item.header.is_control:
            raise _RefusedError(_refuse_batch(item.header.is_transactional, item.header.base_offset))
        if end_offset is not None and item.header.base_offset >= end_offset:
            return
        yield item
    if walk.accounting.padding:
        message = f"the segment ends in {walk.accounting.padding} zero bytes"
        raise _RefusedError(Refusal(RefusalReason.CORRUPT, message))


def _records(
    buf: Buffer, base_offset: int, end_offset: int | None, limits: Limits
) -> Iterator[tuple[BatchHeader, Record]]:
    for batch in _trusted(buf, base_offset, end_offset, limits):
        for record in read_records(buf, batch.position, batch.header, limits):
            if end_offset is None or record.offset < end_offset:
                yield batch.header, record


def difference(
    segments: Iterable[tuple[Buffer, Buffer, int]], newest: NewestOffsets, *, limits: Limits = DEFAULT_LIMITS
) -> str | None:
    """What is wrong with cleaned segments, or None: the proof before a swap.

    segments: (bytes before, bytes after, base offset) of all that were cleaned, oldest first. Both are decoded in full,
    crc first. Wrong is: a record that had to survive and did not, or the reverse; a change of anything a record or its
    batch says, but for how it is stored; a map by which no record of a key would be left; a next offset that cannot be
    told any more. What the map says of offsets behind these segments is taken as it is.
    """
    last_seen: dict[bytes, int] = {}
    end_before = end_after = 0
    try:
        for before, after, base_offset in segments:
            expected = _survivors(before, base_offset, newest, last_seen, limits)
            found = ((_identity(header), record) for header, record in _records(after, base_offset, None, limits))
            for want, have in zip_longest(expected, found):
                wrong = _record_difference(want, have)
                if wrong is not None:
                    return wrong
            end_before = max(end_before, _next_offset(before, base_offset))
            end_after = max(end_after, _next_offset(after, base_offset))
    except _RefusedError as refused:
        return refused.refusal.message
    if end_after != end_before:
        return f"the cleaned segments ended at offset {end_before} and now end at {end_after}"
    for key, offset in last_seen.items():
        stated = newest.by_key.get(key, -1)
        if offset < stated < end_before:
            return f"offset {offset} was taken for obsolete because of offset {stated}, which has another key"
    return None


_Identity = tuple[int, int, int, int, int, int, int, int]


def _identity(header: BatchHeader) -> _Identity:
    """What cleaning never changes of a batch."""
    return (
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.codec,
        header.timestamp_type,
    )


def _survivors(
    buf: Buffer, base_offset: int, newest: NewestOffsets, last_seen: dict[bytes, int], limits: Limits
) -> Iterator[tuple[_Identity, Record]]:
    for header, record in _records(buf, base_offset, None, limits):
        if record.key is not None:
            last_seen[record.key] = record.offset
        if newest.keeps(record):
            yield _identity(header), record


def _record_difference(want: tuple[_Identity, Record] | None, have: tuple[_Identity, Record] | None) -> str | None:
    if want == have:
        return None
    if have is None or (want is not None and want[1].offset < have[1].offset):
        return f"the record at offset {want[1].offset} is gone" if want is not None else None
    if want is None or have[1].offset < want[1].offset:
        return f"a record at offset {have[1].offset} that should not be there"
    what = "batch" if want[1] == have[1] else "record"
    return f"the {what} of offset {want[1].offset} is not what it was"


def _next_offset(buf: Buffer, base_offset: int) -> int:
    """Offset behind the last batch, 0 where there is none. The batches were checked before."""
    walk = scan(buf, base_offset=base_offset, sealed=True, decode=False)
    for _ in walk:
        pass
    return 0 if walk.last_batch is None else walk.next_offset
