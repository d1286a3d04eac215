"""Facts of batches from Arrow columns. Similar neighbours are joined before any Python value exists.

A log may have as many batches as records. Consecutive batches without a gap become one fact if transactions and ledger
cannot distinguish them. `each_fact` makes one fact of every row and is the specification: a `TransactionWalk` over
`fact_runs`, and the ledger after it, give the same result.

This module converts the columns of `logcore.logs.model.batch_facts.BatchFact` to facts. It does not read them.
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

FACT_COLUMNS = tuple(field.name for field in fields(BatchFact) if field.name != "markers")
"""Columns that the functions here need in a chunk."""

_OF_A_STRETCH: dict[str, Any] = {
    "record_count": 0,
    "producer_id": -1,
    "producer_epoch": -1,
    "is_transactional": False,
    "is_control": False,
    "leader_epoch": -1,
}
"""The fields that a stretch does not have; they are null in its row."""


def each_fact(chunk: pa.RecordBatch) -> Iterator[BatchFact]:
    """Yield one fact for each row. The chunk has FACT_COLUMNS and rows in the order of the log."""
    return _facts([chunk.column(name).to_pylist() for name in FACT_COLUMNS])


def _facts(columns: Sequence[Sequence[Any]]) -> Iterator[BatchFact]:
    for values in zip(*columns, strict=True):
        fact = BatchFact(*values)
        yield fact if fact.last_offset is not None else replace(fact, **_OF_A_STRETCH)


def _values(column: pa.Array[Any]) -> list[Any]:
    """Return what `to_pylist` returns. That takes 20 times as long for numbers."""
    if isinstance(column, pa.DictionaryArray):
        # One object for all equal strings.
        texts = [*column.dictionary.to_pylist(), None]
        return [texts[code] for code in column.indices.fill_null(-1).to_numpy(zero_copy_only=False).tolist()]
    values: list[Any] = (
        column.to_pylist()
        if column.null_count or pa.types.is_string(column.type)
        else column.to_numpy(zero_copy_only=False).tolist()
    )
    return values


def fact_runs(
    chunk: pa.RecordBatch, cuts: Sequence[int], open_producers: Callable[[], Collection[int]]
) -> Iterator[BatchFact]:
    """Yield the facts of a chunk, one for each run of neighbours that are alike.

    A run is trusted data, without gaps between its batches, outside of transactions or of one producer and epoch. It
    begins at a cut if one is at or before it, and never extends over one. Its fact is the first batch's, extended to
    the last batch's end, with the record count of all.

    Args:
        chunk: As for `each_fact`.
        cuts: Ascending offsets that transactions or ledger distinguish.
        open_producers: Returns the producer ids with a transaction in progress; called when the run is reached. A batch
            that one of them writes outside of its transaction is its own fact.
    """
    if chunk.num_rows == 0:
        return
    base, last, count = (numbers_of(chunk, name) for name in ("base_offset", "last_offset", "record_count"))
    producer, epoch = numbers_of(chunk, "producer_id"), numbers_of(chunk, "producer_epoch")
    transactional = flags_of(chunk, "is_transactional")
    foldable = trusted_rows(chunk) & ~flags_of(chunk, "is_control") & (last >= base) & (count > 0)
    borders = np.asarray(cuts, dtype=np.int64)
    # A cut inside of a batch with gaps needs the batch itself; a cut at its base begins a run.
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
    chosen = chunk.take(pa.array(starts, pa.int64()))
    firsts = _facts([_values(chosen.column(name)) for name in FACT_COLUMNS])
    for first, start, end, total in zip(firsts, starts.tolist(), ends.tolist(), totals.tolist(), strict=True):
        if end - start == 1:
            yield first
        elif not first.is_transactional and _any_of(producer[start:end], open_producers()):
            yield from each_fact(chunk.slice(start, end - start))
        else:
            yield replace(first, last_offset=int(last[end - 1]), record_count=total)


def _any_of(producers: npt.NDArray[np.int64], wanted: Collection[int]) -> bool:
    return bool(wanted) and bool(np.isin(producers, list(wanted)).any())


def trusted_rows(chunk: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Whether each row is a batch that can be trusted."""
    verdict = chunk.column("verdict")
    if pa.types.is_dictionary(verdict.type):
        verdict = verdict.cast(pa.string())
    return _plain_flags(pc.and_(pc.equal(verdict, pa.scalar(VERDICT_OK)), pc.is_valid(chunk.column("last_offset"))))


def numbers_of(chunk: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    """A column of numbers, with -1 for null."""
    filled = chunk.column(name).fill_null(-1)
    numbers: npt.NDArray[np.int64] = filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def flags_of(chunk: pa.RecordBatch, name: str) -> npt.NDArray[np.bool_]:
    """A column of flags, with False for null."""
    return _plain_flags(chunk.column(name))


def _plain_flags(column: pa.Array[Any]) -> npt.NDArray[np.bool_]:
    filled: npt.NDArray[np.bool_] = column.fill_null(False).to_numpy(zero_copy_only=False)
    return filled
