"""The newest offset of each key among rows that are added, in bounded memory.

    key      represented by 128 bits of a keyed hash, whose secret is random: results do not depend on it
    map      hash → newest offset, up to a number of keys. A full map is written to files, and an empty one follows
    files    one for each range of hashes, in a folder of their own. At the end they are read range by range

So memory is at most one map, whatever the number of keys, and the offsets of the result as one bit each. Rows need not
be in order. Where the compiled kernels do not work, a plain map does the same.

A set of offsets: a bit for each offset between the least and the greatest, or a sorted array if that is smaller.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logcore.columns.cleaning.keyed_batches import hashes_of_column
from logcore.columns.cleaning.newest_bits import NewestBits
from logcore.columns.cleaning.offset_map import Halves, HashKey, NewestHashes, OffsetMap, Offsets
from logcore.columns.engines import Engine, default_engine
from logcore.columns.kernels.families import Work


@dataclass(frozen=True, slots=True)
class OffsetSet:
    """Offsets, and whether other offsets are among them."""

    count: int
    _bits: NewestBits | None
    _sorted: Offsets

    @classmethod
    def of(cls, parts: Iterable[Offsets], least: int, greatest: int, about: int) -> Self:
        """Create a set.

        Args:
            parts: The offsets, in any order, none of them twice.
            least: No offset is lower.
            greatest: No offset is higher.
            about: How many they are, or a few more. This decides how they are kept.
        """
        if greatest - least < 64 * about:
            count = 0

            def rising() -> Iterable[Offsets]:
                nonlocal count
                for part in parts:
                    count += len(part)
                    yield np.sort(part)

            bits = NewestBits.of_offsets(least, greatest + 1, rising())
            return cls(count, bits, np.zeros(0, np.int64))
        held = list(parts)
        joined = np.concatenate(held) if held else np.zeros(0, np.int64)
        joined.sort()
        return cls(len(joined), None, joined)

    def __len__(self) -> int:
        return self.count

    def has(self, offsets: Offsets) -> npt.NDArray[np.bool_]:
        """Return which of some offsets are in the set."""
        found: npt.NDArray[np.bool_]
        if self._bits is not None:
            inside = (offsets >= self._bits.first) & (offsets < self._bits.end)
            places = np.where(inside, offsets - self._bits.first, 0)
            found = inside & ((self._bits.bits[places >> 3] >> (places & 7).astype(np.uint8) & 1) == 1)
            return found
        if not len(self._sorted):
            return np.zeros(len(offsets), dtype=bool)
        at = np.minimum(np.searchsorted(self._sorted, offsets), len(self._sorted) - 1)
        found = self._sorted[at] == offsets
        return found


KEYS_IN_MEMORY = 8 << 20
"""Keys of a full map; a key takes at most 51 bytes. Values are never in memory."""
_RANGE_BITS = 8
_NUMBERS = 3
"""Of a row in a file: both halves of the hash, and the offset."""


class _Map(Protocol):
    def __len__(self) -> int: ...

    def put(self, high: Halves, low: Halves, offsets: Offsets) -> int: ...

    def find(self, high: Halves, low: Halves) -> Offsets: ...

    def held(self) -> NewestHashes: ...


class NewestKeys:
    """Add rows, then ask for the newest offsets. Use it in a `with` block, which deletes its files."""

    def __init__(self, keys_in_memory: int = KEYS_IN_MEMORY, *, engine: Engine | None = None) -> None:
        """Create it without rows.

        Args:
            keys_in_memory: Keys of a map, at least one.
            engine: None: kernels if they work.
        """
        self._is_compiled = (engine or default_engine(Work.CLEAN)) is Engine.KERNELS
        self._secret = os.urandom(16)
        self._hash_key = HashKey.of(self._secret)
        self._most = max(keys_in_memory, 1)
        self._map = self._empty_map()
        self._greatest = -1
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._pieces: dict[int, list[int]] = {}
        self._bounds: tuple[int, int] | None = None
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    @property
    def spilled(self) -> bool:
        """Whether a map was full."""
        return self._scratch is not None

    @property
    def keys(self) -> int:
        """The number of different keys, while no map was full: see :attr:`spilled`."""
        return len(self._map)

    def add(self, offsets: Offsets, keys: pa.Array[Any]) -> None:
        """Add rows.

        Args:
            offsets: Of the rows, each different.
            keys: Their keys, none of them null.

        Raises:
            OSError: A file can't be written.
        """
        if not len(offsets):
            return
        least, greatest = int(offsets.min()), int(offsets.max())
        before = self._bounds or (least, greatest)
        self._bounds = (min(before[0], least), max(before[1], greatest))
        high, low = self._hashes(keys)
        if len(offsets) > 1 and (offsets[1:] < offsets[:-1]).any():
            order = np.argsort(offsets, kind="stable")
            high, low, offsets = high[order], low[order], offsets[order]
        self._put(self._map, high, low, offsets, is_newer=least > self._greatest)
        self._greatest = max(self._greatest, greatest)
        if len(self._map) >= self._most:
            self._spill()

    def added(self, keys: pa.Array[Any]) -> npt.NDArray[np.bool_]:
        """Return which keys were added, while no map was full: see :attr:`spilled`.

        Args:
            keys: None of them null.
        """
        assert not self.spilled
        found: npt.NDArray[np.bool_] = self._map.find(*self._hashes(keys)) >= 0
        return found

    def newest(self) -> OffsetSet:
        """Return the newest offset of each key. No row may be added afterwards.

        Raises:
            OSError: A file can't be written or read.
        """
        if self._bounds is None:
            return OffsetSet.of((), 0, 0, 0)
        if self._scratch is None:
            held = self._map.held().offsets
            return OffsetSet.of((held,), *self._bounds, len(held))
        self._spill()
        return OffsetSet.of(self._by_range(), *self._bounds, self._rows)

    def _by_range(self) -> Iterator[Offsets]:
        assert self._scratch is not None
        for number, pieces in sorted(self._pieces.items()):
            newest = self._empty_map()
            with open(self._path(number), "rb") as file:
                for rows in pieces:
                    table = np.fromfile(file, np.uint64, rows * _NUMBERS).reshape(_NUMBERS, rows)
                    self._put(newest, table[0], table[1], table[2].view(np.int64), is_newer=False)
            yield newest.held().offsets

    def _put(self, newest: _Map, high: Halves, low: Halves, offsets: Offsets, *, is_newer: bool) -> None:
        """Put rows; the last put wins, so that rows which may be older than others are looked up first.

        Args:
            newest: A map.
            offsets: Rising, or no hash is there twice.
            is_newer: All offsets are above those of the map.
        """
        if not is_newer:
            later = newest.find(high, low) < offsets
            high, low, offsets = high[later], low[later], offsets[later]
        newest.put(np.ascontiguousarray(high), np.ascontiguousarray(low), np.ascontiguousarray(offsets))

    def _spill(self) -> None:
        """Append the map's content to the files of its ranges, and begin an empty map."""
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="loglake-keys-")
        held = self._map.held()
        self._map, self._greatest = self._empty_map(), -1
        numbers = (held.high >> np.uint64(64 - _RANGE_BITS)).astype(np.int64)
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=1 << _RANGE_BITS))
        columns = [column[order] for column in (held.high, held.low, held.offsets.view(np.uint64))]
        start = 0
        for number, end in enumerate(ends.tolist()):
            if end > start:
                with open(self._path(number), "ab") as file:
                    for column in columns:
                        column[start:end].tofile(file)
                self._pieces.setdefault(number, []).append(end - start)
            start = end
        self._rows += len(held)

    def _path(self, number: int) -> str:
        assert self._scratch is not None
        return os.path.join(self._scratch.name, f"{number:03d}")

    def _hashes(self, keys: pa.Array[Any]) -> tuple[Halves, Halves]:
        if self._is_compiled:
            return hashes_of_column(keys.cast(pa.large_binary()), self._hash_key)
        digests = b"".join(
            hashlib.blake2b(bytes(key or b""), digest_size=16, key=self._secret).digest() for key in keys.to_pylist()
        )
        halves: npt.NDArray[np.uint64] = np.frombuffer(digests, np.uint64).reshape(-1, 2)
        return np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1])

    def _empty_map(self) -> _Map:
        return OffsetMap() if self._is_compiled else _PlainMap()


class _PlainMap:
    """What `OffsetMap` does, without kernels."""

    def __init__(self) -> None:
        self._newest: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self._newest)

    def put(self, high: Halves, low: Halves, offsets: Offsets) -> int:
        self._newest.update(zip(zip(high.tolist(), low.tolist(), strict=True), offsets.tolist(), strict=True))
        return len(offsets)

    def find(self, high: Halves, low: Halves) -> Offsets:
        found = (self._newest.get(each, -1) for each in zip(high.tolist(), low.tolist(), strict=True))
        return np.fromiter(found, np.int64, len(high))

    def held(self) -> NewestHashes:
        halves = np.array(list(self._newest), np.uint64).reshape(-1, 2)
        offsets = np.array(list(self._newest.values()), np.int64)
        return NewestHashes(halves[:, 0].copy(), halves[:, 1].copy(), offsets)
