"""Whether cleaned files may take the place of what they were made of: judged by what they hold, read again from disk.

Nothing here asks the cleaner what it decided. Both sides are decoded in full, checksums first, and:

    subset     what is left was there, in the same order, with the same offset, key, value, headers and timestamp
    newest     of every key the newest committed record below the end of the round is left; if that is a tombstone it
               may be gone, but then nothing older of its key is left
    aborted    nothing of an aborted transaction is left, so no lost marker can make it visible

Which offsets are aborted is the ledger's to say, as validation found it before anything was cleaned. Records without a
key, and control records, may go or stay.

Memory: what `newest_by_key` holds; rows go by in batches of some MiB.
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
"""What a record keeps for ever. Names of headers that are not UTF-8 are rewritten by a broker too."""
NO_TIMESTAMP_TYPE = -1
"""Of a record of v0, which becomes one of CreateTime when it is written as v2."""
_ANYWHERE = Place("", 0, "", "")


def rows(content: Buffer, base_offset: int) -> Iterator[pa.RecordBatch]:
    """Rows of what can be trusted of a segment, with the columns `COMPARED`."""
    decoded = decode_segment(
        content, place=_ANYWHERE, base_offset=base_offset, sealed=True, wanted=Wanted(columns=COMPARED)
    )
    for item in decoded:
        if not isinstance(item, Stretch):
            yield item


def not_a_part(before: Iterable[pa.RecordBatch], after: Iterable[pa.RecordBatch]) -> str | None:
    """What `after` has that `before` has not, or not like this; None: it is a part of it, in order."""
    left: Iterator[pa.RecordBatch] = iter(after)
    pending: pa.RecordBatch | None = next(left, None)
    seen = -1
    for there in before:
        offsets = _offsets(there)
        while pending is not None:
            mine = _offsets(pending)
            if mine[0] <= seen or np.any(np.diff(mine) <= 0):
                return f"offsets do not ascend behind {seen}"
            count = int(np.searchsorted(mine, offsets[-1], side="right"))
            if count:
                wrong = _changed(there, offsets, pending.slice(0, count), mine[:count])
                if wrong is not None:
                    return wrong
                seen = int(mine[count - 1])
            if count < len(mine):
                pending = pending.slice(count)
                break
            pending = next(left, None)
        # What is behind the last survivor has to be seen too: `before` is gone through to its end.
    return None if pending is None else f"a record at offset {_offsets(pending)[0]} that was not there"


def _changed(before: pa.RecordBatch, offsets: np.ndarray, after: pa.RecordBatch, mine: np.ndarray) -> str | None:
    at = np.searchsorted(offsets, mine)
    strange = offsets[at] != mine
    if strange.any():
        return f"a record at offset {mine[strange.argmax()]} that was not there"
    taken = before.take(pa.array(at))
    for name in COMPARED:
        old, new = taken.column(name), after.column(name)
        if name == "timestampType":
            old = pc.if_else(pc.equal(old, NO_TIMESTAMP_TYPE), new, old)
        if not old.equals(new):
            where = next(i for i in range(len(mine)) if old.slice(i, 1) != new.slice(i, 1))
            return f"the {name} of the record at offset {mine[where]} is not what it was"
    return None


def not_newest(before: NewestByKey, after: NewestByKey) -> str | None:
    """A key whose newest record is gone, or that shows an older one; None: there is none such."""
    if after.aborted is not None:
        return f"offset {after.aborted} belongs to an aborted transaction and is still there"
    newest, left = before.beside(after)
    # A tombstone that went left no other record of its key behind.
    wrong = (newest != left) & ~((left < 0) & (newest & 1 == 1))
    if not wrong.any():
        return None
    first = np.flatnonzero(wrong)[newest[wrong].argmin()]
    lost, instead = int(newest[first]) // 2, int(left[first])
    if instead < 0:
        return f"the record at offset {lost} is the newest of its key and is gone"
    return f"the record at offset {lost} is the newest of its key, and offset {instead // 2} is left in its place"


def tally(batches: Iterable[pa.RecordBatch], into: Sequence[NewestByKey]) -> Generator[pa.RecordBatch, None, None]:
    """The same rows, looked at on their way by each of ``into``."""
    for batch in batches:
        for each in into:
            each.add(batch)
        yield batch


def _offsets(batch: pa.RecordBatch) -> np.ndarray:
    found: np.ndarray = batch.column("offset").to_numpy()
    return found
