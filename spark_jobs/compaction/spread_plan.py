"""Plans the round of a log that many tasks clean: its groups, the pieces that tasks read, and transactions.

The plan is made of facts about batches, without the bytes of the log. The task of each segment verifies every
batch. The task that plans gets one row per batch. Errors of a step become the result of the whole, as for every task.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from heapq import merge
from itertools import starmap
from operator import attrgetter
from typing import ParamSpec, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from logcore.columns.checking.table_batches import TableBatch
from logcore.columns.cleaning.cleaning import CompiledCleaner
from logcore.columns.verified_batches import read_verified
from logcore.errors import LogError
from logcore.logs.checks.validation import BatchVerdict
from logcore.logs.compaction.cleaned_transactions import CleanedTransactions, CleanedTransactionState
from logcore.logs.compaction.cleaning_round import CleaningRound, SourceSegment, Uncleanable
from logcore.logs.compaction.compaction_plan import CompactionPlan, PlannedGroup
from logcore.logs.compaction.selection import Refusal
from logcore.records.control import ControlType
from logcore.records.varint import Buffer
from logcore.segments.scanning.scan import Stretch
from spark_jobs.compaction.log_cleaning import (
    CleaningResult,
    CleaningTask,
    DamagedPlace,
    SourceFiles,
    Unproven,
    aborted_of,
    damage_of,
    directory_of,
    failure,
    planned,
)
from spark_jobs.compaction.newest_by_key import Aborted
from spark_jobs.engine.shuffle import Block, Blocks, ShuffleEnded
from spark_jobs.lake.segments.log_directory import segment_bytes, zeros
from spark_jobs.lake.segments.log_segments import LogSegment, log_segments
from spark_jobs.reads import Reads

Given = ParamSpec("Given")
Result = TypeVar("Result")


def faults(work: Callable[Given, Result]) -> Callable[Given, Result | CleaningResult]:
    """Wrap a step so that its errors become results, as for every task."""

    @wraps(work)
    def step(*args: Given.args, **kwargs: Given.kwargs) -> Result | CleaningResult:
        try:
            return work(*args, **kwargs)
        except (Uncleanable, Unproven, LogError, OSError) as error:
            return failure(error)

    return step


def stopping(work: Callable[Given, Iterator[Block]]) -> Callable[Given, Iterator[Block]]:
    """Wrap a step of a shuffle so that its errors become the result of the whole."""

    @wraps(work)
    def step(*args: Given.args, **kwargs: Given.kwargs) -> Iterator[Block]:
        try:
            yield from work(*args, **kwargs)
        except (Uncleanable, Unproven, LogError, OSError) as error:
            raise ShuffleEnded(failure(error)) from error

    return step


@dataclass(frozen=True, slots=True)
class SourcePiece:
    """Batches of a segment that one task reads.

    Attributes:
        group: Number of the segment's group in the round.
        segment: The segment.
        source: The segment without its bytes.
        start: Position of the first batch.
        end: Position after the last batch.
        base_offset: Base offset of the first batch, or of the segment.
        next_offset: Base offset of the next piece.
        records: The number of records.
        state: Transactions before it in the pass that builds the map, if it needs more than the segment's own list.
        hidden: Ranges of its offsets that the ledger calls aborted or unknown.
    """

    group: int
    segment: LogSegment
    source: SourceSegment
    start: int
    end: int
    base_offset: int
    next_offset: int
    records: int
    state: CleanedTransactionState | None
    hidden: Aborted

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(self.segment.slices[0].log, None, self.base_offset, self.next_offset)

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.end - self.start

    @contextmanager
    def opened(self, lake: str) -> Iterator[SourceSegment]:
        """The piece as a segment of its own."""
        with segment_bytes(lake, self.segment) as content:
            if self.size == len(content):
                yield replace(self.source, held=content)
                return
            yield replace(
                self.source,
                base_offset=self.base_offset,
                next_base_offset=self.next_offset,
                held=content[self.start : self.end],
                dirty_position=0,
            )


@dataclass(frozen=True, slots=True)
class GroupTask:
    """A group to clean.

    Attributes:
        segments: Segments of the group.
        group: The group, without bytes.
        state: Transactions before it.
        bases: Base offset of each of its pieces.
    """

    segments: tuple[LogSegment, ...]
    group: PlannedGroup
    state: CleanedTransactionState
    bases: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SpreadPlan:
    """The round, and the tasks to run.

    Attributes:
        round: The round.
        end_offset: Where the map of newest offsets ends.
        groups: Its groups.
        pieces: What tasks read, in the order of the log.
        first_dirty_offset: As in `CleaningResult`.
        map_was_full: As in `CleaningResult`.
        damage: As in `CleaningResult`.
    """

    round: CleaningRound
    end_offset: int
    groups: tuple[GroupTask, ...]
    pieces: tuple[SourcePiece, ...]
    first_dirty_offset: int
    map_was_full: bool
    damage: tuple[DamagedPlace, ...]


@stopping
def emit_facts(lake: str, segments: Sequence[LogSegment], _: int | None) -> Iterator[Block]:
    """The facts of the first of two adjacent segments, or of the last segment of the log."""
    segment = segments[0]
    with segment_bytes(lake, segment) as content:
        facts = facts_of(content, segment.base_offset, segments[1].base_offset if segments[1:] else None)
    yield Block(0, segment.base_offset, pickle.dumps(facts))


@faults
def plan_round(task: CleaningTask, blocks: Blocks) -> SpreadPlan:
    """Plan the round from the facts of all segments.

    Raises:
        ShuffleEnded: There is nothing to clean.
    """
    facts: dict[int, SegmentFacts] = {each.base_offset: each for each in map(pickle.loads, blocks())}
    slices = {segment.base_offset: segment for segment in log_segments(task.segments)}
    with directory_of(task, opened=_only_sizes(task)) as directory:
        plan = planned(task, directory, lambda _, base, __, ___: facts[base].read())
        if isinstance(plan, Refusal):
            raise ShuffleEnded(CleaningResult(refusal=plan))
        end = _end_of_map(task, plan, slices)
        groups, of_map, hidden = plan.groups(end), _states_of_map(plan, facts), aborted_of(task.lake, task.log)
        pieces = [
            piece
            for number, group in enumerate(groups)
            for source in group.segments
            for piece in _pieces(number, source, slices[source.base_offset], facts, of_map, hidden)
        ]
        bases: list[list[int]] = [[] for _ in groups]
        for piece in pieces:
            bases[piece.group].append(piece.base_offset)
        return SpreadPlan(
            round=plan.round,
            end_offset=end,
            groups=tuple(
                GroupTask(
                    tuple(slices[each.base_offset] for each in group.segments),
                    replace(group, segments=tuple(replace(each, held=b"") for each in group.segments)),
                    state,
                    tuple(piece.base_offset for piece in pieces if piece.group == number),
                )
                for number, (group, state) in enumerate(zip(groups, _states(plan, groups, facts), strict=True))
            ),
            pieces=tuple(pieces),
            first_dirty_offset=plan.next_first_dirty(end),
            map_was_full=end < plan.round.upper_bound_offset,
            damage=damage_of(plan, SourceFiles(task.segments)),
        )


def _end_of_map(task: CleaningTask, plan: CompactionPlan, slices: Mapping[int, LogSegment]) -> int:
    """Where the round ends: a map of a given size may be full before the round's upper bound."""
    if plan.round.max_keys is None:
        return plan.round.upper_bound_offset

    def opened() -> Generator[SourceSegment, None, None]:
        for each in plan.dirty_segments:
            with segment_bytes(task.lake, slices[each.base_offset]) as content:
                yield replace(each, held=content)

    with closing(opened()) as sources:
        return CompiledCleaner().build_map(sources, plan.round)


