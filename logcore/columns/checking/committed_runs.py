"""Committed transactions settled in arrays, before any Python value exists.

A log may have a transaction for each record: two batches, one of them a marker. A run of batches in which each
transaction begins, writes and commits becomes one fact and columns of transactions. All other batches become the facts
of `logcore.columns.checking.fact_runs`.

The specification is a `logcore.logs.model.transactions.TransactionWalk` over one fact of each row: transactions,
findings and ledger are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logcore.columns.checking.batch_columns import batch_columns
from logcore.columns.checking.fact_runs import FACT_COLUMNS, fact_runs, flags_of, numbers_of, trusted_rows
from logcore.columns.decoding.batch_table import Table
from logcore.logs.model.batch_facts import VERDICT_OK, BatchFact
from logcore.logs.model.transactions import TransactionState, TransactionWalk
from logcore.records.control import ControlType

LEAST_ROWS = 96
"""Shorter runs take longer in arrays than one by one: a run costs as much as about 80 facts, however short it is."""

_FIELDS: list[pa.Field[Any]] = [
    pa.field("producer_id", pa.int64()),
    pa.field("producer_epoch", pa.int32()),
    pa.field("first_offset", pa.int64()),
    pa.field("last_offset", pa.int64()),
    pa.field("marker_offset", pa.int64()),
    pa.field("state", pa.string()),
]
SCHEMA = pa.schema(_FIELDS)
"""Columns of transactions in a lake."""
SETTLED = SCHEMA.append(pa.field("marker_epoch", pa.int32()))
"""The fields of :class:`logcore.logs.model.transactions.Transaction`."""

_Numbers = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Columns of a chunk, one value for each batch."""

    base: _Numbers
    last: _Numbers
    count: _Numbers
    producer: _Numbers
    epoch: _Numbers
    is_marker: _Flags

    def between(self, start: int, end: int) -> _Rows:
        """The rows [start, end)."""
        return _Rows(*(getattr(self, name)[start:end] for name in self.__slots__))


def settled_runs(
    chunk: pa.RecordBatch,
    cuts: Sequence[int],
    walk: TransactionWalk,
    settled: list[pa.RecordBatch],
) -> Iterator[BatchFact]:
    """Yield the facts of a chunk; transactions that a fact has settled are appended to `settled`.

    Args:
        chunk: As for `logcore.columns.checking.fact_runs.each_fact`.
        cuts: Ascending offsets that transactions or ledger distinguish, with log start and high watermark.
        walk: It takes each fact before it asks for the next.
        settled: Committed transactions, with SETTLED; the walk does not know them.
    """
    transactional = flags_of(chunk, "is_transactional")
    if np.count_nonzero(transactional) < LEAST_ROWS:
        yield from fact_runs(chunk, cuts, lambda: walk.open_producers)
        return
    rows = _rows(chunk)
    at = 0
    for start, end in _possible_runs(chunk, rows, cuts, walk):
        yield from fact_runs(chunk.slice(at, start - at), cuts, lambda: walk.open_producers)
        at = start
        run = rows.between(start, end)
        begins, closes = _closed_part(run, walk.unsettled_producers)
        if closes - begins < LEAST_ROWS:
            continue
        yield from fact_runs(chunk.slice(start, begins), cuts, lambda: walk.open_producers)
        whole = run.between(begins, closes)
        settled.append(_transactions(whole))
        yield _fact(whole, chunk, start + begins)
        at = start + closes
    yield from fact_runs(chunk.slice(at), cuts, lambda: walk.open_producers)


def facts_of_table(
    table: Table, segment_id: str, cuts: Sequence[int], walk: TransactionWalk, settled: list[pa.RecordBatch]
) -> Iterator[BatchFact]:
    """Yield the facts of a table of good batches: as `settled_runs`, whose other arguments these are."""
    columns = batch_columns(table)
    columns["segment_id"] = pa.DictionaryArray.from_arrays(np.zeros(len(table), np.int32), [segment_id])
    chunk = pa.RecordBatch.from_pydict({name: columns[name] for name in FACT_COLUMNS})
    return settled_runs(chunk, cuts, walk, settled)


def _rows(chunk: pa.RecordBatch) -> _Rows:
    return _Rows(
        base=numbers_of(chunk, "base_offset"),
        last=numbers_of(chunk, "last_offset"),
        count=numbers_of(chunk, "record_count"),
        producer=numbers_of(chunk, "producer_id"),
        epoch=numbers_of(chunk, "producer_epoch"),
        is_marker=flags_of(chunk, "is_control"),
    )


