"""A log of committed transactions of one record each: a data batch and its marker, again and again.

A pool of such pairs is packed by hand, each with its own value. The log is the pool, repeated, with other offsets,
sequence numbers and timestamps. A checksum is linear: that of a changed batch is that of the packed one, and for each
changed byte a number that depends on the bytes after it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tests import handmade
from tests.bench.segments import CODECS, FIRST_TIMESTAMP, compressor
from tests.broker_directory import LogDirectory

TOPIC = "payments"
SEGMENT_BYTES = 1 << 30
_PRODUCERS = 8
_POOL = 4096
_FIRST_PRODUCER = 4000
_BASE_TIMESTAMP, _MAX_TIMESTAMP, _BASE_SEQUENCE = (27, 8), (35, 8), (53, 4)
"""Position and size of the fields that change and that the checksum covers."""

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]


def log_directory(folder: Path, count: int, codec: str = "none", segment_bytes: int = SEGMENT_BYTES) -> int:
    """One partition with so many transactions, in segments of at most about so many bytes; returns the bytes."""
    directory = LogDirectory(folder)
    partition = directory.partition(f"{TOPIC}-0")
    pool = _Pool(codec)
    total, filled, path = 0, segment_bytes, None
    for first in range(0, count, _POOL):
        content = pool.transactions(first, min(_POOL, count - first))
        if path is None or filled + len(content) > segment_bytes:
            path, filled = partition.roll(2 * first), 0
        with path.open("ab") as stream:
            stream.write(content)
        filled += len(content)
        total += len(content)
    directory.high_watermarks(**{f"{TOPIC}_0": 2 * count})
    return total


def expected(numbers: _Numbers) -> tuple[pa.Array[Any], pa.Array[Any]]:
    """Keys and values of the records of these transactions. Number n has the offset 2n."""
    rows = [_row(number) for number in range(_POOL)]
    at = pa.array(numbers % _POOL)
    keys, values = (pa.array([row[side] for row in rows], pa.binary()).take(at) for side in (0, 1))
    return keys, values


def _row(number: int) -> tuple[bytes, bytes]:
    value = b'{"id":%d,"account":"acc-%05d","amount":%d.%02d,"currency":"EUR","note":"order %d"}' % (
        (number * 2654435761 % 10**9, number * 7919 % 10**5, number * 31 % 977, number % 100, number)
    )
    return b"acc-%05d" % (number * 7919 % 10**5), value


class _Pool:
    """Pairs of a data batch and a marker, in turn of several producers."""

    def __init__(self, codec: str) -> None:
        compress, attributes = compressor(codec), CODECS.index(codec) | handmade.TRANSACTIONAL
        batches: list[bytes] = []
        for number in range(_POOL):
            producer = _FIRST_PRODUCER + number % _PRODUCERS
            record = handmade.record(0, *_row(number))
            data = handmade.batch(
                [record],
                attributes=attributes,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=0,
                base_timestamp=0,
                body=bytes(compress(record)),
            )
            batches += [data, handmade.marker(0, handmade.COMMIT, producer_id=producer, base_timestamp=0)]
        self._sizes = np.array([len(batch) for batch in batches])
        self._starts = np.append(0, np.cumsum(self._sizes))
        self._content = np.frombuffer(b"".join(batches), np.uint8)
        self._crcs = np.array([int.from_bytes(batch[17:21], "big") for batch in batches], np.uint32)

    def transactions(self, first: int, count: int) -> bytes:
        """So many transactions, from this number on; the first of a pool is divisible by the pool's size."""
        batches = 2 * count
        content = self._content[: self._starts[batches]].copy()
        starts, sizes, crcs = self._starts[:batches], self._sizes[:batches], self._crcs[:batches].copy()
        numbers = np.arange(first, first + count)
        times = np.repeat(FIRST_TIMESTAMP + numbers, 2)
        _put(content, starts, 0, 8, 2 * first + np.arange(batches))
        crcs ^= _change(content, starts, sizes, _BASE_TIMESTAMP, times)
        crcs ^= _change(content, starts, sizes, _MAX_TIMESTAMP, times)
        crcs[::2] ^= _change(content, starts[::2], sizes[::2], _BASE_SEQUENCE, numbers // _PRODUCERS)
        _put(content, starts, 17, 4, crcs.astype(np.int64))
        return content.tobytes()


def _put(content: _Bytes, starts: _Numbers, at: int, size: int, values: _Numbers) -> _Bytes:
    cells = values.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - size :]
    content[starts[:, None] + np.arange(at, at + size)] = cells
    return cells


def _change(
    content: _Bytes, starts: _Numbers, sizes: _Numbers, field: tuple[int, int], values: _Numbers
) -> npt.NDArray[np.uint32]:
    """Write a field that is zero in the pool; return how the checksums change."""
    at, size = field
    cells = _put(content, starts, at, size, values)
    change = np.zeros(len(starts), np.uint32)
    for column in range(size):
        change ^= _effects()[sizes - (at + column) - 1, cells[:, column]]
    return change


@cache
def _effects(longest: int = 512) -> npt.NDArray[np.uint32]:
    """How a byte changes CRC-32C, by the number of bytes after it and its value."""
    table = np.array([handmade.crc32c(bytes([value])) ^ handmade.crc32c(b"\0") for value in range(256)], np.uint32)
    effects = np.empty((longest, 256), np.uint32)
    effects[0] = table
    for after in range(1, longest):
        effects[after] = effects[after - 1] >> 8 ^ table[effects[after - 1] & 0xFF]
    return effects
