"""The facts of a segment's batches that decide transactions, by the kernels: headers, checksums and markers only.

Data without a producer is in no transaction. So neighbours without one become one fact, gaps between them included. A
reader that counts records or gaps needs `logcore.columns.checking.fact_runs`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from logcore.columns.checking.bulk_rules import batch_of
from logcore.columns.checking.checked import batch_tables
from logcore.columns.decoding.batch_table import Table
from logcore.columns.kernels import batch_row
from logcore.logs.model.batch_facts import VERDICT_OK, BatchFact, fact_of
from logcore.records.model import CONTROL_BIT, MAGIC_V2
from logcore.records.varint import Buffer
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.scan import ScannedBatch, Stretch, scan


def header_facts(
    buf: Buffer,
    *,
    base_offset: int,
    sealed: bool,
    segment_id: str,
    next_base_offset: int | None = None,
    fetched: FetchedBytes | None = None,
) -> Iterator[BatchFact]:
    """Yield the facts of a segment in order.

    Args:
        buf: The segment's bytes.
        base_offset: Base offset of the segment.
        sealed: Whether a later segment follows.
        segment_id: Names the segment in the facts.
        next_base_offset: Base offset of the next segment.
        fetched: Loads the bytes of `buf` into memory; its errors pass through.
    """

    def marker(position: int, next_offset: int) -> ScannedBatch | Stretch:
        """A control batch as the scan reads it: only its record says of which type it is."""
        walk = scan(
            buf,
            base_offset=base_offset,
            sealed=sealed,
            decode=False,
            next_base_offset=next_base_offset,
            start=position,
            next_offset=next_offset,
            fetched=fetched,
        )
        return next(iter(walk))

    for item in batch_tables(buf, base_offset, sealed, next_base_offset, fetched):
        if isinstance(item, Stretch | ScannedBatch):
            yield fact_of(item, segment_id)
            continue
        is_control = (item[:, batch_row.ATTRIBUTES] & CONTROL_BIT != 0) & (item[:, batch_row.MAGIC] >= MAGIC_V2)
        is_joined = (item[:, batch_row.PRODUCER_ID] == -1) & ~is_control
        begins = np.flatnonzero(~is_joined | np.append(True, ~is_joined[:-1]))
        for start, end in zip(begins.tolist(), np.append(begins[1:], len(item)).tolist(), strict=True):
            if is_control[start]:
                first = item[start]
                yield fact_of(marker(int(first[batch_row.POSITION]), int(first[batch_row.BASE_OFFSET])), segment_id)
            elif is_joined[start]:
                yield _joined(item[start:end], segment_id)
            else:
                yield fact_of(batch_of(item[start].tolist())[0], segment_id)


def _joined(table: Table, segment_id: str) -> BatchFact:
    """One fact for batches without a producer."""
    first = table[0].tolist()
    return BatchFact(
        first[batch_row.BASE_OFFSET],
        int(table[-1, batch_row.LAST_OFFSET]),
        int(table[:, batch_row.RECORD_COUNT].sum()),
        -1,
        -1,
        False,
        False,
        None,
        VERDICT_OK,
        segment_id,
        first[batch_row.POSITION],
        int(table[:, batch_row.SIZE].sum()),
        first[batch_row.LEADER_EPOCH],
    )
