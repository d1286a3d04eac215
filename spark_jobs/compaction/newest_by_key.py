"""The newest record of each key before and after a cleaning, for the proof that none is lost (`cleaning_proof`).

    ExactNewest     keys byte by byte, grouped by Arrow; the specification, used without the kernels
    HashedNewest    keys by 128 bits of SipHash-1-3 under a secret of the proof's own, never the cleaner's: keys that
                    collide in the cleaner's map do not collide here

Memory: 51 bytes for each distinct key below the end of the round on each side (`HashedNewestByKey`), and 24 more during
the comparison. `ExactNewest` needs several copies of the keys.

Offsets that no reader may see: those of aborted transactions, and those with an unknown outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logcore.columns.cleaning.keyed_batches import hashes_of_column
from logcore.columns.cleaning.offset_map import HashKey, OffsetMap
from logcore.columns.engines import Engine, default_engine
from logcore.columns.kernels.families import Work


@dataclass(frozen=True, slots=True)
class Aborted:
    """Ascending offset ranges [start, end) of aborted transactions, or with an unknown outcome."""

    starts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    ends: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> Aborted:
        """Build from pairs in any order."""
        pairs = np.array(sorted(ranges), np.int64).reshape(-1, 2)
        return cls(pairs[:, 0].copy(), pairs[:, 1].copy())

    def between(self, start: int, end: int) -> Aborted:
        """The ranges that have an offset in [start, end)."""
        some = (self.starts < end) & (self.ends > start)
        return Aborted(self.starts[some], self.ends[some])

    def holds(self, offsets: np.ndarray) -> np.ndarray:
        """Whether each offset is in one of the ranges."""
        if not len(self.starts):
            return np.zeros(len(offsets), bool)
        at = np.searchsorted(self.starts, offsets, side="right") - 1
        return (at >= 0) & (offsets < self.ends[at])


Words = npt.NDArray[np.int64]
"""Twice the offset, plus one for a tombstone."""
HELD_ROWS = 1 << 20


class NewestByKey(ABC):
    """The newest record of each key, and whether it is a tombstone. Rows must be added in log order."""

    def __init__(self, end_offset: int, aborted: Aborted, frozen_from: int | None = None) -> None:
        """Create an empty collection.

        Args:
            frozen_from: From this offset on aborted records remain, because of damage before them.
        """
        self._end, self._aborted, self._frozen = end_offset, aborted, frozen_from
        self.aborted: int | None = None
        """An offset of an aborted transaction that was added; None: there was none."""

    def add(self, batch: pa.RecordBatch, *, refuses_aborted: bool = True) -> None:
        """Add rows; those at and above the end are ignored.

        Args:
            refuses_aborted: Whether an aborted record is an error here.
        """
        offsets = batch.column("offset").to_numpy()
        aborted = self._aborted.holds(offsets)
        wrong = aborted if self._frozen is None else aborted & (offsets < self._frozen)
        if refuses_aborted and self.aborted is None and wrong.any():
            self.aborted = int(offsets[wrong.argmax()])
        keys = batch.column("key")
        chosen = (offsets < self._end) & ~aborted & keys.is_valid().to_numpy(zero_copy_only=False)
        words = offsets * 2 + batch.column("value").is_null().to_numpy(zero_copy_only=False)
        if chosen.any():
            self._put(keys.filter(pa.array(chosen)).cast(pa.large_binary()), words[chosen])

    @abstractmethod
    def _put(self, keys: pa.Array[Any], words: Words) -> None: ...

    @abstractmethod
    def beside(self, after: Self) -> tuple[Words, Words]:
        """The word of each key here, and that of the same key in `after`; -1 where it has none."""


class ExactNewest(NewestByKey):
    """Compares the keys themselves."""

    def __init__(self, end_offset: int, aborted: Aborted, frozen_from: int | None = None) -> None:
        super().__init__(end_offset, aborted, frozen_from)
        self._parts: list[pa.Table] = []
        self._held = 0

    def _put(self, keys: pa.Array[Any], words: Words) -> None:
        self._parts.append(pa.table({"key": keys, "newest": words}))
        self._held += len(words)
        if self._held > HELD_ROWS + 2 * self._parts[0].num_rows:
            self._parts = [self._table()]
            self._held = 0

    def _table(self) -> pa.Table:
        """One row per key: ``key`` and ``newest``."""
        if not self._parts:
            return pa.table({"key": pa.array([], pa.large_binary()), "newest": pa.array([], pa.int64())})
        grouped = pa.concat_tables(self._parts).group_by("key").aggregate([("newest", "max")])
        return grouped.select(["key", "newest_max"]).rename_columns(["key", "newest"])

    def beside(self, after: Self) -> tuple[Words, Words]:
        """The newest offset of each key here, and that of the same key in `after`; -1 where it has none."""
        pairs = self._table().join(after._table(), "key", join_type="left outer", right_suffix=" left")
        return pairs["newest"].to_numpy(), pairs["newest left"].fill_null(-1).to_numpy()  # type: ignore[arg-type]


class HashedNewestByKey(NewestByKey):
    """Compares hashes of the keys. Both sides of a proof share one `HashKey`."""

    def __init__(self, end_offset: int, aborted: Aborted, frozen_from: int | None = None, *, hash_key: HashKey) -> None:
        super().__init__(end_offset, aborted, frozen_from)
        self._hash_key, self._map = hash_key, OffsetMap()

    def _put(self, keys: pa.Array[Any], words: Words) -> None:
        high, low = hashes_of_column(keys, self._hash_key)
        self._map.put(high, low, np.ascontiguousarray(words))

    def beside(self, after: Self) -> tuple[Words, Words]:
        """The newest offset of each key here, and that of the same key in `after`; -1 where it has none."""
        if after._hash_key != self._hash_key:
            raise ValueError("both sides of a proof hash with one secret")
        held = self._map.held()
        return held.offsets, after._map.find(held.high, held.low)


def both_sides(end_offset: int, aborted: Aborted, frozen_from: int | None = None) -> tuple[NewestByKey, NewestByKey]:
    """Collections for the rows before and after a cleaning; uses the kernels if they work."""
    if default_engine(Work.CLEAN) is not Engine.KERNELS:
        return ExactNewest(end_offset, aborted, frozen_from), ExactNewest(end_offset, aborted, frozen_from)
    secret = HashKey.random()
    before, after = (HashedNewestByKey(end_offset, aborted, frozen_from, hash_key=secret) for _ in range(2))
    return before, after
