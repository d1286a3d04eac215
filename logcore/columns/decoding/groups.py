"""Batches in groups of about a megabyte: walked by one kernel call, and decompressed by few more.

A group's batches are rows of the table (`kernels.slots`). Both kernel lanes stand on this: the one that copies records
out, and the one that only looks at them.
"""

from __future__ import annotations

import weakref

import numpy as np
import numpy.typing as npt

from logcore.columns.decoding.arena import ARENA_BYTES, Arena, ZstdState, crc32_function, lz4_function
from logcore.columns.kernels import slots
from logcore.columns.kernels.library import library
from logcore.records.compression import Codec
from logcore.records.model import Limits
from logcore.records.varint import Buffer

GROUP_BYTES = 2 << 20
"""Of one walk. Smaller groups pay more for each call; much larger ones leave the last cache."""
COMPRESSED_BYTES = 1 << 20
"""The same for compressed batches, whose records are larger."""
GROUP_BATCHES = 16_384

Table = npt.NDArray[np.int64]

_SUCCESSOR = 64
"""Bytes that tell whether the next batch claims offsets of the one before, and more."""

_PASSED, _NATIVE, _FOREIGN = 0, 1, 2
_STORED_COLUMNS = [slots.ATTRIBUTES, slots.MAGIC, slots.BODY, slots.BODY_END, slots.SOUND]
_NO_KEY = (-1).to_bytes(4, "big", signed=True)


