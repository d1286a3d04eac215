"""The offsets of a log's producer snapshots, in order.

Every recovered segment needs the latest snapshot, those above an offset and those below one. In order, the cost is that
of the result and not of all snapshots. So a start stays linear in the number of segments.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class SnapshotOffsets:
    """A sorted set of offsets."""

    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self._offsets = sorted(set(offsets))

    def __iter__(self) -> Iterator[int]:
        return iter(self._offsets)

    def __contains__(self, offset: int) -> bool:
        at = bisect_left(self._offsets, offset)
        return at < len(self._offsets) and self._offsets[at] == offset

    @property
    def latest(self) -> int | None:
        """The greatest one; None if there is none."""
        return self._offsets[-1] if self._offsets else None

    def outside(self, above: int, up_to: int) -> list[int]:
        """Those at or below the first offset or above the second, ascending."""
        low, high = bisect_right(self._offsets, above), bisect_right(self._offsets, up_to)
        return self._offsets[:low] + self._offsets[max(low, high) :]

    def copy(self) -> SnapshotOffsets:
        """An independent copy."""
        return SnapshotOffsets(self._offsets)

    def add(self, offset: int) -> None:
        """Add an offset, if it is not there."""
        if offset not in self:
            self._offsets.insert(bisect_left(self._offsets, offset), offset)

    def discard(self, offset: int) -> None:
        """Remove an offset, if it is there."""
        if offset in self:
            del self._offsets[bisect_left(self._offsets, offset)]
