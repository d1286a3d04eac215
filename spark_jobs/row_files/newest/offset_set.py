"""A set of offsets: a bit for each offset between the least and the greatest, or a sorted array if that is smaller."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from logcore.columns.cleaning.newest_bits import NewestBits
from logcore.columns.cleaning.offset_map import Offsets


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
