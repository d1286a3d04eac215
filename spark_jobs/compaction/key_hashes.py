"""The newest offset of every key of a log that is too large for one map, through files of a shared folder.

A key is represented by the 128 bits of a keyed hash. Each run makes a new hash key.

    segment task   its records, in parts          → per hash the oldest offset, and the newest in the dirty part
    newest task    all of these in a hash range   → per group of segments the hashes with a newer offset than one of
                                                    the group's, and that newest offset
    group task     these of all hash ranges       → the map it cleans with

A group only gets the hashes that concern it: its map is as large as the records that it can remove. Hash values only
decide in which block of a file a row is, never the result.

Memory: a task has `rows` rows at a time with at most `ROW_BYTES` each, whatever the size of the log. A larger segment
gets more sorted runs in its file, and a larger range of hashes is read in parts. A map of a group has 51 bytes per key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from logcore.columns.cleaning.offset_map import OffsetMap
from spark_jobs.compaction import row_blocks
from spark_jobs.compaction.row_blocks import BlockFiles, HashRangeRows, Rows

NEVER = -1
ROW_BYTES = 120
"""Bytes per row while a run is sorted. A range takes less: rows as they were read, columns of one run, and positions in
a map."""
_MOST_BITS = 12
_KEYS, _NEWER = 4, 3
"""Numbers per row: hash, hash, oldest, newest (in the dirty part, -1 if the hash is not there); or these without
oldest."""


@dataclass(frozen=True, slots=True)
class Hashed:
    """Rows of records in offset order: both halves of the key's hash, and the offset.

    A record that cannot be the newest, such as an aborted one, has the bitwise complement of its offset, which is
    negative.
    """

    high: np.ndarray
    low: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All three."""
        return self.high, self.low, self.offsets


