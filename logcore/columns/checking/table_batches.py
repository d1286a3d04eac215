"""The batches of a table as values, with the fields that the rules on logs and indexes need.

A log may have as many batches as records, so neighbours that those rules cannot distinguish become one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from logcore.columns.decoding.batch_table import Table
from logcore.columns.kernels import batch_row
from logcore.logs.checks.validation import BatchVerdict
from logcore.records.control import ControlType
from logcore.records.model import CONTROL_BIT, DELETE_HORIZON_BIT, MAGIC_V2, TRANSACTIONAL_BIT

_CONTROL_NAMES = {0: str(ControlType.ABORT), 1: str(ControlType.COMMIT)}
_RUN_COLUMNS = [batch_row.POSITION, batch_row.BASE_OFFSET, batch_row.LAST_OFFSET, batch_row.MAX_TIMESTAMP]


@dataclass(slots=True)
class TableBatch:
    """A good batch, or several; names as in `logcore.logs.checks.validation.BatchVerdict`."""

    position: int
    base_offset: int
    last_offset: int
    record_count: int
    leader_epoch: int
    max_timestamp: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False
    control_type: str | None = None
    delete_horizon_ms: int | None = None


@dataclass(frozen=True, slots=True)
class IndexedBatch:
    """The batch that an index entry is compared with: its position, and the needed fields of its header."""

    position: int
    base_offset: int
    last_offset: int
    max_timestamp: int

    @property
    def header(self) -> IndexedBatch:
        """The object itself: it has the fields of the header."""
        return self


def batches_of(table: Table, cuts: Sequence[int] = ()) -> Iterator[TableBatch]:
    """Yield the batches of a table. Neighbours without a producer or a gap, of one leader epoch, become one batch.

    Args:
        table: The table.
        cuts: Offsets that the rules read; no joined batch has one inside.
    """
    spans = table[:, batch_row.LAST_OFFSET] - table[:, batch_row.BASE_OFFSET] + 1
    epochs = table[:, batch_row.LEADER_EPOCH]
    alike = (
        (table[:, batch_row.PRODUCER_ID] == -1).all()
        and (epochs == epochs[0]).all()
        and (table[:, batch_row.RECORD_COUNT] == spans).all()
        and (table[1:, batch_row.BASE_OFFSET] == table[:-1, batch_row.LAST_OFFSET] + 1).all()
        and (table[:, batch_row.ATTRIBUTES] & (CONTROL_BIT | TRANSACTIONAL_BIT | DELETE_HORIZON_BIT) == 0).all()
    )
    first, end = int(table[0, batch_row.BASE_OFFSET]), int(table[-1, batch_row.LAST_OFFSET]) + 1
    if alike and not any(first < cut < end for cut in cuts):
        position, base = int(table[0, batch_row.POSITION]), int(table[0, batch_row.BASE_OFFSET])
        last, greatest = int(table[-1, batch_row.LAST_OFFSET]), int(table[:, batch_row.MAX_TIMESTAMP].max())
        yield TableBatch(position, base, last, last - base + 1, int(epochs[0]), greatest)
        return
    for row in table.tolist():
        yield _batch(row)


def each_batch(table: Table) -> Iterator[TableBatch]:
    """Yield every batch of a table separately."""
    for row in table.tolist():
        yield _batch(row)


def indexed(tables: list[Table]) -> Iterator[IndexedBatch]:
    """Yield the batches of tables made by `for_indexes`."""
    for table in tables:
        for row in table.tolist():
            yield IndexedBatch(*row)


def for_indexes(table: Table) -> Table:
    """Return the columns that `indexed` needs."""
    return np.ascontiguousarray(table[:, _RUN_COLUMNS])


def of_verdict(verdict: BatchVerdict) -> Table:
    """Return the same for a single batch."""
    row = [verdict.position, verdict.base_offset, verdict.last_offset, verdict.max_timestamp]
    return np.array([row], np.int64)


def end_of(table: Table) -> int:
    """Return the position after the last batch."""
    return int(table[-1, batch_row.POSITION] + table[-1, batch_row.SIZE])


def _batch(row: list[int]) -> TableBatch:
    modern, attributes = row[batch_row.MAGIC] >= MAGIC_V2, row[batch_row.ATTRIBUTES]
    return TableBatch(
        row[batch_row.POSITION],
        row[batch_row.BASE_OFFSET],
        row[batch_row.LAST_OFFSET],
        row[batch_row.RECORD_COUNT],
        row[batch_row.LEADER_EPOCH],
        row[batch_row.MAX_TIMESTAMP],
        row[batch_row.PRODUCER_ID],
        row[batch_row.PRODUCER_EPOCH],
        row[batch_row.BASE_SEQUENCE],
        modern and attributes & TRANSACTIONAL_BIT != 0,
        modern and attributes & CONTROL_BIT != 0,
        _CONTROL_NAMES.get(row[batch_row.CONTROL_TYPE]),
        row[batch_row.BASE_TIMESTAMP] if modern and attributes & DELETE_HORIZON_BIT else None,
    )
