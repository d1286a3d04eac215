"""Facts of batches from Arrow columns, neighbours made one before any Python value exists.

A log may hold as many batches as records. Where batches follow one another without a gap and nothing tells them apart
for transactions or ledger, one fact says it of all of them; `each_fact` makes one of every row and is the
specification: a `TransactionWalk` over `fact_runs` and the ledger behind it come out the same.

Belongs here: the columns of `logcore.logs.model.batch_facts.BatchFact` and how rows of them become facts. Where the
columns come from (a table's files, a segment's headers) does not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logcore.logs.model.batch_facts import VERDICT_OK, BatchFact

FACT_COLUMNS = tuple(field.name for field in fields(BatchFact))
"""Columns that the functions here ask of a chunk."""

_OF_A_STRETCH: dict[str, Any] = {
    "record_count": 0,
    "producer_id": -1,
    "producer_epoch": -1,
    "is_transactional": False,
    "is_control": False,
    "leader_epoch": -1,
}
"""What says nothing of a stretch is null in its row."""


def each_fact(chunk: pa.RecordBatch) -> Iterator[BatchFact]:
    """One fact a row. chunk: has FACT_COLUMNS; rows in the order of the log."""
    columns = [chunk.column(name).to_pylist() for name in FACT_COLUMNS]
    for values in zip(*columns, strict=True):
        fact = BatchFact(*values)
        yield fact if fact.last_offset is not None else replace(fact, **_OF_A_STRETCH)


def fact_runs(
    chunk: pa.RecordBatch, cuts: Sequence[int], open_producers: Callable[[], Collection[int]]
) -> Iterator[BatchFact]:
    """Facts of a chunk, one for each run of neighbours that nothing tells apart.

    A run is data that can be trusted, without gaps between its batches, of no transaction or of one producer's and
    epoch's; it begins at a cut if one lies at or before it, and never reaches over one. Its fact is the first batch's,
    reaching to the last's end with the records of all.

    cuts: ascending offsets that transactions or ledger tell apart. open_producers: producer ids with a transaction in
    progress, asked when the run is reached: a batch that one of them writes outside of its transaction is handed on by
    itself.
    """
    if chunk.num_rows == 0:
        return
    base, last, count = (_numbers(chunk, name) for name in ("base_offset", "last_offset", "record_count"))
    producer, epoch = _numbers(chunk, "producer_id"), _numbers(chunk, "producer_epoch")
    transactional = _flags(chunk, "is_transactional")
    foldable = _trusted(chunk) & ~_flags(chunk, "is_control") & (last >= base) & (count > 0)
    borders = np.asarray(cuts, dtype=np.int64)
    # A cut inside of a batch with gaps asks for the batch itself; one at its base begins a run.
    foldable &= np.searchsorted(borders, base, side="right") == np.searchsorted(borders, last, side="right")
    begins = np.ones(len(base), dtype=bool)
    begins[1:] = ~(
        foldable[1:]
        & foldable[:-1]
        & (base[1:] == last[:-1] + 1)
        & (transactional[1:] == transactional[:-1])
        & (~transactional[1:] | ((producer[1:] == producer[:-1]) & (epoch[1:] == epoch[:-1])))
        & ~np.isin(base[1:], borders)
    )
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(base))
    totals = np.add.reduceat(count, starts)
    firsts = each_fact(chunk.take(pa.array(starts)))
    for first, start, end, total in zip(firsts, starts.tolist(), ends.tolist(), totals.tolist(), strict=True):
        if end - start == 1:
            yield first
        elif not first.is_transactional and _any_of(producer[start:end], open_producers()):
            yield from each_fact(chunk.slice(start, end - start))
        else:
            yield replace(first, last_offset=int(last[end - 1]), record_count=total)


def _any_of(producers: npt.NDArray[np.int64], wanted: Collection[int]) -> bool:
    return bool(wanted) and bool(np.isin(producers, list(wanted)).any())


def _trusted(chunk: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    verdict = chunk.column("verdict")
    if pa.types.is_dictionary(verdict.type):
        verdict = verdict.cast(pa.string())
    return _plain_flags(pc.and_(pc.equal(verdict, VERDICT_OK), pc.is_valid(chunk.column("last_offset"))))


def _numbers(chunk: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    filled = pc.fill_null(chunk.column(name), -1)
    numbers: npt.NDArray[np.int64] = filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def _flags(chunk: pa.RecordBatch, name: str) -> npt.NDArray[np.bool_]:
    return _plain_flags(chunk.column(name))


def _plain_flags(column: pa.Array) -> npt.NDArray[np.bool_]:
    filled: npt.NDArray[np.bool_] = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return filled
