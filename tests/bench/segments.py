"""Rows of `shapes` as the bytes of a segment: v2 batches, v1 messages, v1 wrappers.

Batches are filled like a producer fills them, by an upper bound of what a record takes, and compressed as Java clients
do it: gzip at level 6, snappy in xerial blocks of 32 KB, lz4 frames of independent 64 KB blocks, zstd at level 3; the
frames do not tell the size of their content.

Independent of the library's own encoder: nothing of `logcore` is used.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import crc32c
import lz4.frame
import numpy as np
import snappy
import zstandard

from tests.bench.blocks import Block, Numbers, beside, big_endian, constant, varint_sizes, varints
from tests.bench.shapes import Rows
from tests.bench.totals import Totals

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""In the order of their numbers."""
FIRST_TIMESTAMP = 1_700_000_000_000
PRODUCER_ID = 4242
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
XERIAL_BLOCK = 32 * 1024

Compress = Callable[[bytes | memoryview], bytes]

_V2_TAIL = struct.Struct(">hiqqqhii")
_V2_HEAD = struct.Struct(">qiibI")
_V1_WRAPPER = struct.Struct(">bbqii")
_TIME_GROUPS, _OFFSET_GROUPS = 3, 3


@dataclass(frozen=True, slots=True)
class Piece:
    """Batches in a row, ready to be written."""

    content: bytes
    batches: int
    raw_bytes: int
    """Of the record sections, uncompressed."""
    totals: Totals


def compressor(codec: str) -> Compress:
    """The function from a record section to what a batch stores of it."""
    if codec == "none":
        return bytes
    if codec == "gzip":
        return _gzip
    if codec == "snappy":
        return _snappy
    if codec == "lz4":
        return _lz4
    zstd = zstandard.ZstdCompressor(level=3, write_content_size=False)

    def streamed(content: bytes | memoryview) -> bytes:
        stream = zstd.compressobj()
        return stream.compress(content) + stream.flush()

    return streamed


def v2_batches(
    rows: Rows, first_offset: int, first_timestamp: int, codec: str, batch_bytes: int, *, whole: bool
) -> Piece:
    """The rows as v2 batches of up to so many bytes; rows that do not fill a last one are left out, unless `whole`."""
    key_sizes, value_sizes = _sizes(rows)
    bound = _v2_bound(rows, key_sizes, value_sizes)
    starts, used = _layout(bound, batch_bytes, whole)
    rows, key_sizes, value_sizes = _first(rows, used), key_sizes[:used], value_sizes[:used]
    timestamps = first_timestamp + np.cumsum(rows.steps_ms)
    of_batch = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, used)))
    deltas = np.arange(used) - starts[of_batch]
    parts = [
        constant(b"\x00", used),
        varints(timestamps - timestamps[starts[of_batch]], _TIME_GROUPS),
        varints(deltas, _OFFSET_GROUPS),
        varints(key_sizes, 5),
        rows.keys.only(rows.has_key),
        varints(value_sizes, 5),
        rows.values.only(rows.has_value),
        constant(bytes([2 * len(rows.headers)]), used),
    ]
    for name, values in rows.headers:
        parts += [constant(bytes([2 * len(name)]) + name, used), varints(values.sizes(), 5), values]
    body = beside(parts)
    lengths = varints(body.sizes(), 5)
    whole_rows = beside([lengths, body])
    ends = np.append(0, np.cumsum(whole_rows.sizes()))
    section = memoryview(whole_rows.flat())
    compress, number = compressor(codec), CODECS.index(codec)
    content = bytearray()
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), used], strict=True):
        stored = compress(section[ends[start] : ends[end]])
        base = first_offset + start
        count = end - start
        tail = _V2_TAIL.pack(
            number,
            count - 1,
            int(timestamps[start]),
            int(timestamps[end - 1]),
            PRODUCER_ID,
            0,
            base & 0x7FFFFFFF,
            count,
        )
        checksum = crc32c.crc32c(stored, crc32c.crc32c(tail))
        content += _V2_HEAD.pack(base, 9 + len(tail) + len(stored), 0, 2, checksum) + tail
        content += stored
    totals = _totals(rows, first_offset, timestamps, key_sizes, value_sizes)
    return Piece(bytes(content), len(starts), int(ends[-1]), totals)


def v1_messages(
    rows: Rows, first_offset: int, first_timestamp: int, codec: str, batch_bytes: int, *, whole: bool
) -> Piece:
    """The rows as v1 messages: each on its own, or compressed in wrappers of up to so many bytes of messages."""
    key_sizes, value_sizes = _sizes(rows)
    sizes = 34 + np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0)
    wraps = codec != "none"
    starts, used = _layout(sizes, batch_bytes, whole) if wraps else (np.arange(len(rows)), len(rows))
    rows, key_sizes, value_sizes, sizes = _first(rows, used), key_sizes[:used], value_sizes[:used], sizes[:used]
    timestamps = first_timestamp + np.cumsum(rows.steps_ms)
    bounds = np.append(starts, used)
    offsets = np.arange(used) - np.repeat(starts, np.diff(bounds)) if wraps else first_offset + np.arange(used)
    messages = beside(
        [
            big_endian(offsets, 8),
            big_endian(sizes - 12, 4),
            constant(b"\x00\x00\x00\x00\x01\x00", used),
            big_endian(timestamps, 8),
            big_endian(key_sizes, 4),
            rows.keys.only(rows.has_key),
            big_endian(value_sizes, 4),
            rows.values.only(rows.has_value),
        ]
    ).flat()
    ends = np.append(0, np.cumsum(sizes))
    _fill_in_checksums(messages, ends)
    totals = _totals(rows, first_offset, timestamps, key_sizes, value_sizes)
    if not wraps:
        return Piece(messages.tobytes(), used, len(messages), totals)
    content = bytearray()
    compress, number, view = compressor(codec), CODECS.index(codec), memoryview(messages)
    for start, end in zip(starts.tolist(), bounds[1:].tolist(), strict=True):
        stored = compress(view[ends[start] : ends[end]])
        inside = _V1_WRAPPER.pack(1, number, int(timestamps[end - 1]), -1, len(stored)) + stored
        content += struct.pack(">qiI", first_offset + end - 1, 4 + len(inside), zlib.crc32(inside)) + inside
    return Piece(bytes(content), len(starts), int(ends[-1]), totals)


