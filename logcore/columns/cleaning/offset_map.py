"""The map of cleaning: the newest offset of every key, in arrays of 24 bytes a slot.

    key     represented by 128 bits of SipHash-1-3 with 16 secret bytes (`kernels.hashing`): an attacker cannot create
            two keys with the same hash, and among 10^9 keys the probability of a collision is about 10^-21. Results
            never depend on the secret; it is random by default
    slot    hash, hash, offset + 1; three zeros if empty
    parts   one, if memory can be extended; else 16, by the hash's highest bits. A part that is three quarters full
            grows by about a half: in place, or else by a move while the other parts stay. So at most a sixteenth is in
            memory twice

Memory: from `HELD_AT_LEAST` bytes on at most 51 bytes a key, including growth: 32 before a growth, up to 51 after it if
it ends at a huge page, else 48, and a sixteenth more while a part is moved. The map never refuses a key unless
`max_keys` is set. A broker's map has a configured size and ends the round when it is full; `max_keys` does the same.

It corresponds to Kafka's SkimpyOffsetMap, which stores MD5 and offset in 24 bytes a slot. In both, the last put wins.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from logcore.columns.kernels.call_frames import FULL, Address, Unsigned, address_of
from logcore.columns.kernels.cleaning.cleaning_frames import (
    MOST_ASIDE,
    PART_ADDRESS,
    PART_MOST,
    PART_SLOTS,
    PART_WIDTH,
    SLOT_BYTES,
    HashFrame,
    MapFrame,
    PartFrame,
    RowsFrame,
)
from logcore.columns.kernels.library import library
from logcore.storage.machine.anonymous_memory import HUGE_PAGE, AnonymousMemory

_PART_BITS = 4
_FIRST_SLOTS = 1 << 14
HELD_AT_LEAST = _FIRST_SLOTS * SLOT_BYTES
"""Bytes of an empty map."""
MOST_BYTES_A_KEY = 51
_MOST_SLOTS = (1 << 32) - 1

Halves = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HashKey:
    """The secret of one run's hashes: 16 bytes as two numbers. Maps from several processes share one."""

    first: int
    second: int

    @classmethod
    def random(cls) -> HashKey:
        """Create an unpredictable key."""
        return cls.of(os.urandom(16))

    @classmethod
    def of(cls, secret: bytes) -> HashKey:
        """Create a key from 16 bytes. ValueError for any other length."""
        if len(secret) != 16:
            raise ValueError(f"a hash key has 16 bytes, not {len(secret)}")
        return cls(int.from_bytes(secret[:8], "little"), int.from_bytes(secret[8:], "little"))

    def set(self, frame: RowsFrame | HashFrame) -> None:
        """Set it in the frame of a kernel that hashes."""
        frame.key_0, frame.key_1 = Unsigned(self.first), Unsigned(self.second)


@dataclass(frozen=True, slots=True)
class NewestHashes:
    """The content of a map, as arrays of the same length in no particular order."""

    high: Halves
    low: Halves
    offsets: Offsets

    def __len__(self) -> int:
        return len(self.offsets)


