"""The steps of a spread cleaning after its plan, each for one task; `spread_cleaning` explains them.

Errors of a step become the result of the whole, as for every task.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from logcore.columns.checking.bulk_rules import batch_of
from logcore.columns.cleaning.cleaning import CompiledCleaner
from logcore.columns.cleaning.keyed_batches import KeyedBatches, KeyedChunk, SingleBatch, hashes_of
from logcore.columns.cleaning.offset_map import Halves, HashKey, OffsetMap, Offsets
from logcore.columns.engines import decode_segment
from logcore.columns.kernels import batch_row
from logcore.columns.kernels.cleaning.cleaning_frames import NO_KEY, NO_VALUE
from logcore.columns.wanted import Wanted
from logcore.logs.compaction.cleaned_transactions import CleanedTransactions, CleanedTransactionState
from logcore.logs.compaction.cleaning_round import CleaningRound, SourceSegment
from logcore.records.batch import LOG_OVERHEAD
from logcore.records.control import control_type
from logcore.records.model import CONTROL_BIT, TRANSACTIONAL_BIT
from logcore.records.record import read_records
from logcore.records.varint import Buffer
from logcore.segments.scanning.scan import Stretch
from spark_jobs.compaction.cleaning_proof import ANYWHERE, not_a_part, rows
from spark_jobs.compaction.log_cleaning import (
    Replacement,
    Unproven,
    replacement,
    rows_of,
    sound_counts,
)
from spark_jobs.compaction.spread_plan import GroupTask, SourcePiece, faults, stopping
from spark_jobs.engine.shuffle import Block, Blocks
from spark_jobs.lake.segments import cleaned_files
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.log_directory import segment_bytes, slice_bytes
from spark_jobs.newest.hash_ranges import sample_of
from spark_jobs.newest.packed_rows import (
    Hashed,
    bits_in,
    last_of,
    last_of_key,
    offset_blocks,
    packed_rows,
    rows_in,
)
from spark_jobs.reads import Reads

REMAINS, TOMBSTONE, OFFSET_SHIFT = 1, 2, 2
"""Of a word of the proof: the offset from the first group's on times four, plus these."""
_BATCH = struct.Struct(">qi")


@dataclass(frozen=True, slots=True)
class SpreadRound:
    """What the tasks of a round need.

    Attributes:
        lake: The lake.
        round: The round.
        end_offset: Where the map of newest offsets ends.
        hash_key: Secret of the hashes of the cleaning.
        proof_key: Secret of the hashes of the proof.
        parts: Number of ranges of hashes.
        starts: Base offset of each group.
        end: Offset after the last group.
    """

    lake: str
    round: CleaningRound
    end_offset: int
    hash_key: HashKey
    proof_key: HashKey
    parts: int
    starts: tuple[int, ...]
    end: int


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """A group after cleaning.

    Attributes:
        replacement: The new segment; None where nothing changes.
        borders: Where each piece of the group begins in the new segment, and its end.
    """

    replacement: Replacement | None
    borders: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ComparedPiece:
    """A piece, and the part of the new segment with what remains of it.

    Attributes:
        piece: The piece.
        new: The new segment; None where nothing changes.
        start: Where the part begins in it.
        end: Where the part ends.
        is_refused: Whether its group is not cleaned, because of damage.
    """

    piece: SourcePiece
    new: Segment | None
    start: int
    end: int
    is_refused: bool

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return self.piece.reads


@faults
def sampled_hashes(round: SpreadRound, piece: SourcePiece) -> Halves:
    """See `sample_of`."""
    with piece.opened(round.lake) as source:
        return sample_of(some.hashed for some in keyed_rows(source, round.hash_key))


@stopping
def emit_offsets(round: SpreadRound, piece: SourcePiece, part: int | None) -> Iterator[Block]:
    """Hash of the key and offset of each record, or the complement of the offset if it is not in the map: an aborted
    record is never the newest, but after damage it remains until a newer one replaces it.
    """

    def found(source: SourceSegment) -> Iterator[Hashed]:
        for some in keyed_rows(source, round.hash_key, piece.state):
            rows = some.hashed
            inside = rows.numbers < round.end_offset
            is_in_map = ~some.is_aborted & (rows.numbers >= round.round.first_dirty_offset)
            numbers = np.where(is_in_map, rows.numbers, ~rows.numbers)
            yield Hashed(rows.high, rows.low, numbers).taken(inside)

    with piece.opened(round.lake) as source:
        yield from packed_rows(found(source), round.parts, part, piece.base_offset, needed_offsets)


def needed_offsets(run: Hashed) -> npt.NDArray[np.bool_]:
    """Which rows of `emit_offsets` can change what remains."""
    return (run.numbers < 0) | last_of_key(run, run.numbers >= 0)


