"""The steps of every cleaner, and the slow and obvious cleaner, which is the specification.

    build_map    the latest offset of every key in the dirty part; the next round begins at its end
    clean        one group of segments after another becomes one segment each

A cleaner is bound to its round when it builds the map. Groups come in the order of offsets; groups with damage are left
out. All cleaners give the same bytes.

Source: Kafka Cleaner.{buildOffsetMap, cleanSegments, cleanInto}, MemoryRecords.filterTo.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from logcore.logs.compaction.cleaned_transactions import CleanedTransactions, CleanedTransactionState
from logcore.logs.compaction.cleaning_round import CleanedSegment, CleaningRound, SourceSegment
from logcore.logs.compaction.newest_offsets import NewestOffsets
from logcore.logs.compaction.output_indexes import OutputIndexes, SegmentIndexes, check_room
from logcore.logs.compaction.retained_batch import BatchRetention, retained, retention_verdict
from logcore.logs.model.partition_directory import ByteSink
from logcore.records.batch import BatchHeader, read_header
from logcore.records.control import ControlType, control_type
from logcore.records.record import DEFAULT_LIMITS, Limits, read_records
from logcore.segments.side_files.transaction_index import AbortedTransaction


class Cleaner(Protocol):
    """Cleans segments."""

    def build_map(self, segments: Iterable[SourceSegment], round: CleaningRound, /) -> int:
        """Build the map from the dirty part.

        Args:
            segments: All of the round's range with offsets at or above its first dirty offset, oldest first.
            round: The round.

        Returns:
            The offset after the last record in the map: the next first dirty offset. With a map of a given size
            (`CleaningRound.max_keys`) it may be before the end of the round.
        """
        ...

    def clean(self, group: Sequence[SourceSegment], sink: ByteSink, /) -> CleanedSegment:
        """Write what stays of neighbouring segments to `sink`.

        Raises:
            Uncleanable: A broker would fail too.
            CorruptRecordError: A batch is damaged.
        """
        ...


class SegmentOutput(ABC):
    """One cleaned segment while it is written. `records`, `removed` and `rebuilt` count as in `CleanedSegment`."""

    def __init__(self, sink: ByteSink, indexes: SegmentIndexes) -> None:
        self._sink, self._indexes, self._digest = sink, indexes, hashlib.sha256()
        self.records = self.removed = self.rebuilt = 0

    @abstractmethod
    def take_batch(self, content: bytes) -> None:
        """Write a batch.

        Raises:
            Uncleanable: Its offset is too far from the base.
        """

    def abort(self, transaction: AbortedTransaction) -> None:
        """Add an aborted transaction whose marker stays in the segment."""
        self._indexes.abort(transaction)

    def _write(self, content: bytes | memoryview) -> None:
        self._sink.write(content)
        self._digest.update(content)

    def finished(self, group: Sequence[SourceSegment], round: CleaningRound) -> CleanedSegment:
        """Close the indexes and describe the segment that replaces the group.

        Raises:
            Uncleanable: A broker's indexes have no room for it.
        """
        indexes = self._indexes
        cleaned = CleanedSegment(
            base_offset=group[0].base_offset,
            size=indexes.size,
            digest=self._digest.hexdigest(),
            offset_index=indexes.offset_index(),
            time_index=indexes.time_index(),
            transaction_index=indexes.transaction_index(),
            modified_ms=group[-1].modified_ms,
            batches=indexes.batches,
            records=self.records,
            removed=self.removed,
            rebuilt=self.rebuilt,
            max_timestamp=indexes.max_timestamp,
            last_offset=indexes.last_offset,
        )
        check_room(cleaned, round.segment_index_bytes)
        return cleaned


Output = TypeVar("Output", bound=SegmentOutput)


class SegmentCleaner(ABC, Generic[Output]):
    """The steps that all cleaners share, and what they do with a single batch.

    Args:
        transactions: The transactions before the first group, if that is not the log's first.
        limits: The most that is kept in memory.
        newest: An empty map.
    """

    def __init__(self, transactions: CleanedTransactionState | None, limits: Limits, newest: NewestOffsets) -> None:
        self.transactions = CleanedTransactions(transactions)
        self._limits = limits
        self._round: CleaningRound | None = None
        self._newest = newest

    @abstractmethod
    def _put_segment(self, segment: SourceSegment, transactions: CleanedTransactions, round: CleaningRound) -> bool:
        """Add a segment to the map. Returns whether the map refused a record."""

    @abstractmethod
    def _output(self, sink: ByteSink, base_offset: int, round: CleaningRound) -> Output:
        """The output for a segment at a base offset."""

    @abstractmethod
    def _clean_segment(self, segment: SourceSegment, output: Output, round: CleaningRound) -> None:
        """Write what stays of a segment."""

    def _fill_map(self, segments: Iterable[SourceSegment], round: CleaningRound) -> int:
        """Add segments to the empty map. Returns the offset after the last record in it."""
        transactions = CleanedTransactions()
        for segment in segments:
            _enter(segment, transactions, round)
            if self._put_segment(segment, transactions, round):
                break
            self._newest.latest = segment.next_base_offset - 1
        return max(self._newest.latest + 1, round.first_dirty_offset)

    def clean(self, group: Sequence[SourceSegment], sink: ByteSink, /) -> CleanedSegment:
        """See `Cleaner`.

        Raises:
            ValueError: No map was built.
        """
        round = self._round
        if round is None:
            raise ValueError("build the map first")
        output = self._output(sink, group[0].base_offset, round)
        for segment in group:
            _enter(segment, self.transactions, round)
            self._clean_segment(segment, output, round)
        return output.finished(group, round)

    def _put_batch(
        self,
        segment: SourceSegment,
        position: int,
        header: BatchHeader,
        transactions: CleanedTransactions,
        round: CleaningRound,
    ) -> bool:
        """Add a batch to the map. Returns whether the map refused a record."""
        newest = self._newest
        if header.is_control:
            kind = self._control_type(segment, position, header)
            transactions.control(header.last_offset, header.producer_id, kind)
        elif not transactions.data(header.last_offset, header.producer_id, is_transactional=header.is_transactional):
            for record in read_records(segment.content, position, header, self._limits):
                if record.key is None or record.offset < round.first_dirty_offset:
                    continue
                if newest.is_full:
                    return True
                newest.put(record.key, record.offset)
        if header.last_offset >= round.first_dirty_offset:
            newest.latest = header.last_offset
        return False

    def _clean_batch(
        self, segment: SourceSegment, position: int, header: BatchHeader, output: Output, round: CleaningRound
    ) -> None:
        """Write what stays of a batch."""
        kind = self._control_type(segment, position, header) if header.is_control else None
        verdict, aborted = retention_verdict(header, kind, self.transactions, round)
        if aborted is not None:
            output.abort(aborted)
        if verdict.retention is BatchRetention.DELETE:
            output.removed += header.record_count
            return
        found = list(read_records(segment.content, position, header, self._limits))
        stays = retained(segment, position, header, found, verdict, self._newest, round)
        output.removed += len(found) - stays.records
        if stays.content:
            output.records += stays.records
            output.rebuilt += stays.is_rebuilt
            output.take_batch(stays.content)

    def _control_type(self, segment: SourceSegment, position: int, header: BatchHeader) -> ControlType | None:
        first = next(iter(read_records(segment.content, position, header, self._limits)), None)
        return None if first is None else control_type(first.key)


class PlainCleaner(SegmentCleaner["_PlainOutput"]):
    """Cleans record by record, with exact keys, all of them in memory.

    Args:
        transactions: The transactions before the first group, if that is not the log's first.
        limits: The most that is kept in memory.
    """

    def __init__(self, transactions: CleanedTransactionState | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(transactions, limits, NewestOffsets(None))

    def build_map(self, segments: Iterable[SourceSegment], round: CleaningRound, /) -> int:
        """See `Cleaner`."""
        self._round = round
        self._newest = NewestOffsets(round.max_keys)
        return self._fill_map(segments, round)

    def _put_segment(self, segment: SourceSegment, transactions: CleanedTransactions, round: CleaningRound) -> bool:
        return any(
            self._put_batch(segment, position, header, transactions, round)
            for position, header in _batches(segment, segment.dirty_position)
        )

    def _output(self, sink: ByteSink, base_offset: int, round: CleaningRound) -> _PlainOutput:
        return _PlainOutput(sink, OutputIndexes(base_offset, round.index_interval_bytes))

    def _clean_segment(self, segment: SourceSegment, output: _PlainOutput, round: CleaningRound) -> None:
        for position, header in _batches(segment, 0):
            self._clean_batch(segment, position, header, output, round)


class _PlainOutput(SegmentOutput):
    def __init__(self, sink: ByteSink, indexes: OutputIndexes) -> None:
        super().__init__(sink, indexes)
        self._of_batches = indexes

    def take_batch(self, content: bytes) -> None:
        self._of_batches.take(read_header(content))
        self._write(content)


def _enter(segment: SourceSegment, transactions: CleanedTransactions, round: CleaningRound) -> None:
    """Update the transactions at the beginning of a segment."""
    transactions.add(segment.aborted)
    if round.frozen_from is not None:
        transactions.forget_ended(segment.base_offset)


def _batches(segment: SourceSegment, position: int) -> Iterator[tuple[int, BatchHeader]]:
    """The batches of a segment from a position on, without damaged stretches. A compressed v0 or v1 message has its
    last offset only, as in a broker's cleaner.
    """
    content, unreadable = segment.content, dict(segment.unreadable)
    while position < len(content):
        if position in unreadable:
            position = unreadable[position]
            continue
        header = read_header(content, position)
        yield position, header
        position += header.size
