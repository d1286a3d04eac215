"""The steps of a spread cleaning, each a task of a worker.

In the order of `spread_cleaning`, which explains them: facts, plan, keys, newest, groups, proof. A step writes its
result for the next step to files in the run's folder, named by their contents. A task only describes its own segment,
range or group; data of the round that all tasks need is in the file `round.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import replace

import numpy as np

from logcore.columns.cleaning.cleaning import CompiledCleaner
from logcore.columns.cleaning.newest_bits import MOST_BYTES, NewestBits
from logcore.columns.cleaning.offset_map import OffsetMap
from logcore.logs.checks.validation import BatchVerdict
from logcore.logs.compaction.cleaned_transactions import CleanedTransactions, CleanedTransactionState
from logcore.logs.compaction.cleaning_round import CleaningRound, SourceSegment
from logcore.logs.compaction.plan import CompactionPlan, PlannedGroup
from logcore.logs.compaction.selection import Refusal
from logcore.records.control import ControlType
from spark_jobs.compaction import key_hashes
from spark_jobs.compaction.aborted_offsets import Aborted
from spark_jobs.compaction.keyed_rows import KeyedRows, keyed_rows
from spark_jobs.compaction.log_cleaning import (
    CleaningResult,
    CleaningTask,
    Replacement,
    SourceFiles,
    Unproven,
    aborted_of,
    damage_of,
    directory_of,
    planned,
    proven_part,
    replacement,
)
from spark_jobs.compaction.segment_facts import SegmentFacts, read_facts, read_transactions, write_facts
from spark_jobs.compaction.spread.run import (
    MOST_OFFSETS,
    GroupTask,
    KeysTask,
    SourcePiece,
    SpreadPlan,
    SpreadRound,
    SpreadRun,
    faults,
    opened_source,
    read_round,
    write_round,
)
from spark_jobs.lake.segments import cleaned_files
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.log_directory import segment_bytes, zeros
from spark_jobs.lake.segments.log_segments import LogSegment, log_segments


@faults
def write_segment_facts(run: SpreadRun, segments: Sequence[LogSegment]) -> SegmentFacts:
    """Verify the first of two adjacent segments, or the last segment of the log, and write its facts."""
    segment = segments[0]
    with segment_bytes(run.lake, segment) as content:
        path, after = run.facts(segment.base_offset), segments[1].base_offset if segments[1:] else None
        return write_facts(run.lake, path, content, segment.base_offset, after)


@faults
def plan_round(run: SpreadRun, task: CleaningTask, every: Sequence[SegmentFacts]) -> SpreadPlan | CleaningResult:
    """Plan the round. Writes the data that every task needs to a file, and returns the tasks to run."""
    facts = {each.base_offset: each for each in every}
    slices = {segment.base_offset: segment for segment in log_segments(task.segments)}
    with directory_of(task, opened=_only_sizes(task)) as directory:
        plan = planned(task, directory, lambda _, base, __, ___: read_facts(task.lake, facts[base]))
        if isinstance(plan, Refusal):
            return CleaningResult(refusal=plan)
        end = _end_of_map(task, plan, slices)
        groups, of_map = plan.groups(end), _states_of_map(task, plan, facts)
        cleaned = [segment for group in groups for segment in group.segments]
        bits = key_hashes.bits_for(sum(facts[segment.base_offset].records for segment in cleaned), run.rows)
        bases = [[segment.base_offset for segment in group.segments] for group in groups]
        pieces = tuple(tuple(_pieces(group, slices, facts)) for group in groups)
        first_of_pieces = [[piece.base_offset for piece in of_group] for of_group in pieces]
        is_plain = _is_plain(plan, groups, facts)
        hidden = aborted_of(task.lake, task.log).ranges if is_plain else []
        write_round(run, SpreadRound(plan.round, end, bits, bases, first_of_pieces, hidden))
        return SpreadPlan(
            ranges=1 << bits,
            keys=tuple(
                KeysTask(slices[each.base_offset], replace(each, held=b""), of_map.get(each.base_offset))
                for each in cleaned
            ),
            groups=tuple(
                GroupTask(
                    number,
                    tuple(slices[each.base_offset] for each in group.segments),
                    replace(group, segments=tuple(replace(each, held=b"") for each in group.segments)),
                    state,
                )
                for number, (group, state) in enumerate(zip(groups, _states(task, plan, groups, facts), strict=True))
            ),
            first_dirty_offset=plan.next_first_dirty(end),
            map_was_full=end < plan.round.upper_bound_offset,
            damage=damage_of(plan, SourceFiles(task.segments)),
            pieces=pieces,
            is_plain=is_plain,
        )


def _end_of_map(task: CleaningTask, plan: CompactionPlan, slices: Mapping[int, LogSegment]) -> int:
    """Where the round ends: a map of a given size may be full before the round's upper bound."""
    if plan.round.max_keys is None:
        return plan.round.upper_bound_offset

    def opened() -> Generator[SourceSegment, None, None]:
        for each in plan.dirty_segments:
            with opened_source(task.lake, slices[each.base_offset], each) as source:
                yield source

    with closing(opened()) as sources:
        return CompiledCleaner().build_map(sources, plan.round)