class OffsetMap:
    """Newest offsets by the hash of the key.

    Args:
        max_keys: With this many keys, the map refuses any further row, also for a known key, as Kafka's map does. None:
            no limit.
        expected: Number of keys to allocate for, at a load of 0.75.
    """

    def __init__(self, max_keys: int | None = None, *, expected: int = 0) -> None:
        self._library = library()
        self._frame = MapFrame()
        self._moves = PartFrame()
        self._memory: list[AnonymousMemory] = []
        self._aside: AnonymousMemory | None = None
        self.nbytes = self.peak_nbytes = 0
        """Bytes of its slots now, and the greatest value so far."""
        first = _first_slots(expected)
        memory = AnonymousMemory(first * SLOT_BYTES, grows=True)
        bits = 0 if memory.can_lengthen else _PART_BITS
        if bits:
            first = _first_slots(expected, bits)
            memory = AnonymousMemory(first * SLOT_BYTES)
        self._parts = np.zeros((1 << bits, PART_WIDTH), np.int64)
        for part in range(1 << bits):
            self._memory.append(memory if part == 0 else AnonymousMemory(first * SLOT_BYTES))
            self._count(len(self._memory[part]))
            self._describe(part, first)
        self._frame.parts, self._frame.part_shift = address_of(self._parts), 63 - bits
        self._frame.most_keys = -1 if max_keys is None else max_keys
        self._frame.last_put = -1
        self._no_flags = np.zeros(0, np.uint8)

    def __len__(self) -> int:
        return self._frame.keys

    @property
    def last_put(self) -> int:
        """Offset of the last row that was put; -1 before the first one."""
        return self._frame.last_put

    def put(
        self, high: Halves, low: Halves, offsets: Offsets, flags: npt.NDArray[np.uint8] | None = None, since: int = 0
    ) -> int:
        """Put rows in their order.

        Args:
            high: First halves of the hashes.
            low: Second halves of the hashes.
            offsets: Offsets of the rows.
            flags: `cleaning_frames`; None for no flags.
            since: Rows with lower offsets are left out.

        Returns:
            The number of rows that were read: all, or those before the one that a full map refused.
        """
        count = len(offsets)
        frame = self._of(high, low, flags, count)
        frame.offsets = address_of(offsets)
        frame.since = since
        return self._filled(count)

    def _of(self, high: Halves, low: Halves, flags: npt.NDArray[np.uint8] | None, count: int) -> MapFrame:
        frame = self._frame
        if flags is None:
            if len(self._no_flags) < count:
                self._no_flags = np.zeros(count, np.uint8)
            flags = self._no_flags
        frame.high, frame.low = address_of(high), address_of(low)
        frame.flags = address_of(flags)
        frame.first, frame.end = 0, count
        return frame

    def _filled(self, count: int) -> int:
        frame = self._frame
        while True:
            self._library.call("put_newest", self._frame)
            if frame.status != FULL:
                return frame.first
            self._grow(frame.part)

    def find(
        self, high: Halves, low: Halves, flags: npt.NDArray[np.uint8] | None = None, into: Offsets | None = None
    ) -> Offsets:
        """Return for each row the newest offset of its key; -1 if the map has none or the row has no key."""
        count = len(high)
        frame = self._of(high, low, flags, count)
        newest = np.empty(count, np.int64) if into is None else into
        frame.newest = address_of(newest)
        self._library.call("find_newest", self._frame)
        return newest

    def mark(self, bits: npt.NDArray[np.uint8], first: int, end: int) -> None:
        """Set the bits of the map's offsets in first..end."""
        frame = self._frame
        frame.bits, frame.bits_from, frame.bits_end = address_of(bits), first, end
        self._library.call("mark_newest", self._frame)

    def held(self) -> NewestHashes:
        """Return the content."""
        count = len(self)
        high, low, offsets = np.empty(count, np.uint64), np.empty(count, np.uint64), np.empty(count, np.int64)
        move = self._moves
        move.high, move.low = address_of(high), address_of(low)
        move.offsets, move.count = address_of(offsets), 0
        for address, count_of, _, _ in self._parts.tolist():
            move.source, move.source_slots = Address(address), count_of
            self._library.call("take_part", move)
        return NewestHashes(high, low, offsets)

    def _count(self, more: int) -> None:
        self.nbytes += more
        self.peak_nbytes = max(self.peak_nbytes, self.nbytes)

    def _describe(self, part: int, count: int) -> None:
        row = self._parts[part]
        row[PART_ADDRESS], row[PART_SLOTS] = self._memory[part].address, count
        row[PART_MOST] = count * 3 // 4

    def _grow(self, part: int) -> None:
        memory, held = self._memory[part], int(self._parts[part, PART_SLOTS])
        count = _more_slots(held)
        if count > _MOST_SLOTS:
            raise MemoryError(f"a map of {len(self)} keys cannot grow any more")
        if memory.lengthen(count * SLOT_BYTES):
            self._count((count - held) * SLOT_BYTES)
            self._spread(part, held, count)
        else:
            self._move_part(part, [(memory, held)], count)
        self._describe(part, count)

    def _spread(self, part: int, held: int, count: int) -> None:
        """Move the content of the first slots of a part to its places among all slots."""
        if self._aside is None:
            self._aside = AnonymousMemory(MOST_ASIDE * SLOT_BYTES)
        memory, aside, move = self._memory[part], self._aside, self._moves
        move.source, move.source_slots = Address(memory.address), held
        move.target, move.target_slots = Address(aside.address), count
        self._library.call("spread_part", move)
        if move.status == FULL:
            self._move_part(part, [(memory, count), (aside, move.count)], count)

    def _move_part(self, part: int, sources: Sequence[tuple[AnonymousMemory, int]], count: int) -> None:
        """Make a part of `count` slots with the content of (memory, slots)."""
        target, move = AnonymousMemory(count * SLOT_BYTES), self._moves
        self._count(len(target))
        move.target, move.target_slots = Address(target.address), count
        for memory, held in sources:
            move.source, move.source_slots = Address(memory.address), held
            self._library.call("move_part", move)
        self.nbytes -= len(self._memory[part])
        self._memory[part] = target


def _first_slots(expected: int, bits: int = 0) -> int:
    """Return the first size of a part of a map for `expected` keys, at a load of 0.75 or a little less."""
    fair = expected >> bits
    # Keys are not distributed exactly evenly over the parts.
    slots_of_it = max(_FIRST_SLOTS >> bits, (fair + 4 * math.isqrt(fair)) * 4 // 3)
    up = _huge_pages(slots_of_it, 1)
    return up if up <= slots_of_it * 1.4 else slots_of_it


def _more_slots(held: int) -> int:
    """Return about 1.5 times as many slots, rounded to full huge pages if that is close."""
    count = held * 3 // 2
    up, down = _huge_pages(count, 1), _huge_pages(count, 0)
    if up <= count * 1.06:
        return up
    return down if down >= held * 1.33 else count


def _huge_pages(count: int, more: int) -> int:
    """Return the number of slots in as many huge pages as `count` slots fill, plus `more` pages."""
    return (count * SLOT_BYTES // HUGE_PAGE + more) * HUGE_PAGE // SLOT_BYTES
