"""Where the last wanted records of a log begin, found from the end: few bytes are read of a large log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from logcore.columns.checking.chunks import Chunk, Part, part_of
from logcore.columns.decoding.lanes import CarefulLane, FastLane, SegmentRows
from logcore.columns.kernels.call_frames import SLACK, address_of
from logcore.columns.kernels.decoding.decoding_frames import RecordsFrame
from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from logcore.errors import LogError
from logcore.logs.model.findings import Finding
from logcore.logs.model.sources import SegmentFile
from logcore.reading.consumer_log import ChosenRecords
from logcore.reading.read_options import Notes
from logcore.reading.segment_reading import index_of, segment_bytes
from logcore.reading.shown_segments import ShownSegment, rows_of
from logcore.records.model import DEFAULT_LIMITS, BatchHeader, Record
from logcore.segments.side_files.proved_entries import ProvedEntries

FIRST_BYTES = 1 << 20
"""Bytes at the end of a segment that are read at first."""
GROWTH = 8
"""If the last bytes have too few records, this many times as many are read."""

Offsets = npt.NDArray[np.int64]


class _Quiet(Notes):
    """Drops findings: the bytes are read again to show their records."""

    def say(self, finding: Finding) -> None:
        """Drop a finding."""


class _OffsetBuffers:
    """The offsets of the rows of successive kernel calls."""

    takes_any_name = True

    def __init__(self) -> None:
        self._held = np.empty(0, np.int64)

    def prepare(self, frame: RecordsFrame, rows: int, nbytes: int, headers: int) -> None:
        """Set the frame's only buffer."""
        frame.row_capacity = rows
        if self._held.size < rows + SLACK:
            self._held = np.empty(rows + SLACK, np.int64)
        frame.to_offsets = address_of(self._held)

    def finish(self, frame: RecordsFrame) -> Offsets:
        """Return the offsets that a kernel wrote."""
        return self._held[: frame.rows].copy()


def tail_start(chosen: ChosenRecords, count: int) -> int | None:
    """Find the offset of the last wanted record but `count` - 1.

    Args:
        chosen: The log, and its wanted records.
        count: How many records, at least 1.

    Returns:
        The offset; None if the log has fewer wanted records.
    """
    left = count
    for segment in reversed(list(chosen.files())):
        try:
            offsets = _last_offsets(chosen, segment, left)
        except LogError:
            continue  # the reading reports it
        if len(offsets) == left:
            return int(offsets[0])
        left -= len(offsets)
    return None


def _last_offsets(chosen: ChosenRecords, segment: SegmentFile, count: int) -> Offsets:
    """Return the offsets of at most the last `count` wanted records of a segment."""
    log = chosen.log
    source = segment_bytes(log, segment)
    entries, nbytes = ProvedEntries(index_of(segment), segment.base_offset, source), FIRST_BYTES
    while True:
        start = entries.start_of_end(nbytes)
        held: deque[Offsets] = deque()
        total = 0
        for offsets in _offsets_of(ShownSegment(log, segment, source, chosen.wanted, start, chosen.end)):
            held.append(offsets)
            total += len(offsets)
            while total - len(held[0]) >= count:
                total -= len(held.popleft())
        if total >= count or start.position == 0:
            return np.concatenate([np.empty(0, np.int64), *held])[-count:]
        nbytes *= GROWTH


def _offsets_of(shows: ShownSegment) -> Iterator[Offsets]:
    log, segment, content, wanted = shows.log, shows.segment, shows.content, shows.wanted
    sealed, following = log.is_sealed(segment), log.next_base_offset(segment)
    by_kernels = is_chosen(Work.DECODE)

    def of_records(header: BatchHeader, _: int, records: list[Record]) -> Offsets:
        return np.array([record.offset - header.reader_shift for record in records], np.int64)

    def decode(chunk: Chunk) -> SegmentRows[Offsets]:
        careful = CarefulLane(content, segment.base_offset, sealed, following, wanted, DEFAULT_LIMITS, shows.source)
        lane: FastLane[Offsets] | None = None
        if by_kernels:
            from logcore.columns.decoding.compiled import CompiledLane

            part = part_of(content, chunk, shows.source)
            output = _OffsetBuffers()
            lane = CompiledLane(part.content, careful.ceiling, wanted, DEFAULT_LIMITS, 0, output, part.goes_on)
        else:
            shows.source.fetch(chunk.start, len(content))
            part = Part(content, chunk.stop, False)
        return SegmentRows(lane, careful, of_records, chunk.start, chunk.next_offset, part.stop)

    yield from rows_of(shows, _Quiet(), decode)
