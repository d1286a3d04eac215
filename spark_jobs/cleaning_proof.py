"""Whether cleaned files may take the place of what they were made of: judged by what they hold, read again from disk.

Nothing here asks the cleaner what it decided. Both sides are decoded in full, checksums first, and:

    subset     what is left was there, in the same order, with the same offset, key, value, headers and timestamp
    newest     of every key the newest committed record below the end of the round is left; if that is a tombstone it
               may be gone, but then nothing older of its key is left
    aborted    nothing of an aborted transaction is left, so no lost marker can make it visible

Which offsets are aborted is the ledger's to say, as validation found it before anything was cleaned. Keys are compared
byte by byte. Records without a key, and control records, may go or stay.

Memory: the distinct keys below the end of the round, twice, with 16 bytes each; rows go by in batches of some MiB.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logcore.columns.engines import decode_segment
from logcore.columns.wanted import Place, Wanted
from logcore.records.varint import Buffer
from logcore.segments.scan import Stretch

COMPARED = ("offset", "timestampType", "key", "value", "headers", "timestamp_ms", "leader_epoch")
"""What a record keeps for ever. Names of headers that are not UTF-8 are rewritten by a broker too."""
NO_TIMESTAMP_TYPE = -1
"""Of a record of v0, which becomes one of CreateTime when it is written as v2."""
HELD_ROWS = 1 << 20
_ANYWHERE = Place("", 0, "", "")


@dataclass(frozen=True, slots=True)
class Aborted:
    """Ascending half-open offset ranges that belong to aborted transactions, or whose outcome nobody knows."""

    starts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    ends: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> Aborted:
        """From pairs in any order."""
        pairs = np.array(sorted(ranges), np.int64).reshape(-1, 2)
        return cls(pairs[:, 0].copy(), pairs[:, 1].copy())

    def holds(self, offsets: np.ndarray) -> np.ndarray:
        """Whether each offset lies in one of the ranges."""
        if not len(self.starts):
            return np.zeros(len(offsets), bool)
        at = np.searchsorted(self.starts, offsets, side="right") - 1
        return (at >= 0) & (offsets < self.ends[at])


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


class NewestByKey:
    """The newest record of each key, and whether it is a tombstone; rows may come in any order."""

    def __init__(self, end_offset: int, aborted: Aborted, frozen_from: int | None = None) -> None:
        """frozen_from: from this offset on aborted records stay, because of damage in front of them."""
        self._end, self._aborted, self._frozen = end_offset, aborted, frozen_from
        self._parts: list[pa.Table] = []
        self._held = 0
        self.aborted: int | None = None
        """An offset of an aborted transaction that came by; None: there was none."""

    def add(self, batch: pa.RecordBatch, *, is_judged: bool = True) -> None:
        """Look at rows; those at and above the end are let go by. is_judged: whether aborted ones are wrong here."""
        offsets = _offsets(batch)
        aborted = self._aborted.holds(offsets)
        wrong = aborted if self._frozen is None else aborted & (offsets < self._frozen)
        if is_judged and self.aborted is None and wrong.any():
            self.aborted = int(offsets[wrong.argmax()])
        keys = batch.column("key")
        chosen = (offsets < self._end) & ~aborted & keys.is_valid().to_numpy(zero_copy_only=False)
        words = offsets * 2 + batch.column("value").is_null().to_numpy(zero_copy_only=False)
        mask = pa.array(chosen)
        kept = pa.table({"key": keys.filter(mask).cast(pa.large_binary()), "newest": pa.array(words[chosen])})
        self._parts.append(kept)
        self._held += kept.num_rows
        if self._held > HELD_ROWS + 2 * self._parts[0].num_rows:
            self._parts = [self.table()]
            self._held = 0

    def table(self) -> pa.Table:
        """One row a key: ``key``, and ``newest``, twice the offset, and one more for a tombstone."""
        if not self._parts:
            return pa.table({"key": pa.array([], pa.large_binary()), "newest": pa.array([], pa.int64())})
        grouped = pa.concat_tables(self._parts).group_by("key").aggregate([("newest", "max")])
        return grouped.select(["key", "newest_max"]).rename_columns(["key", "newest"])


def not_newest(before: NewestByKey, after: NewestByKey) -> str | None:
    """A key whose newest record is gone, or that shows an older one; None: there is none such."""
    if after.aborted is not None:
        return f"offset {after.aborted} belongs to an aborted transaction and is still there"
    pairs = before.table().join(after.table(), "key", join_type="left outer", right_suffix=" left")
    same = pc.fill_null(pc.equal(pairs["newest"], pairs["newest left"]), False)
    # A tombstone that went left no other record of its key behind.
    gone = pc.and_(pc.equal(pc.bit_wise_and(pairs["newest"], 1), 1), pc.is_null(pairs["newest left"]))
    wrong = pairs.filter(pc.invert(pc.or_(same, gone)))
    if not wrong.num_rows:
        return None
    first = min(wrong.select(["newest", "newest left"]).to_pylist(), key=lambda row: row["newest"])
    lost, instead = first["newest"] // 2, first["newest left"]
    if instead is None:
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
