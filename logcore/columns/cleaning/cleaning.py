"""The compiled cleaner: writes the same bytes as `PlainCleaner`, with one call for a table of batches.

    map     read, decompress and hash a table of batches (`keyed_batches`), put its rows into an `OffsetMap`
    clean   the same, then: decide about each batch (arrays; one by one only transactions and markers), select the
            records that stay (a kernel), copy or rewrite the batches (`cleaned_batches`)
    bits    between the two, if the whole map was made from plain batches in rising order: a bit for each offset that
            is the newest of its key (`newest_bits`). Then no key is hashed or looked up again, except in transactions

The plain code handles everything unusual (`keyed_batches.SingleBatch`), one batch at a time. The two cleaners differ in
only one point: this one distinguishes keys by 128 bits of a keyed hash.

Memory: the map (`offset_map`), the bits (16 MiB, or a sixteenth of the map), the buffers of a table (`keyed_batches`,
at most some 20 MiB), and twice a table's records for rewritten batches. Except for the map and its bits, memory does
not grow with the log, only with the largest batch.

A task that cleans only a part of a log gets the decisions about the rest (`CompiledCleaner.resumed`): a bit for each
offset of the part, the offset after the map, and the state of transactions before the part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from logcore.columns.checking.bulk_rules import batch_of
from logcore.columns.cleaning.cleaned_batches import BatchWriter, Flags
from logcore.columns.cleaning.keyed_batches import KeyedBatches, KeyedChunk, SingleBatch, hashes_of
from logcore.columns.cleaning.newest_bits import NewestBits
from logcore.columns.cleaning.offset_map import HashKey, OffsetMap, Offsets
from logcore.columns.kernels import batch_row
from logcore.columns.kernels.call_frames import address_of
from logcore.columns.kernels.cleaning.cleaning_frames import (
    ALL_GO,
    ALL_STAY,
    BY_KEY,
    LEFT_OUT,
    IndexFrame,
    SurvivorsFrame,
)
from logcore.columns.kernels.library import library
from logcore.logs.compaction.cleaned_transactions import CleanedTransactions, CleanedTransactionState
from logcore.logs.compaction.cleaner import SegmentCleaner, SegmentOutput
from logcore.logs.compaction.cleaning_round import CleaningRound, SourceSegment
from logcore.logs.compaction.newest_offsets import NewestOffsets
from logcore.logs.compaction.output_indexes import SegmentIndexes
from logcore.logs.compaction.retained_batch import BatchRetention, RetentionVerdict, retained, retention_verdict
from logcore.logs.model.partition_directory import ByteSink
from logcore.records.batch import CONTROL_BIT, DELETE_HORIZON_BIT, TRANSACTIONAL_BIT, BatchHeader, read_header
from logcore.records.control import ControlType
from logcore.records.record import DEFAULT_LIMITS, Limits, read_records
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET
from logcore.segments.side_files import offset_index, time_index
from logcore.segments.side_files.time_index import NO_TIMESTAMP


class CleanedIndexes(SegmentIndexes):
    """The indexes of a segment that gets many batches at a time."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        super().__init__(base_offset)
        self._library = library()
        self._frame = frame = IndexFrame()
        frame.interval, frame.base = interval_bytes, base_offset
        frame.stamp = frame.last_stamp = NO_TIMESTAMP
        frame.stamp_offset = base_offset
        self._offsets, self._times = bytearray(), bytearray()

    @property
    def max_timestamp(self) -> int | None:
        """The greatest timestamp of the appended batches; None without one."""
        greatest = self._frame.stamp
        return None if greatest == NO_TIMESTAMP else greatest

    def take(self, batches: Offsets, base_offsets: Offsets) -> None:
        """Add the next batches.

        Args:
            batches: Columns position (filled in here), size, last offset, max timestamp.
            base_offsets: Base offsets of the batches.

        Raises:
            Uncleanable: The indexes cannot represent an offset.
            ValueError: The segment is too large for them.
        """
        if not len(batches):
            return
        relative = batches[:, 2] - self._base_offset
        beyond = np.flatnonzero((relative < 0) | (relative > MAX_RELATIVE_OFFSET))
        if len(beyond):
            self._refuse(int(base_offsets[beyond[0]]), int(batches[beyond[0], 2]))
        ends = self.size + np.cumsum(batches[:, 1])
        batches[:, 0] = ends - batches[:, 1]
        if int(batches[-1, 0]) > MAX_RELATIVE_OFFSET:
            raise ValueError(f"a segment of {int(ends[-1])} bytes is too large for an offset index")
        count, frame = len(batches), self._frame
        offsets = np.empty(count * offset_index.ENTRY_SIZE, np.uint8)
        times = np.empty(count * time_index.ENTRY_SIZE, np.uint8)
        frame.positions, frame.count = address_of(batches), count
        frame.offsets, frame.offset_count = address_of(offsets), 0
        frame.times, frame.time_count = address_of(times), 0
        self._library.call("index", frame)
        self._offsets += offsets[: frame.offset_count * offset_index.ENTRY_SIZE].tobytes()
        self._times += times[: frame.time_count * time_index.ENTRY_SIZE].tobytes()
        self.size = int(ends[-1])
        self.batches += count
        self.last_offset = int(batches[-1, 2])

    def offset_index(self) -> bytes:
        """The content of the offset index."""
        return bytes(self._offsets)

    def time_index(self) -> bytes:
        """The content of the time index, with its closing entry."""
        frame = self._frame
        greatest, last = frame.stamp, frame.last_stamp
        if greatest <= last:
            return bytes(self._times)
        closing = time_index.TimeEntry(greatest, frame.stamp_offset)
        return bytes(self._times) + time_index.encode([closing], self._base_offset)


