"""The facts about a segment's batches that a round of cleaning needs, read by many tasks and combined by one.

The task of each segment verifies every batch. The task that plans gets one row per batch, and no bytes of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
from spark_jobs.lake.store import storage

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
        path: The file of its batches, relative to the lake.
        stretches: The byte ranges that cannot be trusted.
        records: The number of records in the rest.
        has_transactions: Whether any of them is of a transaction or a marker.
        splits: Position and base offset of batches at which tasks may split the segment, about `PIECE_BYTES` apart.
    """

    base_offset: int
    path: str
    stretches: tuple[Stretch, ...]
    records: int
    has_transactions: bool
    splits: tuple[tuple[int, int], ...]


def write_facts(lake: str, path: str, content: Buffer, base_offset: int, next_base_offset: int | None) -> SegmentFacts:
    """Read a segment and write its facts.

    Raises:
        OSError: The file cannot be written.
    """
    stretches: list[Stretch] = []
    records, has_transactions, split_at = 0, False, 0
    splits: list[tuple[int, int]] = []
    with (
        storage.writing(storage.join(lake, path), is_synced=False) as local,
        pa.OSFile(local, "wb") as file,
        pa.ipc.new_file(file, FACTS, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer,
    ):
        held: list[tuple[object, ...]] = []
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
    return SegmentFacts(base_offset, path, tuple(stretches), records, has_transactions, tuple(splits))


def _columns(held: list[tuple[object, ...]]) -> pa.RecordBatch:
    arrays = [pa.array(values, field.type) for field, values in zip(FACTS, zip(*held, strict=True), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FACTS)


def read_facts(lake: str, facts: SegmentFacts) -> Iterator[BatchVerdict | Stretch]:
    """The segment's batches and untrusted stretches, in order of position."""
    both: Iterable[TableBatch | Stretch] = merge(_batches(lake, facts.path), facts.stretches, key=_position)
    return cast(Iterator[BatchVerdict | Stretch], iter(both))


def read_transactions(lake: str, facts: SegmentFacts) -> Iterator[BatchVerdict]:
    """The segment's control batches, its transactional batches, and its last batch."""
    last: pa.RecordBatch | None = None
    for batch in _columns_of(lake, facts.path):
        of_transactions = pc.or_(batch.column("is_control"), batch.column("is_transactional"))
        yield from cast(Iterator[BatchVerdict], _rows_of(batch.filter(of_transactions)))
        last = batch.slice(batch.num_rows - 1)
    if last is not None and not (last.column("is_control")[0].as_py() or last.column("is_transactional")[0].as_py()):
        yield from cast(Iterator[BatchVerdict], _rows_of(last))


def _position(item: TableBatch | Stretch) -> int:
    return item.position


def _batches(lake: str, path: str) -> Iterator[TableBatch]:
    for batch in _columns_of(lake, path):
        yield from _rows_of(batch)


def _columns_of(lake: str, path: str) -> Iterator[pa.RecordBatch]:
    with storage.arrow_filesystem(lake).open_input_file(path) as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def _rows_of(batch: pa.RecordBatch) -> Iterator[TableBatch]:
    return starmap(TableBatch, zip(*(column.to_pylist() for column in batch.columns), strict=True))