def _pieces(
    group: int,
    source: SourceSegment,
    segment: LogSegment,
    facts: Mapping[int, SegmentFacts],
    of_map: Mapping[int, CleanedTransactionState],
    hidden: Aborted,
) -> Iterator[SourcePiece]:
    of_segment = facts[source.base_offset]
    # Only one task can follow the transactions of a segment.
    splits = () if of_segment.has_transactions or source.unreadable else of_segment.splits
    starts = [(0, source.base_offset), *splits]
    ends = [*starts[1:], (source.size, source.next_base_offset)]
    for (start, base_offset), (end, next_offset) in zip(starts, ends, strict=True):
        yield SourcePiece(
            group=group,
            segment=segment,
            source=replace(source, held=b"") if len(starts) == 1 else replace(source, held=b"", aborted=()),
            start=start,
            end=end,
            base_offset=base_offset,
            next_offset=next_offset,
            records=of_segment.records * (end - start) // max(source.size, 1),
            state=of_map.get(source.base_offset) if len(starts) == 1 else None,
            hidden=hidden.between(base_offset, next_offset),
        )


def _only_sizes(task: CleaningTask) -> Callable[[str, LogSegment], AbstractContextManager[memoryview]]:
    """Provide zeros instead of the bytes of all segments except the active one: their facts replace the bytes."""
    active = log_segments(task.segments)[-1].base_offset

    def opened(lake: str, segment: LogSegment) -> AbstractContextManager[memoryview]:
        return segment_bytes(lake, segment) if segment.base_offset == active else zeros(segment.facts.size)

    return opened


def _states(
    plan: CompactionPlan, groups: Sequence[PlannedGroup], facts: Mapping[int, SegmentFacts]
) -> Iterator[CleanedTransactionState]:
    """The transaction state before each group, as cleaning would find it."""
    tracker = CleanedTransactions()
    for group in groups:
        yield tracker.state()
        if group.refusal is not None:
            continue
        for segment in group.segments:
            tracker.add(segment.aborted)
            if plan.round.frozen_from is not None:
                tracker.forget_ended(segment.base_offset)
            for batch in facts[segment.base_offset].transactions():
                _track(tracker, batch)


