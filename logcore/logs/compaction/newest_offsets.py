"""The latest offset of every key, exactly: the map for cleaning.

A key is its bytes; an empty key is a key. Kafka keeps digests (MD5) in a table of fixed size instead. There, keys with
equal digests are one key, and a round ends when the table reaches its load factor. This class has the second limit on
request (`capacity`), and not the first one on purpose.

Source: Kafka SkimpyOffsetMap.
"""

from __future__ import annotations

NEVER = -1


class NewestOffsets:
    """`latest` is the last offset that the map covers, -1 for none. Every record above it stays."""

    __slots__ = ("_by_key", "_capacity", "latest")

    def __init__(self, capacity: int | None) -> None:
        """`capacity` is the number of keys that fit; None: no limit."""
        self._by_key: dict[bytes, int] = {}
        self._capacity = capacity
        self.latest = NEVER

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def is_full(self) -> bool:
        """Whether no more records are added, not even for keys in the map."""
        return self._capacity is not None and len(self._by_key) >= self._capacity

    def put(self, key: bytes, offset: int) -> None:
        """Add a record. The last one is the latest, because offsets increase."""
        self._by_key[key] = offset
        self.latest = offset

    def newest(self, key: bytes) -> int:
        """The latest offset of a key; -1 if the map does not have it."""
        return self._by_key.get(key, NEVER)

    def is_replaced(self, key: bytes, offset: int) -> bool:
        """Whether the map has a later record of the key of the record at an offset."""
        return offset < self.newest(key)
