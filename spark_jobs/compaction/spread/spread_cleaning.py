"""Cleans one log in many tasks. The resulting bytes equal those of one task (`log_cleaning`), for any number of tasks
and cores.

    facts     a task a segment       every batch verified; a row a batch                        (`segment_facts`)
    plan      one task, no bytes     the round, its groups, the state of transactions before each
    keys      a task a segment       hashes of keys with their offsets                          (`key_hashes`)
    newest    a task a range of hashes   the newer offsets that each group needs
    groups    a task a group         new files, read again and proven as far as possible within a group
    proof     a task a range of hashes   the newest record of every key remains, checked with another hash key

With `log.cleaner.dedupe.buffer.size` the task that plans also fills a map of that size, to find where the round ends.
Batches from there on stay as they are.

A plain log takes other steps after the plan, with the same result (`spread.plain_steps`).

Results depend on no hash and on no order: files are named by their contents. A task that runs again, or twice at once,
writes the same again. Intermediate results are in a folder of the run in the archive, which is removed at the end. The
next run removes what a killed run left there.

Memory of a task: some 20 MiB of buffers, and
    plan      an index entry for each `index.interval.bytes` of the log, and a map of a given size with at most 51 bytes
              a key; its time grows with the number of batches
    keys      `MAP_ROWS` rows of 120 bytes; more rows make more sorted runs
    newest    the same; a range of hashes with more rows is read in parts
    groups    the map of keys whose records the group loses, at most 51 bytes per key of `segment.bytes`
Of a plain log: runs of rows of 24 bytes, a map of a range of hashes with at most `MAP_ROWS` keys of 51 bytes, and a bit
for each offset of a group, at most 16 MiB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from logcore.columns.cleaning.offset_map import HashKey
from spark_jobs.compaction.log_cleaning import CleaningResult, CleaningTask, Replacement
from spark_jobs.compaction.spread.plain_steps import (
    CleanedGroup,
    ComparedPiece,
    NotPlain,
    clean_plain_group,
    compare_piece,
    prove_remaining,
    write_newest_offsets,
    write_rows,
)
from spark_jobs.compaction.spread.run import SpreadPlan, SpreadRun
from spark_jobs.compaction.spread.spread_steps import (
    clean_group,
    plan_round,
    prove_newest,
    write_keys,
    write_newest,
    write_segment_facts,
)
from spark_jobs.lake.segments.log_segments import LogSegment, log_segments
from spark_jobs.lake.store import run_folder

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor

MAP_ROWS = 1_000_000
"""Rows that a task keeps in memory at a time."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def clean_spread(executor: Executor, task: CleaningTask) -> CleaningResult:
    """Clean one log with tasks on all workers."""
    folder = run_folder.new_folder()
    run = SpreadRun(task.lake, folder, MAP_ROWS, HashKey.random(), HashKey.random())
    try:
        return _clean(executor, run, task)
    except _Ended as ended:
        return ended.result
    finally:
        run_folder.remove(task.lake, folder)


class _Ended(Exception):
    """Returns a result early."""

    def __init__(self, result: CleaningResult) -> None:
        super().__init__()
        self.result = result


def _clean(executor: Executor, run: SpreadRun, task: CleaningTask) -> CleaningResult:
    segments = log_segments(task.segments)
    neighbours = [segments[at : at + 2] for at in range(len(segments))]
    facts = _each(executor, partial(write_segment_facts, run), neighbours, _sizes(segments))
    [plan] = _each(executor, partial(plan_round, run, task), [facts])
    replaced = _plain(executor, run, plan) if plan.is_plain else None
    if replaced is None:
        replaced = _by_maps(executor, run, plan)
    return CleaningResult(
        damage=plan.damage,
        replaced=tuple(each for each in replaced if each is not None),
        first_dirty_offset=plan.first_dirty_offset,
        map_was_full=plan.map_was_full,
    )


def _by_maps(executor: Executor, run: SpreadRun, plan: SpreadPlan) -> list[Replacement | None]:
    _each(executor, partial(write_keys, run), plan.keys, _sizes([each.segment for each in plan.keys]))
    _each(executor, partial(write_newest, run), range(plan.ranges))
    replaced = _each(executor, partial(clean_group, run), plan.groups)
    _each(executor, partial(prove_newest, run), range(plan.ranges))
    return replaced


def _plain(executor: Executor, run: SpreadRun, plan: SpreadPlan) -> list[Replacement | None] | None:
    """Clean with the steps for plain logs; None if the log is not plain."""
    pieces = [piece for of_group in plan.pieces for piece in of_group]
    if any(_each(executor, partial(write_rows, run), pieces, [piece.end - piece.start for piece in pieces])):
        return None
    _each(executor, partial(write_newest_offsets, run), range(plan.ranges))
    # Before the system writes them to the disk.
    run_folder.remove(run.lake, run.rows_folder)
    sizes = [each.bytes for each in plan.groups]
    groups: list[CleanedGroup | NotPlain] = _each(executor, partial(clean_plain_group, run), plan.groups, sizes)
    compared: list[ComparedPiece] = []
    replaced = []
    for group, of_group in zip(groups, plan.pieces, strict=True):
        if isinstance(group, NotPlain):
            return None
        compared += group.compared(of_group)
        replaced.append(group.replacement)
    _each(executor, partial(compare_piece, run), compared, [each.piece.end - each.piece.start for each in compared])
    _each(executor, partial(prove_remaining, run), range(plan.ranges))
    return replaced


def _each(
    executor: Executor,
    work: Callable[[Task], Result | CleaningResult],
    tasks: Sequence[Task],
    sizes: Sequence[int] | None = None,
) -> list[Result]:
    """Results in the order of tasks; the first error ends the cleaning."""
    done: list[Result] = []
    for each in executor.run(work, tasks, sizes):
        if isinstance(each, CleaningResult):
            raise _Ended(each)
        done.append(each)
    return done


def _sizes(segments: Sequence[LogSegment]) -> list[int]:
    return [sum(one.size for one in segment.slices) for segment in segments]
