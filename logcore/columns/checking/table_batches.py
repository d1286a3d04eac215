"""The batches of a table as values, with the fields that the rules on logs and indexes need.

A log may have as many batches as records, so neighbours that those rules cannot distinguish become one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from logcore.columns.decoding.batch_table import Table
from logcore.columns.kernels import slots
from logcore.logs.checks.validation import BatchVerdict
from logcore.records.control import ControlType
from logcore.records.model import CONTROL_BIT, DELETE_HORIZON_BIT, MAGIC_V2, TRANSACTIONAL_BIT

_CONTROL_NAMES = {0: str(ControlType.ABORT), 1: str(ControlType.COMMIT)}
_RUN_COLUMNS = [slots.POSITION, slots.BASE_OFFSET, slots.LAST_OFFSET, slots.MAX_TIMESTAMP]


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
    spans = table[:, slots.LAST_OFFSET] - table[:, slots.BASE_OFFSET] + 1
    epochs = table[:, slots.LEADER_EPOCH]
    alike = (
        (table[:, slots.PRODUCER_ID] == -1).all()
        and (epochs == epochs[0]).all()
        and (table[:, slots.RECORD_COUNT] == spans).all()
        and (table[1:, slots.BASE_OFFSET] == table[:-1, slots.LAST_OFFSET] + 1).all()
        and (table[:, slots.ATTRIBUTES] & (CONTROL_BIT | TRANSACTIONAL_BIT | DELETE_HORIZON_BIT) == 0).all()
    )
    first, end = int(table[0, slots.BASE_OFFSET]), int(table[-1, slots.LAST_OFFSET]) + 1
    if alike and not any(first < cut < end for cut in cuts):
        position, base = int(table[0, slots.POSITION]), int(table[0, slots.BASE_OFFSET])
        last, greatest = int(table[-1, slots.LAST_OFFSET]), int(table[:, slots.MAX_TIMESTAMP].max())
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
    return int(table[-1, slots.POSITION] + table[-1, slots.SIZE])


def _batch(row: list[int]) -> TableBatch:
    modern, attributes = row[slots.MAGIC] >= MAGIC_V2, row[slots.ATTRIBUTES]
    return TableBatch(
        row[slots.POSITION],
        row[slots.BASE_OFFSET],
        row[slots.LAST_OFFSET],
        row[slots.RECORD_COUNT],
        row[slots.LEADER_EPOCH],
        row[slots.MAX_TIMESTAMP],
        row[slots.PRODUCER_ID],
        row[slots.PRODUCER_EPOCH],
        row[slots.BASE_SEQUENCE],
        modern and attributes & TRANSACTIONAL_BIT != 0,
        modern and attributes & CONTROL_BIT != 0,
        _CONTROL_NAMES.get(row[slots.CONTROL_TYPE]),
        row[slots.BASE_TIMESTAMP] if modern and attributes & DELETE_HORIZON_BIT else None,
    )
