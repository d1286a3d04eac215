"""The records of a segment that have a key, as rows with the hash of the key, for the tasks of a spread cleaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from logcore.columns.checking.bulk_rules import batch_of
from logcore.columns.cleaning.keyed_batches import KeyedBatches, KeyedChunk, SingleBatch, hashes_of
from logcore.columns.cleaning.offset_map import HashKey
from logcore.columns.kernels import batch_row
from logcore.columns.kernels.cleaning.cleaning_frames import NO_KEY, NO_VALUE
from logcore.logs.compaction.cleaned_transactions import CleanedTransactions, CleanedTransactionState
from logcore.logs.compaction.cleaning_round import SourceSegment
from logcore.records.control import control_type
from logcore.records.model import CONTROL_BIT, TRANSACTIONAL_BIT
from logcore.records.record import read_records
from spark_jobs.tasks.packed_rows import Hashed


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Rows of records with a key that are not control records, in offset order."""

    hashed: Hashed
    has_value: np.ndarray
    is_aborted: np.ndarray


def keyed_rows(
    segment: SourceSegment, hash_key: HashKey, before: CleanedTransactionState | None = None
) -> Iterator[KeyedRows]:
    """Read some MiB of batches at a time.

    The segment's own list of transactions, from its `dirty_position` on, says which records are aborted. Earlier
    records are not added to the map.

    Args:
        before: The state of transactions before the segment in the pass that builds the map, if it has more than the
            segment's own list.

    Raises:
        CorruptRecordError: Bytes that are not marked as unreadable are not a batch.
    """
    transactions = CleanedTransactions(before)
    transactions.add(segment.aborted)
    for item in KeyedBatches(hash_key).of(segment):
        if isinstance(item, SingleBatch):
            yield _of_batch(segment, item, transactions, hash_key)
        else:
            yield _of_chunk(segment, item, transactions)


def _of_chunk(segment: SourceSegment, chunk: KeyedChunk, transactions: CleanedTransactions) -> KeyedRows:
    table = chunk.table
    left_out, aborted = (np.zeros(chunk.rows, bool) for _ in range(2))
    for batch in np.flatnonzero(table[:, batch_row.ATTRIBUTES] & (TRANSACTIONAL_BIT | CONTROL_BIT)):
        scanned, _ = batch_of(table[batch].tolist())
        header, rows = scanned.header, slice(chunk.first_rows[batch], chunk.first_rows[batch + 1])
        left_out[rows] = header.is_control
        if scanned.position < segment.dirty_position:
            continue
        if header.is_control:
            transactions.control(header.last_offset, header.producer_id, scanned.control_type)
        elif transactions.data(header.last_offset, header.producer_id, is_transactional=True):
            aborted[rows] = True
    chosen = (chunk.flags & NO_KEY == 0) & ~left_out
    # The next chunk overwrites this one's memory: selecting rows makes a copy.
    hashed = Hashed(chunk.high[chosen], chunk.low[chosen], chunk.offsets[chosen])
    return KeyedRows(hashed, (chunk.flags & NO_VALUE == 0)[chosen], aborted[chosen])


def _of_batch(
    segment: SourceSegment, batch: SingleBatch, transactions: CleanedTransactions, hash_key: HashKey
) -> KeyedRows:
    header = batch.header
    records = list(read_records(segment.content, batch.position, header))
    aborted, is_told = False, batch.position >= segment.dirty_position
    if header.is_control:
        kind = control_type(records[0].key) if records else None
        if is_told:
            transactions.control(header.last_offset, header.producer_id, kind)
        records = []
    elif is_told:
        aborted = transactions.data(header.last_offset, header.producer_id, is_transactional=header.is_transactional)
    keyed = [(record.key, record.offset, record.value is not None) for record in records if record.key is not None]
    high, low = hashes_of([key for key, _, _ in keyed], hash_key)
    offsets = np.array([offset for _, offset, _ in keyed], np.int64)
    has_value = np.array([valued for _, _, valued in keyed], bool)
    return KeyedRows(Hashed(high, low, offsets), has_value, np.full(len(keyed), aborted))