def remaining_offsets(round: SpreadRound, part: int, blocks: Blocks) -> Iterator[Block]:
    """For each group the offsets of a range of hashes that no later record of the map replaces."""
    newest, has_others = OffsetMap(), False
    for some in map(rows_in, blocks()):
        newest.put(some.high, some.low, some.numbers)
        has_others |= bool((some.numbers < 0).any())
    found = [newest.held().offsets]
    if has_others:
        for some in map(rows_in, blocks()):
            others = some.taken(some.numbers < 0)
            offsets = ~others.numbers
            found.append(offsets[newest.find(others.high, others.low) <= offsets])
    offsets = np.concatenate(found)
    offsets.sort()
    groups = [(first, last_of(first, end)) for first, end in pairwise([*round.starts, round.end])]
    yield from offset_blocks(offsets, groups, part)


@faults
def clean_group(round: SpreadRound, task: GroupTask, blocks: Blocks) -> CleanedGroup:
    """Write one new segment, and read its checksums and batches again."""
    group = task.group
    if group.refusal is not None:
        return CleanedGroup(None, ())
    first = group.segments[0].base_offset
    end = last_of(first, group.segments[-1].next_base_offset)
    slices = [one for segment in task.segments for one in segment.slices]
    with ExitStack() as opened:
        sources = [
            # There are bits of clean records too.
            replace(source, held=opened.enter_context(segment_bytes(round.lake, segment)), dirty_position=0)
            for source, segment in zip(group.segments, task.segments, strict=True)
        ]
        bits = bits_in(blocks(), first, end, round.end_offset)
        cleaner = CompiledCleaner.resumed(round.round, bits, round.end_offset, task.state)
        with cleaned_files.log_file(round.lake, slices[0].log) as file:
            cleaned = cleaner.clean(sources, file)
            placed = cleaned_files.place(round.lake, file, cleaned, slices)
    if placed is None:
        return CleanedGroup(None, ())
    with slice_bytes(round.lake, placed) as content:
        counts = sound_counts(placed, content)
        return CleanedGroup(replacement(slices, placed, counts), _borders(content, task.bases))


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


@faults
def compare_piece(round: SpreadRound, task: ComparedPiece) -> None:
    """Compare the records of a piece with those of the new file.

    Raises:
        Unproven: The new file must not be used.
    """
    if task.new is None:
        return
    with task.piece.opened(round.lake) as source, slice_bytes(round.lake, task.new) as content:
        wrong = not_a_part(rows_of([source]), rows(content[task.start : task.end], task.piece.base_offset))
    if wrong is not None:
        raise Unproven(wrong)


@stopping
def emit_words(round: SpreadRound, task: ComparedPiece, part: int | None) -> Iterator[Block]:
    """Hash of the key and word of each record that the ledger does not call aborted. Only the files say which remain.

    Raises:
        Unproven: A record of an aborted transaction remains.
    """

    def found(source: SourceSegment, left: Offsets | None) -> Iterator[Hashed]:
        for some in keyed_rows(source, round.proof_key):
            offsets = some.hashed.numbers
            remains = np.ones(len(offsets), bool) if left is None else _are_in(left, offsets)
            aborted = task.piece.hidden.holds(offsets)
            words = offsets - round.starts[0] << OFFSET_SHIFT | ~some.has_value * TOMBSTONE | remains * REMAINS
            chosen = (offsets < round.end_offset) & ~aborted
            yield Hashed(some.hashed.high, some.hashed.low, words).taken(chosen)

    with task.piece.opened(round.lake) as source:
        left = None
        if task.new is not None:
            with slice_bytes(round.lake, task.new) as content:
                left = _offsets_of(content[task.start : task.end], task.piece.base_offset)
        if not task.is_refused:
            _refuse_aborted(round, task, _offsets_of(source.content, task.piece.base_offset) if left is None else left)
        yield from packed_rows(found(source, left), round.parts, part, task.piece.base_offset, needed_words)


def needed_words(run: Hashed) -> npt.NDArray[np.bool_]:
    """Which rows of `emit_words` can change the proof: the newest of each key, and one that remains."""
    return last_of_key(run, np.ones(len(run), bool)) | last_of_key(run, run.numbers & REMAINS != 0)


def _refuse_aborted(round: SpreadRound, task: ComparedPiece, left: Offsets) -> None:
    if not len(task.piece.hidden.starts):
        return
    wrong = task.piece.hidden.holds(left)
    if round.round.frozen_from is not None:
        wrong &= left < round.round.frozen_from
    if wrong.any():
        offset = int(left[wrong.argmax()])
        raise Unproven(f"offset {offset} belongs to an aborted transaction and is still there")


