"""A table of the next batches of a segment, about a megabyte: one kernel call fills it, and few calls decompress it.

A batch is a row of the table (`kernels.batch_row`). Both kernel lanes use it: the one that copies records, and the one
that only checks them.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from logcore.columns.decoding.arena import ARENA_BYTES, Arena, ZstdState, crc32_function, lz4_function
from logcore.columns.kernels import batch_row
from logcore.columns.kernels.call_frames import DONE, FULL, Address, address_of
from logcore.columns.kernels.decoding.decoding_frames import InflateFrame, RecordsFrame, WalkFrame
from logcore.columns.kernels.library import library
from logcore.records.compression import Codec
from logcore.records.model import CODEC_MASK, Limits
from logcore.records.varint import Buffer

TABLE_BYTES = 2 << 20
"""Bytes of one table's batches. Smaller tables cost more calls; much larger ones exceed the last-level cache."""
COMPRESSED_BYTES = 1 << 20
"""The same for compressed batches, whose records are larger."""
TABLE_BATCHES = 16_384
FIRST_BATCHES, DOUBTED_BATCHES = 128, 16
"""Most batches of the first call, if a package decompresses them, and of the first call after a doubt. Each call that
follows may have twice as many, so a doubt wastes little. A table has fewer batches of ordinary size.
"""

Table = npt.NDArray[np.int64]

Gaps = Table | Sequence[tuple[int, int, int]]
"""Gaps between batches, by offsets: the lowest possible one, the batch's own, and the position of the batch."""

_SUCCESSOR = 64
"""Bytes that show whether the next batch claims offsets of the one before, and some more."""

_STORED_COLUMNS = [batch_row.ATTRIBUTES, batch_row.MAGIC, batch_row.BODY, batch_row.BODY_END, batch_row.SOUND]
_NO_KEY = (-1).to_bytes(4, "big", signed=True)


def gaps_in(rows: Table, next_offset: int) -> Table:
    """Return the gaps before batches.

    Args:
        rows: Rows of batches, at least one.
        next_offset: The lowest possible offset of the first one.
    """
    expected = np.concatenate(([next_offset], rows[:-1, batch_row.LAST_OFFSET] + 1))
    after = np.flatnonzero(rows[:, batch_row.BASE_OFFSET] > expected)
    return np.column_stack((expected[after], rows[after][:, [batch_row.BASE_OFFSET, batch_row.POSITION]]))