def _pieces(
    group: PlannedGroup, slices: Mapping[int, LogSegment], facts: Mapping[int, SegmentFacts]
) -> Iterator[SourcePiece]:
    for source in group.segments:
        starts = [(0, source.base_offset), *facts[source.base_offset].splits]
        ends = [*starts[1:], (source.size, source.next_base_offset)]
        for (start, base_offset), (end, next_offset) in zip(starts, ends, strict=True):
            segment = slices[source.base_offset]
            yield SourcePiece(segment, replace(source, held=b""), start, end, base_offset, next_offset)


def _is_plain(plan: CompactionPlan, groups: Sequence[PlannedGroup], facts: Mapping[int, SegmentFacts]) -> bool:
    """Whether no transaction and no damage is in the round, and the offsets of each group fit into bits."""
    segments = [segment for group in groups for segment in group.segments]
    return (
        plan.round.frozen_from is None
        and plan.round.upper_bound_offset <= MOST_OFFSETS
        and not any(each.unreadable or facts[each.base_offset].has_transactions for each in segments)
        and all(
            group.refusal is None
            and NewestBits.bytes_for(group.segments[0].base_offset, group.segments[-1].next_base_offset) <= MOST_BYTES
            for group in groups
        )
    )


def _only_sizes(task: CleaningTask) -> Callable[[str, LogSegment], AbstractContextManager[memoryview]]:
    """Provide zeros instead of the bytes of all segments except the active one: their facts replace the bytes."""
    active = log_segments(task.segments)[-1].base_offset

    def opened(lake: str, segment: LogSegment) -> AbstractContextManager[memoryview]:
        return segment_bytes(lake, segment) if segment.base_offset == active else zeros(segment.facts.size)

    return opened