def _possible_runs(
    chunk: pa.RecordBatch, rows: _Rows, cuts: Sequence[int], walk: TransactionWalk
) -> list[tuple[int, int]]:
    """Runs [start, end) of trusted transactional data and COMMIT markers, without a gap or a cut inside."""
    commits = pc.equal(chunk.column("control_type").cast(pa.string()), pa.scalar(str(ControlType.COMMIT)))
    possible = trusted_rows(chunk) & flags_of(chunk, "is_transactional")
    possible &= (rows.producer >= 0) & (rows.count > 0) & (rows.last >= rows.base)
    possible &= ~rows.is_marker | commits.fill_null(False).to_numpy(zero_copy_only=False)
    possible &= (rows.base >= walk.log_start_offset) & (rows.last < walk.high_watermark)
    borders = np.asarray(cuts, dtype=np.int64)
    before, after = (np.searchsorted(borders, each, side="right") for each in (rows.base, rows.last))
    possible &= before == after
    goes_on = possible[1:] & possible[:-1] & (rows.base[1:] == rows.last[:-1] + 1) & (before[1:] == before[:-1])
    begins = np.concatenate(([True], ~goes_on))
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(begins))
    chosen = possible[starts] & (ends - starts >= LEAST_ROWS)
    return list(zip(starts[chosen].tolist(), ends[chosen].tolist(), strict=True))


def _by_producer(run: _Rows, unsettled: Collection[int]) -> tuple[_Numbers, _Flags]:
    """Rows ordered by producer, and for each whether its producer is in a transaction before it."""
    order = np.argsort(run.producer, kind="stable")
    producer, is_marker = run.producer[order], run.is_marker[order]
    is_open = np.empty(len(order), dtype=bool)
    is_open[1:] = ~is_marker[:-1]
    firsts = np.concatenate(([True], producer[1:] != producer[:-1]))
    is_open[firsts] = np.isin(producer[firsts], np.fromiter(unsettled, np.int64, len(unsettled)))
    return order, is_open


def _closed_part(run: _Rows, unsettled: Collection[int]) -> tuple[int, int]:
    """Rows [begin, end) with only whole transactions, of producers without another one before."""
    order, is_open = _by_producer(run, unsettled)
    change = np.empty(len(order), dtype=np.int64)
    is_marker = run.is_marker[order]
    change[order] = np.where(is_marker, -1 * is_open, 1 * ~is_open)
    before = np.isin(np.unique(run.producer), np.fromiter(unsettled, np.int64, len(unsettled)))
    open_count = np.concatenate(([0], np.cumsum(change))) + np.count_nonzero(before)
    closed = np.flatnonzero(open_count == 0)
    return (int(closed[0]), int(closed[-1])) if len(closed) else (0, 0)


def _transactions(run: _Rows) -> pa.RecordBatch:
    order, is_open = _by_producer(run, ())
    is_marker = run.is_marker[order]
    begins = order[~is_marker & ~is_open]
    ends = np.flatnonzero(is_marker & is_open)
    latest, markers = order[ends - 1], order[ends]
    in_order = np.argsort(begins, kind="stable")
    columns = (
        run.producer[begins],
        run.epoch[latest],
        run.base[begins],
        run.last[latest],
        run.base[markers],
    )
    arrays = [pa.array(each[in_order], field.type) for each, field in zip(columns, SCHEMA, strict=False)]
    state = pa.repeat(pa.scalar(str(TransactionState.COMMITTED)), len(in_order))
    marker_epoch = pa.array(run.epoch[markers][in_order], pa.int32())
    return pa.RecordBatch.from_arrays([*arrays, state, marker_epoch], schema=SETTLED)


def _fact(run: _Rows, chunk: pa.RecordBatch, row: int) -> BatchFact:
    """The fact of whole committed transactions: visible records, and markers among them."""
    markers = int(run.count[run.is_marker].sum())
    position, size, leader_epoch = (int(chunk.column(n)[row].as_py()) for n in ("position", "size", "leader_epoch"))
    return BatchFact(
        base_offset=int(run.base[0]),
        last_offset=int(run.last[-1]),
        record_count=int(run.count.sum()) - markers,
        producer_id=-1,
        producer_epoch=-1,
        is_transactional=False,
        is_control=False,
        control_type=None,
        verdict=VERDICT_OK,
        segment_id=str(chunk.column("segment_id")[row].as_py()),
        position=position,
        size=size,
        leader_epoch=leader_epoch,
        markers=markers,
    )
