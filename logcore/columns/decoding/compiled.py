"""The kernels' fast lane: groups of batches in, rows out, a kernel call a group.

inspect     first for what is large, so that nothing of a batch is given out before all of it is known to be good
unfold      first for v0 and v1 messages
emit        records into buffers, which an `Output` has made and makes rows of: an Arrow batch, or lines of text
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from logcore.columns.decoding.groups import Groups, Table
from logcore.columns.kernels import slots
from logcore.columns.wanted import MAX_INT64, Wanted
from logcore.records.model import Limits
from logcore.records.varint import Buffer

ROW_LIMIT = 1 << 18
"""Rows of one call."""
LARGE_BYTES = 16 << 20
"""From here on a group is checked before anything is allocated for its rows."""

MOST_BYTES = (1 << 31) - 1
"""Of keys or values of one Arrow batch, whose offsets are 32 bits wide; a larger batch is in doubt."""

_CONTROL_BIT = 32

Rows = TypeVar("Rows", covariant=True)
Frame = npt.NDArray[np.int64]


class Output(Protocol[Rows]):
    """What the rows of one kernel call become."""

    def prepare(self, frame: Frame, rows: int, nbytes: int, headers: int) -> None:
        """Point the frame at buffers for that many rows whose bytes, and record headers, are at most so many."""

    def finish(self, frame: Frame) -> Rows:
        """What became of the rows that the kernel wrote; there is at least one."""


def _never() -> bool:
    return False


class CompiledLane(Generic[Rows]):
    """The fast lane over one segment; see `logcore.columns.engines`."""

    def __init__(
        self,
        buf: Buffer,
        ceiling: int,
        wanted: Wanted,
        limits: Limits,
        position_base: int,
        output: Output[Rows],
        goes_on: bool = False,
    ) -> None:
        self._size = len(buf)
        self._groups = Groups(buf, ceiling, limits, goes_on)
        self._table: Table = self._groups.table
        self._wanted, self._output = wanted, output
        self.position = self.next_offset = 0
        self.stop = len(buf)
        self.enough: Callable[[], bool] = _never
        """Asked behind each group, and between batches of a compressed one; if it says so, that is all."""
        self._frame = self._groups.emit_frame()
        self._address = int(self._frame.ctypes.data)
        self._frame[slots.POSITION_BASE] = position_base
        self._set_filters(wanted)

    def _set_filters(self, wanted: Wanted) -> None:
        frame = self._frame
        frame[slots.FILTERED] = wanted.is_filtered
        frame[slots.SINCE] = -MAX_INT64 - 1 if wanted.since is None else wanted.since
        # `until` is exclusive, and every timestamp is below the greatest possible one but itself.
        frame[slots.UNTIL] = MAX_INT64 if wanted.until is None else wanted.until
        frame[slots.UNTIL_OPEN] = wanted.until is None
        frame[slots.WITH_CONTROL] = wanted.control
        self._ranges = np.array(wanted.visible or ((0, 0),), np.int64)
        if wanted.visible is not None:
            frame[slots.RANGES], frame[slots.RANGE_COUNT] = self._ranges.ctypes.data, len(wanted.visible)
        self._key = np.frombuffer(wanted.key or b"\0", np.uint8)
        if wanted.key is not None:
            frame[slots.WANTED_KEY], frame[slots.WANTED_KEY_SIZE] = self._key.ctypes.data, len(wanted.key)

    def rows(self) -> Iterator[Rows]:
        """Rows of batches from `position` on, for as long as all is beyond doubt and no further than `stop`; moves
        `position` behind them."""
        groups = self._groups
        while self.position < self.stop:
            groups.walk(self.position, self.next_offset, self.stop)
            accepted = 0
            for so_far, rows in self._group():
                is_whole, accepted = so_far > accepted, so_far
                if rows is not None:
                    yield rows
                if is_whole and accepted < groups.count and self.enough():
                    break
            if accepted < groups.count:
                self.position = int(self._table[accepted, slots.POSITION])
                if accepted:
                    self.next_offset = int(self._table[accepted - 1, slots.LAST_OFFSET]) + 1
                return
            self.position, self.next_offset = groups.position, groups.next_offset
            if groups.is_doubtful or self.enough():
                return

    def _group(self) -> Iterator[tuple[int, Rows | None]]:
        """Rows of the group, each time with how many of its batches are accepted so far."""
        groups, first = self._groups, 0
        while first < groups.count:
            end = groups.count
            if groups.is_compressed:
                # Messages are all looked into: only that tells a wrapper's base offset.
                end = groups.decompress(first, None if groups.is_messages else self._wants(first, end))
                if end == first:
                    return
            self._frame[slots.SOURCE], self._frame[slots.SOURCE_SIZE] = groups.source()
            accepted = first
            for so_far, given in self._batches(first, end):
                accepted = so_far
                yield accepted, given
            if accepted < end:
                return
            first = end

    def _wants(self, first: int, end: int) -> npt.NDArray[np.bool_] | None:
        """`Wanted.may_hold` for some batches of the table; None if it holds for all."""
        if self._wanted.visible is None and (self._wanted.control or not self._groups.has_control):
            return None
        rows = self._table[first:end]
        mask = np.ones(len(rows), bool)
        if not self._wanted.control:
            mask &= (rows[:, slots.ATTRIBUTES] & _CONTROL_BIT == 0) | (rows[:, slots.MAGIC] < 2)
        if self._wanted.visible is not None:
            ranges = self._ranges[: len(self._wanted.visible)]
            # The first range that ends behind the batch's beginning must begin before the batch's end.
            at = np.searchsorted(ranges[:, 1], rows[:, slots.BASE_OFFSET], side="right")
            mask &= np.append(ranges[:, 0], MAX_INT64)[at] <= rows[:, slots.LAST_OFFSET]
        return None if mask.all() else mask

    def _batches(self, first: int, end: int) -> Iterator[tuple[int, Rows | None]]:
        """Rows of batches whose records lie in the frame's source."""
        groups = self._groups
        if groups.is_messages:
            end = groups.unfold(first, end, self._frame, self.next_offset)
        wanted = self._wants(first, end)
        if wanted is None:
            yield from self._run(first, end)
            return
        changes = np.append(np.flatnonzero(np.diff(wanted)) + 1, end - first)
        at = first
        for change in changes.tolist():
            stop = first + change
            if stop == at:
                continue
            if not wanted[at - first]:
                yield stop, None
            else:
                accepted = at
                for so_far, rows in self._run(at, stop):
                    accepted = so_far
                    yield accepted, rows
                if accepted < stop:
                    return
            at = stop

    def _run(self, first: int, end: int) -> Iterator[tuple[int, Rows | None]]:
        """Rows of batches that are all wanted, in pieces of at most ROW_LIMIT."""
        table, groups = self._table, self._groups
        while first < end:
            stop, records, nbytes = end, groups.records, groups.body_bytes
            whole = first == 0 and end == groups.count and groups.kind == slots.PLAIN
            if not whole or records > ROW_LIMIT:
                counts = np.cumsum(table[first:end, slots.RECORD_COUNT])
                stop = first + max(1, int(np.searchsorted(counts, ROW_LIMIT, side="right")))
                records = int(counts[stop - first - 1])
                nbytes = int((table[first:stop, slots.BODY_END] - table[first:stop, slots.BODY]).sum())
            if nbytes > MOST_BYTES:
                if stop - first == 1:
                    return
                stop, nbytes = first + 1, int(table[first, slots.BODY_END] - table[first, slots.BODY])
                records = int(table[first, slots.RECORD_COUNT])
                if nbytes > MOST_BYTES:
                    return
            headers = 0 if groups.is_messages else nbytes // 2
            if not groups.is_messages and (records > ROW_LIMIT or nbytes > LARGE_BYTES):
                stop = self._inspect(first, stop)
                if stop == first:
                    return
                headers = int(table[first:stop, slots.HEADERS].sum())
            accepted = first
            for so_far, rows in self._emit(first, stop, min(records, ROW_LIMIT), nbytes, headers):
                accepted = so_far
                yield accepted, rows
            if accepted < stop:
                return
            first = stop

    def _inspect(self, first: int, stop: int) -> int:
        frame = self._frame
        frame[slots.FIRST], frame[slots.END], frame[slots.RECORD] = first, stop, 0
        self._groups.library.call("inspect", self._address)
        return int(frame[slots.FIRST])

    def _emit(self, first: int, stop: int, room: int, nbytes: int, headers: int) -> Iterator[tuple[int, Rows | None]]:
        frame = self._frame
        kernel = "emit_messages" if self._groups.is_messages else "emit"
        frame[slots.FIRST], frame[slots.END], frame[slots.RECORD] = first, stop, 0
        while True:
            self._output.prepare(frame, room, nbytes, headers)
            self._groups.library.call(kernel, self._address)
            rows = self._output.finish(frame) if frame[slots.ROWS] else None
            if frame[slots.STATUS] != slots.FULL:
                yield int(frame[slots.FIRST]), rows
                return
            yield first, rows
