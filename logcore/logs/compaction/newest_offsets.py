"""The newest offset of every key, exactly: the map that cleaning goes by.

A key is its bytes; an empty key is a key. Kafka keeps digests (MD5) in a table of fixed size instead: keys of one
digest are one key there, and a round ends where the table is filled to its load factor. The latter can be asked for
here (`capacity`), the former is left out on purpose.

Source: Kafka SkimpyOffsetMap.
"""

from __future__ import annotations

NEVER = -1


class NewestOffsets:
    """latest: the last offset that the map knows about; -1 when it knows nothing. Above it everything stays."""

    __slots__ = ("_by_key", "_capacity", "latest")

    def __init__(self, capacity: int | None) -> None:
        """capacity: how many keys it takes; None: any number."""
        self._by_key: dict[bytes, int] = {}
        self._capacity = capacity
        self.latest = NEVER

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def is_full(self) -> bool:
        """Whether no record is taken in any more, not even one of a key that is there."""
        return self._capacity is not None and len(self._by_key) >= self._capacity

    def put(self, key: bytes, offset: int) -> None:
        """Take a record in. The last one wins, which is the newest: offsets rise."""
        self._by_key[key] = offset
        self.latest = offset

    def newest(self, key: bytes) -> int:
        """The newest offset of a key, -1 if the map does not have it."""
        return self._by_key.get(key, NEVER)