class BatchTable:
    """The batches of a segment's bytes, one table at a time. The bytes are read in place and must stay there.

    Args:
        buf: The segment's bytes.
        ceiling: Greatest last offset of a batch.
        limits: Limits on decompression.
        goes_on: The segment has more bytes after `buf`, so the batch after the last one is unknown.
    """

    def __init__(self, buf: Buffer, ceiling: int, limits: Limits, goes_on: bool = False) -> None:
        self.library = library()
        self._buf = buf
        self.bytes = np.frombuffer(buf, np.uint8) if len(buf) else np.zeros(1, np.uint8)
        self._limit = limits.decoded_batch_bytes
        self.arena = Arena()
        self.table: Table = np.empty((TABLE_BATCHES, batch_row.WIDTH), np.int64)
        """Rows of batches; those from `count` on are old."""
        self.count = 0
        self.kind = batch_row.PLAIN
        self.position = 0
        """Position after the last batch of the table."""
        self.next_offset = 0
        self.records = self.body_bytes = 0
        """Sums over all batches of the table, as stored; for wrappers, `records` is the number of wrappers."""
        self.codec = -1
        """Codec of all batches; -1 if they have several. Markers between compressed batches do not count."""
        self.is_doubtful = False
        """Whether a batch that is not certainly good follows the table."""
        self._filled_to = 0
        self._first = 0
        self._window = FIRST_BATCHES
        self._inflated = self._validated = 0
        self._sure_end = len(buf) - _SUCCESSOR if goes_on else len(buf)
        self._walk = WalkFrame()
        self._source = address_of(self.bytes), len(buf)
        self._walk.source = self._source[0]
        self._walk.size = len(buf)
        self._walk.ceiling = ceiling
        self._walk.max_batches = TABLE_BATCHES
        self._walk.checksum_tables = self.library.tables_address
        self._walk.table = address_of(self.table)
        self._walk.crc32 = crc32_function()
        self._inflate = InflateFrame()
        self._inflate.source = self._source[0]
        self._inflate.table = address_of(self.table)
        self._inflate.cap = self._limit
        self._scratch = np.zeros(1024, np.uint8)
        zstd = ZstdState()
        weakref.finalize(self, zstd.close)
        for codec, decoder, state in ((Codec.LZ4, lz4_function(), 0), (Codec.ZSTD, zstd.function, zstd.state)):
            self._inflate.decoders[codec] = decoder
            self._inflate.states[codec] = state
        self._native = [int(codec) for codec in Codec if self._inflate.decoders[codec]]

    def begin(self, position: int, next_offset: int, stop: int) -> int:
        """Return the row of the batch at a position. The table is filled unless it holds the batch already, perhaps
        decompressed: after a doubt, nothing is done twice.

        Args:
            position: Position of the first batch; at or after the last batch that was read.
            next_offset: Lowest possible offset.
            stop: As in `fill`.
        """
        if position < self.position:
            row = bisect_left(range(self.count), position, key=lambda each: int(self.table[each, batch_row.POSITION]))
            if 0 < row < self.count and self._still_holds(row, position, next_offset, stop):
                self._first, self._window = row, DOUBTED_BATCHES
                return row
        self.fill(position, next_offset, stop)
        return 0

    def _still_holds(self, row: int, position: int, next_offset: int, stop: int) -> bool:
        """Whether `fill` would find what the table has from a row on."""
        if self.table[row, batch_row.POSITION] != position or stop != self._filled_to:
            return False
        # After damage, the lowest offset is lower than the walk assumed. Then there may be a gap before the batch, and
        # that matters where a compressed message follows (`kernels.decoding.batches`).
        assumed = self.table[row - 1, batch_row.LAST_OFFSET] + 1
        is_near_wrapper = self.kind != batch_row.COMPRESSED_MESSAGES and self.table[row, batch_row.BEFORE_WRAPPER] != 0
        return bool(next_offset == assumed or (next_offset < assumed and not is_near_wrapper))

    def end_of_call(self, first: int) -> int:
        """Return the exclusive last batch of the next call, which begins with the batch `first`."""
        window, self._window = self._window, min(2 * self._window, TABLE_BATCHES)
        # What follows the last message of a call is unknown to it.
        return self.count if self._first == 0 or self.is_messages else min(self.count, first + window)

    def fill(self, position: int, next_offset: int, stop: int) -> None:
        """Fill the table with batches from a position on that begin before `stop`; `next_offset` is the lowest possible
        offset.
        """
        frame = self._walk
        self._filled_to, self._first, self._inflated, self._validated = stop, 0, 0, 0
        frame.position, frame.expected = position, next_offset
        frame.max_bytes = min(TABLE_BYTES, stop - position)
        frame.max_compressed = min(COMPRESSED_BYTES, stop - position)
        self.library.call("walk", frame)
        self.count, self.kind, self.codec = frame.count, frame.kind, frame.codec
        self.position, self.next_offset = frame.position, frame.expected
        self.records, self.body_bytes = frame.records, frame.body_bytes
        self.is_doubtful = frame.status != DONE
        if self.count and self.position > self._sure_end:
            self.count -= 1
            self.position = int(self.table[self.count, batch_row.POSITION])
            if self.count:
                next_offset = int(self.table[self.count - 1, batch_row.LAST_OFFSET]) + 1
            self.next_offset, self.is_doubtful = next_offset, True

    @property
    def is_compressed(self) -> bool:
        """Whether the records of the table's batches must be decompressed. Markers among them are copied."""
        return self.kind in (batch_row.COMPRESSED, batch_row.COMPRESSED_MESSAGES)

    @property
    def is_messages(self) -> bool:
        """Whether the table's batches are of format v0 or v1."""
        return self.kind >= batch_row.PLAIN_MESSAGES

    def source(self) -> tuple[Address, int]:
        """(address, size) of the bytes that BODY and BODY_END of the table refer to."""
        if self.is_compressed:
            return self.arena.address, self.arena.used
        return self._source

    def decompress(self, first: int, end: int, wanted: npt.NDArray[np.bool_] | None = None) -> int:
        """Decompress records of the table's batches from `first` on into the arena, unless they are there.

        Args:
            first: The first batch; at or after the first one of the call before.
            end: The exclusive last batch.
            wanted: Which of these batches are wanted; None for all.

        Returns:
            The first batch that is not done; `first` itself if the kernels do not accept it.
        """
        if first >= self._inflated:
            self._inflated = self._decompressed(first, end, wanted)
        return min(self._inflated, end)

    def _decompressed(self, first: int, end: int, wanted: npt.NDArray[np.bool_] | None) -> int:
        table = self.table
        if wanted is not None:
            table[first:end, batch_row.BODY][~wanted] = batch_row.UNWANTED
        self.arena.empty()
        if self.codec >= 0:
            native = self.codec in self._native
            return self._inflate_some(first, end) if native else self._add_foreign(first, end)
        codecs = table[first:end, batch_row.ATTRIBUTES] & CODEC_MASK
        # Both ways copy markers, and pass over batches that are not wanted.
        is_foreign = (table[first:end, batch_row.BODY] != batch_row.UNWANTED) & ~np.isin(
            codecs, [Codec.NONE, *self._native]
        )
        changes = np.append(np.flatnonzero(np.diff(is_foreign)) + 1, end - first)
        at = first
        for change in changes.tolist():
            until = first + change
            at = self._add_foreign(at, until) if is_foreign[at - first] else self._inflate_some(at, until)
            if at < until:
                break
        return at

    def _inflate_some(self, at: int, end: int) -> int:
        """Decompress batches in the kernel. Returns the first one that has no room or is not accepted."""
        frame = self._inflate
        while True:
            frame.first, frame.end = at, end
            frame.target, frame.room = self.arena.address, self.arena.size
            frame.used = self.arena.used
            self.library.call("inflate", frame)
            at, self.arena.used = frame.first, frame.used
            if frame.status != FULL or self.arena.used:
                return at
            self.arena.empty(frame.needed)

    def _add_foreign(self, at: int, end: int) -> int:
        """Decompress batches with the packages' functions. Returns as `_inflate_some`."""
        arena, frame = self.arena, self._inflate
        if not self.is_messages:
            end = min(end, at + self._window)
        frame.first, frame.end = max(at, self._validated), end
        frame.target = address_of(self._scratch)
        if end > self._validated:
            self.library.call("validate_gzip", frame)
            self._validated = end
        rows = self.table[at:end, _STORED_COLUMNS].tolist()
        view, limit, bounds = memoryview(self._buf), self._limit, [arena.used]
        for attributes, magic, start, stop, is_sound in rows:
            if start == batch_row.UNWANTED:
                bounds.append(arena.used)
                continue
            if arena.used >= ARENA_BYTES:
                break
            codec = attributes & CODEC_MASK
            if magic < 2:
                # A wrapper has no key, and its value extends to its end.
                if stop - start < 8 or view[start : start + 8] != _NO_KEY + (stop - start - 8).to_bytes(4, "big"):
                    break
                start += 8
            if codec == Codec.NONE:
                arena.put(view[start:stop])
            elif not arena.add(codec, view[start:stop], limit, magic, is_sound):
                break
            bounds.append(arena.used)
        done = at + len(bounds) - 1
        self.table[at:done, batch_row.BODY], self.table[at:done, batch_row.BODY_END] = bounds[:-1], bounds[1:]
        return done

    def unfold(self, first: int, end: int, frame: RecordsFrame, lowest: int) -> int:
        """Check the v0 or v1 messages of batches, and find the base offsets of wrappers.

        Args:
            first: The first batch.
            end: The exclusive last batch.
            frame: A frame with a source.
            lowest: Lowest possible base offset.

        Returns:
            The first batch that is not accepted.
        """
        frame.table = address_of(self.table)
        frame.first, frame.end = first, end
        frame.wrapped = self.is_compressed
        frame.previous_last = int(self.table[first - 1, batch_row.LAST_OFFSET]) if first > self._first else lowest - 1
        self.library.call("unfold", frame)
        return frame.first

    def emit_frame(self) -> RecordsFrame:
        """Create a frame for the kernels that read records, with its constant fields set."""
        frame = RecordsFrame()
        frame.table = address_of(self.table)
        frame.checksum_tables = self.library.tables_address
        frame.range_count = frame.wanted_key_size = -1
        frame.wanted_name_size = frame.wanted_content_size = -1
        return frame
