"""The steps of a spread cleaning of a plain log, each a task of a worker: as `spread_steps`, but faster.

A log is plain if its round has no transaction, no damage, and only batches that the kernels read. Then one bit for each
offset says which records remain by their keys, and a group needs no map and no hash.

    rows      a task a piece             hash and offset of each record with a key             (`HashRange`)
    newest    a task a range of hashes   the offsets that remain by key, for each group
    groups    a task a group             new files, their checksums and batches read again
    compare   a task a piece             new files compared with their sources; the same decoding gives the rows of the
                                         proof
    proof     a task a range of hashes   the newest record of every key remains

The rows of the proof come from the files' contents and not from the cleaner: the hash of the key under another secret,
and a word: the offset times four, plus two for a tombstone, plus one if the new file has the record.

A batch that turns out not to be plain ends the way (`NotPlain`): the log is then cleaned by `spread_steps`.

Files of rows by range of hashes (`RangeWriter`, `HashRange`) have for each record with a key the hash of the key and a
number, in the log's order: the record's offset, or the word of the proof.
A file has some runs of rows, each with a block for each range. Within a block rows keep the order of the log, so the
last row of a hash is the latest. Rows are not sorted by hash: a map of one range is made from them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logcore.columns.cleaning.cleaning import CompiledCleaner, NotDescribed
from logcore.columns.cleaning.keyed_batches import KeyedBatches, SingleBatch, hashes_of_column
from logcore.columns.cleaning.newest_bits import NewestBits
from logcore.columns.cleaning.offset_map import HashKey, OffsetMap
from logcore.columns.kernels import batch_row
from logcore.columns.kernels.cleaning.cleaning_frames import NO_KEY
from logcore.logs.compaction.cleaning_round import SourceSegment
from logcore.records.batch import LOG_OVERHEAD
from spark_jobs.compaction import row_blocks
from spark_jobs.compaction.aborted_offsets import Aborted
from spark_jobs.compaction.cleaning_proof import not_a_part, rows
from spark_jobs.compaction.key_hashes import Hashed
from spark_jobs.compaction.log_cleaning import Replacement, Unproven, replacement, rows_of, sound_counts
from spark_jobs.compaction.row_blocks import BlockFiles, BlockWriter, HashRangeRows, Rows, written
from spark_jobs.compaction.spread.run import (
    GroupTask,
    SourcePiece,
    SpreadRound,
    SpreadRun,
    faults,
    opened_piece,
    opened_source,
    read_round,
)
from spark_jobs.lake.segments import cleaned_files
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.log_directory import slice_bytes

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
            for some in self.part_of(path, number):
                yield _hashed(some, self._bits)


def _hashed(rows: Rows, bits: int) -> Hashed:
    numbers = np.ascontiguousarray(rows[:, 2]).view(np.int64)
    return Hashed(rows[:, 0] << np.uint64(bits), np.ascontiguousarray(rows[:, 1]), numbers)


_BATCH = struct.Struct(">qi")
REMAINS, TOMBSTONE, OFFSET_SHIFT = 1, 2, 2
"""Of a word of the proof."""


@dataclass(frozen=True, slots=True)
class NotPlain:
    """The log has a batch that must be cleaned by its keys."""


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """A group after cleaning.

    Attributes:
        replacement: The new segment; None where nothing changes.
        borders: Where each piece of the group begins in the new segment, and its end.
    """

    replacement: Replacement | None
    borders: tuple[int, ...]

    def compared(self, pieces: Sequence[SourcePiece]) -> Iterator[ComparedPiece]:
        """The tasks that compare the group's pieces with the new segment."""
        if self.replacement is None:
            yield from (ComparedPiece(piece, None, 0, 0) for piece in pieces)
            return
        for piece, start, end in zip(pieces, self.borders[:-1], self.borders[1:], strict=True):
            yield ComparedPiece(piece, self.replacement.segment, start, end)


@dataclass(frozen=True, slots=True)
class ComparedPiece:
    """A piece, and the part of the new segment with what remains of it; `new` is None where nothing changes."""

    piece: SourcePiece
    new: Segment | None
    start: int
    end: int


@faults
def write_rows(run: SpreadRun, piece: SourcePiece) -> NotPlain | None:
    """Write hashes and offsets of the records of one piece."""
    known = read_round(run)
    try:
        with (
            opened_piece(run.lake, piece) as source,
            range_writer(run.lake, run.hashed_rows(piece.base_offset), known.bits, run.rows) as file,
        ):
            for some in _rows(source, run.hash_key, known.end_offset):
                file.add(some)
    except NotDescribed:
        return NotPlain()
    return None


