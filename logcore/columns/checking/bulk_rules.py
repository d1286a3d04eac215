"""The rules on good batches, applied to a whole table of them.

Array operations find out whether a table has batches that need a check of their own. If it has, the rules of
`logcore.logs.checks.batch_rules` check each of its batches. If not, the batches are only counted, and the memory of
those rules is moved to the end of the table. The results are the same.
"""

from __future__ import annotations

import numpy as np

from logcore.columns.decoding.batch_table import Table
from logcore.columns.kernels import batch_row
from logcore.logs.checks.batch_rules import SEQUENCES, BatchRules, LastBatch, RecordSums
from logcore.logs.checks.validation import SPLIT_BYTES, BatchVerdict, SegmentVerdict
from logcore.records.compression import Codec
from logcore.records.control import ControlType
from logcore.records.model import (
    CODEC_MASK,
    CONTROL_BIT,
    KNOWN_ATTRIBUTES,
    LOG_OVERHEAD,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from logcore.segments.scanning.scan import ScannedBatch

_CONTROL_TYPES = {0: ControlType.ABORT, 1: ControlType.COMMIT}
_KNOWN_V1, _KNOWN_V0 = 0x0F, 0x07
_WORTH_ARRAYS = 8
"""Fewer batches are checked faster one by one; after damage there are many small tables."""


def check_table(verdict: SegmentVerdict, table: Table) -> None:
    """Add the good batches of a table, in order; there is at least one."""
    if len(table) < _WORTH_ARRAYS or not _is_unremarkable(verdict.rules, table):
        for row in table.tolist():
            verdict.take(*batch_of(row))
        return
    column = table.T
    is_control = _is_control(table)
    codecs = column[batch_row.ATTRIBUTES] & CODEC_MASK
    for codec in np.unique(codecs).tolist():
        of_codec = codecs == codec
        records = int(column[batch_row.RECORD_COUNT][of_codec & ~is_control].sum())
        markers = int(column[batch_row.RECORD_COUNT][of_codec & is_control].sum())
        nbytes = int(column[batch_row.SIZE][of_codec].sum())
        verdict.count(Codec(codec).kafka_name, int(of_codec.sum()), records, markers, nbytes)
    least = column[batch_row.LEAST_TIMESTAMP][~is_control]
    least = least[least != batch_row.NONE]
    greatest = int(column[batch_row.MAX_TIMESTAMP].max())
    verdict.see_times(int(least.min()) if least.size else None, greatest)
    _see_positions(verdict, table)
    verdict.next_offset = int(table[-1, batch_row.LAST_OFFSET]) + 1
    _remember(verdict.rules, table)


def batch_of(row: list[int]) -> tuple[ScannedBatch, RecordSums]:
    """Return the batch of a table's row as a scan would return it, and the sums over its records."""
    base, magic, attributes = row[batch_row.BASE_OFFSET], row[batch_row.MAGIC], row[batch_row.ATTRIBUTES]
    bits = 15 if magic >= MAGIC_V2 else 7
    header = BatchHeader(
        base_offset=base,
        batch_length=row[batch_row.SIZE] - LOG_OVERHEAD,
        partition_leader_epoch=row[batch_row.LEADER_EPOCH],
        magic=magic,
        crc=row[batch_row.CRC],
        attributes=attributes - (1 << (bits + 1)) if attributes >> bits else attributes,
        last_offset_delta=row[batch_row.LAST_OFFSET] - base,
        base_timestamp=row[batch_row.BASE_TIMESTAMP],
        max_timestamp=row[batch_row.MAX_TIMESTAMP],
        producer_id=row[batch_row.PRODUCER_ID],
        producer_epoch=row[batch_row.PRODUCER_EPOCH],
        base_sequence=row[batch_row.BASE_SEQUENCE],
        record_count=row[batch_row.RECORD_COUNT],
    )
    kind = _CONTROL_TYPES.get(row[batch_row.CONTROL_TYPE]) if header.is_control else None
    sums = RecordSums(
        least=None if row[batch_row.LEAST_TIMESTAMP] == batch_row.NONE else row[batch_row.LEAST_TIMESTAMP],
        greatest=None if row[batch_row.GREATEST_TIMESTAMP] == batch_row.NONE else row[batch_row.GREATEST_TIMESTAMP],
        negative=row[batch_row.NEGATIVE],
        out_of_range=row[batch_row.OUT_OF_RANGE],
        names_not_utf8=row[batch_row.NAMES_NOT_UTF8],
    )
    return ScannedBatch(row[batch_row.POSITION], header, kind), sums


def verdict_of(row: list[int]) -> BatchVerdict:
    """Return the verdict for the batch of a table's row."""
    return BatchVerdict.of(batch_of(row)[0])


def _is_control(table: Table) -> np.ndarray:
    control: np.ndarray = (table[:, batch_row.ATTRIBUTES] & CONTROL_BIT != 0) & (table[:, batch_row.MAGIC] >= MAGIC_V2)
    return control


def _is_unremarkable(rules: BatchRules, table: Table) -> bool:
    """Whether no rule can have a finding for any of the batches."""
    column = table.T
    attributes, magic = column[batch_row.ATTRIBUTES], column[batch_row.MAGIC]
    known = np.where(magic >= MAGIC_V2, KNOWN_ATTRIBUTES, np.where(magic == 1, _KNOWN_V1, _KNOWN_V0))
    if (attributes & ~known).any() or column[batch_row.OUT_OF_RANGE].any() or column[batch_row.NEGATIVE].any():
        return False
    if column[batch_row.NAMES_NOT_UTF8].any():
        return False
    epochs = column[batch_row.LEADER_EPOCH]
    epochs = np.append(rules.epoch, epochs[epochs >= 0])
    if (np.diff(epochs) < 0).any():
        return False
    stated, greatest = column[batch_row.MAX_TIMESTAMP], column[batch_row.GREATEST_TIMESTAMP]
    appended = (attributes & TIMESTAMP_TYPE_BIT != 0) & (magic >= 1)
    differs = np.where(appended, stated < 0, (greatest != batch_row.NONE) & (greatest != stated))
    if differs.any():
        return False
    control = table[_is_control(table) & (column[batch_row.RECORD_COUNT] > 0)]
    if (control[:, batch_row.PRODUCER_ID] < 0).any() or (
        control[:, batch_row.ATTRIBUTES] & TRANSACTIONAL_BIT == 0
    ).any():
        return False
    return _is_whole(rules, table) and _sequences_follow(rules, table)


def _is_whole(rules: BatchRules, table: Table) -> bool:
    """Whether no offset is missing before or between the batches."""
    first = rules.next_offset if rules.next_offset >= 0 else table[0, batch_row.BASE_OFFSET]
    expected = np.append(first, table[:-1, batch_row.LAST_OFFSET] + 1)
    return bool((table[:, batch_row.BASE_OFFSET] == expected).all())


def _numbered(table: Table) -> Table:
    """The batches with sequence numbers."""
    column = table.T
    numbered: Table = table[
        (column[batch_row.PRODUCER_ID] >= 0) & (column[batch_row.BASE_SEQUENCE] >= 0) & ~_is_control(table)
    ]
    return numbered


def _sequences_follow(rules: BatchRules, table: Table) -> bool:
    numbered = _numbered(table) if rules.checks_sequences else table[:0]
    if not len(numbered):
        return True
    ordered = numbered[np.argsort(numbered[:, batch_row.PRODUCER_ID], kind="stable")]
    ids, epochs = ordered[:, batch_row.PRODUCER_ID], ordered[:, batch_row.PRODUCER_EPOCH]
    following = (
        ordered[:, batch_row.BASE_SEQUENCE] + ordered[:, batch_row.LAST_OFFSET] - ordered[:, batch_row.BASE_OFFSET] + 1
    )
    same = (ids[1:] == ids[:-1]) & (epochs[1:] == epochs[:-1])
    if (same & (ordered[1:, batch_row.BASE_SEQUENCE] != following[:-1] % SEQUENCES)).any():
        return False
    for at in np.flatnonzero(np.append(True, ids[1:] != ids[:-1])).tolist():
        last = rules.producers.get(int(ids[at]))
        if last is None or last.epoch != epochs[at] or last.base_offset < rules.whole_from:
            continue
        if last.next_sequence != ordered[at, batch_row.BASE_SEQUENCE]:
            return False
    return True


def _remember(rules: BatchRules, table: Table) -> None:
    """Move the memory of the rules to the end of batches without findings."""
    epochs = table[:, batch_row.LEADER_EPOCH]
    epochs = epochs[epochs >= 0]
    if epochs.size:
        rules.epoch = int(epochs[-1])
    rules.next_offset = int(table[-1, batch_row.LAST_OFFSET]) + 1
    if not rules.checks_sequences:
        return
    numbered = _numbered(table)
    # The last batch of each producer, in the order of the segment.
    _, from_end = np.unique(numbered[::-1, batch_row.PRODUCER_ID], return_index=True)
    for at in sorted((len(numbered) - 1 - from_end).tolist()):
        row = numbered[at].tolist()
        following = row[batch_row.BASE_SEQUENCE] + row[batch_row.LAST_OFFSET] - row[batch_row.BASE_OFFSET] + 1
        last = LastBatch(row[batch_row.PRODUCER_EPOCH], following % SEQUENCES, row[batch_row.BASE_OFFSET])
        rules.remember(row[batch_row.PRODUCER_ID], last)


def _see_positions(verdict: SegmentVerdict, table: Table) -> None:
    """Add split points: repeatedly the first batch that is far enough after the last split point."""
    positions, at = table[:, batch_row.POSITION], 0
    while at < len(table):
        verdict.see_position(int(positions[at]), int(table[at, batch_row.BASE_OFFSET]))
        at = int(np.searchsorted(positions, verdict.split_points[-1][0] + SPLIT_BYTES))
