"""The offsets in a map of newest offsets, one bit each: for a record that the map was made from, the bit shows whether
it is the newest of its key, without the key.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from logcore.columns.cleaning.offset_map import OffsetMap, Offsets
from logcore.columns.decoding.batch_table import Table
from logcore.columns.kernels import batch_row
from logcore.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT

MOST_BYTES = 16 << 20
"""Always allowed; more if a sixteenth of the map is more: the map needs that much while it grows."""


class NewestBits:
    """Bits of the offsets from `first` up to, not including, `end`.

    The map must contain all records of these offsets, in rising order, except those of transactional and control
    batches.
    """

    def __init__(self, map: OffsetMap, first: int, end: int) -> None:
        self.first, self.end = first, end
        self.bits = np.zeros(self.bytes_for(first, end), np.uint8)
        map.mark(self.bits, first, end)

    @classmethod
    def bytes_for(cls, first: int, end: int) -> int:
        """The number of bytes for the bits of these offsets."""
        return (max(end - first, 0) + 7) // 8

    @classmethod
    def of_offsets(cls, first: int, end: int, found: Iterable[Offsets], *, stays_from: int | None = None) -> NewestBits:
        """Make the bits from the offsets themselves.

        Args:
            first: The first offset with a bit.
            end: The offset after the last one with a bit.
            found: Rising offsets from `first` up to, not including, `end`; each array has its own.
            stays_from: From this offset on all bits are set: the map ended before it.
        """
        made = cls.__new__(cls)
        made.first, made.end = first, end
        made.bits = np.zeros(cls.bytes_for(first, end), np.uint8)
        for offsets in found:
            made.add(offsets)
        if stays_from is not None and stays_from < end:
            place = max(stays_from - first, 0)
            made.bits[place >> 3] |= 0xFF << (place & 7) & 0xFF
            made.bits[(place >> 3) + 1 :] = 0xFF
        return made

    @classmethod
    def of(cls, map: OffsetMap, first: int, end: int) -> NewestBits | None:
        """Make the bits; None if the offsets are so far apart that the bits would need too much memory."""
        nbytes = cls.bytes_for(first, end)
        return cls(map, first, end) if nbytes <= max(MOST_BYTES, map.nbytes // 16) else None

    def add(self, offsets: Offsets) -> None:
        """Set the bits of rising offsets."""
        if len(offsets):
            places = offsets - self.first
            at = places >> 3
            starts = np.flatnonzero(np.diff(at, prepend=-1))
            masks = np.left_shift(1, places & 7).astype(np.uint8)
            self.bits[at[starts]] |= np.bitwise_or.reduceat(masks, starts)

    def has(self, offsets: Offsets) -> npt.NDArray[np.bool_]:
        """Whether the bit of each offset is set; an offset without a bit has none."""
        inside = (offsets >= self.first) & (offsets < self.end)
        places = np.where(inside, offsets - self.first, 0)
        found: npt.NDArray[np.bool_] = inside & (self.bits[places >> 3] >> (places & 7) & 1 == 1)
        return found

    def describe(self, table: Table) -> bool:
        """Whether the bits are enough to clean these batches, in the order of their offsets."""
        return bool(
            len(table)
            and table[0, batch_row.BASE_OFFSET] >= self.first
            and table[-1, batch_row.LAST_OFFSET] < self.end
            and not np.any(table[:, batch_row.ATTRIBUTES] & (TRANSACTIONAL_BIT | CONTROL_BIT))
        )