def _rows(segment: SourceSegment, hash_key: HashKey, end_offset: int) -> Iterator[Hashed]:
    last = -1
    for chunk in KeyedBatches(hash_key).of(segment):
        if isinstance(chunk, SingleBatch) or int(chunk.table[0, batch_row.BASE_OFFSET]) <= last:
            raise NotDescribed
        last = int(chunk.table[-1, batch_row.LAST_OFFSET])
        chosen = (chunk.flags & NO_KEY == 0) & (chunk.offsets < end_offset)
        # The next chunk overwrites this one's memory: selecting rows makes a copy.
        yield Hashed(chunk.high[chosen], chunk.low[chosen], chunk.offsets[chosen])


@faults
def write_newest_offsets(run: SpreadRun, bucket: int) -> int:
    """Write the offsets that remain by key, of one range of hashes; the file has a block for each group.

    Returns:
        The number of parts in which the range was read.
    """
    known = read_round(run)
    first_dirty = known.round.first_dirty_offset
    paths = [run.hashed_rows(base) for bases in known.pieces for base in bases]
    borders = np.array([bases[0] for bases in known.pieces[1:]], np.int64)
    of_range = HashRange(run.lake, paths, bucket, known.bits, run.rows)
    with row_blocks.written(run.lake, run.newest(bucket), 1) as file:
        for number in range(of_range.parts):
            offsets = _remaining(of_range, number, first_dirty)
            ends = np.append(np.searchsorted(offsets, borders), len(offsets))
            file.add(offsets.view(np.uint64).reshape(-1, 1), ends)
    return of_range.parts


def _remaining(of_range: HashRange, number: int, first_dirty: int) -> npt.NDArray[np.int64]:
    """Rising offsets: the newest dirty one of each key, and the clean ones of keys without a dirty record."""
    newest, has_clean = OffsetMap(), False
    for some in of_range.part(number):
        newest.put(*some.columns, since=first_dirty)
        has_clean |= bool(some.offsets[0] < first_dirty)
    found = [newest.held().offsets]
    if has_clean:
        for some in of_range.part(number):
            is_left = (some.offsets < first_dirty) & (newest.find(some.high, some.low) < 0)
            found.append(some.offsets[is_left])
    offsets = np.concatenate(found)
    offsets.sort()
    return offsets


@faults
def clean_plain_group(run: SpreadRun, task: GroupTask) -> CleanedGroup | NotPlain:
    """Write one new segment, and read its checksums and batches again."""
    known, group = read_round(run), task.group
    slices = [one for segment in task.segments for one in segment.slices]
    with ExitStack() as opened:
        sources = [
            # The bits are of clean records too.
            replace(opened.enter_context(opened_source(run.lake, segment, source)), dirty_position=0)
            for source, segment in zip(group.segments, task.segments, strict=True)
        ]
        cleaner = CompiledCleaner.resumed(
            known.round,
            OffsetMap(),
            known.end_offset,
            hash_key=run.hash_key,
            transactions=task.state,
            bits=_bits_of(run, task, known),
        )
        with cleaned_files.log_file(run.lake, slices[0].log) as file:
            try:
                cleaned = cleaner.clean(sources, file)
            except NotDescribed:
                return NotPlain()
            placed = cleaned_files.place(run.lake, file, cleaned, slices)
    if placed is None:
        return CleanedGroup(None, ())
    with slice_bytes(run.lake, placed) as content:
        counts = sound_counts(placed, content)
        return CleanedGroup(replacement(slices, placed, counts), _borders(content, known.pieces[task.number]))


def _borders(content: memoryview, bases: Sequence[int]) -> tuple[int, ...]:
    """Where the batches from each base offset on begin in a file of sound batches, and its end."""
    borders: list[int] = []
    position = 0
    while position < len(content):
        base_offset, length = _BATCH.unpack_from(content, position)
        while len(borders) < len(bases) and base_offset >= bases[len(borders)]:
            borders.append(position)
        position += LOG_OVERHEAD + length
    borders += [position] * (len(bases) - len(borders))
    return (0, *borders[1:], position)


def _bits_of(run: SpreadRun, task: GroupTask, known: SpreadRound) -> NewestBits:
    segments = task.group.segments
    first, end = segments[0].base_offset, segments[-1].next_base_offset
    return NewestBits.of_offsets(first, end, _offsets_of(run, task, known), stays_from=known.end_offset)


