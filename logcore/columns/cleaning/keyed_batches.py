"""A segment's batches for cleaning: in chunks whose records are rows with hashed keys, or one by one.

    chunk          v2 batches that are certainly good: for each record the hash of its key, its offset, its beginning,
                   and whether it has a key and a value
    single batch   anything else: v0 and v1 messages, numbers that Kafka would encode in another way, header names that
                   are not UTF-8, records that contradict their batch. The plain code handles it

Together they are the batches that `PlainCleaner` reads, in their order. Stretches that a segment lists as unreadable
are skipped. The CRCs of chunks are verified, even if the caller did that before.

Memory: chunks come from tables of 2 MiB of batches, 1 MiB if compressed, and need 41 bytes for each record, and 2 to
4 MiB for decompression: in all at most some 20 MiB, as long as no single batch is larger than that. A larger batch
needs a row for every seven of its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logcore.columns.cleaning.newest_bits import NewestBits
from logcore.columns.cleaning.offset_map import Halves, HashKey, Offsets
from logcore.columns.decoding.batch_table import BatchTable, Table
from logcore.columns.kernels import batch_row
from logcore.columns.kernels.call_frames import Address, address_of
from logcore.columns.kernels.cleaning.cleaning_frames import HashFrame, RowsFrame
from logcore.columns.kernels.library import library
from logcore.logs.compaction.cleaning_round import SourceSegment
from logcore.records.batch import BatchHeader, read_header
from logcore.records.model import DEFAULT_LIMITS, Limits
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET

_SMALLEST_RECORD = 7


@dataclass(frozen=True, slots=True)
class SingleBatch:
    """A batch for the plain code."""

    position: int
    header: BatchHeader


@dataclass(frozen=True, slots=True)
class KeyedChunk:
    """Batches with their records as rows; views of buffers that the next chunk overwrites.

    `table`: rows of `kernels.batch_row`. `first_rows`: the first row of each batch, then the number of rows. `newest`:
    room for the results of a map. `source`: (address, size) of the bytes that BODY and `starts` refer to. `is_newest`:
    the rows are only the records that are the newest of their key; `newest` contains their offsets, and hashes are not
    set.
    """

    table: Table
    first_rows: Offsets
    high: Halves
    low: Halves
    offsets: Offsets
    starts: Offsets
    flags: npt.NDArray[np.uint8]
    newest: Offsets
    source: tuple[Address, int]
    is_newest: bool = False

    def __len__(self) -> int:
        return len(self.table)

    @property
    def rows(self) -> int:
        """The number of records."""
        return len(self.offsets)


class KeyedBatches:
    """Reads successive segments; its buffers are used again."""

    def __init__(self, hash_key: HashKey, limits: Limits = DEFAULT_LIMITS) -> None:
        self._library = library()
        self._limits = limits
        self._frame = RowsFrame()
        hash_key.set(self._frame)
        self._first_rows = np.zeros(1, np.int64)
        self._hold(1 << 12)

    def _hold(self, rows: int) -> None:
        self._high, self._low = np.empty(rows, np.uint64), np.empty(rows, np.uint64)
        self._offsets, self._starts = np.empty(rows, np.int64), np.empty(rows, np.int64)
        self._newest, self._flags = np.empty(rows, np.int64), np.empty(rows, np.uint8)
        frame = self._frame
        frame.capacity = rows
        frame.high, frame.low = address_of(self._high), address_of(self._low)
        frame.offsets, frame.starts = address_of(self._offsets), address_of(self._starts)
        frame.flags = address_of(self._flags)

    def of(
        self, segment: SourceSegment, position: int = 0, bits: NewestBits | None = None
    ) -> Iterator[KeyedChunk | SingleBatch]:
        """Yield the batches of a segment.

        Args:
            segment: The segment.
            position: Where the first batch begins.
            bits: Bits of a map that has this segment from its `dirty_position` on. Chunks that they fully describe have
                rows only for the newest records.

        Raises:
            CorruptRecordError: Bytes that are not listed as unreadable are not a batch.
        """
        content, unreadable = segment.content, dict(segment.unreadable)
        size = len(content)
        ceiling = min(segment.base_offset + MAX_RELATIVE_OFFSET, MAX_OFFSET - 1, segment.next_base_offset - 1)
        batches = BatchTable(content, ceiling, self._limits)
        next_offset = 0
        while position < size:
            if position in unreadable:
                position = unreadable[position]
                continue
            stop = min((start for start in unreadable if start > position), default=size)
            batches.fill(position, next_offset, stop)
            yield from self._of_table(segment, batches, bits)
            position, next_offset = batches.position, batches.next_offset
            if batches.is_doubtful and position < stop:
                header = read_header(content, position)
                yield SingleBatch(position, header)
                position, next_offset = position + header.size, header.next_offset

    def _of_table(
        self, segment: SourceSegment, batches: BatchTable, bits: NewestBits | None
    ) -> Iterator[KeyedChunk | SingleBatch]:
        first = 0
        while first < batches.count:
            begun = first
            end = first if batches.is_messages else batches.count
            if batches.is_compressed and not batches.is_messages:
                end = batches.decompress(first, end)
            was_mapped = batches.table[first, batch_row.POSITION] >= segment.dirty_position
            if bits is not None and was_mapped and bits.describe(batches.table[first:end]):
                chunk = self._chunk(batches, first, end, bits)
                if chunk is not None:
                    first += len(chunk)
                    yield chunk
            while first < end:
                chunk = self._chunk(batches, first, end)
                if chunk is not None:
                    first += len(chunk)
                    yield chunk
                if first < end:
                    yield self._single(segment, batches, first)
                    first += 1
            if first == begun:
                yield self._single(segment, batches, first)
                first += 1

    def _single(self, segment: SourceSegment, batches: BatchTable, batch: int) -> SingleBatch:
        position = int(batches.table[batch, batch_row.POSITION])
        return SingleBatch(position, read_header(segment.content, position))

    def _chunk(self, batches: BatchTable, first: int, end: int, bits: NewestBits | None = None) -> KeyedChunk | None:
        """Read batches from `first` on, None if they are not certainly good; with `bits` only the newest records."""
        table = batches.table[first:end]
        bodies = table[:, batch_row.BODY_END] - table[:, batch_row.BODY]
        rows = int(np.minimum(table[:, batch_row.RECORD_COUNT], bodies // _SMALLEST_RECORD).sum())
        frame = self._frame
        if rows > frame.capacity:
            self._hold(rows * 5 // 4)
        if len(self._first_rows) <= len(table):
            self._first_rows = np.zeros(max(len(table) + 1, 256), np.int64)
        frame.first_rows = address_of(self._first_rows)
        frame.source, frame.source_size = batches.source()
        frame.table = address_of(table)
        frame.first, frame.end, frame.rows = 0, end - first, 0
        if bits is None:
            self._library.call("hash_keys", frame)
        else:
            frame.bits, frame.bits_from = address_of(bits.bits), bits.first
            self._library.call("newest_rows", frame)
        count, rows = frame.first, frame.rows
        if not count:
            return None
        return KeyedChunk(
            table[:count],
            self._first_rows[: count + 1],
            self._high[:rows],
            self._low[:rows],
            self._offsets[:rows],
            self._starts[:rows],
            self._flags[:rows],
            self._newest[:rows] if bits is None else self._offsets[:rows],
            batches.source(),
            bits is not None,
        )


def hashes_of(keys: Sequence[bytes], hash_key: HashKey) -> tuple[Halves, Halves]:
    """Return both halves of the hashes of keys, as chunks have them."""
    starts = np.zeros(len(keys) + 1, np.int64)
    np.cumsum([len(key) for key in keys], out=starts[1:])
    return hashes_in(np.frombuffer(b"".join(keys) + b"\0", np.uint8), starts, hash_key)


def hashes_in(joined: npt.NDArray[np.uint8], starts: Offsets, hash_key: HashKey) -> tuple[Halves, Halves]:
    """Return the same for keys that are stored without gaps; the last one ends at the last of `starts`."""
    frame, count = HashFrame(), len(starts) - 1
    hash_key.set(frame)
    high, low = np.empty(count, np.uint64), np.empty(count, np.uint64)
    frame.source, frame.source_size = address_of(joined), len(joined)
    frame.starts = address_of(starts)
    frame.high, frame.low = address_of(high), address_of(low)
    frame.count = count
    library().call("hash_bytes", frame)
    return high, low


def hashes_of_column(keys: pa.Array[Any], hash_key: HashKey) -> tuple[Halves, Halves]:
    """Return the same for an array of large binaries without nulls."""
    _, starts, joined = keys.buffers()
    at = np.frombuffer(starts, np.int64)[keys.offset : keys.offset + len(keys) + 1]  # type: ignore[call-overload]
    content = np.frombuffer(joined, np.uint8) if joined is not None and joined.size else np.zeros(1, np.uint8)  # type: ignore[call-overload]
    return hashes_in(content, np.ascontiguousarray(at), hash_key)