def pieces(
    draw: Callable[[int, int], Rows], rows_at_once: int, magic: int, codec: str, batch_bytes: int, raw_bytes: int
) -> Iterator[Piece]:
    """A segment of at least so many raw bytes, from offset 0 on. `draw` gives the rows (first number, how many)."""
    encode = v2_batches if magic == 2 else v1_messages
    offset, timestamp, made = 0, FIRST_TIMESTAMP, 0
    while made < raw_bytes:
        last = raw_bytes - made < batch_bytes
        piece = encode(draw(offset, rows_at_once), offset, timestamp, codec, batch_bytes, whole=last)
        yield piece
        offset += piece.totals.records
        timestamp += 2 * piece.totals.records
        made += piece.raw_bytes


def _gzip(content: bytes | memoryview) -> bytes:
    stream = zlib.compressobj(6, zlib.DEFLATED, 31)
    return stream.compress(content) + stream.flush()


def _snappy(content: bytes | memoryview) -> bytes:
    parts = [XERIAL]
    for at in range(0, len(content), XERIAL_BLOCK):
        block = snappy.compress(bytes(content[at : at + XERIAL_BLOCK]))
        parts += [struct.pack(">i", len(block)), block]
    return b"".join(parts)


def _lz4(content: bytes | memoryview) -> bytes:
    return lz4.frame.compress(
        content, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False, content_checksum=False
    )


def _sizes(rows: Rows) -> tuple[Numbers, Numbers]:
    """Sizes of keys and values, -1 for null."""
    return np.where(rows.has_key, rows.keys.sizes(), -1), np.where(rows.has_value, rows.values.sizes(), -1)


def _v2_bound(rows: Rows, key_sizes: Numbers, value_sizes: Numbers) -> Numbers:
    bound = 1 + _TIME_GROUPS + _OFFSET_GROUPS + 1 + varint_sizes(key_sizes) + varint_sizes(value_sizes)
    bound += np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0)
    for name, values in rows.headers:
        sizes = values.sizes()
        bound += 1 + len(name) + varint_sizes(sizes) + sizes
    return bound + varint_sizes(bound)


def _layout(sizes: Numbers, batch_bytes: int, whole: bool) -> tuple[Numbers, int]:
    """Where batches begin, and how many rows they take in all."""
    ends = np.cumsum(sizes)
    starts: list[int] = []
    start = 0
    while start < len(sizes):
        filled = int(ends[start - 1]) if start else 0
        end = max(int(np.searchsorted(ends, filled + batch_bytes, "right")), start + 1)
        if end == len(sizes) and starts and not whole:
            break
        starts.append(start)
        start = end
    return np.array(starts, np.int64), start


def _first(rows: Rows, count: int) -> Rows:
    def cut(block: Block) -> Block:
        return Block(block.cells[:count], None if block.counts is None else block.counts[:count])

    return Rows(
        keys=cut(rows.keys),
        values=cut(rows.values),
        has_key=rows.has_key[:count],
        has_value=rows.has_value[:count],
        steps_ms=rows.steps_ms[:count],
        headers=[(name, cut(values)) for name, values in rows.headers],
    )


def _fill_in_checksums(messages: np.ndarray, ends: Numbers) -> None:
    view, bounds = memoryview(messages), ends.tolist()
    sums = [zlib.crc32(view[start + 16 : end]) for start, end in pairwise(bounds)]
    stored = np.array(sums, ">u4").view(np.uint8).reshape(-1, 4)
    for byte in range(4):
        messages[ends[:-1] + 12 + byte] = stored[:, byte]


def _totals(rows: Rows, first_offset: int, timestamps: Numbers, key_sizes: Numbers, value_sizes: Numbers) -> Totals:
    count = len(rows)
    header_bytes = sum(len(name) * count + int(values.sizes().sum()) for name, values in rows.headers)
    # Added to nothing once, so that the sums are wrapped.
    return Totals() + Totals(
        records=count,
        offset_sum=count * first_offset + count * (count - 1) // 2,
        timestamp_sum=sum(timestamps.tolist()),
        key_bytes=int(np.maximum(key_sizes, 0).sum()),
        value_bytes=int(np.maximum(value_sizes, 0).sum()),
        headers=count * len(rows.headers),
        header_bytes=header_bytes,
        null_keys=int((~rows.has_key).sum()),
        null_values=int((~rows.has_value).sum()),
    )
