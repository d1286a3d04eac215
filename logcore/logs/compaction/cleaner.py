"""What every way of cleaning a log does, step by step, and the slow and obvious way, which is the specification.

    build_map    the newest offset of every key in the dirty part; its end is where the next round begins
    clean        one group of segments after another becomes one segment each

A way of cleaning is bound to its round when the map is built. Groups come in the order of offsets; those that are left
out (damage) are simply not passed on. All ways give the same bytes.

Source: Kafka Cleaner.{buildOffsetMap, cleanSegments, cleanInto}, MemoryRecords.filterTo.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Protocol

from logcore.logs.compaction.cleaned_transactions import CleanedTransactions, CleanedTransactionState
from logcore.logs.compaction.cleaning_round import CleanedSegment, CleaningRound, SourceSegment
from logcore.logs.compaction.newest_offsets import NewestOffsets
from logcore.logs.compaction.output_indexes import OutputIndexes, check_room
from logcore.logs.compaction.retained_batch import Retention, judge, retained
from logcore.logs.model.partition_directory import ByteSink
from logcore.records.batch import BatchHeader, read_header
from logcore.records.control import ControlType, control_type
from logcore.records.record import DEFAULT_LIMITS, Limits, read_records


class Cleaner(Protocol):
    """A way of cleaning."""

    def build_map(self, segments: Sequence[SourceSegment], round: CleaningRound, /) -> int:
        """Take the dirty part in. segments: all of the round's range that hold offsets at or above its first dirty
        offset, oldest first. Returns the offset behind what was taken in: the next first dirty offset."""
        ...

    def clean(self, group: Sequence[SourceSegment], sink: ByteSink, /) -> CleanedSegment:
        """Write what stays of neighbouring segments to `sink`. Raises Uncleanable, CorruptRecordError."""
        ...


class PlainCleaner:
    """Record by record, with exact keys, all of them in memory.

    transactions: what is known of transactions in front of the first group, if that is not the log's first.
    """

    def __init__(self, transactions: CleanedTransactionState | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        self.transactions = CleanedTransactions(transactions)
        self._limits = limits
        self._round: CleaningRound | None = None
        self._newest = NewestOffsets(None)

    def build_map(self, segments: Sequence[SourceSegment], round: CleaningRound, /) -> int:
        """See `Cleaner`."""
        self._round = round
        self._newest = newest = NewestOffsets(round.max_keys)
        transactions = CleanedTransactions()
        for segment in segments:
            transactions.add(segment.aborted)
            if round.frozen_from is not None:
                transactions.forget_ended(segment.base_offset)
            for position, header in _batches(segment, segment.dirty_position):
                if header.is_control:
                    kind = self._control_type(segment, position, header)
                    transactions.control(header.last_offset, header.producer_id, kind)
                elif not transactions.data(
                    header.last_offset, header.producer_id, is_transactional=header.is_transactional
                ):
                    for record in read_records(segment.content, position, header, self._limits):
                        if record.key is None or record.offset < round.first_dirty_offset:
                            continue
                        if newest.is_full:
                            return newest.latest + 1
                        newest.put(record.key, record.offset)
                if header.last_offset >= round.first_dirty_offset:
                    newest.latest = header.last_offset
            newest.latest = segment.next_base_offset - 1
        return newest.latest + 1

    def clean(self, group: Sequence[SourceSegment], sink: ByteSink, /) -> CleanedSegment:
        """See `Cleaner`. ValueError before a map was built."""
        if self._round is None:
            raise ValueError("the map comes first")
        digest = hashlib.sha256()
        indexes = OutputIndexes(group[0].base_offset, self._round.index_interval_bytes)
        records = removed = rebuilt = 0
        for segment in group:
            self.transactions.add(segment.aborted)
            if self._round.frozen_from is not None:
                self.transactions.forget_ended(segment.base_offset)
            for position, header in _batches(segment, 0):
                kind = self._control_type(segment, position, header) if header.is_control else None
                verdict, aborted = judge(header, kind, self.transactions, self._round)
                if aborted is not None:
                    indexes.abort(aborted)
                if verdict.retention is Retention.DELETE:
                    removed += header.record_count
                    continue
                found = list(read_records(segment.content, position, header, self._limits))
                stays = retained(segment, position, header, found, verdict, self._newest, self._round)
                removed += len(found) - stays.records
                if stays.content:
                    records += stays.records
                    rebuilt += stays.is_rebuilt
                    indexes.take(read_header(stays.content))
                    sink.write(stays.content)
                    digest.update(stays.content)
        cleaned = CleanedSegment(
            base_offset=group[0].base_offset,
            size=indexes.size,
            digest=digest.hexdigest(),
            offset_index=indexes.offset_index(),
            time_index=indexes.time_index(),
            transaction_index=indexes.transaction_index(),
            modified_ms=group[-1].modified_ms,
            batches=indexes.batches,
            records=records,
            removed=removed,
            rebuilt=rebuilt,
            max_timestamp=indexes.max_timestamp,
            last_offset=indexes.last_offset,
        )
        check_room(cleaned, self._round.segment_index_bytes)
        return cleaned

    def _control_type(self, segment: SourceSegment, position: int, header: BatchHeader) -> ControlType | None:
        first = next(iter(read_records(segment.content, position, header, self._limits)), None)
        return None if first is None else control_type(first.key)


def _batches(segment: SourceSegment, position: int) -> Iterator[tuple[int, BatchHeader]]:
    """The batches of a segment from a position on, without the stretches that are damaged. A compressed v0 or v1
    message is told by its last offset, as the cleaner of a broker knows it."""
    content, unreadable = segment.content, dict(segment.unreadable)
    while position < len(content):
        if position in unreadable:
            position = unreadable[position]
            continue
        header = read_header(content, position)
        yield position, header
        position += header.size
