"""Files of rows of 64-bit numbers in blocks: intermediate results of the tasks of a spread cleaning.

    rows      little-endian, `width` numbers each, one block after the other
    bounds    the first row of each block, then the number of rows
    trailer   number of blocks, and the width

A task that needs one block of many files reads the trailer, two bounds and the block's rows of each, however many other
blocks there are. A file is complete under its final name; a file that is written twice has the same contents. Files are
not synced: they are needed only as long as the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import fs

from spark_jobs.lake.store import storage

Rows = npt.NDArray[np.uint64]
"""Of shape (rows, width)."""

_NUMBER = np.dtype("<u8")
_TRAILER = 2 * _NUMBER.itemsize


class BlockWriter:
    """Writes rows as they are added."""

    def __init__(self, file: BinaryIO, width: int) -> None:
        self._file, self._width = file, width
        self._bounds: list[npt.NDArray[np.int64]] = [np.zeros(1, np.int64)]
        self._rows = self._blocks = 0

    def add(self, rows: Rows, ends: Sequence[int] | npt.NDArray[np.int64]) -> None:
        """Add blocks, each up to one of the ascending `ends`; the last of them is the number of rows."""
        self._file.write(np.ascontiguousarray(rows, _NUMBER).data)
        self._bounds.append(np.asarray(ends, np.int64) + self._rows)
        self._rows += len(rows)
        self._blocks += len(ends)

    def end(self) -> None:
        """Finish the file; no block may be added later."""
        numbers = [*self._bounds, np.array([self._blocks, self._width], np.int64)]
        self._file.write(np.concatenate(numbers).astype(_NUMBER).data)


@contextmanager
def written(lake: str, path: str, width: int) -> Iterator[BlockWriter]:
    """Write a file at a path relative to the lake; it appears when the context ends.

    Raises:
        OSError: The file cannot be written.
    """
    with storage.writing(storage.join(lake, path), is_synced=False) as local, open(local, "wb") as file:
        writer = BlockWriter(file, width)
        yield writer
        writer.end()
        file.flush()


class BlockFile:
    """A file open for reading."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        size = file.size()
        self.blocks, self._width = (int(number) for number in self._numbers(size - _TRAILER, 2))
        self._bounds_at = size - _TRAILER - (self.blocks + 1) * _NUMBER.itemsize

    def _numbers(self, position: int, count: int) -> Rows:
        return np.frombuffer(self._file.read_at(count * _NUMBER.itemsize, position), _NUMBER)  # type: ignore[call-arg]

    def bounds(self, block: int) -> tuple[int, int]:
        """The rows of a block, half-open."""
        start, end = self._numbers(self._bounds_at + block * _NUMBER.itemsize, 2).tolist()
        return start, end

    def rows(self, block: int) -> Rows:
        """A block."""
        start, end = self.bounds(block)
        row = self._width * _NUMBER.itemsize
        return self._numbers(start * row, (end - start) * self._width).reshape(-1, self._width)


class BlockFiles:
    """The files of a lake."""

    def __init__(self, lake: str) -> None:
        self._files: fs.FileSystem = storage.arrow_filesystem(lake)

    @contextmanager
    def opened(self, path: str) -> Iterator[BlockFile]:
        """Open one of them.

        Raises:
            OSError: The file cannot be read.
        """
        with self._files.open_input_file(path) as file:
            yield BlockFile(file)


class HashRangeRows:
    """The rows of files in one range of hashes, in parts of at most about `rows` rows."""

    def __init__(self, lake: str, paths: Sequence[str], bucket: int, bits: int, rows: int) -> None:
        self._files, self.paths = BlockFiles(lake), paths
        self._bucket, self._bits = bucket, bits
        self.parts = max(-(-self._count() // max(rows, 1)), 1)

    def _count(self) -> int:
        count = 0
        for path in self.paths:
            with self._files.opened(path) as file:
                for block in range(self._bucket, file.blocks, 1 << self._bits):
                    start, end = file.bounds(block)
                    count += end - start
        return count

    def part_of(self, path: str, number: int) -> Iterator[Rows]:
        """The rows of a file whose hash is in one part, block by block."""
        with self._files.opened(path) as file:
            for block in range(self._bucket, file.blocks, 1 << self._bits):
                rows = file.rows(block)
                if self.parts > 1:
                    rows = rows[rows[:, 1] % np.uint64(self.parts) == np.uint64(number)]
                if len(rows):
                    yield rows