class Groups:
    """The batches of a segment's bytes, a group at a time.

    ceiling: last offset that a batch may hold. Bytes are read in place and must stay there. goes_on: more bytes of the
    segment follow behind `buf`, so that a batch at its end has a successor that cannot be seen.
    """

    def __init__(self, buf: Buffer, ceiling: int, limits: Limits, goes_on: bool = False) -> None:
        self.library = library()
        self._buf = buf
        self.bytes = np.frombuffer(buf, np.uint8) if len(buf) else np.zeros(1, np.uint8)
        self._limit = limits.decoded_batch_bytes
        self.arena = Arena()
        self.table: Table = np.empty((GROUP_BATCHES, slots.WIDTH), np.int64)
        """Rows of the group's batches; those behind `count` are left over."""
        self.count = 0
        self.kind = slots.PLAIN
        self.position = 0
        """Behind the group."""
        self.next_offset = 0
        self.records = self.body_bytes = 0
        """Of all batches of the group, as stored; of wrappers their number."""
        self.codec = -1
        """Of all of them; -1 if they have several."""
        self.has_control = False
        self.is_doubtful = False
        """Whether a batch that is not plainly good follows the group."""
        self._sure_end = len(buf) - _SUCCESSOR if goes_on else len(buf)
        self._walk = np.zeros(slots.WALK_SLOTS, np.int64)
        self._walk_address = int(self._walk.ctypes.data)
        self._source = int(self.bytes.ctypes.data), len(buf)
        self._walk[slots.WALK_SOURCE] = self._source[0]
        self._walk[slots.WALK_SIZE] = len(buf)
        self._walk[slots.WALK_CEILING] = ceiling
        self._walk[slots.WALK_MAX_BATCHES] = GROUP_BATCHES
        self._walk[slots.WALK_TABLES] = self.library.tables_address
        self._walk[slots.WALK_TABLE] = self.table.ctypes.data
        self._walk[slots.WALK_CRC32] = crc32_function()
        self._inflate = np.zeros(slots.INFLATE_SLOTS, np.int64)
        self._inflate_address = int(self._inflate.ctypes.data)
        self._inflate[slots.INFLATE_SOURCE] = self._source[0]
        self._inflate[slots.INFLATE_TABLE] = self.table.ctypes.data
        self._inflate[slots.INFLATE_CAP] = self._limit
        self._inflate[slots.INFLATE_LZ4] = lz4_function()
        self._scratch = np.zeros(1024, np.uint8)
        zstd = ZstdState()
        weakref.finalize(self, zstd.close)
        self._inflate[slots.INFLATE_ZSTD], self._inflate[slots.INFLATE_ZSTD_STATE] = zstd.function, zstd.state
        there = {Codec.LZ4: slots.INFLATE_LZ4, Codec.ZSTD: slots.INFLATE_ZSTD}
        self._native = [int(codec) for codec, slot in there.items() if self._inflate[slot]]

    def walk(self, position: int, next_offset: int, stop: int) -> None:
        """Find the group at a position where `next_offset` is the lowest possible; none begins at or behind `stop`."""
        frame = self._walk
        frame[slots.WALK_POSITION], frame[slots.WALK_EXPECTED] = position, next_offset
        frame[slots.WALK_MAX_BYTES] = min(GROUP_BYTES, stop - position)
        frame[slots.WALK_MAX_COMPRESSED] = min(COMPRESSED_BYTES, stop - position)
        self.library.call("walk", self._walk_address)
        found = frame.tolist()
        self.count, self.kind, self.codec = found[slots.WALK_COUNT], found[slots.WALK_KIND], found[slots.WALK_CODEC]
        self.position, self.next_offset = found[slots.WALK_POSITION], found[slots.WALK_EXPECTED]
        self.records, self.body_bytes = found[slots.WALK_RECORDS], found[slots.WALK_BODY_BYTES]
        self.has_control = found[slots.WALK_HAS_CONTROL] != 0
        self.is_doubtful = found[slots.WALK_STATUS] != slots.DONE
        if self.count and self.position > self._sure_end:
            self.count -= 1
            self.position = int(self.table[self.count, slots.POSITION])
            if self.count:
                next_offset = int(self.table[self.count - 1, slots.LAST_OFFSET]) + 1
            self.next_offset, self.is_doubtful = next_offset, True

    @property
    def is_compressed(self) -> bool:
        """Whether the records of the group's batches have to be decompressed."""
        return self.kind in (slots.COMPRESSED, slots.COMPRESSED_MESSAGES)

    @property
    def is_messages(self) -> bool:
        """Whether the group's batches are of format v0 or v1."""
        return self.kind >= slots.PLAIN_MESSAGES

    def source(self) -> tuple[int, int]:
        """(address, size) of the bytes that BODY and BODY_END of the table speak of."""
        if self.is_compressed:
            return self.arena.address, self.arena.used
        return self._source

    def decompress(self, first: int, wanted: npt.NDArray[np.bool_] | None = None) -> int:
        """Fill the arena with the records of the group's batches from `first` on, leaving out those not `wanted`
        (from `first` on too; None: all are). The first batch that is not done; `first` itself if it is in doubt."""
        table, count = self.table, self.count
        if wanted is None and self.codec >= 0:
            self.arena.empty()
            native = self.codec in self._native
            return self._inflate_some(first, count) if native else self._add_foreign(first, count)
        wanted = np.ones(count - first, bool) if wanted is None else wanted
        codecs = table[first:count, slots.ATTRIBUTES] & 7
        table[first:count, slots.BODY_END][~wanted] = table[first:count, slots.BODY][~wanted]
        steps = np.where(wanted, np.where(np.isin(codecs, self._native), _NATIVE, _FOREIGN), _PASSED)
        # Where the next batch is that is not treated alike.
        changes = np.append(np.flatnonzero(np.diff(steps)) + 1, count - first)
        self.arena.empty()
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
            frame[slots.INFLATE_TARGET], frame[slots.INFLATE_ROOM] = self.arena.address, self.arena.size
            frame[slots.INFLATE_USED] = self.arena.used
            self.library.call("inflate", self._inflate_address)
            at, self.arena.used = int(frame[slots.INFLATE_FIRST]), int(frame[slots.INFLATE_USED])
            if frame[slots.INFLATE_STATUS] != slots.FULL or self.arena.used:
                return at
            self.arena.empty(int(frame[slots.INFLATE_NEEDED]))

    def _add_foreign(self, at: int, end: int) -> int:
        """Decompress batches by the packages' functions; the first that has no room, or is in doubt."""
        arena, frame = self.arena, self._inflate
        frame[slots.INFLATE_FIRST], frame[slots.INFLATE_END] = at, end
        frame[slots.INFLATE_TARGET] = self._scratch.ctypes.data
        self.library.call("judge_gzip", self._inflate_address)
        rows = self.table[at:end, _STORED_COLUMNS].tolist()
        view, limit, bounds = memoryview(self._buf), self._limit, [arena.used]
        for attributes, magic, start, stop, is_sound in rows:
            if arena.used >= ARENA_BYTES:
                break
            if magic < 2:
                # A wrapper has no key, and its value goes to its end.
                if stop - start < 8 or view[start : start + 8] != _NO_KEY + (stop - start - 8).to_bytes(4, "big"):
                    break
                start += 8
            if not arena.add(attributes & 7, view[start:stop], limit, magic, is_sound):
                break
            bounds.append(arena.used)
        done = at + len(bounds) - 1
        self.table[at:done, slots.BODY], self.table[at:done, slots.BODY_END] = bounds[:-1], bounds[1:]
        return done

    def unfold(self, first: int, end: int, frame: npt.NDArray[np.int64], lowest: int) -> int:
        """Check the v0 or v1 messages of batches, and find the base offsets of wrappers: none below `lowest`. The
        first batch that is in doubt. frame: an emit frame whose source is set."""
        frame[slots.FIRST], frame[slots.END] = first, end
        frame[slots.WRAPPED] = self.is_compressed
        frame[slots.PREVIOUS_LAST] = self.table[first - 1, slots.LAST_OFFSET] if first else lowest - 1
        self.library.call("unfold", frame.ctypes.data)
        return int(frame[slots.FIRST])

    def emit_frame(self) -> npt.NDArray[np.int64]:
        """A new frame for the kernels that read records, with what does not change set."""
        frame = np.zeros(slots.SLOTS, np.int64)
        frame[slots.TABLE] = self.table.ctypes.data
        frame[slots.CHECKSUM_TABLES] = self.library.tables_address
        frame[slots.RANGE_COUNT] = frame[slots.WANTED_KEY_SIZE] = -1
        return frame