def bits_for(records: int, rows: int) -> int:
    """Number of leading hash bits that select a range, so that no range has many more than `rows` of `records`."""
    return min(max(-(-records // max(rows, 1)) - 1, 0).bit_length(), _MOST_BITS)


def folded(rows: Hashed, first_dirty_offset: int) -> Rows:
    """One row per hash, ascending by hash."""
    if not len(rows):
        return np.zeros((0, _KEYS), np.uint64)
    order = _by_hash(rows.high, rows.low)
    high, low, offsets = rows.high[order], rows.low[order], rows.offsets[order]
    starts = np.flatnonzero(np.concatenate(([True], (high[1:] != high[:-1]) | (low[1:] != low[:-1]))))
    newest = np.maximum.reduceat(offsets, starts)
    newest[newest < first_dirty_offset] = NEVER
    whole = ~offsets
    oldest = np.minimum.reduceat(np.maximum(offsets, whole, out=whole), starts)
    del order, whole
    table = np.empty((len(starts), _KEYS), np.uint64)
    table[:, 0], table[:, 1] = high[starts], low[starts]
    table[:, 2], table[:, 3] = oldest.view(np.uint64), newest.view(np.uint64)
    return table


def _by_hash(high: np.ndarray, low: np.ndarray) -> npt.NDArray[np.int64]:
    """The order of rows by hash.

    Sorts the leading bits of the hash together with the row number, in half the time of an index sort. Rows with equal
    leading bits and different hashes are ordered afterwards.
    """
    bits = np.uint64(len(high).bit_length())
    packed = (high >> bits << bits) | np.arange(len(high), dtype=np.uint64)
    packed.sort()
    order = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    leading = packed >> bits
    alike = leading[1:] == leading[:-1]
    high, low = high[order], low[order]
    if np.any(alike & ((high[1:] != high[:-1]) | (low[1:] != low[:-1]))):
        at = np.flatnonzero(np.append(alike, False) | np.insert(alike, 0, False))
        order[at] = order[at][np.lexsort((low[at], high[at]))]
    return order


def write_hashes(
    lake: str, path: str, found: Iterable[Hashed], first_dirty_offset: int, bits: int, rows: int, *, keeps_oldest: bool
) -> None:
    """Write the file of one segment or group: sorted runs of about `rows` rows, each with a block for each range of
    hashes.

    Args:
        found: Records with a key, in order.
        keeps_oldest: Whether rows have the oldest offset too.
    """
    chosen = [0, 1, 2, 3] if keeps_oldest else [0, 1, 3]
    # Hashes ascend: each range is a slice.
    borders = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(64 - bits) if bits else np.zeros(0, np.uint64)
    with row_blocks.written(lake, path, len(chosen)) as file:
        for sorted_run in _grouped(found, rows):
            table = folded(sorted_run, first_dirty_offset)
            ends = np.searchsorted(np.ascontiguousarray(table[:, 0]), borders)
            file.add(table if keeps_oldest else table[:, chosen], np.append(ends, len(table)))


def _grouped(found: Iterable[Hashed], rows: int) -> Iterator[Hashed]:
    """Group rows into sorted runs."""
    held: list[Hashed] = []
    count = 0
    for some in found:
        held.append(some)
        count += len(some)
        if count >= rows:
            group, held, count = _together(held), [], 0
            yield group
    if count:
        group, held = _together(held), []
        yield group


def _together(held: Sequence[Hashed]) -> Hashed:
    return Hashed(*(np.concatenate([getattr(some, name) for some in held]) for name in ("high", "low", "offsets")))


class _Range(HashRangeRows):
    """The rows of files in one range of hashes, as maps take them."""

    def part(self, number: int) -> list[list[Rows]]:
        """For each file the rows whose hash is in one part, run by run."""
        return [list(self.part_of(path, number)) for path in self.paths]

    def hashes(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Hashes for a map of this range, without the leading bits that are equal in the range."""
        return rows[:, 0] << np.uint64(self._bits), np.ascontiguousarray(rows[:, 1])

    def newest(self, files: Iterable[Sequence[Rows]]) -> OffsetMap:
        """The last number in the rows of each hash; files and runs are in offset order."""
        found = OffsetMap()
        for sorted_runs in files:
            for rows in sorted_runs:
                found.put(*self.hashes(rows), _signed(rows, -1))
        return found


def _signed(rows: Rows, column: int) -> npt.NDArray[np.int64]:
    return np.ascontiguousarray(rows[:, column]).view(np.int64)


def write_newer(lake: str, path: str, groups: Sequence[Sequence[str]], bucket: int, bits: int, rows: int) -> int:
    """Write the newer offsets that the groups need from one range of hashes.

    The file has a block for each group, and as many again for each further part of the range.

    Args:
        groups: For each group the files of its segments, in offset order.

    Returns:
        The number of parts in which the range was read.
    """
    of_range = _Range(lake, [file for files in groups for file in files], bucket, bits, rows)
    with row_blocks.written(lake, path, _NEWER) as file:
        for number in range(of_range.parts):
            part = of_range.part(number)
            newest = of_range.newest(part)
            left = iter(part)
            for files in groups:
                concerned = [_newer(of_range, newest, sorted_run) for _ in files for sorted_run in next(left)]
                table = np.concatenate([np.zeros((0, _NEWER), np.uint64), *concerned])
                file.add(table, [len(table)])
    return of_range.parts


def _newer(of_range: _Range, newest: OffsetMap, rows: Rows) -> Rows:
    found = newest.find(*of_range.hashes(rows))
    at = np.flatnonzero(_signed(rows, 2) < found)
    table = rows[at][:, :_NEWER]
    table[:, 2] = found[at].view(np.uint64)
    return table


def read_newer(lake: str, paths: Sequence[str], group: int, groups: int) -> Iterator[Hashed]:
    """The hashes that one group needs, with the newest offset of each, from the files of all ranges."""
    files = BlockFiles(lake)
    for path in paths:
        with files.opened(path) as file:
            for block in range(group, file.blocks, groups):
                rows = file.rows(block)
                if len(rows):
                    high, low = (np.ascontiguousarray(rows[:, at]) for at in (0, 1))
                    yield Hashed(high, low, _signed(rows, 2))


def lost_newest(
    lake: str, before: Sequence[str], after: Sequence[str], bucket: int, bits: int, rows: int
) -> int | None:
    """Find an offset that is the newest of its key before cleaning and not after; None: this hash range has none.

    Args:
        before: Files of all groups before cleaning, in order. In place of an offset they have twice the offset, plus
            one for a tombstone. A tombstone may be gone if no record of its key remains.
        after: The same after cleaning.
    """
    of_range = _Range(lake, [*before, *after], bucket, bits, rows)
    lost: list[int] = []
    for number in range(of_range.parts):
        part = of_range.part(number)
        sides = [of_range.newest(files) for files in (part[: len(before)], part[len(before) :])]
        for sorted_runs in part:
            for sorted_run in sorted_runs:
                old, new = (side.find(*of_range.hashes(sorted_run)) for side in sides)
                wrong = (old != new) & ~((old & 1 == 1) & (new == NEVER))
                lost += [int(old[wrong].min()) // 2] if wrong.any() else []
    return min(lost, default=None)
