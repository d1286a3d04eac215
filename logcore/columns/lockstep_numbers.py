"""Numbers read at many positions at once.

A position may be garbage that earlier bytes made up, as long as it lies in front of the slack that every source has
behind its end: what is read there is garbage too, and the last check on a record, that it ends where it must, finds
out. So no single read needs one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from logcore.columns.lockstep_walk import Bytes, Numbers

SLACK = 64
"""Bytes behind the end of a source that may be read, whatever they are."""

VARINT, VARLONG = 5, 10
"""The greatest number of bytes that an int32 and an int64 take."""

_NO_INDEX = np.empty(0, np.int64)


def _shortest() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """By two bytes, little-endian: the varint that begins there, and how many bytes it takes; 0 of neither one nor two
    in the shortest form."""
    word = np.arange(1 << 16, dtype=np.int64)
    low, high = word & 0xFF, word >> 8
    raw = np.where(low < 0x80, low, low & 0x7F | high << 7)
    size = np.where(low < 0x80, 1, np.where((high < 0x80) & (high > 0), 2, 0))
    return (raw >> 1) ^ -(raw & 1), size


_VALUES, _SIZES = _shortest()
_ADVANCES = np.where((_SIZES > 0) & (_VALUES > 0), _SIZES + _VALUES, 0)
"""By two bytes: how far the next record is, if they hold this one's whole length; else 0."""


class Source:
    """Bytes, SLACK of them behind the end, and what stands at any position of them."""

    __slots__ = ("_int32s", "_pairs", "_twelves", "data", "end", "view")

    def __init__(self, data: Bytes, end: int) -> None:
        self.data, self.end = data, end
        self.view = data.data
        self._pairs = _anywhere(data, "<u2")
        self._int32s = _anywhere(data, ">i4")
        self._twelves = _anywhere(data, "V12")

    def int32(self, at: Numbers) -> Numbers:
        """Big-endian ones."""
        values: Numbers = self._int32s[at].astype(np.int64)
        return values

    def twelve(self, at: Numbers) -> NDArray[np.int32]:
        """Twelve bytes, as three numbers."""
        return self._twelves[at].view(np.int32).reshape(-1, 3)

    def number(self, at: Numbers, longest: int = VARINT) -> tuple[Numbers, Numbers, Numbers]:
        """(values, positions behind them, indexes of those that are longer than they need be, or than their type)."""
        pairs = self._pairs[at]
        values, sizes = _VALUES.take(pairs), _SIZES.take(pairs)
        long = _NO_INDEX
        if not sizes.all():
            rest = np.flatnonzero(sizes == 0)
            values[rest], sizes[rest], failed = self._long_numbers(at[rest], longest)
            long = rest[failed]
        sizes += at
        return values, sizes, long

    def advance(self, at: Numbers) -> Numbers:
        """Where the records behind those at `at` begin; beyond the end where a length is none."""
        steps = _ADVANCES.take(self._pairs[at])
        if not steps.all():
            rest = np.flatnonzero(steps == 0)
            values, sizes, failed = self._long_numbers(at[rest], VARINT)
            values += sizes
            values[failed | (values <= sizes)] = self.end + 1
            steps[rest] = values
        steps += at
        return steps

    def _long_numbers(self, at: Numbers, longest: int) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
        """(values, sizes, failed) a byte at a time."""
        raw = np.zeros(len(at), np.uint64)
        sizes = np.full(len(at), longest, np.int64)
        failed = np.zeros(len(at), np.bool_)
        live = np.arange(len(at))
        for index in range(longest):
            byte = self.data[at[live] + index]
            raw[live] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * index)
            ended = byte < 0x80
            if index == longest - 1:
                # Five groups of seven bits leave four for the last one of an int32, ten leave one for that of an int64.
                failed[live[byte >= (0x10 if longest == VARINT else 0x02)]] = True
            stopped = live[ended]
            sizes[stopped] = index + 1
            if index:
                failed[stopped[byte[ended] == 0]] = True
            live = live[~ended]
            if not live.size:
                break
        signs = -(raw & np.uint64(1)).astype(np.int64)
        return (raw >> np.uint64(1)).astype(np.int64) ^ signs, sizes, failed


def _anywhere(data: Bytes, kind: str) -> NDArray[Any]:
    """The data as numbers that begin at every byte of it."""
    dtype = np.dtype(kind)
    return np.ndarray((data.size - dtype.itemsize + 1,), dtype, data, 0, (1,))
