"""The newest offset of every key by the key's hash: for the compiled cleaner, a chunk or a record at a time."""

from __future__ import annotations

import numpy as np

from logcore.columns.cleaning.keyed_batches import KeyedChunk, hashes_of
from logcore.columns.cleaning.offset_map import HashKey, OffsetMap, Offsets
from logcore.logs.compaction.newest_offsets import NewestOffsets


class HashedNewest(NewestOffsets):
    """`NewestOffsets` over an `OffsetMap`; hashes are those of `hash_key`."""

    __slots__ = ("_hash_key", "map")

    def __init__(self, capacity: int | None, hash_key: HashKey, map: OffsetMap | None = None) -> None:
        super().__init__(capacity)
        self._hash_key = hash_key
        self.map = OffsetMap(capacity) if map is None else map

    def __len__(self) -> int:
        return len(self.map)

    @property
    def is_full(self) -> bool:
        return self._capacity is not None and len(self.map) >= self._capacity

    def put(self, key: bytes, offset: int) -> None:
        high, low = hashes_of([key], self._hash_key)
        self.map.put(high, low, np.array([offset], np.int64))
        self.latest = offset

    def newest(self, key: bytes) -> int:
        high, low = hashes_of([key], self._hash_key)
        return int(self.map.find(high, low)[0])

    def put_chunk(self, chunk: KeyedChunk, since: int) -> int:
        """Take the rows of a chunk in that are not left out, from an offset on. How many were looked at: all, or those
        in front of the one that a full map refused. `latest` is not moved."""
        return self.map.put(chunk.high, chunk.low, chunk.offsets, chunk.flags, since)

    def find_chunk(self, chunk: KeyedChunk) -> Offsets:
        """Of every row of a chunk the newest offset of its key, in the chunk's own room."""
        return self.map.find(chunk.high, chunk.low, chunk.flags, chunk.newest)
