"""The newest offset of every key of a log that is too large for one map: through files of a shared folder.

A key stands as the 128 bits of a keyed hash; the key of the hash is made once a run.

    segment task   its records, some at a time        → of each hash the oldest offset, and the newest in the dirty part
    newest task    all of these with a hash in a range → of each group of segments the hashes with a newer offset than
                                                         one that the group has, and that newest offset
    group task     the same of all ranges of hashes    → the map it cleans with

What does not concern a group never reaches it: its map is as large as what can go from it. Which hash stands for which
key decides in which file a row lies, and nothing else.

Memory: a task holds `rows` rows at a time with 56 bytes each, whatever the size of the log: a segment writes a piece
more, and a range of hashes that holds more is gone through in parts. A group's map has 51 bytes a key.

Files are Arrow's, in `folder`, whole under their final names; a task that is done twice writes the same again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from spark_jobs.lake import storage

NEVER = -1
KEY_ROWS = pa.schema(
    [
        pa.field("high", pa.uint64()),
        pa.field("low", pa.uint64()),
        pa.field("oldest", pa.int64()),
        pa.field("newest", pa.int64()),
    ]
)
"""newest: in the dirty part, -1 where the hash is not in it."""


@dataclass(frozen=True, slots=True)
class Hashed:
    """Rows of records in the order of their offsets: both halves of the hash of the key, and the offset."""

    high: np.ndarray
    low: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All three."""
        return self.high, self.low, self.offsets


@dataclass(frozen=True, slots=True)
class KeyPiece:
    """A file of a segment task: a record batch for each range of hashes."""

    path: str
    group: int
    rows: tuple[int, ...]
    """Of each range."""


@dataclass(frozen=True, slots=True)
class PieceOfRange:
    """The record batch of a piece that holds one range of hashes, and how many rows it has."""

    path: str
    group: int
    number: int
    rows: int


def pieces_of(pieces: Iterable[KeyPiece], bucket: int) -> list[PieceOfRange]:
    """What pieces hold of one range; those that hold nothing are left out."""
    return [PieceOfRange(p.path, p.group, bucket, p.rows[bucket]) for p in pieces if p.rows[bucket]]


