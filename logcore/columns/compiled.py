"""The kernels' lane: groups of about a megabyte of batches walked, decompressed and copied, a kernel call each.

walk        headers and checksums of a group of batches of one kind, into the batch table
inflate     their records into the arena, where they are compressed
emit        records into Arrow's buffers; `unfold` first for v0 and v1, `inspect` first for what is large
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from logcore.columns.arena import ARENA_BYTES, Arena, library_functions
from logcore.columns.kernels import slots
from logcore.columns.kernels.library import library
from logcore.columns.rows import RowBuffers
from logcore.columns.wanted import MAX_INT64, Place, Wanted
from logcore.records.compression import Codec
from logcore.records.model import Limits
from logcore.records.varint import Buffer

GROUP_BYTES = 1 << 20
"""Of one walk. Smaller groups pay more for each call, larger ones leave the second cache."""
GROUP_BATCHES = 16_384
ROW_LIMIT = 1 << 18
"""Rows of one Arrow batch."""
LARGE_BYTES = 16 << 20
"""From here on a group is checked before anything is allocated for its rows."""

_CONTROL_BIT = 32
_PASSED, _NATIVE, _FOREIGN = 0, 1, 2
_STORED_COLUMNS = [slots.ATTRIBUTES, slots.MAGIC, slots.BODY, slots.BODY_END]
_NO_KEY = (-1).to_bytes(4, "big", signed=True)


class CompiledLane:
    """The fast lane over one segment; see `logcore.columns.engines`."""

    def __init__(self, buf: Buffer, ceiling: int, wanted: Wanted, limits: Limits, place: Place) -> None:
        self._library = library()
        self._buf = buf
        self._bytes = np.frombuffer(buf, np.uint8) if len(buf) else np.zeros(1, np.uint8)
        self._wanted, self._limits = wanted, limits
        self._rows = RowBuffers(wanted, place)
        self._arena = Arena()
        self.position = self.next_offset = 0
        self._table = np.empty((GROUP_BATCHES, slots.WIDTH), np.int64)
        self._walk = np.zeros(slots.WALK_SLOTS, np.int64)
        self._walk[slots.WALK_SOURCE] = self._bytes.ctypes.data
        self._walk[slots.WALK_SIZE] = len(buf)
        self._walk[slots.WALK_CEILING] = ceiling
        self._walk[slots.WALK_MAX_BATCHES] = GROUP_BATCHES
        self._walk[slots.WALK_MAX_BYTES] = GROUP_BYTES
        self._walk[slots.WALK_TABLES] = self._library.tables_address
        self._walk[slots.WALK_TABLE] = self._table.ctypes.data
        self._inflate = np.zeros(slots.INFLATE_SLOTS, np.int64)
        self._inflate[slots.INFLATE_SOURCE] = self._bytes.ctypes.data
        self._inflate[slots.INFLATE_TABLE] = self._table.ctypes.data
        self._inflate[slots.INFLATE_CAP] = limits.decoded_batch_bytes
        lz4, zstd, state = library_functions()
        self._inflate[slots.INFLATE_LZ4], self._inflate[slots.INFLATE_ZSTD] = lz4, zstd
        self._inflate[slots.INFLATE_ZSTD_STATE] = state
        self._native = [codec for codec, there in ((Codec.LZ4, lz4), (Codec.ZSTD, zstd)) if there]
        self._emit = np.zeros(slots.SLOTS, np.int64)
        self._emit[slots.TABLE] = self._table.ctypes.data
        self._emit[slots.CHECKSUM_TABLES] = self._library.tables_address
        self._emit[slots.POSITION_BASE] = place.position_base
        self._set_filters(wanted)

    def _set_filters(self, wanted: Wanted) -> None:
        frame = self._emit
        frame[slots.FILTERED] = wanted.is_filtered
        frame[slots.RANGE_COUNT] = -1
        frame[slots.SINCE] = -MAX_INT64 - 1 if wanted.since is None else wanted.since
        frame[slots.UNTIL] = MAX_INT64 if wanted.until is None else wanted.until
        frame[slots.WANTED_KEY_SIZE] = -1
        frame[slots.WITH_CONTROL] = wanted.control
        self._ranges = np.array(wanted.visible or ((0, 0),), np.int64)
        if wanted.visible is not None:
            frame[slots.RANGES], frame[slots.RANGE_COUNT] = self._ranges.ctypes.data, len(wanted.visible)
        self._key = np.frombuffer(wanted.key or b"\0", np.uint8)
        if wanted.key is not None:
            frame[slots.WANTED_KEY], frame[slots.WANTED_KEY_SIZE] = self._key.ctypes.data, len(wanted.key)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Rows of batches from `position` on, for as long as all is beyond doubt; moves `position` behind them."""
        walk = self._walk
        while self.position < len(self._buf):
            walk[slots.WALK_POSITION], walk[slots.WALK_EXPECTED] = self.position, self.next_offset
            self._library.call("walk", walk.ctypes.data)
            count = int(walk[slots.WALK_COUNT])
            accepted = 0
            for so_far, columns in self._group(count, int(walk[slots.WALK_KIND])):
                accepted = so_far
                if columns is not None:
                    yield columns
            if accepted < count:
                self._stand_behind(accepted)
                return
            self.position, self.next_offset = int(walk[slots.WALK_POSITION]), int(walk[slots.WALK_EXPECTED])
            if walk[slots.WALK_STATUS] != slots.DONE:
                return

    def _stand_behind(self, accepted: int) -> None:
        """Move in front of the first batch of the table that was not accepted."""
        self.position = int(self._table[accepted, slots.POSITION])
        if accepted:
            self.next_offset = int(self._table[accepted - 1, slots.LAST_OFFSET]) + 1

    def _group(self, count: int, kind: int) -> Iterator[tuple[int, pa.RecordBatch | None]]:
        """Rows of the table's batches, each time with how many batches are accepted so far."""
        if kind in (slots.PLAIN, slots.PLAIN_MESSAGES):
            self._emit[slots.SOURCE], self._emit[slots.SOURCE_SIZE] = self._bytes.ctypes.data, len(self._buf)
            yield from self._batches(0, count, kind)
            return
        first = 0
        while first < count:
            end = self._decompress(first, count, kind)
            if end == first:
                return
            self._emit[slots.SOURCE], self._emit[slots.SOURCE_SIZE] = self._arena.address, self._arena.used
            accepted = first
            for so_far, columns in self._batches(first, end, kind):
                accepted = so_far
                yield accepted, columns
            if accepted < end:
                return
            first = end

    def _decompress(self, first: int, count: int, kind: int) -> int:
        """Fill the arena from batch `first` on; the first batch that is not in it (itself: it is in doubt)."""
        table, codecs = self._table, self._table[first:count, slots.ATTRIBUTES] & 7
        wanted = np.ones(count - first, bool) if kind >= slots.PLAIN_MESSAGES else self._wants(table[first:count])
        table[first:count, slots.BODY_END][~wanted] = table[first:count, slots.BODY][~wanted]
        native = np.isin(codecs, self._native)
        steps = np.where(wanted, np.where(native, _NATIVE, _FOREIGN), _PASSED)
        # Where the next batch is that is not treated alike.
        changes = np.append(np.flatnonzero(np.diff(steps)) + 1, count - first)
        self._arena.empty()
        at = first
        for change in changes:
            end, step = first + int(change), steps[at - first]
            if step == _NATIVE:
                at = self._inflate_some(at, end)
            elif step == _FOREIGN:
                at = self._add_foreign(at, end)
            else:
                at = end
            if at < end:
                break
        return at

    def _inflate_some(self, at: int, end: int) -> int:
        """Decompress batches in the kernel; the first that has no room, or is in doubt."""
        frame = self._inflate
        while True:
            frame[slots.INFLATE_FIRST], frame[slots.INFLATE_END] = at, end
            frame[slots.INFLATE_TARGET], frame[slots.INFLATE_ROOM] = self._arena.address, self._arena.size
            frame[slots.INFLATE_USED] = self._arena.used
            self._library.call("inflate", frame.ctypes.data)
            at, self._arena.used = int(frame[slots.INFLATE_FIRST]), int(frame[slots.INFLATE_USED])
            if frame[slots.INFLATE_STATUS] != slots.FULL or self._arena.used:
                return at
            self._arena.empty(int(frame[slots.INFLATE_NEEDED]))

    def _add_foreign(self, at: int, end: int) -> int:
        """Decompress batches by the packages' functions; the first that has no room, or is in doubt."""
        arena, limit = self._arena, self._limits.decoded_batch_bytes
        rows = self._table[at:end, _STORED_COLUMNS].tolist()
        with memoryview(self._buf) as view:
            for codec, magic, start, stop in rows:
                before = arena.used
                if before >= ARENA_BYTES:
                    break
                if magic < 2:
                    # A wrapper has no key, and its value goes to its end.
                    if stop - start < 8 or view[start : start + 8] != _NO_KEY + (stop - start - 8).to_bytes(4, "big"):
                        break
                    start += 8
                with view[start:stop] as stored:
                    if not arena.add(codec & 7, stored, limit, magic):
                        break
                self._table[at, slots.BODY], self._table[at, slots.BODY_END] = before, arena.used
                at += 1
        return at

    def _wants(self, rows: np.ndarray) -> np.ndarray:
        """`Wanted.may_hold` for each row of the table."""
        mask = np.ones(len(rows), bool)
        if not self._wanted.control:
            mask &= (rows[:, slots.ATTRIBUTES] & _CONTROL_BIT == 0) | (rows[:, slots.MAGIC] < 2)
        if self._wanted.visible is not None:
            starts, ends = self._ranges[: len(self._wanted.visible)].reshape(-1, 2).T
            # The first range that ends behind the batch's beginning must begin before the batch's end.
            at = np.searchsorted(ends, rows[:, slots.BASE_OFFSET], side="right")
            inside = at < len(ends)
            mask &= inside & (np.append(starts, MAX_INT64)[at] <= rows[:, slots.LAST_OFFSET])
        return mask

    def _batches(self, first: int, end: int, kind: int) -> Iterator[tuple[int, pa.RecordBatch | None]]:
        """Rows of batches whose records lie in the emit frame's source."""
        if kind >= slots.PLAIN_MESSAGES:
            end = self._unfold(first, end, kind)
        wanted = self._wants(self._table[first:end])
        at = first
        while at < end:
            run = int(np.argmin(np.append(wanted[at - first :], False)))
            if run == 0:
                at += max(1, int(np.argmax(np.append(wanted[at - first :], True))))
                yield at, None
                continue
            accepted = at
            for so_far, columns in self._run(at, at + run, kind):
                accepted = so_far
                yield accepted, columns
            if accepted < at + run:
                return
            at += run

    def _unfold(self, first: int, end: int, kind: int) -> int:
        frame = self._emit
        frame[slots.FIRST], frame[slots.END] = first, end
        frame[slots.WRAPPED] = kind == slots.COMPRESSED_MESSAGES
        before = self._table[first - 1, slots.LAST_OFFSET] if first else self.next_offset - 1
        frame[slots.PREVIOUS_LAST] = before
        self._library.call("unfold", frame.ctypes.data)
        return int(frame[slots.FIRST])

    def _run(self, first: int, end: int, kind: int) -> Iterator[tuple[int, pa.RecordBatch | None]]:
        """Rows of batches that are all wanted, at most ROW_LIMIT at a time."""
        frame, table = self._emit, self._table
        while first < end:
            counts = np.cumsum(table[first:end, slots.RECORD_COUNT])
            stop = first + max(1, int(np.searchsorted(counts, ROW_LIMIT, side="right")))
            records = int(counts[stop - first - 1])
            nbytes = int((table[first:stop, slots.BODY_END] - table[first:stop, slots.BODY]).sum())
            headers = nbytes // 2
            if records > ROW_LIMIT or nbytes > LARGE_BYTES:
                # Nothing of a damaged batch may be given out, so the whole is looked at before its first piece is.
                if kind < slots.PLAIN_MESSAGES:
                    frame[slots.FIRST], frame[slots.END], frame[slots.RECORD] = first, stop, 0
                    self._library.call("inspect", frame.ctypes.data)
                    stop = int(frame[slots.FIRST])
                    if stop == first:
                        return
                    headers = int(table[first:stop, slots.HEADERS].sum())
                    records = int(table[first:stop, slots.RECORD_COUNT].sum())
                else:
                    headers = 0
            frame[slots.FIRST], frame[slots.END], frame[slots.RECORD] = first, stop, 0
            kernel = "emit" if kind < slots.PLAIN_MESSAGES else "emit_messages"
            while True:
                room = min(records, ROW_LIMIT)
                self._rows.prepare(frame, room, nbytes, headers)
                self._library.call(kernel, frame.ctypes.data)
                status = int(frame[slots.STATUS])
                columns = self._rows.finish(frame) if frame[slots.ROWS] else None
                if status != slots.FULL:
                    yield int(frame[slots.FIRST]), columns
                    break
                if columns is not None:
                    yield first, columns
            if int(frame[slots.FIRST]) < stop:
                return
            first = stop