def _states(
    task: CleaningTask, plan: CompactionPlan, groups: Sequence[PlannedGroup], facts: Mapping[int, SegmentFacts]
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
            for batch in read_transactions(task.lake, facts[segment.base_offset]):
                _track(tracker, batch)


def _states_of_map(
    task: CleaningTask, plan: CompactionPlan, facts: Mapping[int, SegmentFacts]
) -> dict[int, CleanedTransactionState]:
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
        for batch in read_transactions(task.lake, facts[segment.base_offset]):
            if batch.position >= segment.dirty_position:
                _track(tracker, batch)
    return states


def _track(tracker: CleanedTransactions, batch: BatchVerdict) -> None:
    if batch.is_control:
        kind = None if batch.control_type is None else ControlType(batch.control_type)
        tracker.control(batch.last_offset, batch.producer_id, kind)
    else:
        tracker.data(batch.last_offset, batch.producer_id, is_transactional=batch.is_transactional)


@faults
def write_keys(run: SpreadRun, task: KeysTask) -> None:
    """Write hashes of the keys of one segment."""
    known = read_round(run)
    with opened_source(run.lake, task.segment, task.source) as source:
        rows = (_in_map(some, known.end_offset) for some in keyed_rows(source, run.hash_key, task.state))
        path, first_dirty = run.keys(source.base_offset), known.round.first_dirty_offset
        key_hashes.write_hashes(run.lake, path, rows, first_dirty, known.bits, run.rows, keeps_oldest=True)


def _in_map(some: KeyedRows, end_offset: int) -> key_hashes.Hashed:
    """The rows below the end of the map. An aborted record is never the newest, but after damage it remains until a
    newer record replaces it.
    """
    hashed = some.hashed
    offsets = np.where(some.is_aborted, ~hashed.offsets, hashed.offsets)
    inside = hashed.offsets < end_offset
    return key_hashes.Hashed(hashed.high[inside], hashed.low[inside], offsets[inside])


@faults
def write_newest(run: SpreadRun, bucket: int) -> int:
    """Write the newer offsets that the groups need from one range of hashes.

    Returns:
        The number of parts in which the range was read.
    """
    known = read_round(run)
    groups = [[run.keys(base) for base in bases] for bases in known.groups]
    return key_hashes.write_newer(run.lake, run.newer(bucket), groups, bucket, known.bits, run.rows)


@faults
def clean_group(run: SpreadRun, task: GroupTask) -> Replacement | None:
    """Write one new segment, and the hashes of its records for the proof; None where nothing changes."""
    known, group = read_round(run), task.group
    slices = [one for segment in task.segments for one in segment.slices]
    with ExitStack() as opened:
        sources = [
            opened.enter_context(opened_source(run.lake, segment, source))
            for source, segment in zip(group.segments, task.segments, strict=True)
        ]
        placed: Segment | None = None
        if group.refusal is None:
            cleaner = CompiledCleaner.resumed(
                known.round,
                _map_of(run, task, known),
                known.end_offset,
                hash_key=run.hash_key,
                transactions=task.state,
            )
            with cleaned_files.log_file(run.lake, slices[0].log) as file:
                cleaned = cleaner.clean(sources, file)
                placed = cleaned_files.place(run.lake, file, cleaned, slices)
            del cleaner
        if placed is None:
            _write_proof(run, task, known, sources, sources, refuses_aborted=group.refusal is None)
            return None
        counts = proven_part(run.lake, replace(group, segments=tuple(sources)), placed)
        left = replace(
            sources[0],
            base_offset=placed.base_offset,
            next_base_offset=placed.next_offset,
            aborted=(),
            unreadable=(),
        )
        with opened_source(run.lake, LogSegment((placed,)), left) as new:
            _write_proof(run, task, known, sources, [new], refuses_aborted=True)
        return replacement(slices, placed, counts)


def _map_of(run: SpreadRun, task: GroupTask, known: SpreadRound) -> OffsetMap:
    paths = [run.newer(bucket) for bucket in range(1 << known.bits)]
    newest = OffsetMap()
    for some in key_hashes.read_newer(run.lake, paths, task.number, len(known.groups)):
        newest.put(*some.columns)
    return newest


def _write_proof(
    run: SpreadRun,
    task: GroupTask,
    known: SpreadRound,
    before: Sequence[SourceSegment],
    after: Sequence[SourceSegment],
    *,
    refuses_aborted: bool,
) -> None:
    """Write the newest records by another hash, before and after cleaning, without records that the ledger calls
    aborted.

    Args:
        refuses_aborted: Whether an aborted record after cleaning is an error.
    """
    aborted = aborted_of(run.lake, task.segments[0].slices[0].log)

    def rows(segments: Sequence[SourceSegment], *, refuses_aborted: bool) -> Iterator[key_hashes.Hashed]:
        for segment in segments:
            for some in keyed_rows(segment, run.proof_key):
                offsets = some.hashed.offsets
                if refuses_aborted:
                    _refuse_aborted(aborted, offsets, known.round)
                chosen = (offsets < known.end_offset) & ~aborted.holds(offsets)
                words = offsets * 2 + ~some.has_value
                yield key_hashes.Hashed(some.hashed.high[chosen], some.hashed.low[chosen], words[chosen])

    for side, found in enumerate((rows(before, refuses_aborted=False), rows(after, refuses_aborted=refuses_aborted))):
        path = run.proof(side, task.number)
        # Treat all records as dirty: the newest word of each hash is kept.
        key_hashes.write_hashes(run.lake, path, found, 0, known.bits, run.rows, keeps_oldest=False)


def _refuse_aborted(aborted: Aborted, offsets: np.ndarray, round: CleaningRound) -> None:
    """Check that no aborted record remains.

    Raises:
        Unproven: An aborted record remains.
    """
    there = aborted.holds(offsets)
    if round.frozen_from is not None:
        there &= offsets < round.frozen_from
    if there.any():
        offset = int(offsets[there.argmax()])
        raise Unproven(f"offset {offset} belongs to an aborted transaction and is still there")


@faults
def prove_newest(run: SpreadRun, bucket: int) -> None:
    """Check that the newest record of each key with a hash in one range remains.

    Raises:
        Unproven: A newest record is gone.
    """
    known = read_round(run)
    before, after = ([run.proof(side, number) for number in range(len(known.groups))] for side in range(2))
    lost = key_hashes.lost_newest(run.lake, before, after, bucket, known.bits, run.rows)
    if lost is not None:
        raise Unproven(f"the record at offset {lost} is the newest of its key and is gone")
