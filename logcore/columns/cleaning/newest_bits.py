"""The offsets that a map of newest offsets holds, a bit each: of a record that the map was made from it says whether
it is the newest of its key, without the key."""

from __future__ import annotations

import numpy as np

from logcore.columns.cleaning.offset_map import OffsetMap
from logcore.columns.decoding.groups import Table
from logcore.columns.kernels import slots
from logcore.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT

MOST_BYTES = 16 << 20
"""So many always, and more where a sixteenth of the map is more: what the map takes while it grows."""


class NewestBits:
    """Of offsets from `first` up to, not including, `end`. All of these that there are in the log must have been put
    into the map, in rising order and but for those of transactional and control batches."""

    def __init__(self, map: OffsetMap, first: int, end: int) -> None:
        self.first, self.end = first, end
        self.bits = np.zeros((max(end - first, 0) + 7) // 8, np.uint8)
        map.mark(self.bits, first, end)

    @classmethod
    def of(cls, map: OffsetMap, first: int, end: int) -> NewestBits | None:
        """None where offsets lie so far apart that the bits would take too much room."""
        nbytes = (end - first + 7) // 8
        return cls(map, first, end) if nbytes <= max(MOST_BYTES, map.nbytes // 16) else None

    def tell_of(self, table: Table) -> bool:
        """Whether they are all there is to know of the keys of these batches, in the order of their offsets."""
        return bool(
            len(table)
            and table[0, slots.BASE_OFFSET] >= self.first
            and table[-1, slots.LAST_OFFSET] < self.end
            and not np.any(table[:, slots.ATTRIBUTES] & (TRANSACTIONAL_BIT | CONTROL_BIT))
        )
