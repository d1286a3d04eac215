"""The compiled cleaner: the bytes of `PlainCleaner`, a group of batches per call instead of a record.

    map     walk, decompress and hash a group of batches (`keyed_batches`), put its rows into an `OffsetMap`
    clean   the same, then: what becomes of each batch (arrays; one by one only transactions and markers), which records
            stay (a kernel), which batches are copied and which are written anew (`cleaned_batches`)
    bits    between the two, where the whole map was made from plain batches in rising order: a bit for each offset that
            is the newest of its key (`newest_bits`). Then no key is hashed or looked up again, but for transactions

Whatever is unusual (`keyed_batches.SingleBatch`) goes through the plain code, batch by batch; the two never differ but
in one point: keys are told apart by 128 bits of a keyed hash.

Memory: the map (`offset_map`), the bits (16 MiB, or a sixteenth of the map), the buffers of a group (`keyed_batches`,
at most some 20 MiB), and twice a group's records for what is written anew; but for the map and its bits it does not
grow with the log, only with the largest single batch.

A task that cleans only a part of a log is given what the rest of the log decides about it (`CompiledCleaner.resumed`):
the map or as much of it as it needs, the offset behind it, the state of transactions in front of the part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from logcore.columns.checking.bulk_rules import batch_of
from logcore.columns.cleaning.cleaned_batches import BatchWriter, Flags
from logcore.columns.cleaning.cleaned_indexes import CleanedIndexes
from logcore.columns.cleaning.hashed_newest import HashedNewest
from logcore.columns.cleaning.keyed_batches import KeyedBatches, KeyedChunk, SingleBatch
from logcore.columns.cleaning.newest_bits import NewestBits
from logcore.columns.cleaning.offset_map import HashKey, OffsetMap, Offsets
from logcore.columns.kernels import slots
from logcore.columns.kernels.cleaning import cleaning_slots as at_slot
from logcore.columns.kernels.library import library
from logcore.logs.compaction.cleaned_transactions import CleanedTransactions, CleanedTransactionState
from logcore.logs.compaction.cleaning_round import CleanedSegment, CleaningRound, SourceSegment
from logcore.logs.compaction.output_indexes import check_room
from logcore.logs.compaction.retained_batch import Retention, RetentionVerdict, judge, retained
from logcore.logs.model.partition_directory import ByteSink
from logcore.records.batch import CONTROL_BIT, DELETE_HORIZON_BIT, TRANSACTIONAL_BIT, BatchHeader, read_header
from logcore.records.control import ControlType, control_type
from logcore.records.record import DEFAULT_LIMITS, Limits, read_records

_NEVER_FROZEN = (1 << 63) - 1


class CompiledCleaner:
    """Satisfies `logcore.logs.compaction.cleaner.Cleaner`; for one thread.

    transactions: what is known of transactions in front of the first group, if that is not the log's first.
    hash_key: random if None. Raises KernelsUnavailable where the kernels do not work.
    """

    def __init__(
        self,
        transactions: CleanedTransactionState | None = None,
        limits: Limits = DEFAULT_LIMITS,
        *,
        hash_key: HashKey | None = None,
    ) -> None:
        self.transactions = CleanedTransactions(transactions)
        self._limits = limits
        self._hash_key = HashKey.random() if hash_key is None else hash_key
        self._batches = KeyedBatches(self._hash_key, limits)
        self._round: CleaningRound | None = None
        self._newest = HashedNewest(None, self._hash_key)
        self._producers = _LastOfProducers({})
        self._bits: NewestBits | None = None
        self._mapped: set[int] = set()
        self._survivors = np.zeros(at_slot.SLOTS, np.int64)
        self._writer = BatchWriter()

    @classmethod
    def resumed(
        cls,
        round: CleaningRound,
        newest: OffsetMap,
        end_offset: int,
        *,
        hash_key: HashKey,
        transactions: CleanedTransactionState | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> CompiledCleaner:
        """One that is to clean, with a map made before under `hash_key`: `newest` holds at least the keys that are in
        the groups it will be given, `end_offset` is what `build_map` returned."""
        cleaner = cls(transactions, limits, hash_key=hash_key)
        cleaner._begin(round, newest)
        cleaner._newest.latest = end_offset - 1
        return cleaner

    def _begin(self, round: CleaningRound, newest: OffsetMap) -> None:
        self._round = round
        self._newest = HashedNewest(round.max_keys, self._hash_key, newest)
        self._producers = _LastOfProducers(round.producers)
        self._bits = None
        self._mapped = set()

    def build_map(self, segments: Sequence[SourceSegment], round: CleaningRound, /) -> int:
        """See `Cleaner`."""
        self._begin(round, OffsetMap(round.max_keys))
        end_offset, is_plain = self._filled(segments, round)
        if is_plain:
            self._bits = NewestBits.of(self._newest.map, round.first_dirty_offset, end_offset)
        return end_offset

    def _filled(self, segments: Sequence[SourceSegment], round: CleaningRound) -> tuple[int, bool]:
        """Fill the map: where it ends, and whether all that is in it came in chunks, their offsets always rising, and
        nothing is held back from cleaning."""
        newest, transactions = self._newest, CleanedTransactions()
        is_plain, last = round.frozen_from is None, -1
        for segment in segments:
            transactions.add(segment.aborted)
            if round.frozen_from is not None:
                transactions.forget_ended(segment.base_offset)
            for batches in self._batches.of(segment, segment.dirty_position):
                if isinstance(batches, SingleBatch):
                    is_full, is_plain = put_batch(segment, batches, transactions, newest, round, self._limits), False
                else:
                    is_full = put_chunk(batches, transactions, newest, round)
                    is_plain = is_plain and int(batches.table[0, slots.BASE_OFFSET]) > last
                    last = int(batches.table[-1, slots.LAST_OFFSET])
                if is_full:
                    return newest.latest + 1, is_plain
            newest.latest = segment.next_base_offset - 1
            # Not where the map was full: what was not read may hold the same offsets once more.
            self._mapped.add(segment.base_offset)
        return newest.latest + 1, is_plain

    def clean(self, group: Sequence[SourceSegment], sink: ByteSink, /) -> CleanedSegment:
        """See `Cleaner`. ValueError before a map was built."""
        round = self._round
        if round is None:
            raise ValueError("the map comes first")
        output = _Output(sink, CleanedIndexes(group[0].base_offset, round.index_interval_bytes))
        for segment in group:
            self.transactions.add(segment.aborted)
            if round.frozen_from is not None:
                self.transactions.forget_ended(segment.base_offset)
            bits = self._bits if segment.base_offset in self._mapped else None
            for batches in self._batches.of(segment, bits=bits):
                if isinstance(batches, SingleBatch):
                    self._clean_batch(segment, batches, round, output)
                else:
                    self._clean_chunk(segment, batches, round, output)
        indexes = output.indexes
        cleaned = CleanedSegment(
            base_offset=group[0].base_offset,
            size=indexes.size,
            digest=output.digest.hexdigest(),
            offset_index=indexes.offset_index(),
            time_index=indexes.time_index(),
            transaction_index=indexes.transaction_index(),
            modified_ms=group[-1].modified_ms,
            batches=indexes.batches,
            records=output.records,
            removed=output.removed,
            rebuilt=output.rebuilt,
            max_timestamp=indexes.max_timestamp,
            last_offset=indexes.last_offset,
        )
        check_room(cleaned, round.segment_index_bytes)
        return cleaned

    def _clean_batch(self, segment: SourceSegment, batch: SingleBatch, round: CleaningRound, output: _Output) -> None:
        """The plain code, on one batch."""
        position, header = batch.position, batch.header
        kind = control_kind(segment, batch, self._limits) if header.is_control else None
        verdict, aborted = judge(header, kind, self.transactions, round)
        if aborted is not None:
            output.indexes.abort(aborted)
        if verdict.retention is Retention.DELETE:
            output.removed += header.record_count
            return
        found = list(read_records(segment.content, position, header, self._limits))
        stays = retained(segment, position, header, found, verdict, self._newest, round)
        output.removed += len(found) - stays.records
        if stays.content:
            output.records += stays.records
            output.rebuilt += stays.is_rebuilt
            written = read_header(stays.content)
            row = [0, written.size, written.last_offset, written.max_timestamp]
            output.take([memoryview(stays.content)], np.array([row], np.int64), np.array([written.base_offset]))

    def _clean_chunk(self, segment: SourceSegment, chunk: KeyedChunk, round: CleaningRound, output: _Output) -> None:
        table = chunk.table
        fate = _Fate.of(table, round, self._producers)
        for batch in _of_transactions(table):
            header, kind = _header_of(table, batch)
            verdict, aborted = judge(header, kind, self.transactions, round)
            fate.judged(batch, header, verdict)
            if aborted is not None:
                output.indexes.abort(aborted)
        # Non-transactional data tells the tracker nothing but how far it is.
        self.transactions.data(int(table[-1, slots.LAST_OFFSET]), -1, is_transactional=False)
        if not chunk.is_newest:
            self._newest.find_chunk(chunk)
        kept = self._kept(chunk, fate, round)
        some = kept[:, 0] > 0
        # Needs a delete horizon, and has none yet.
        stamped = some & ~fate.has_horizon & ((kept[:, 1] > 0) | fate.without_data)
        copied = some & (kept[:, 0] == table[:, slots.RECORD_COUNT]) & ~stamped
        chosen = np.flatnonzero((some | fate.keeps_empty) & ~copied)
        horizons = np.where(fate.has_horizon, table[:, slots.BASE_TIMESTAMP], slots.NONE)
        horizons[stamped] = round.as_of_ms + round.delete_retention_ms

        def rebuild(batch: int) -> bytes:
            header, _ = _header_of(table, batch)
            position = int(table[batch, slots.POSITION])
            found = list(read_records(segment.content, position, header, self._limits))
            retention = Retention.RETAIN_EMPTY if fate.keeps_empty[batch] else Retention.DELETE_EMPTY
            verdict = RetentionVerdict(
                retention, int(fate.modes[batch]) == at_slot.ALL_GO, bool(fate.without_data[batch])
            )
            return retained(segment, position, header, found, verdict, self._newest, round).content

        odd = fate.is_odd[chosen] | ((horizons[chosen] < 0) & (horizons[chosen] != slots.NONE))
        written = self._writer.write(segment.content, chunk, kept, copied, chosen, horizons[chosen], odd, rebuild)
        output.records += int(kept[:, 0].sum())
        output.removed += int((table[:, slots.RECORD_COUNT] - kept[:, 0]).sum())
        output.rebuilt += len(chosen)
        goes_on = copied.copy()
        goes_on[chosen] = True
        output.take(written.pieces, written.batches, table[goes_on, slots.BASE_OFFSET])

    def _kept(self, chunk: KeyedChunk, fate: _Fate, round: CleaningRound) -> Offsets:
        """Of each batch how many records stay, and how many of those have no value; marks the rows."""
        frame, kept = self._survivors, np.empty((len(chunk), 2), np.int64)
        frame[at_slot.OFFSETS], frame[at_slot.FLAGS] = chunk.offsets.ctypes.data, chunk.flags.ctypes.data
        frame[at_slot.NEWEST], frame[at_slot.FIRST_ROWS] = chunk.newest.ctypes.data, chunk.first_rows.ctypes.data
        frame[at_slot.MODES], frame[at_slot.NEEDS] = fate.modes.ctypes.data, fate.needs.ctypes.data
        frame[at_slot.KEPT] = kept.ctypes.data
        frame[at_slot.LATEST] = self._newest.latest
        frame[at_slot.FROZEN] = _NEVER_FROZEN if round.frozen_from is None else round.frozen_from
        frame[at_slot.FIRST], frame[at_slot.END] = 0, len(chunk)
        library().call("survivors", int(frame.ctypes.data))
        return kept


class _Output:
    """One cleaned segment while it is written."""

    def __init__(self, sink: ByteSink, indexes: CleanedIndexes) -> None:
        self._sink, self.indexes, self.digest = sink, indexes, hashlib.sha256()
        self.records = self.removed = self.rebuilt = 0

    def take(self, pieces: Sequence[memoryview], batches: Offsets, base_offsets: Offsets) -> None:
        self.indexes.take(batches, base_offsets)
        for piece in pieces:
            self._sink.write(piece)
            self.digest.update(piece)


class _LastOfProducers:
    """Of producers a broker still knows where their last data ends, as arrays."""

    def __init__(self, producers: Any) -> None:
        known = sorted(
            (pid, each.last_data_offset) for pid, each in producers.items() if each.last_data_offset is not None
        )
        self._ids = np.array([pid for pid, _ in known], np.int64)
        self._offsets = np.array([offset for _, offset in known], np.int64)

    def end_at(self, table: Offsets) -> Flags:
        """Which batches of a table are the last data of their producer."""
        ids = table[:, slots.PRODUCER_ID]
        if not len(self._ids):
            return np.zeros(len(table), bool)
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        found: Flags = (ids >= 0) & (self._ids[at] == ids) & (self._offsets[at] == table[:, slots.LAST_OFFSET])
        return found


class _Fate:
    """What is decided about each batch of a chunk before its records are looked at."""

    def __init__(self, table: Offsets, keeps_empty: Flags, as_of_ms: int) -> None:
        attributes, ids = table[:, slots.ATTRIBUTES], table[:, slots.PRODUCER_ID]
        self.keeps_empty = keeps_empty
        """Left without records, it stays as an empty batch."""
        self.modes = np.full(len(table), at_slot.BY_KEY, np.int64)
        self.without_data = np.zeros(len(table), bool)
        """A marker of a transaction of which nothing is left."""
        self.has_horizon: Flags = attributes & DELETE_HORIZON_BIT != 0
        passed = self.has_horizon & (table[:, slots.BASE_TIMESTAMP] <= as_of_ms)
        self.needs = (~passed).astype(np.int64)
        """1: its tombstones stay."""
        epochs, sequences = table[:, slots.PRODUCER_EPOCH], table[:, slots.BASE_SEQUENCE]
        control = attributes & CONTROL_BIT != 0
        self.is_odd: Flags = ((ids >= 0) & ((epochs < 0) | ((sequences < 0) & ~control))) | (
            (attributes & TRANSACTIONAL_BIT != 0) & (ids < 0)
        )
        """Nobody may write such a batch: the plain code says so."""

    @classmethod
    def of(cls, table: Offsets, round: CleaningRound, producers: _LastOfProducers) -> _Fate:
        end = round.high_watermark if round.line.keeps_batch_at_high_watermark else round.upper_bound_offset
        return cls(table, producers.end_at(table) | (table[:, slots.LAST_OFFSET] + 1 == end), round.as_of_ms)

    def judged(self, batch: int, header: BatchHeader, verdict: RetentionVerdict) -> None:
        """What was decided about a batch of a transaction, or a control batch."""
        self.keeps_empty[batch] = verdict.retention is Retention.RETAIN_EMPTY
        if verdict.discards:
            self.modes[batch] = at_slot.ALL_GO
        elif header.is_control:
            self.modes[batch] = at_slot.ALL_STAY
        self.without_data[batch] = verdict.is_marker_without_data


def _of_transactions(table: Offsets) -> list[int]:
    """The batches of a table that are transactional or control batches."""
    special = table[:, slots.ATTRIBUTES] & (TRANSACTIONAL_BIT | CONTROL_BIT) != 0
    return [int(batch) for batch in np.flatnonzero(special)]


def _header_of(table: Offsets, batch: int) -> tuple[BatchHeader, ControlType | None]:
    scanned, _ = batch_of(table[batch].tolist())
    return scanned.header, scanned.control_type


def control_kind(segment: SourceSegment, batch: SingleBatch, limits: Limits) -> ControlType | None:
    """The type of a control batch's record; None without one."""
    first = next(iter(read_records(segment.content, batch.position, batch.header, limits)), None)
    return None if first is None else control_type(first.key)


