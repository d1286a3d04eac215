"""The facts about a segment's batches that a round of cleaning needs, read by many tasks and combined by one.

The task of each segment verifies every batch. The task that plans gets one row per batch, and no bytes of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import starmap
from operator import attrgetter
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from logcore.columns.checking.table_batches import TableBatch
from logcore.columns.checking.verified_batches import read_verified
from logcore.logs.checks.validation import BatchVerdict
from logcore.records.varint import Buffer
from logcore.segments.scanning.scan import Stretch

FACTS = pa.schema(
    [  # type: ignore[arg-type]
        pa.field("position", pa.int64()),
        pa.field("base_offset", pa.int64()),
        pa.field("last_offset", pa.int64()),
        pa.field("record_count", pa.int64()),
        pa.field("leader_epoch", pa.int64()),
        pa.field("max_timestamp", pa.int64()),
        pa.field("producer_id", pa.int64()),
        pa.field("producer_epoch", pa.int64()),
        pa.field("base_sequence", pa.int64()),
        pa.field("is_transactional", pa.bool_()),
        pa.field("is_control", pa.bool_()),
        pa.field("control_type", pa.string()),
        pa.field("delete_horizon_ms", pa.int64()),
    ]
)
"""The fields of `TableBatch`, in their order."""
PIECE_BYTES = 64 << 20
_ROWS_AT_ONCE = 1 << 16
_values = attrgetter(*FACTS.names)


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """The facts of one segment.

    Attributes:
        base_offset: Its base offset.
        batches: Its batches, as an Arrow file with the columns `FACTS`.
        stretches: The byte ranges that cannot be trusted.
        records: The number of records in the rest.
        has_transactions: Whether any of them is of a transaction or a marker.
        splits: Position and base offset of batches at which tasks may split the segment, about `PIECE_BYTES` apart.
    """

    base_offset: int
    batches: bytes = field(repr=False)
    stretches: tuple[Stretch, ...]
    records: int
    has_transactions: bool
    splits: tuple[tuple[int, int], ...]

    def read(self) -> Iterator[BatchVerdict | Stretch]:
        """The batches and untrusted stretches, in order of position."""
        batches = (batch for columns in self._columns() for batch in _rows_of(columns))
        both: Iterable[TableBatch | Stretch] = merge(batches, self.stretches, key=attrgetter("position"))
        return cast(Iterator[BatchVerdict | Stretch], iter(both))

    def transactions(self) -> Iterator[BatchVerdict]:
        """The control batches, the transactional batches, and the last batch."""
        last: pa.RecordBatch | None = None
        for batch in self._columns():
            of_transactions = pc.or_(batch.column("is_control"), batch.column("is_transactional"))
            yield from cast(Iterator[BatchVerdict], _rows_of(batch.filter(of_transactions)))
            last = batch.slice(batch.num_rows - 1)
        if last is not None and not any(last.column(name)[0].as_py() for name in ("is_control", "is_transactional")):
            yield from cast(Iterator[BatchVerdict], _rows_of(last))

    def _columns(self) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_file(pa.py_buffer(self.batches)) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


def facts_of(content: Buffer, base_offset: int, next_base_offset: int | None) -> SegmentFacts:
    """Read a segment, and verify every batch."""
    stretches: list[Stretch] = []
    records, has_transactions, split_at = 0, False, 0
    splits: list[tuple[int, int]] = []
    held: list[tuple[object, ...]] = []
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, FACTS, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for item in read_verified(content, base_offset, next_base_offset):
            if isinstance(item, Stretch):
                stretches.append(item)
                continue
            held.append(_values(item))
            records += item.record_count
            if item.position - split_at >= PIECE_BYTES:
                split_at = item.position
                splits.append((item.position, item.base_offset))
            has_transactions |= item.is_control or item.is_transactional
            if len(held) == _ROWS_AT_ONCE:
                writer.write_batch(_columns(held))
                held.clear()
        if held:
            writer.write_batch(_columns(held))
    batches = sink.getvalue().to_pybytes()
    return SegmentFacts(base_offset, batches, tuple(stretches), records, has_transactions, tuple(splits))


def _columns(held: list[tuple[object, ...]]) -> pa.RecordBatch:
    arrays = [pa.array(values, field.type) for field, values in zip(FACTS, zip(*held, strict=True), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FACTS)


def _rows_of(batch: pa.RecordBatch) -> Iterator[TableBatch]:
    return starmap(TableBatch, zip(*(column.to_pylist() for column in batch.columns), strict=True))