def _states_of_map(plan: CompactionPlan, facts: Mapping[int, SegmentFacts]) -> dict[int, CleanedTransactionState]:
    """The transaction state before each dirty segment, for the pass that builds the map, by base offset.

    Only needed where that pass begins inside a segment: it does not see earlier markers, so they end no transaction.
    Otherwise each segment's own list is enough.
    """
    dirty = plan.dirty_segments
    if not dirty or not dirty[0].dirty_position:
        return {}
    tracker, states = CleanedTransactions(), {}
    for segment in dirty:
        tracker.add(segment.aborted)
        if plan.round.frozen_from is not None:
            tracker.forget_ended(segment.base_offset)
        states[segment.base_offset] = tracker.state()
        for batch in facts[segment.base_offset].transactions():
            if batch.position >= segment.dirty_position:
                _track(tracker, batch)
    return states


def _track(tracker: CleanedTransactions, batch: BatchVerdict) -> None:
    if batch.is_control:
        kind = None if batch.control_type is None else ControlType(batch.control_type)
        tracker.control(batch.last_offset, batch.producer_id, kind)
    else:
        tracker.data(batch.last_offset, batch.producer_id, is_transactional=batch.is_transactional)


FACTS = pa.schema(
    [  # type: ignore[arg-type]
        pa.field("position", pa.int64()),
        pa.field("base_offset", pa.int64()),
        pa.field("last_offset", pa.int64()),
        pa.field("record_count", pa.int64()),
        pa.field("leader_epoch", pa.int64()),
        pa.field("max_timestamp", pa.int64()),
        pa.field("producer_id", pa.int64()),
        pa.field("producer_epoch", pa.int64()),
        pa.field("base_sequence", pa.int64()),
        pa.field("is_transactional", pa.bool_()),
        pa.field("is_control", pa.bool_()),
        pa.field("control_type", pa.string()),
        pa.field("delete_horizon_ms", pa.int64()),
    ]
)
"""The fields of `TableBatch`, in their order."""
PIECE_BYTES = 64 << 20
_ROWS_AT_ONCE = 1 << 16
_values = attrgetter(*FACTS.names)


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """The facts of one segment.

    Attributes:
        base_offset: Its base offset.
        batches: Its batches, as an Arrow file with the columns `FACTS`.
        stretches: The byte ranges that cannot be trusted.
        records: The number of records in the rest.
        has_transactions: Whether any of them is of a transaction or a marker.
        splits: Position and base offset of batches at which tasks may split the segment, about `PIECE_BYTES` apart.
    """

    base_offset: int
    batches: bytes = field(repr=False)
    stretches: tuple[Stretch, ...]
    records: int
    has_transactions: bool
    splits: tuple[tuple[int, int], ...]

    def read(self) -> Iterator[BatchVerdict | Stretch]:
        """The batches and untrusted stretches, in order of position."""
        batches = (batch for columns in self._columns() for batch in _rows_of(columns))
        both: Iterable[TableBatch | Stretch] = merge(batches, self.stretches, key=attrgetter("position"))
        return cast(Iterator[BatchVerdict | Stretch], iter(both))

    def transactions(self) -> Iterator[BatchVerdict]:
        """The control batches, the transactional batches, and the last batch."""
        last: pa.RecordBatch | None = None
        for batch in self._columns():
            of_transactions = pc.or_(batch.column("is_control"), batch.column("is_transactional"))
            yield from cast(Iterator[BatchVerdict], _rows_of(batch.filter(of_transactions)))
            last = batch.slice(batch.num_rows - 1)
        if last is not None and not any(last.column(name)[0].as_py() for name in ("is_control", "is_transactional")):
            yield from cast(Iterator[BatchVerdict], _rows_of(last))

    def _columns(self) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_file(pa.py_buffer(self.batches)) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


def facts_of(content: Buffer, base_offset: int, next_base_offset: int | None) -> SegmentFacts:
    """Read a segment, and verify every batch."""
    stretches: list[Stretch] = []
    records, has_transactions, split_at = 0, False, 0
    splits: list[tuple[int, int]] = []
    held: list[tuple[object, ...]] = []
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, FACTS, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for item in read_verified(content, base_offset, next_base_offset):
            if isinstance(item, Stretch):
                stretches.append(item)
                continue
            held.append(_values(item))
            records += item.record_count
            if item.position - split_at >= PIECE_BYTES:
                split_at = item.position
                splits.append((item.position, item.base_offset))
            has_transactions |= item.is_control or item.is_transactional
            if len(held) == _ROWS_AT_ONCE:
                writer.write_batch(_columns(held))
                held.clear()
        if held:
            writer.write_batch(_columns(held))
    batches = sink.getvalue().to_pybytes()
    return SegmentFacts(base_offset, batches, tuple(stretches), records, has_transactions, tuple(splits))


def _columns(held: list[tuple[object, ...]]) -> pa.RecordBatch:
    arrays = [pa.array(values, field.type) for field, values in zip(FACTS, zip(*held, strict=True), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FACTS)


def _rows_of(batch: pa.RecordBatch) -> Iterator[TableBatch]:
    return starmap(TableBatch, zip(*(column.to_pylist() for column in batch.columns), strict=True))
