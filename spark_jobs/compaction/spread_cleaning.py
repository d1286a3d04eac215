"""Cleans one log in many tasks. The resulting bytes equal those of one task (`log_cleaning`), for any number of tasks
and cores.

    facts     a task a segment            every batch verified; a row a batch              (`spread_plan`)
    plan      one task, no bytes          the round, its groups, the state of transactions (`spread_plan`)
    offsets   a task a piece              hash and offset of each record with a key
    remain    a task a range of hashes    the offsets of each group that no later record replaces
    clean     a task a group              new files, their checksums and batches read again
    compare   a task a piece              new files compared with their sources
    words     a task a piece              hash by another secret, and whether the record remains
    prove     a task a range of hashes    the newest record of every key remains

What is known of a record by its key is one bit for its offset. A group needs no map and no hash. Data moves between the
steps by `shuffled`: on Spark through its shuffle, in local processes in passes over the log, one a range of hashes. No
intermediate file is written.

With `log.cleaner.dedupe.buffer.size` the task that plans also fills a map of that size, to find where the round ends.
Batches from there on stay as they are.

Results depend on no hash and on no order: files are named by their contents. A task that runs again, or twice at once,
writes the same again.

Memory of a task: some 20 MiB of buffers, and
    plan      facts of 10 to 20 bytes a batch, an index entry for each `index.interval.bytes` of the log, and a map of a
              given size with at most 51 bytes a key; its time grows with the number of batches
    offsets   `packed_rows.RUN_ROWS` rows of some 100 bytes
    remain    a map with at most 51 bytes a key; on Spark also the rows of the range, 24 bytes a record
    clean     a bit for each offset of the group, at most 256 MiB
    prove     as remain
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TypeVar

from logcore.columns.cleaning.offset_map import Halves, HashKey
from spark_jobs.compaction.log_cleaning import CleaningResult, CleaningTask
from spark_jobs.compaction.spread_plan import SpreadPlan, emit_facts, plan_round
from spark_jobs.compaction.spread_steps import (
    CleanedGroup,
    ComparedPiece,
    SpreadRound,
    clean_group,
    compare_piece,
    emit_offsets,
    emit_words,
    prove_remaining,
    remaining_offsets,
    sampled_hashes,
)
from spark_jobs.engine.executor import Executor
from spark_jobs.engine.shuffle import Shuffle, ShuffleEnded, Through, shuffled
from spark_jobs.lake.segments.log_segments import log_segments
from spark_jobs.newest.hash_ranges import range_count

PASS_KEYS = 4_000_000
"""Keys of a range of hashes in local processes, where a task has only the map in memory."""

Result = TypeVar("Result")


def clean_spread(executor: Executor, task: CleaningTask) -> CleaningResult:
    """Clean one log with tasks on all workers."""
    try:
        return _clean(executor, task)
    except ShuffleEnded as stopped:
        result: CleaningResult = stopped.result
        return result


def _clean(executor: Executor, task: CleaningTask) -> CleaningResult:
    segments = log_segments(task.segments)
    neighbours = [segments[at : at + 2] for at in range(len(segments))]
    sizes = [segment.facts.size for segment in segments]
    facts = Shuffle(partial(emit_facts, task.lake), neighbours, plan_round, [task], is_small=True, sizes=sizes)
    [plan] = _checked(shuffled(executor, facts))
    round = _round(executor, task, plan)
    sizes = [piece.size for piece in plan.pieces]
    remaining = Through(partial(remaining_offsets, round), round.parts)
    cleaning = Shuffle(
        partial(emit_offsets, round),
        plan.pieces,
        partial(clean_group, round),
        plan.groups,
        through=remaining,
        sizes=sizes,
    )
    groups = _checked(shuffled(executor, cleaning))
    compared = list(_compared(plan, groups))
    _checked(executor.run(partial(compare_piece, round), compared, sizes))
    proof = Shuffle(
        partial(emit_words, round), compared, partial(prove_remaining, round), range(round.parts), sizes=sizes
    )
    _checked(shuffled(executor, proof))
    return CleaningResult(
        damage=plan.damage,
        replaced=tuple(group.replacement for group in groups if group.replacement is not None),
        first_dirty_offset=plan.first_dirty_offset,
        map_was_full=plan.map_was_full,
    )


def _round(executor: Executor, task: CleaningTask, plan: SpreadPlan) -> SpreadRound:
    starts = tuple(each.group.segments[0].base_offset for each in plan.groups)
    keys = HashKey.random(), HashKey.random()
    round = SpreadRound(task.lake, plan.round, plan.end_offset, *keys, 1, starts, plan.pieces[-1].next_offset)

    def samples() -> list[Halves]:
        sizes = [piece.size for piece in plan.pieces]
        return _checked(executor.run(partial(sampled_hashes, round), plan.pieces, sizes))

    records = sum(piece.records for piece in plan.pieces)
    return replace(round, parts=range_count(executor, records, PASS_KEYS, samples))


def _compared(plan: SpreadPlan, groups: Sequence[CleanedGroup]) -> Iterator[ComparedPiece]:
    pieces = iter(plan.pieces)
    for task, group in zip(plan.groups, groups, strict=True):
        borders = group.borders or (0,) * (len(task.bases) + 1)
        new = None if group.replacement is None else group.replacement.segment
        for start, end in pairwise(borders):
            yield ComparedPiece(next(pieces), new, start, end, task.group.refusal is not None)


def _checked(results: Sequence[Result | CleaningResult]) -> list[Result]:
    """Results in the order of tasks.

    Raises:
        ShuffleEnded: One of them is an error.
    """
    done: list[Result] = []
    for each in results:
        if isinstance(each, CleaningResult):
            raise ShuffleEnded(each)
        done.append(each)
    return done