def _are_in(left: Offsets, offsets: Offsets) -> npt.NDArray[np.bool_]:
    if not len(left):
        return np.zeros(len(offsets), bool)
    there: npt.NDArray[np.bool_] = left[np.minimum(np.searchsorted(left, offsets), len(left) - 1)] == offsets
    return there


def _offsets_of(content: Buffer, base_offset: int) -> Offsets:
    """The offsets of the records of sound batches."""
    wanted = Wanted(columns=("offset",), as_counted=True)
    decoded = decode_segment(content, place=ANYWHERE, base_offset=base_offset, sealed=True, wanted=wanted)
    found = [item.column("offset").to_numpy() for item in decoded if not isinstance(item, Stretch)]
    return np.concatenate([np.zeros(0, np.int64), *found])


@faults
def prove_remaining(round: SpreadRound, part: int, blocks: Blocks) -> None:
    """Check that the newest record of each key with a hash in one range remains.

    A tombstone may be gone if no record of its key remains.

    Raises:
        Unproven: A newest record is gone.
    """
    newest = OffsetMap()
    for some in map(rows_in, blocks()):
        newest.put(some.high, some.low, some.numbers)
    words = newest.held().offsets
    gone = words[words & REMAINS == 0]
    lost = gone[gone & TOMBSTONE == 0].tolist()
    if len(gone):
        for some in map(rows_in, blocks()):
            last = newest.find(some.high, some.low)
            lost += last[(some.numbers & REMAINS != 0) & (last & REMAINS == 0)].tolist()
    if lost:
        offset = (min(lost) >> OFFSET_SHIFT) + round.starts[0]
        raise Unproven(f"the record at offset {offset} is the newest of its key and is gone")


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Rows of records with a key that are not control records, in offset order."""

    hashed: Hashed
    has_value: np.ndarray
    is_aborted: np.ndarray


def keyed_rows(
    segment: SourceSegment, hash_key: HashKey, before: CleanedTransactionState | None = None
) -> Iterator[KeyedRows]:
    """Read some MiB of batches at a time.

    The segment's own list of transactions, from its `dirty_position` on, says which records are aborted. Earlier
    records are not added to the map.

    Args:
        before: The state of transactions before the segment in the pass that builds the map, if it has more than the
            segment's own list.

    Raises:
        CorruptRecordError: Bytes that are not marked as unreadable are not a batch.
    """
    transactions = CleanedTransactions(before)
    transactions.add(segment.aborted)
    for item in KeyedBatches(hash_key).of(segment):
        if isinstance(item, SingleBatch):
            yield _of_batch(segment, item, transactions, hash_key)
        else:
            yield _of_chunk(segment, item, transactions)


def _of_chunk(segment: SourceSegment, chunk: KeyedChunk, transactions: CleanedTransactions) -> KeyedRows:
    table = chunk.table
    left_out, aborted = (np.zeros(chunk.rows, bool) for _ in range(2))
    for batch in np.flatnonzero(table[:, batch_row.ATTRIBUTES] & (TRANSACTIONAL_BIT | CONTROL_BIT)):
        scanned, _ = batch_of(table[batch].tolist())
        header, rows = scanned.header, slice(chunk.first_rows[batch], chunk.first_rows[batch + 1])
        left_out[rows] = header.is_control
        if scanned.position < segment.dirty_position:
            continue
        if header.is_control:
            transactions.control(header.last_offset, header.producer_id, scanned.control_type)
        elif transactions.data(header.last_offset, header.producer_id, is_transactional=True):
            aborted[rows] = True
    chosen = (chunk.flags & NO_KEY == 0) & ~left_out
    # The next chunk overwrites this one's memory: selecting rows makes a copy.
    hashed = Hashed(chunk.high[chosen], chunk.low[chosen], chunk.offsets[chosen])
    return KeyedRows(hashed, (chunk.flags & NO_VALUE == 0)[chosen], aborted[chosen])


def _of_batch(
    segment: SourceSegment, batch: SingleBatch, transactions: CleanedTransactions, hash_key: HashKey
) -> KeyedRows:
    header = batch.header
    records = list(read_records(segment.content, batch.position, header))
    aborted, is_told = False, batch.position >= segment.dirty_position
    if header.is_control:
        kind = control_type(records[0].key) if records else None
        if is_told:
            transactions.control(header.last_offset, header.producer_id, kind)
        records = []
    elif is_told:
        aborted = transactions.data(header.last_offset, header.producer_id, is_transactional=header.is_transactional)
    keyed = [(record.key, record.offset, record.value is not None) for record in records if record.key is not None]
    high, low = hashes_of([key for key, _, _ in keyed], hash_key)
    offsets = np.array([offset for _, offset, _ in keyed], np.int64)
    has_value = np.array([valued for _, _, valued in keyed], bool)
    return KeyedRows(Hashed(high, low, offsets), has_value, np.full(len(keyed), aborted))