def _offsets_of(run: SpreadRun, task: GroupTask, known: SpreadRound) -> Iterator[npt.NDArray[np.int64]]:
    files = BlockFiles(run.lake)
    for bucket in range(1 << known.bits):
        with files.opened(run.newest(bucket)) as file:
            for block in range(task.number, file.blocks, len(known.groups)):
                yield file.rows(block)[:, 0].view(np.int64)


@faults
def compare_piece(run: SpreadRun, task: ComparedPiece) -> None:
    """Compare the records of a piece with those of the new file, and write the rows of the proof.

    Raises:
        Unproven: The new file must not be used.
    """
    known, piece = read_round(run), task.piece
    aborted = Aborted.of((start, end) for start, end in known.hidden)
    with (
        opened_piece(run.lake, piece) as source,
        range_writer(run.lake, run.proof_rows(piece.base_offset), known.bits, run.rows) as rows_file,
    ):
        proof = _ProofRows(rows_file, aborted, known.end_offset, run.proof_key)
        if task.new is None:
            for batch in rows_of([source]):
                proof.add(batch, np.ones(batch.num_rows, bool))
            return
        with slice_bytes(run.lake, task.new) as content:
            part = content[task.start : task.end]
            wrong = not_a_part(rows_of([source]), rows(part, piece.base_offset), proof.add)
    if wrong is not None:
        raise Unproven(wrong)


class _ProofRows:
    """Writes the rows of the proof from decoded records."""

    def __init__(self, rows: RangeWriter, aborted: Aborted, end_offset: int, proof_key: HashKey) -> None:
        self._rows, self._aborted, self._end, self._key = rows, aborted, end_offset, proof_key

    def add(self, batch: pa.RecordBatch, remains: npt.NDArray[np.bool_]) -> None:
        """Add records before cleaning.

        Raises:
            Unproven: A record of an aborted transaction remains.
        """
        offsets = batch.column("offset").to_numpy()
        aborted = self._aborted.holds(offsets)
        wrong = aborted & remains
        if wrong.any():
            offset = int(offsets[wrong.argmax()])
            raise Unproven(f"offset {offset} belongs to an aborted transaction and is still there")
        keys = batch.column("key")
        chosen = (offsets < self._end) & ~aborted & keys.is_valid().to_numpy(zero_copy_only=False)
        words = offsets << OFFSET_SHIFT | remains
        words |= batch.column("value").is_null().to_numpy(zero_copy_only=False) * np.int64(TOMBSTONE)
        if not chosen.all():
            keys, words = keys.filter(pa.array(chosen)), words[chosen]
        self._rows.add(Hashed(*hashes_of_column(keys.cast(pa.large_binary()), self._key), words))


@faults
def prove_remaining(run: SpreadRun, bucket: int) -> None:
    """Check that the newest record of each key with a hash in one range remains.

    Raises:
        Unproven: A newest record is gone.
    """
    known = read_round(run)
    paths = [run.proof_rows(base) for bases in known.pieces for base in bases]
    lost = lost_offset(run.lake, paths, bucket, known.bits, run.rows)
    if lost is not None:
        raise Unproven(f"the record at offset {lost} is the newest of its key and is gone")


def lost_offset(lake: str, paths: Sequence[str], bucket: int, bits: int, rows: int) -> int | None:
    """Find an offset that is the newest of its key and does not remain; None: this range of hashes has none.

    A tombstone may be gone if no record of its key remains.

    Args:
        lake: The lake.
        paths: Files with the rows of the proof, in order.
        bucket: The range of hashes.
        bits: Leading bits of a hash that select its range.
        rows: The most rows in memory.
    """
    of_range = HashRange(lake, paths, bucket, bits, rows)
    lost: list[int] = []
    for number in range(of_range.parts):
        newest = OffsetMap()
        for some in of_range.part(number):
            newest.put(*some.columns)
        words = newest.held().offsets
        gone = words[words & REMAINS == 0]
        lost += gone[gone & TOMBSTONE == 0].tolist()
        if len(gone):
            for some in of_range.part(number):
                last = newest.find(some.high, some.low)
                wrong = (some.offsets & REMAINS != 0) & (last & REMAINS == 0)
                lost += last[wrong].tolist()
    return min(lost) >> OFFSET_SHIFT if lost else None
