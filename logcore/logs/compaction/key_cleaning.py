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
from itertools import zip_longest

from logcore.logs.compaction.selection import Refusal, RefusalReason
from logcore.records.batch import MAGIC_V2, BatchHeader, TimestampType
from logcore.records.builder import build_batch
from logcore.records.record import DEFAULT_LIMITS, Limits, Record, read_records
from logcore.records.varint import Buffer
from logcore.segments.scan import ScannedBatch, Stretch, scan


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
