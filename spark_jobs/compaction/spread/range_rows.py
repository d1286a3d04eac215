"""Files of rows by range of hashes: for each record with a key the hash of the key and a number, in the log's order.

    number    the record's offset, or the word of the proof (`plain_steps`)

A file has some runs of rows, each with a block for each range. Within a block rows keep the order of the log, so the
last row of a hash is the latest. Rows are not sorted by hash: a map of one range is made from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from spark_jobs.compaction.key_hashes import Hashed
from spark_jobs.compaction.row_blocks import BlockWriter, HashRangeRows, Rows, written

_RUN_ROWS = 1 << 18
_BLOCK_ROWS = 256
"""A run has at least so many rows for each range, on average: smaller blocks take longer to find than to read."""
_WIDTH = 3


class RangeWriter:
    """Collects rows into runs."""

    def __init__(self, file: BlockWriter, bits: int, rows: int) -> None:
        self._file, self._bits = file, bits
        self._most = min(max(_RUN_ROWS, _BLOCK_ROWS << bits), rows)
        self._held: list[Rows] = []
        self._count = 0

    def add(self, some: Hashed) -> None:
        """Add rows that come after all others."""
        table = np.empty((len(some), _WIDTH), np.uint64)
        table[:, 0], table[:, 1], table[:, 2] = some.high, some.low, some.offsets.view(np.uint64)
        self._held.append(table)
        self._count += len(some)
        if self._count >= self._most:
            self.flush()

    def flush(self) -> None:
        """Write the rows that are held as a run."""
        if not self._count:
            return
        table, self._held, self._count = np.concatenate(self._held), [], 0
        # A shift by 64 is not defined.
        ranges = (table[:, 0] >> np.uint64(64 - self._bits) if self._bits else np.zeros(len(table))).astype(np.uint16)
        ends = np.cumsum(np.bincount(ranges, minlength=1 << self._bits))
        self._file.add(table.take(np.argsort(ranges, kind="stable"), axis=0), ends)


@contextmanager
def range_writer(lake: str, path: str, bits: int, rows: int) -> Iterator[RangeWriter]:
    """Write a file at a path relative to the lake; it appears when the context ends.

    Args:
        lake: The lake.
        path: Path of the file.
        bits: Leading bits of a hash that select its range.
        rows: The most rows in memory.

    Raises:
        OSError: The file cannot be written.
    """
    with written(lake, path, _WIDTH) as file:
        writer = RangeWriter(file, bits, rows)
        yield writer
        writer.flush()


class HashRange(HashRangeRows):
    """The rows of files in one range of hashes, in the order of the log."""

    def part(self, number: int) -> Iterator[Hashed]:
        """The rows of a part, in the order of the log. Hashes lack the leading bits that are equal in the range."""
        for path in self.paths:
            for rows in self.part_of(path, number):
                yield _hashed(rows, self._bits)


def _hashed(rows: Rows, bits: int) -> Hashed:
    numbers = np.ascontiguousarray(rows[:, 2]).view(np.int64)
    return Hashed(rows[:, 0] << np.uint64(bits), np.ascontiguousarray(rows[:, 1]), numbers)