def put_chunk(chunk: KeyedChunk, transactions: CleanedTransactions, newest: HashedNewest, round: CleaningRound) -> bool:
    """Take a chunk into the map. Whether the map refused a record: then nothing more is to be taken in."""
    table = chunk.table
    for batch in _of_transactions(table):
        header, kind = _header_of(table, batch)
        if header.is_control:
            transactions.control(header.last_offset, header.producer_id, kind)
        elif transactions.data(header.last_offset, header.producer_id, is_transactional=True):
            chunk.flags[chunk.first_rows[batch] : chunk.first_rows[batch + 1]] |= at_slot.LEFT_OUT
    taken = newest.put_chunk(chunk, round.first_dirty_offset)
    whole = len(table)
    if taken < chunk.rows:
        whole = int(np.searchsorted(chunk.first_rows, taken, side="right")) - 1
    if whole and int(table[whole - 1, slots.LAST_OFFSET]) >= round.first_dirty_offset:
        newest.latest = int(table[whole - 1, slots.LAST_OFFSET])
    if taken < chunk.rows:
        newest.latest = max(newest.latest, newest.map.last_put)
        return True
    return False


def put_batch(
    segment: SourceSegment,
    batch: SingleBatch,
    transactions: CleanedTransactions,
    newest: HashedNewest,
    round: CleaningRound,
    limits: Limits,
) -> bool:
    """The same for one batch, by the plain code."""
    header = batch.header
    if header.is_control:
        kind = control_kind(segment, batch, limits)
        transactions.control(header.last_offset, header.producer_id, kind)
    elif not transactions.data(header.last_offset, header.producer_id, is_transactional=header.is_transactional):
        for record in read_records(segment.content, batch.position, header, limits):
            if record.key is None or record.offset < round.first_dirty_offset:
                continue
            if newest.is_full:
                return True
            newest.put(record.key, record.offset)
    if header.last_offset >= round.first_dirty_offset:
        newest.latest = header.last_offset
    return False
