"""What tasks send each other to find the newest record of each key, packed: a block for many rows.

    rows       hash of the key and a number of each record, for the task of a range of hashes: 24 bytes a record
    offsets    some offsets of a group: four bytes each, or a bit for each offset of the group if that is less. A group
               of more than 2^32 offsets has eight bytes each

A task holds `RUN_ROWS` rows at a time, whatever the size of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from logcore.columns.cleaning.newest_bits import NewestBits
from logcore.columns.cleaning.offset_map import Halves, OffsetMap, Offsets
from logcore.segments.scanning.scan import MAX_RELATIVE_OFFSET
from spark_jobs.engine.shuffle import Block

RUN_ROWS = 1 << 19
_OFFSETS, _WIDE, _BITS = b"o", b"w", b"b"
_NUMBERS = {_OFFSETS: np.uint32, _WIDE: np.uint64}


@dataclass(frozen=True, slots=True)
class Hashed:
    """Rows in the order of the log: both halves of the key's hash, and a number, such as the offset."""

    high: Halves
    low: Halves
    numbers: Offsets

    def __len__(self) -> int:
        return len(self.numbers)

    def taken(self, at: np.ndarray | slice) -> Hashed:
        """Some of the rows."""
        return Hashed(self.high[at], self.low[at], self.numbers[at])


Needed = Callable[[Hashed], npt.NDArray[np.bool_]]


def parts_of(rows: Hashed, parts: int) -> npt.NDArray[np.uint64]:
    """The range of hashes of each row, of `parts` ranges."""
    return (rows.high >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)


def last_of_key(rows: Hashed, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which rows are the last of their key among the chosen ones."""
    some, newest, is_last = rows.taken(chosen), OffsetMap(), np.zeros(len(rows), bool)
    newest.put(some.high, some.low, some.numbers)
    is_last[chosen] = newest.find(some.high, some.low) == some.numbers
    return is_last


def packed_rows(
    found: Iterable[Hashed], parts: int, part: int | None, first: int, needed: Needed | None = None
) -> Iterator[Block]:
    """Blocks of rows for the ranges of hashes, in runs of about `RUN_ROWS` rows.

    Args:
        found: Rows in the order of the log.
        parts: Number of ranges.
        part: The range whose rows are needed; None: those of all ranges.
        first: Place of the first run; the next ones follow.
        needed: Which rows of a run the receiver needs, where it holds all its rows in memory (no `part` is named): a
            key with many records then has a few rows a run. None: all.
    """
    for run in _runs(found if part is None else _of_part(found, parts, part)):
        if part is not None:
            yield _block(part, first, run)
        else:
            if needed is not None:
                run = run.taken(needed(run))
            of_row = parts_of(run, parts)
            order = np.argsort(of_row, kind="stable")
            ends = np.searchsorted(of_row[order], np.arange(parts + 1, dtype=np.uint64)).tolist()
            run = run.taken(order)
            for number, (start, end) in enumerate(pairwise(ends)):
                if end > start:
                    yield _block(number, first, run.taken(slice(start, end)))
        first += 1


def _of_part(found: Iterable[Hashed], parts: int, part: int) -> Iterator[Hashed]:
    for rows in found:
        yield rows.taken(parts_of(rows, parts) == part) if parts > 1 else rows


def _runs(found: Iterable[Hashed]) -> Iterator[Hashed]:
    held: list[Hashed] = []
    count = 0
    for rows in found:
        held.append(rows)
        count += len(rows)
        if count >= RUN_ROWS:
            yield _together(held)
            held, count = [], 0
    if count:
        yield _together(held)


def _together(held: Sequence[Hashed]) -> Hashed:
    high, low, numbers = ([getattr(rows, name) for rows in held] for name in ("high", "low", "numbers"))
    return Hashed(np.concatenate(high), np.concatenate(low), np.concatenate(numbers))


def _block(part: int, at: int, rows: Hashed) -> Block:
    # Numbers of a record are never negative as unsigned ones, so all three columns have one type.
    table = np.stack([rows.high, rows.low, rows.numbers.view(np.uint64)])
    return Block(part, at, table.tobytes())


def rows_in(content: bytes | memoryview) -> Hashed:
    """The rows of a block."""
    # A row of Spark begins at any byte.
    high, low, numbers = np.require(np.frombuffer(content, np.uint64), requirements="A").reshape(3, -1)
    return Hashed(high, low, numbers.view(np.int64))


def last_of(first: int, next_offset: int) -> int:
    """The end of a group's bits: a segment has no greater offsets, even if the next segment begins later."""
    return min(next_offset, first + MAX_RELATIVE_OFFSET + 1)


def offset_blocks(offsets: Offsets, groups: Iterable[tuple[int, int]], part: int) -> Iterator[Block]:
    """A block for each group with one of the offsets.

    Args:
        offsets: Rising.
        groups: First offset and end of each group.
        part: Place of the blocks: the range of hashes that the offsets were found in.
    """
    for group, (first, end) in enumerate(groups):
        start, stop = np.searchsorted(offsets, (first, end)).tolist()
        if stop > start:
            yield Block(group, part, packed_offsets(offsets[start:stop], first, end))


def packed_offsets(offsets: Offsets, first: int, end: int) -> bytes:
    """Rising offsets of [first, end)."""
    if NewestBits.bytes_for(first, end) < 4 * len(offsets):
        return _BITS + NewestBits.of_offsets(first, end, [offsets]).bits.tobytes()
    kind = _OFFSETS if end - first <= 1 << 32 else _WIDE
    return kind + (offsets - first).astype(_NUMBERS[kind]).tobytes()


def offsets_in(content: bytes | memoryview, first: int) -> Offsets:
    """The offsets that `packed_offsets` packed."""
    kind, packed = bytes(content[:1]), memoryview(content)[1:]
    if kind == _BITS:
        return np.flatnonzero(np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")) + first
    return np.frombuffer(packed, _NUMBERS[kind]).astype(np.int64) + first


def bits_in(contents: Iterable[bytes | memoryview], first: int, end: int, stays_from: int) -> NewestBits:
    """The bits of all offsets in blocks that `packed_offsets` made, and of those from `stays_from` on."""
    bits = NewestBits.of_offsets(first, end, [], stays_from=stays_from)
    for content in contents:
        if content[:1] == _BITS:
            bits.bits |= np.frombuffer(memoryview(content)[1:], np.uint8)
        else:
            bits.add(offsets_in(content, first))
    return bits