def bits_for(records: int, rows: int) -> int:
    """How many leading bits of a hash name a range, so that no range has many more than `rows` of `records`."""
    return min(max(-(-records // max(rows, 1)) - 1, 0).bit_length(), 12)


def folded(rows: Hashed, first_dirty_offset: int) -> pa.RecordBatch:
    """A row a hash, ascending by hash."""
    order = np.argsort(rows.high, kind="stable")
    high, low = rows.high[order], rows.low[order]
    same_high = high[1:] == high[:-1]
    if np.any(same_high & (low[1:] != low[:-1])):  # two keys with one first half: as good as never
        order = np.lexsort((rows.low, rows.high))
        high, low = rows.high[order], rows.low[order]
    offsets = rows.offsets[order]
    starts = np.flatnonzero(np.concatenate(([True], (high[1:] != high[:-1]) | (low[1:] != low[:-1]))))
    if not len(offsets):
        return pa.RecordBatch.from_pylist([], schema=KEY_ROWS)
    newest = np.maximum.reduceat(offsets, starts)
    columns = [high[starts], low[starts], np.minimum.reduceat(offsets, starts)]
    columns.append(np.where(newest >= first_dirty_offset, newest, NEVER))
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=KEY_ROWS)


def write_pieces(
    lake: str, path: str, group: int, found: Iterable[Hashed], first_dirty_offset: int, bits: int, rows: int
) -> list[KeyPiece]:
    """The pieces of one segment, `path` with a number; none has more than about `rows` rows.

    Args:
        group: number of the group of segments that the segment belongs to.
        found: its records with a key, in order.
    """
    pieces: list[KeyPiece] = []
    held: list[Hashed] = []
    count = 0
    for some in found:
        held.append(some)
        count += len(some)
        if count >= rows:
            pieces.append(_write_piece(lake, f"{path}-{len(pieces)}", group, held, first_dirty_offset, bits))
            held, count = [], 0
    if count:
        pieces.append(_write_piece(lake, f"{path}-{len(pieces)}", group, held, first_dirty_offset, bits))
    return pieces


def _write_piece(
    lake: str, path: str, group: int, held: Sequence[Hashed], first_dirty_offset: int, bits: int
) -> KeyPiece:
    together = Hashed(*(np.concatenate([getattr(h, name) for h in held]) for name in ("high", "low", "offsets")))
    table = folded(together, first_dirty_offset)
    # Hashes ascend: each range is a slice.
    borders = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(64 - bits) if bits else np.zeros(0, np.uint64)
    ends = [0, *np.searchsorted(table.column("high").to_numpy(), borders).tolist(), table.num_rows]
    batches = [table.slice(start, end - start) for start, end in pairwise(ends)]
    _write(lake, path, batches)
    return KeyPiece(path, group, tuple(batch.num_rows for batch in batches))


def write_newer(lake: str, path: str, pieces: Sequence[PieceOfRange], groups: int, rows: int) -> int:
    """What the groups are to know of one range of hashes; returns how often the pieces were gone through.

    The file has a record batch for each group, and as many again for each further part of the range.
    """
    parts = _parts(pieces, rows)

    def batches() -> Iterator[pa.RecordBatch]:
        for part in range(parts):
            yield from _newer(*_part(lake, pieces, part, parts), groups)

    _write(lake, path, batches())
    return parts


def _parts(pieces: Sequence[PieceOfRange], rows: int) -> int:
    return max(-(-sum(piece.rows for piece in pieces) // max(rows, 1)), 1)


def _part(lake: str, pieces: Sequence[PieceOfRange], part: int, parts: int) -> tuple[pa.RecordBatch, np.ndarray]:
    """Rows whose hash falls to one part, and the group of each."""
    found: list[pa.RecordBatch] = []
    groups: list[np.ndarray] = []
    for piece in pieces:
        batch = next(iter(_read(lake, piece.path, [piece.number])))
        if parts > 1:
            mine = batch.column("low").to_numpy() % np.uint64(parts) == np.uint64(part)
            batch = batch.filter(pa.array(mine))
        found.append(batch)
        groups.append(np.full(batch.num_rows, piece.group, np.int32))
    if not found:
        return pa.RecordBatch.from_pylist([], schema=KEY_ROWS), np.zeros(0, np.int32)
    together = pa.Table.from_batches(found).combine_chunks().to_batches()
    rows = together[0] if together else pa.RecordBatch.from_pylist([], schema=KEY_ROWS)
    return rows, np.concatenate(groups)


def _newer(rows: pa.RecordBatch, groups: np.ndarray, count: int) -> Iterator[pa.RecordBatch]:
    high, low = rows.column("high").to_numpy(), rows.column("low").to_numpy()
    order = np.lexsort((low, high))
    high, low, groups = high[order], low[order], groups[order]
    oldest, newest = rows.column("oldest").to_numpy()[order], rows.column("newest").to_numpy()[order]
    begins = np.concatenate(([True], (high[1:] != high[:-1]) | (low[1:] != low[:-1])))[: len(order)]
    starts = np.flatnonzero(begins)
    if len(starts):
        newest = np.maximum.reduceat(newest, starts)[np.cumsum(begins) - 1]
    concerned = oldest < newest
    for number in range(count):
        mine = np.flatnonzero(concerned & (groups == number))
        columns = [high[mine], low[mine], oldest[mine], newest[mine]]
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=KEY_ROWS)


def lost_newest(lake: str, pieces: Sequence[PieceOfRange], rows: int) -> int | None:
    """An offset that is the newest of its key before cleaning and not after; None: there is none.

    Args:
        pieces: those of group 0 tell what was before, of group 1 what is left. In the place of offsets they hold twice
            the offset, and one more for a tombstone, which may be gone if nothing of its key is left.
    """
    parts = _parts(pieces, rows)
    for part in range(parts):
        found, sides = _part(lake, pieces, part, parts)
        high, low, words = (found.column(name).to_numpy() for name in ("high", "low", "newest"))
        order = np.lexsort((low, high))
        high, low, words, sides = high[order], low[order], words[order], sides[order]
        begins = np.concatenate(([True], (high[1:] != high[:-1]) | (low[1:] != low[:-1])))[: len(order)]
        starts = np.flatnonzero(begins)
        if not len(starts):
            continue
        before = np.maximum.reduceat(np.where(sides == 0, words, NEVER), starts)
        after = np.maximum.reduceat(np.where(sides == 1, words, NEVER), starts)
        lost = (before != after) & ~((before & 1 == 1) & (after == NEVER))
        if lost.any():
            return int(before[lost].min()) // 2
    return None


def read_newer(lake: str, paths: Sequence[str], group: int, groups: int) -> Iterator[Hashed]:
    """What one group is to know, with the newest offset of each hash; from the files of all ranges."""
    for path in paths:
        for batch in _read(lake, path, slice(group, None, groups)):
            if batch.num_rows:
                yield Hashed(*(batch.column(name).to_numpy() for name in ("high", "low", "newest")))


def _write(lake: str, path: str, batches: Iterable[pa.RecordBatch]) -> None:
    with (
        storage.writing(storage.join(lake, path)) as local,
        pa.OSFile(local, "wb") as file,
        pa.ipc.new_file(file, KEY_ROWS) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def _read(lake: str, path: str, wanted: Sequence[int] | slice) -> Iterator[pa.RecordBatch]:
    with storage.arrow_filesystem(lake).open_input_file(path) as file, pa.ipc.open_file(file) as reader:
        numbers = range(reader.num_record_batches)[wanted] if isinstance(wanted, slice) else wanted
        for number in numbers:
            yield reader.get_batch(number)
