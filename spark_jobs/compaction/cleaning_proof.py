"""Checks whether cleaned files may replace their sources, from their contents, read again from disk.

No decision of the cleaner is used. Both sides are decoded in full, checksums first, and checked for:

    subset     each remaining record existed before, in the same order, with the same offset, key, value, headers and
               timestamp
    newest     of every key the newest committed record below the end of the round remains; if that is a tombstone it
               may be gone, but then no older record of its key remains
    aborted    no record of an aborted transaction remains, so no lost marker can make it visible

The ledger says which offsets are aborted, as validation found before anything was cleaned. Records without a key, and
control records, may remain or be removed.

Memory: that of `newest_by_key`; rows are read in batches of some MiB.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logcore.columns.engines import decode_segment
from logcore.columns.wanted import Place, Wanted
from logcore.records.varint import Buffer
from logcore.segments.scanning.scan import Stretch
from spark_jobs.compaction.newest_by_key import NewestByKey

COMPARED = ("offset", "timestampType", "key", "value", "headers", "timestamp_ms", "leader_epoch")
"""Fields of a record that cleaning never changes. A broker also rewrites header names that are not UTF-8."""
NO_TIMESTAMP_TYPE = -1
"""Timestamp type of a record of v0. It becomes CreateTime when the record is written as v2."""
ANYWHERE = Place("", 0, "", "")


def rows(content: Buffer, base_offset: int) -> Iterator[pa.RecordBatch]:
    """Rows of the trusted parts of a segment, with the columns `COMPARED`."""
    decoded = decode_segment(
        content, place=ANYWHERE, base_offset=base_offset, sealed=True, wanted=Wanted(columns=COMPARED, as_counted=True)
    )
    for item in decoded:
        if not isinstance(item, Stretch):
            yield item


def not_a_part(before: Iterable[pa.RecordBatch], after: Iterable[pa.RecordBatch]) -> str | None:
    """Compare `after` with `before`.

    Returns:
        What `after` has and `before` has not, or has differently; None if `after` is an ordered subset of `before`.
    """
    left: Iterator[pa.RecordBatch] = iter(after)
    pending: pa.RecordBatch | None = next(left, None)
    last = -1
    for there in before:
        offsets = _offsets(there)
        while pending is not None:
            mine = _offsets(pending)
            if mine[0] <= last or np.any(np.diff(mine) <= 0):
                return f"offsets do not ascend after {last}"
            count = int(np.searchsorted(mine, offsets[-1], side="right"))
            if count:
                wrong = _changed(there, offsets, pending.slice(0, count), mine[:count])
                if wrong is not None:
                    return wrong
                last = int(mine[count - 1])
            if count < len(mine):
                pending = pending.slice(count)
                break
            pending = next(left, None)
        # Rows after the last survivor must be read too, so read `before` to its end.
    return None if pending is None else f"a record at offset {_offsets(pending)[0]} that was not there"


def _changed(before: pa.RecordBatch, offsets: np.ndarray, after: pa.RecordBatch, mine: np.ndarray) -> str | None:
    at = np.searchsorted(offsets, mine)
    strange = offsets[at] != mine
    if strange.any():
        return f"a record at offset {mine[strange.argmax()]} that was not there"
    taken = before.take(pa.array(at, pa.int64()))
    for name in COMPARED:
        old, new = taken.column(name), after.column(name)
        if name == "timestampType":
            old = pc.if_else(pc.equal(old, pa.scalar(NO_TIMESTAMP_TYPE)), new, old)
        if not old.equals(new):
            where = next(i for i in range(len(mine)) if old.slice(i, 1) != new.slice(i, 1))
            return f"the {name} of the record at offset {mine[where]} is not what it was"
    return None


def not_newest(before: NewestByKey, after: NewestByKey) -> str | None:
    """Find a key whose newest record is gone, or that has only an older record; None: there is none."""
    if after.aborted is not None:
        return f"offset {after.aborted} belongs to an aborted transaction and is still there"
    newest, left = before.beside(after)
    # A removed tombstone leaves no other record of its key.
    wrong = (newest != left) & ~((left < 0) & (newest & 1 == 1))
    if not wrong.any():
        return None
    first = np.flatnonzero(wrong)[newest[wrong].argmin()]
    lost, instead = int(newest[first]) // 2, int(left[first])
    if instead < 0:
        return f"the record at offset {lost} is the newest of its key and is gone"
    return f"the record at offset {lost} is the newest of its key, and offset {instead // 2} is left in its place"


def tally(batches: Iterable[pa.RecordBatch], into: Sequence[NewestByKey]) -> Generator[pa.RecordBatch, None, None]:
    """Pass the rows on unchanged, and add them to each of ``into``."""
    for batch in batches:
        for each in into:
            each.add(batch)
        yield batch


def _offsets(batch: pa.RecordBatch) -> np.ndarray:
    found: np.ndarray = batch.column("offset").to_numpy()
    return found
