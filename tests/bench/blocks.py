"""Millions of byte strings of different lengths, made with NumPy: a matrix of bytes, and which of them count.

A block is `n` rows of a width that fits the longest. Bytes that do not count may lie anywhere in a row: numbers lose
their leading zeros, varints the groups that they do not need. Blocks are put side by side, and at the end one masked
selection gives all rows' bytes back to back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

_HEX = np.frombuffer(b"".join(b"%02x" % value for value in range(256)), np.uint16)
"""Two hexadecimal digits for every byte."""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of bytes. `counts` is None where every byte counts."""

    cells: Bytes
    counts: Mask | None = None

    def sizes(self) -> Numbers:
        """Bytes of each row that count."""
        if self.counts is None:
            return np.full(len(self.cells), self.cells.shape[1], np.int64)
        return np.asarray(self.counts.sum(axis=1, dtype=np.int64), np.int64)

    def only(self, rows: Mask) -> Block:
        """The same block with nothing in the rows that are not chosen."""
        chosen = rows[:, None]
        if self.counts is None:
            return Block(self.cells, np.broadcast_to(chosen, self.cells.shape))
        return Block(self.cells, self.counts & chosen)

    def flat(self) -> Bytes:
        """The bytes that count, row after row."""
        return self.cells.reshape(-1) if self.counts is None else self.cells[self.counts]


def beside(parts: Sequence[Block]) -> Block:
    """Blocks of as many rows, side by side."""
    cells = np.concatenate([part.cells for part in parts], axis=1)
    counts = np.ones(cells.shape, np.bool_)
    at = 0
    for part in parts:
        width = part.cells.shape[1]
        if part.counts is not None:
            counts[:, at : at + width] = part.counts
        at += width
    return Block(cells, counts)


def constant(text: bytes, rows: int) -> Block:
    """The same bytes in every row."""
    return Block(np.broadcast_to(np.frombuffer(text, np.uint8), (rows, len(text))))


def decimal(values: Numbers, width: int, *, zeros: bool = False) -> Block:
    """Decimal digits of numbers from 0 to 10**width - 1, with leading zeros only if asked for."""
    cells = np.empty((len(values), width), np.uint8)
    counts = np.ones((len(values), width), np.bool_)
    rest = values
    for column in range(width - 1, -1, -1):
        if column < width - 1:
            counts[:, column] = rest > 0
        rest, digit = np.divmod(rest, 10)
        cells[:, column] = digit + ord("0")
    return Block(cells, None if zeros else counts)


def hexadecimal(random: np.random.Generator, rows: int, width: int) -> Block:
    """Random hexadecimal digits, an even number of them."""
    pairs = _HEX[np.frombuffer(random.bytes(rows * width // 2), np.uint8)]
    return Block(pairs.view(np.uint8).reshape(rows, width))


def chosen(words: Sequence[bytes], indexes: Numbers) -> Block:
    """A word for every index."""
    width = max(map(len, words))
    cells = np.frombuffer(b"".join(word.ljust(width) for word in words), np.uint8).reshape(len(words), width)
    sizes = np.array([len(word) for word in words])
    return Block(cells[indexes], np.arange(width) < sizes[indexes, None])


def big_endian(values: Numbers, nbytes: int) -> Block:
    """The lowest bytes of numbers, highest first."""
    cells = values.astype(">i8").view(np.uint8).reshape(-1, 8)
    return Block(cells[:, 8 - nbytes :])


def varints(values: Numbers, width: int) -> Block:
    """Zigzag base 128, in at most `width` groups."""
    rest = (values << 1) ^ (values >> 63)
    cells = np.empty((len(values), width), np.uint8)
    counts = np.empty((len(values), width), np.bool_)
    for column in range(width):
        counts[:, column] = (rest > 0) | (column == 0)
        cells[:, column] = rest & 0x7F
        rest = rest >> 7
        cells[:, column] |= (rest > 0).astype(np.uint8) << 7
    if rest.any():
        raise ValueError(f"a number does not fit {width} groups of a varint")
    return Block(cells, counts)


def varint_sizes(values: Numbers) -> Numbers:
    """Bytes that each number takes as a varint."""
    rest, sizes = (values << 1) ^ (values >> 63), np.ones(len(values), np.int64)
    for group in range(1, 10):
        sizes += rest >> (7 * group) > 0
    return sizes