class HashedNewest(NewestOffsets):
    """`NewestOffsets` with an `OffsetMap`; `hash_key` is the key of its hashes."""

    __slots__ = ("_hash_key", "map")

    def __init__(self, capacity: int | None, hash_key: HashKey) -> None:
        super().__init__(capacity)
        self._hash_key = hash_key
        self.map = OffsetMap(capacity)

    def __len__(self) -> int:
        return len(self.map)

    @property
    def is_full(self) -> bool:
        """Whether the map has no room for another key."""
        return self._capacity is not None and len(self.map) >= self._capacity

    def put(self, key: bytes, offset: int) -> None:
        """Record an offset of a key."""
        high, low = hashes_of([key], self._hash_key)
        self.map.put(high, low, np.array([offset], np.int64))
        self.latest = offset

    def newest(self, key: bytes) -> int:
        """The newest offset of a key; -1 if the map has none."""
        high, low = hashes_of([key], self._hash_key)
        return int(self.map.find(high, low)[0])

    def put_chunk(self, chunk: KeyedChunk, since: int) -> int:
        """Put the rows of a chunk from offset `since` on that are not left out. It does not change `latest`.

        Returns:
            The number of rows that were read: all, or those before the one that a full map refused.
        """
        return self.map.put(chunk.high, chunk.low, chunk.offsets, chunk.flags, since)

    def find_chunk(self, chunk: KeyedChunk) -> None:
        """Find the newest offset of the key of every row, and store it in the chunk's own array."""
        self.map.find(chunk.high, chunk.low, chunk.flags, chunk.newest)


class BitsOfNewest(HashedNewest):
    """`HashedNewest` of which only a bit for each offset is known: whether the record is not replaced by a later one of
    its key.
    """

    __slots__ = ("_bits",)

    def __init__(self, bits: NewestBits, hash_key: HashKey) -> None:
        super().__init__(None, hash_key)
        self._bits = bits

    def is_replaced(self, key: bytes, offset: int) -> bool:
        """Whether there is a later record of the key of the record at an offset."""
        return not self._bits.has(np.array([offset], np.int64))[0]

    def find_chunk(self, chunk: KeyedChunk) -> None:
        """Store an offset for every row that is greater than its own where a later record replaces it."""
        np.add(chunk.offsets, ~self._bits.has(chunk.offsets), out=chunk.newest)


_NEVER_FROZEN = (1 << 63) - 1


