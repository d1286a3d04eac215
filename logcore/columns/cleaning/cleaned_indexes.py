"""The indexes of a segment that is written many batches at a time; see `OutputIndexes` for one at a time."""

from __future__ import annotations

import numpy as np

from logcore.columns.cleaning.offset_map import Offsets
from logcore.columns.kernels.call_frames import address_of
from logcore.columns.kernels.cleaning.cleaning_frames import IndexFrame
from logcore.columns.kernels.library import library
from logcore.logs.compaction.output_indexes import SegmentIndexes
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET
from logcore.segments.side_files import offset_index, time_index
from logcore.segments.side_files.time_index import NO_TIMESTAMP


class CleanedIndexes(SegmentIndexes):
    """The indexes of a segment that gets many batches at a time."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        super().__init__(base_offset)
        self._library = library()
        self._frame = frame = IndexFrame()
        frame.interval, frame.base = interval_bytes, base_offset
        frame.stamp = frame.last_stamp = NO_TIMESTAMP
        frame.stamp_offset = base_offset
        self._offsets, self._times = bytearray(), bytearray()

    @property
    def max_timestamp(self) -> int | None:
        """The greatest timestamp of the appended batches; None without one."""
        greatest = self._frame.stamp
        return None if greatest == NO_TIMESTAMP else greatest

    def take(self, batches: Offsets, base_offsets: Offsets) -> None:
        """Add the next batches.

        Args:
            batches: Columns position (filled in here), size, last offset, max timestamp.
            base_offsets: Base offsets of the batches.

        Raises:
            Uncleanable: The indexes cannot represent an offset.
            ValueError: The segment is too large for them.
        """
        if not len(batches):
            return
        relative = batches[:, 2] - self._base_offset
        beyond = np.flatnonzero((relative < 0) | (relative > MAX_RELATIVE_OFFSET))
        if len(beyond):
            self._refuse(int(base_offsets[beyond[0]]), int(batches[beyond[0], 2]))
        ends = self.size + np.cumsum(batches[:, 1])
        batches[:, 0] = ends - batches[:, 1]
        if int(batches[-1, 0]) > MAX_RELATIVE_OFFSET:
            raise ValueError(f"a segment of {int(ends[-1])} bytes is too large for an offset index")
        count, frame = len(batches), self._frame
        offsets = np.empty(count * offset_index.ENTRY_SIZE, np.uint8)
        times = np.empty(count * time_index.ENTRY_SIZE, np.uint8)
        frame.positions, frame.count = address_of(batches), count
        frame.offsets, frame.offset_count = address_of(offsets), 0
        frame.times, frame.time_count = address_of(times), 0
        self._library.call("index", frame)
        self._offsets += offsets[: frame.offset_count * offset_index.ENTRY_SIZE].tobytes()
        self._times += times[: frame.time_count * time_index.ENTRY_SIZE].tobytes()
        self.size = int(ends[-1])
        self.batches += count
        self.last_offset = int(batches[-1, 2])

    def offset_index(self) -> bytes:
        """The content of the offset index."""
        return bytes(self._offsets)

    def time_index(self) -> bytes:
        """The content of the time index, with its closing entry."""
        frame = self._frame
        greatest, last = frame.stamp, frame.last_stamp
        if greatest <= last:
            return bytes(self._times)
        closing = time_index.TimeEntry(greatest, frame.stamp_offset)
        return bytes(self._times) + time_index.encode([closing], self._base_offset)
