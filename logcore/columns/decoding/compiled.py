"""The kernels' fast lane: tables of batches in, rows out, one kernel call for each table.

inspect     called first for large tables, so that no row of a batch is returned before the whole batch is checked
unfold      called first for v0 and v1 messages
emit        writes records to the buffers of an `Output`, which returns rows: an Arrow batch, or lines of text
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from logcore.columns.decoding.batch_table import BatchTable, Gaps, Table, gaps_in
from logcore.columns.kernels import batch_row
from logcore.columns.kernels.call_frames import FULL, address_of
from logcore.columns.kernels.decoding.decoding_frames import RecordsFrame
from logcore.columns.wanted import MAX_INT64, Wanted
from logcore.records.model import MAGIC_V2, Limits
from logcore.records.varint import Buffer

ROW_LIMIT = 1 << 18
"""Most rows of one call."""
LARGE_BYTES = 16 << 20
"""From this size on, a table is checked before its rows are allocated."""

MOST_BYTES = (1 << 31) - 1
"""Most bytes of keys or values in one Arrow batch, whose offsets have 32 bits; the kernels refuse a larger batch."""

Rows = TypeVar("Rows", covariant=True)


class Output(Protocol[Rows]):
    """The result of one kernel call."""

    @property
    def takes_any_name(self) -> bool:
        """Whether a record header's name may be any bytes; else the kernels doubt a name that is not UTF-8."""

    def prepare(self, frame: RecordsFrame, rows: int, nbytes: int, headers: int) -> None:
        """Set the frame's buffers for `rows` rows with at most `nbytes` bytes and `headers` record headers."""

    def finish(self, frame: RecordsFrame) -> Rows:
        """Return the rows that the kernel wrote; there is at least one."""


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
        self._batch_table = BatchTable(buf, ceiling, limits, goes_on)
        self._table: Table = self._batch_table.table
        self._wanted, self._output = wanted, output
        self.position = self.next_offset = 0
        self.stop = len(buf)
        self.gaps: list[Gaps] = []
        self.enough: Callable[[], bool] = _never
        """Called after each table, and between batches of a compressed table; True ends the walk."""
        self._frame = self._batch_table.emit_frame()
        self._frame.position_base = position_base
        self._frame.takes_any_name = output.takes_any_name
        self._set_filters(wanted)

    def _set_filters(self, wanted: Wanted) -> None:
        frame = self._frame
        frame.filtered = wanted.is_filtered
        frame.since = -MAX_INT64 - 1 if wanted.since is None else wanted.since
        # `until` is exclusive. Only the greatest possible timestamp is not below the greatest possible one.
        frame.until = MAX_INT64 if wanted.until is None else wanted.until
        frame.until_open = wanted.until is None
        frame.with_control = wanted.control
        self._ranges = np.array(wanted.visible or ((0, 0),), np.int64)
        if wanted.visible is not None:
            frame.ranges, frame.range_count = address_of(self._ranges), len(wanted.visible)
        self._key = np.frombuffer(wanted.key or b"\0", np.uint8)
        if wanted.key is not None:
            frame.wanted_key, frame.wanted_key_size = address_of(self._key), len(wanted.key)
        name, content = wanted.header or (b"", None)
        self._header = np.frombuffer(name + b"\0", np.uint8), np.frombuffer((content or b"") + b"\0", np.uint8)
        if wanted.header is not None:
            frame.wanted_name, frame.wanted_name_size = address_of(self._header[0]), len(name)
        if content is not None:
            frame.wanted_content, frame.wanted_content_size = address_of(self._header[1]), len(content)

    def rows(self) -> Iterator[Rows]:
        """Yield rows of batches from `position` on, as long as they are certainly good and begin before `stop`. It
        moves `position` after them.
        """
        batches = self._batch_table
        while self.position < self.stop:
            first = accepted = batches.begin(self.position, self.next_offset, self.stop)
            for so_far, rows in self._group(first):
                is_whole, accepted = so_far > accepted, so_far
                if rows is not None:
                    yield rows
                if is_whole and accepted < batches.count and self.enough():
                    break
            if accepted > first:
                self.gaps.append(gaps_in(self._table[first:accepted], self.next_offset))
            if accepted < batches.count:
                self.position = int(self._table[accepted, batch_row.POSITION])
                if accepted > first:
                    self.next_offset = int(self._table[accepted - 1, batch_row.LAST_OFFSET]) + 1
                return
            self.position, self.next_offset = batches.position, batches.next_offset
            if batches.is_doubtful or self.enough():
                return

    def _group(self, first: int) -> Iterator[tuple[int, Rows | None]]:
        """Yield rows of the table from a batch on, each time with the first batch that is not accepted so far."""
        batches = self._batch_table
        while first < batches.count:
            end = batches.end_of_call(first)
            if batches.is_compressed:
                # All messages are read: only that gives a wrapper's base offset.
                end = batches.decompress(first, end, None if batches.is_messages else self._wants(first, end))
                if end == first:
                    return
            self._frame.source, self._frame.source_size = batches.source()
            accepted = first
            for so_far, given in self._batches(first, end):
                accepted = so_far
                yield accepted, given
            if accepted < end:
                return
            first = end

    def _wants(self, first: int, end: int) -> npt.NDArray[np.bool_] | None:
        """Evaluate `Wanted.reads` for some batches of the table; None if it is true for all."""
        since = self._wanted.skips_before
        producer_id, has_header = self._wanted.producer_id, self._wanted.header is not None
        if self._wanted.visible is None and since is None and not has_header and producer_id is None:
            return None
        rows = self._table[first:end]
        mask = np.ones(len(rows), bool)
        if since is not None:
            mask &= (rows[:, batch_row.MAX_TIMESTAMP] >= since) | (rows[:, batch_row.MAGIC] < 2)
        if producer_id is not None:
            mask &= rows[:, batch_row.PRODUCER_ID] == producer_id
        if has_header:
            mask &= rows[:, batch_row.MAGIC] >= MAGIC_V2
        if self._wanted.visible is not None:
            ranges = self._ranges[: len(self._wanted.visible)]
            # The first range that ends after the batch's beginning must begin before the batch's end.
            at = np.searchsorted(ranges[:, 1], rows[:, batch_row.BASE_OFFSET], side="right")
            mask &= np.append(ranges[:, 0], MAX_INT64)[at] <= rows[:, batch_row.LAST_OFFSET]
        return None if mask.all() else mask

    def _batches(self, first: int, end: int) -> Iterator[tuple[int, Rows | None]]:
        """Yield rows of batches whose records are in the frame's source."""
        batches = self._batch_table
        if batches.is_messages:
            end = batches.unfold(first, end, self._frame, self.next_offset)
        wanted = self._wants(first, end)
        if wanted is None:
            yield from self._run(self._table, first, end)
            return
        # Wanted batches are read from a table of their own. Between batches of other producers there may be
        # one at a time, and a kernel call for each would cost more than all else.
        places = np.flatnonzero(wanted) + first
        if not len(places):
            yield end, None
            return
        for done, rows in self._run(self._table[places], 0, len(places)):
            yield int(places[done]) if done < len(places) else end, rows

    def _run(self, table: Table, first: int, end: int) -> Iterator[tuple[int, Rows | None]]:
        """Yield rows of batches of a table that are all wanted, at most ROW_LIMIT at a time."""
        batches = self._batch_table
        while first < end:
            stop, records, nbytes = end, batches.records, batches.body_bytes
            whole = table is self._table and first == 0 and end == batches.count and batches.kind == batch_row.PLAIN
            if not whole or records > ROW_LIMIT:
                counts = np.cumsum(table[first:end, batch_row.RECORD_COUNT])
                stop = first + max(1, int(np.searchsorted(counts, ROW_LIMIT, side="right")))
                records = int(counts[stop - first - 1])
                nbytes = int((table[first:stop, batch_row.BODY_END] - table[first:stop, batch_row.BODY]).sum())
            if nbytes > MOST_BYTES:
                if stop - first == 1:
                    return
                stop, nbytes = first + 1, int(table[first, batch_row.BODY_END] - table[first, batch_row.BODY])
                records = int(table[first, batch_row.RECORD_COUNT])
                if nbytes > MOST_BYTES:
                    return
            headers = 0 if batches.is_messages else nbytes // 2
            if not batches.is_messages and (records > ROW_LIMIT or nbytes > LARGE_BYTES):
                stop = self._inspect(table, first, stop)
                if stop == first:
                    return
                headers = int(table[first:stop, batch_row.HEADERS].sum())
            accepted = first
            for so_far, rows in self._emit(table, first, stop, min(records, ROW_LIMIT), nbytes, headers):
                accepted = so_far
                yield accepted, rows
            if accepted < stop:
                return
            first = stop

    def _inspect(self, table: Table, first: int, stop: int) -> int:
        frame = self._frame
        frame.table = address_of(table)
        frame.first, frame.end, frame.record = first, stop, 0
        self._batch_table.library.call("inspect", frame)
        return frame.first

    def _emit(
        self, table: Table, first: int, stop: int, room: int, nbytes: int, headers: int
    ) -> Iterator[tuple[int, Rows | None]]:
        frame = self._frame
        kernel = "emit_messages" if self._batch_table.is_messages else "emit"
        frame.first, frame.end, frame.record = first, stop, 0
        while True:
            frame.table = address_of(table)
            self._output.prepare(frame, room, nbytes, headers)
            self._batch_table.library.call(kernel, frame)
            rows = self._output.finish(frame) if frame.rows else None
            if frame.status != FULL:
                yield frame.first, rows
                return
            yield first, rows
