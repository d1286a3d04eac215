"""The newest offset of every key, by the key's hash: for the compiled cleaner, one chunk or record at a time."""

from __future__ import annotations

import numpy as np

from logcore.columns.cleaning.keyed_batches import KeyedChunk, hashes_of
from logcore.columns.cleaning.offset_map import HashKey, OffsetMap, Offsets
from logcore.logs.compaction.newest_offsets import NewestOffsets


class HashedNewest(NewestOffsets):
    """`NewestOffsets` with an `OffsetMap`; `hash_key` is the key of its hashes."""

    __slots__ = ("_hash_key", "map")

    def __init__(self, capacity: int | None, hash_key: HashKey, map: OffsetMap | None = None) -> None:
        super().__init__(capacity)
        self._hash_key = hash_key
        self.map = OffsetMap(capacity) if map is None else map

    def __len__(self) -> int:
        return len(self.map)

    @property
    def is_full(self) -> bool:
        """Whether the map has no room for another key."""
        return self._capacity is not None and len(self.map) >= self._capacity

    def put(self, key: bytes, offset: int) -> None:
        """Record an offset of a key."""
        high, low = hashes_of([key], self._hash_key)
        self.map.put(high, low, np.array([offset], np.int64))
        self.latest = offset

    def newest(self, key: bytes) -> int:
        """The newest offset of a key; -1 if the map has none."""
        high, low = hashes_of([key], self._hash_key)
        return int(self.map.find(high, low)[0])

    def put_chunk(self, chunk: KeyedChunk, since: int) -> int:
        """Put the rows of a chunk from offset `since` on that are not left out. It does not change `latest`.

        Returns:
            The number of rows that were read: all, or those before the one that a full map refused.
        """
        return self.map.put(chunk.high, chunk.low, chunk.offsets, chunk.flags, since)

    def find_chunk(self, chunk: KeyedChunk) -> Offsets:
        """Find the newest offset of the key of every row, and store it in the chunk's own array."""
        return self.map.find(chunk.high, chunk.low, chunk.flags, chunk.newest)