class CompiledCleaner(SegmentCleaner["_Output"]):
    """Implements `logcore.logs.compaction.cleaner.Cleaner`; for one thread.

    Args:
        transactions: State of the transactions before the first group, unless it is the log's first.
        limits: Limits on decompression.
        hash_key: Random if None.

    Raises:
        KernelsUnavailable: The kernels do not work here.
    """

    _newest: HashedNewest

    def __init__(
        self,
        transactions: CleanedTransactionState | None = None,
        limits: Limits = DEFAULT_LIMITS,
        *,
        hash_key: HashKey | None = None,
    ) -> None:
        self._hash_key = HashKey.random() if hash_key is None else hash_key
        super().__init__(transactions, limits, HashedNewest(None, self._hash_key))
        self._batches = KeyedBatches(self._hash_key, limits)
        self._producers = _LastOfProducers({})
        self._bits: NewestBits | None = None
        self._mapped: set[int] = set()
        self._is_plain, self._last_mapped = False, -1
        """Whether all records in the map came in chunks with rising offsets and no offset is protected from cleaning,
        and the last of these offsets.
        """
        self._has_all_bits = False
        self._survivors = SurvivorsFrame()
        self._writer = BatchWriter()

    @classmethod
    def resumed(
        cls,
        round: CleaningRound,
        bits: NewestBits,
        end_offset: int,
        transactions: CleanedTransactionState | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> CompiledCleaner:
        """Return a cleaner for a part of the log.

        Args:
            round: The round of cleaning.
            bits: A bit for each offset of the groups to clean: whether no later record of the map replaces the record.
            end_offset: The result of `build_map`.
            transactions: State of the transactions before the first group.
            limits: Limits on decompression.
        """
        cleaner = cls(transactions, limits)
        cleaner._begin(round, BitsOfNewest(bits, cleaner._hash_key))
        cleaner._newest.latest = end_offset - 1
        cleaner._bits, cleaner._has_all_bits = bits, True
        return cleaner

    def _begin(self, round: CleaningRound, newest: HashedNewest) -> None:
        self._round = round
        self._newest = newest
        self._producers = _LastOfProducers(round.producers)
        self._bits, self._has_all_bits = None, False
        self._mapped = set()
        self._is_plain, self._last_mapped = round.frozen_from is None, -1

    def build_map(self, segments: Iterable[SourceSegment], round: CleaningRound, /) -> int:
        """See `Cleaner`."""
        self._begin(round, HashedNewest(round.max_keys, self._hash_key))
        end_offset = self._fill_map(segments, round)
        if self._is_plain:
            self._bits = NewestBits.of(self._newest.map, round.first_dirty_offset, end_offset)
        return end_offset

    def _put_segment(self, segment: SourceSegment, transactions: CleanedTransactions, round: CleaningRound) -> bool:
        for batches in self._batches.of(segment, segment.dirty_position):
            if isinstance(batches, SingleBatch):
                is_full = self._put_batch(segment, batches.position, batches.header, transactions, round)
                self._is_plain = False
            else:
                is_full = put_chunk(batches, transactions, self._newest, round)
                self._is_plain = self._is_plain and int(batches.table[0, batch_row.BASE_OFFSET]) > self._last_mapped
                self._last_mapped = int(batches.table[-1, batch_row.LAST_OFFSET])
            if is_full:
                return True
        # Not if the map was full: the rest may contain the same offsets again.
        self._mapped.add(segment.base_offset)
        return False

    def _output(self, sink: ByteSink, base_offset: int, round: CleaningRound) -> _Output:
        return _Output(sink, CleanedIndexes(base_offset, round.index_interval_bytes))

    def _clean_segment(self, segment: SourceSegment, output: _Output, round: CleaningRound) -> None:
        # After damage a record without a key stays too, and has no bit.
        has_bits = round.frozen_from is None if self._has_all_bits else segment.base_offset in self._mapped
        for batches in self._batches.of(segment, bits=self._bits if has_bits else None):
            if isinstance(batches, SingleBatch):
                self._clean_batch(segment, batches.position, batches.header, output, round)
            else:
                self._clean_chunk(segment, batches, round, output)

    def _clean_chunk(self, segment: SourceSegment, chunk: KeyedChunk, round: CleaningRound, output: _Output) -> None:
        table = chunk.table
        fate = _Fate.of(table, round, self._producers)
        for batch in _of_transactions(table):
            header, kind = _header_of(table, batch)
            verdict, aborted = retention_verdict(header, kind, self.transactions, round)
            fate.record(batch, header, verdict)
            if aborted is not None:
                output.abort(aborted)
        # The tracker needs only the last offset of non-transactional data.
        self.transactions.data(int(table[-1, batch_row.LAST_OFFSET]), -1, is_transactional=False)
        if not chunk.is_newest:
            self._newest.find_chunk(chunk)
        kept = self._kept(chunk, fate, round)
        some = kept[:, 0] > 0
        # Batches that need a delete horizon and do not have one.
        stamped = some & ~fate.has_horizon & ((kept[:, 1] > 0) | fate.without_data)
        copied = some & (kept[:, 0] == table[:, batch_row.RECORD_COUNT]) & ~stamped
        chosen = np.flatnonzero((some | fate.keeps_empty) & ~copied)
        horizons = np.where(fate.has_horizon, table[:, batch_row.BASE_TIMESTAMP], batch_row.NONE)
        horizons[stamped] = round.as_of_ms + round.delete_retention_ms

        def rebuild(batch: int) -> bytes:
            header, _ = _header_of(table, batch)
            position = int(table[batch, batch_row.POSITION])
            found = list(read_records(segment.content, position, header, self._limits))
            retention = BatchRetention.RETAIN_EMPTY if fate.keeps_empty[batch] else BatchRetention.DELETE_EMPTY
            verdict = RetentionVerdict(retention, int(fate.modes[batch]) == ALL_GO, bool(fate.without_data[batch]))
            return retained(segment, position, header, found, verdict, self._newest, round).content

        odd = fate.is_odd[chosen] | ((horizons[chosen] < 0) & (horizons[chosen] != batch_row.NONE))
        written = self._writer.write(segment.content, chunk, kept, copied, chosen, horizons[chosen], odd, rebuild)
        output.records += int(kept[:, 0].sum())
        output.removed += int((table[:, batch_row.RECORD_COUNT] - kept[:, 0]).sum())
        output.rebuilt += len(chosen)
        goes_on = copied.copy()
        goes_on[chosen] = True
        output.take(written.pieces, written.batches, table[goes_on, batch_row.BASE_OFFSET])

    def _kept(self, chunk: KeyedChunk, fate: _Fate, round: CleaningRound) -> Offsets:
        """Count for each batch the records that stay, and those of them without a value; mark their rows."""
        frame, kept = self._survivors, np.empty((len(chunk), 2), np.int64)
        frame.offsets, frame.flags = address_of(chunk.offsets), address_of(chunk.flags)
        frame.newest, frame.first_rows = address_of(chunk.newest), address_of(chunk.first_rows)
        frame.modes, frame.needs = address_of(fate.modes), address_of(fate.needs)
        frame.kept = address_of(kept)
        frame.latest = self._newest.latest
        frame.frozen = _NEVER_FROZEN if round.frozen_from is None else round.frozen_from
        frame.end = len(chunk)
        library().call("survivors", frame)
        return kept


class _Output(SegmentOutput):
    def __init__(self, sink: ByteSink, indexes: CleanedIndexes) -> None:
        super().__init__(sink, indexes)
        self._of_batches = indexes

    def take(self, pieces: Sequence[memoryview], batches: Offsets, base_offsets: Offsets) -> None:
        """Write the bytes of many batches; `batches` and `base_offsets` as in `CleanedIndexes.take`."""
        self._of_batches.take(batches, base_offsets)
        for piece in pieces:
            self._write(piece)

    def take_batch(self, content: bytes) -> None:
        header = read_header(content)
        row = [0, header.size, header.last_offset, header.max_timestamp]
        self.take([memoryview(content)], np.array([row], np.int64), np.array([header.base_offset]))


class _LastOfProducers:
    """For each producer that a broker still knows, where its last data ends, as arrays."""

    def __init__(self, producers: Any) -> None:
        known = sorted(
            (pid, each.last_data_offset) for pid, each in producers.items() if each.last_data_offset is not None
        )
        self._ids = np.array([pid for pid, _ in known], np.int64)
        self._offsets = np.array([offset for _, offset in known], np.int64)

    def end_at(self, table: Offsets) -> Flags:
        """Which batches of a table are the last data of their producer."""
        ids = table[:, batch_row.PRODUCER_ID]
        if not len(self._ids):
            return np.zeros(len(table), bool)
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        found: Flags = (ids >= 0) & (self._ids[at] == ids) & (self._offsets[at] == table[:, batch_row.LAST_OFFSET])
        return found


class _Fate:
    """The decision about each batch of a chunk, before its records are read."""

    def __init__(self, table: Offsets, keeps_empty: Flags, as_of_ms: int) -> None:
        attributes, ids = table[:, batch_row.ATTRIBUTES], table[:, batch_row.PRODUCER_ID]
        self.keeps_empty = keeps_empty
        """A batch without remaining records stays as an empty batch."""
        self.modes = np.full(len(table), BY_KEY, np.int64)
        self.without_data = np.zeros(len(table), bool)
        """A marker of a transaction without remaining data."""
        self.has_horizon: Flags = attributes & DELETE_HORIZON_BIT != 0
        passed = self.has_horizon & (table[:, batch_row.BASE_TIMESTAMP] <= as_of_ms)
        self.needs = (~passed).astype(np.int64)
        """1: tombstones of the batch stay."""
        epochs, sequences = table[:, batch_row.PRODUCER_EPOCH], table[:, batch_row.BASE_SEQUENCE]
        control = attributes & CONTROL_BIT != 0
        self.is_odd: Flags = ((ids >= 0) & ((epochs < 0) | ((sequences < 0) & ~control))) | (
            (attributes & TRANSACTIONAL_BIT != 0) & (ids < 0)
        )
        """Such a batch must not be written: the plain code raises the error."""

    @classmethod
    def of(cls, table: Offsets, round: CleaningRound, producers: _LastOfProducers) -> _Fate:
        end = round.high_watermark if round.line.keeps_batch_at_high_watermark else round.upper_bound_offset
        return cls(table, producers.end_at(table) | (table[:, batch_row.LAST_OFFSET] + 1 == end), round.as_of_ms)

    def record(self, batch: int, header: BatchHeader, verdict: RetentionVerdict) -> None:
        """Record the decision about a batch of a transaction, or a control batch."""
        self.keeps_empty[batch] = verdict.retention is BatchRetention.RETAIN_EMPTY
        if verdict.discards:
            self.modes[batch] = ALL_GO
        elif header.is_control:
            self.modes[batch] = ALL_STAY
        self.without_data[batch] = verdict.is_marker_without_data


def _of_transactions(table: Offsets) -> list[int]:
    """Return the transactional and control batches of a table."""
    special = table[:, batch_row.ATTRIBUTES] & (TRANSACTIONAL_BIT | CONTROL_BIT) != 0
    return [int(batch) for batch in np.flatnonzero(special)]


def _header_of(table: Offsets, batch: int) -> tuple[BatchHeader, ControlType | None]:
    scanned, _ = batch_of(table[batch].tolist())
    return scanned.header, scanned.control_type


def put_chunk(chunk: KeyedChunk, transactions: CleanedTransactions, newest: HashedNewest, round: CleaningRound) -> bool:
    """Put a chunk into the map. Returns whether the map refused a record: then it must not get any more."""
    table = chunk.table
    for batch in _of_transactions(table):
        header, kind = _header_of(table, batch)
        if header.is_control:
            transactions.control(header.last_offset, header.producer_id, kind)
        elif transactions.data(header.last_offset, header.producer_id, is_transactional=True):
            chunk.flags[chunk.first_rows[batch] : chunk.first_rows[batch + 1]] |= LEFT_OUT
    taken = newest.put_chunk(chunk, round.first_dirty_offset)
    whole = len(table)
    if taken < chunk.rows:
        whole = int(np.searchsorted(chunk.first_rows, taken, side="right")) - 1
    if whole and int(table[whole - 1, batch_row.LAST_OFFSET]) >= round.first_dirty_offset:
        newest.latest = int(table[whole - 1, batch_row.LAST_OFFSET])
    if taken < chunk.rows:
        newest.latest = max(newest.latest, newest.map.last_put)
        return True
    return False
