"""A large log of ``latest`` as many tasks, whose table has the rows that one task gives it (`latest_task`).

    keys      a task a part of the log      hash and offset of each row with a key, of ``records`` and of the table
    newest    a task a range of hashes      the newest offset of each key, by parts of the log
    write     a task a part of the log      files without outdated rows, and new rows that are the newest of their key

Data moves between the steps by `shuffled`. A part of the log is a range of offsets: files of the table, or new rows of
``records``. Parts depend on the log alone, so the files that are written do not depend on the number of ranges.

Memory of a task: buffers of some MiB, and
    keys      `packed_rows.RUN_ROWS` rows of some 100 bytes
    newest    a map with at most 51 bytes a key; on Spark also the rows of the range, 24 bytes each
    write     at most 16 bytes for each row that stays or is new, or a bit for each offset of the part
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logcore.columns.cleaning.keyed_batches import hashes_of_column
from logcore.columns.cleaning.offset_map import Halves, HashKey, OffsetMap
from spark_jobs.errors import JobError
from spark_jobs.latest.latest_task import LatestResult, LatestTask, failure, held_keys, is_small, written
from spark_jobs.reads import Reads
from spark_jobs.row_files.newest.newest_rows import KEY_COLUMNS, NewestCounts, with_key
from spark_jobs.row_files.newest.offset_set import OffsetSet
from spark_jobs.row_files.published_rows import published_rows
from spark_jobs.tasks.executor import run_tasks
from spark_jobs.tasks.hash_ranges import range_count, sample_of
from spark_jobs.tasks.packed_rows import Hashed, offset_blocks, offsets_in, packed_rows, rows_in
from spark_jobs.tasks.shuffle import Block, Blocks, Shuffle, ShuffleEnded, Through, shuffled

if TYPE_CHECKING:
    from spark_jobs.lake.delta.files.live_files import LiveFile
    from spark_jobs.tasks.executor import Executor

PART_BYTES = 64 << 20
"""About the bytes of the files of a part."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of a log: files of its table, new rows of ``records``, or the last files and the first rows.

    Attributes:
        task: The part as a task of its own.
        first: No offset of its rows is lower.
        end: All offsets of its rows are lower.
    """

    task: LatestTask
    first: int
    end: int

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(self.task.reads.what, None, self.first, self.end)

    @property
    def size(self) -> int:
        """Bytes that it reads."""
        return self.task.size


@dataclass(frozen=True, slots=True)
class SpreadLog:
    """What all tasks of a log know.

    Attributes:
        hash_key: Secret of the hashes.
        parts: First offset and end of each part of the log.
        ranges: Number of ranges of hashes.
    """

    hash_key: HashKey
    parts: tuple[tuple[int, int], ...]
    ranges: int = 1


def spread_rows(executor: Executor | None, task: LatestTask) -> LatestResult:
    """As :func:`~spark_jobs.latest.latest_task.latest_rows`, with tasks on all workers.

    Raises:
        JobError: The executor could not finish its tasks.
    """
    parts = parts_of(task)
    sizes = [part.size for part in parts]
    log = SpreadLog(HashKey.random(), tuple((part.first, part.end) for part in parts))

    def samples() -> list[Halves]:
        return run_tasks(executor, partial(sampled_keys, log), parts, sizes)

    try:
        log = replace(log, ranges=range_count(executor, task.most_keys, task.keys_in_memory, samples))
        newest = Through(partial(newest_offsets, log), log.ranges)
        steps = Shuffle(partial(emit_keys, log), parts, write_part, parts, through=newest, sizes=sizes)
        done: list[LatestResult] = shuffled(executor, steps)
    except ShuffleEnded as stopped:
        result: LatestResult = stopped.result
        return result
    counts = [each.counts for each in done if each.counts is not None]
    return LatestResult(
        tuple(file for each in done for file in each.written),
        tuple(file for each in done for file in each.removed),
        NewestCounts(*(sum(getattr(each, name) for each in counts) for name in NewestCounts.__slots__)),
        sum(each.rows_written for each in done),
        sum(each.rows_moved for each in done),
    )


def parts_of(task: LatestTask) -> list[LogPart]:
    """The parts of a log, in the order of offsets."""
    *before, joined = _runs(task.held)
    cuts = _cuts(task)
    starts = [run[0].min_offset or 0 for run in (*before, joined) if run] + cuts[bool(joined) :]
    held = [*before, joined, *[()] * (len(cuts) - 1)]
    new = [(task.span.start,) * 2] * len(before) + list(pairwise([*cuts, task.span.end]))
    return [
        LogPart(task.of(files, *offsets), *window)
        for files, offsets, window in zip(held, new, pairwise([0, *starts[1:], task.span.end]), strict=True)
    ]


def _runs(held: Sequence[LiveFile]) -> list[tuple[LiveFile, ...]]:
    """Files of the table in runs, each with lower offsets than the next one.

    The last run has the small files at the end, which are joined with new rows; it may be empty.
    """
    small = len(held)
    while small and is_small(held[small - 1]):
        small -= 1
    runs: list[tuple[LiveFile, ...]] = []
    start, size, greatest = 0, 0, -1
    for at, file in enumerate(held):
        if at and (size >= PART_BYTES or at == small) and (file.min_offset or 0) > greatest:
            runs.append(tuple(held[start:at]))
            start, size = at, 0
        size += file.size
        greatest = max(greatest, file.max_offset if file.max_offset is not None else 1 << 63)
    last = tuple(held[start:])
    return [*runs, last] if small < len(held) or not held else [*runs, last, ()]


def _cuts(task: LatestTask) -> list[int]:
    """Where each part of the new rows begins."""
    span, cuts, size = task.span, {task.span.start}, 0
    for file in sorted(task.published, key=lambda each: (each.min_offset or 0, each.path)):
        first, end, of_span = span.part_of(file)
        count = -(-of_span // PART_BYTES)
        if size + of_span > PART_BYTES:
            cuts.add(first)
            size = 0
        size += of_span // max(count, 1)
        cuts.update(first + (end - first) * number // count for number in range(1, count))
    return sorted(cuts)


@contextmanager
def _stopping() -> Iterator[None]:
    """Errors of a step are the result of the whole log."""
    try:
        yield
    except (JobError, OSError) as error:
        raise ShuffleEnded(failure(error)) from error


def _keys(log: SpreadLog, part: LogPart) -> Iterator[Hashed]:
    task = part.task
    for batches in (held_keys(task), published_rows(task.lake, task.published, task.span, KEY_COLUMNS)):
        for batch in batches:
            offsets, keys = with_key(batch)
            yield Hashed(*hashes_of_column(keys.cast(pa.large_binary()), log.hash_key), offsets)


def sampled_keys(log: SpreadLog, part: LogPart) -> Halves:
    """See `sample_of`."""
    with _stopping():
        return sample_of(_keys(log, part))


def emit_keys(log: SpreadLog, part: LogPart, number: int | None) -> Iterator[Block]:
    """Hash of the key and offset of each row with a key."""
    with _stopping():
        yield from packed_rows(_keys(log, part), log.ranges, number, part.first, newest_of_run)


def newest_of_run(run: Hashed) -> npt.NDArray[np.bool_]:
    """Which rows are the newest of their key among these."""
    newest = OffsetMap()
    put_newest(newest, run)
    is_newest: npt.NDArray[np.bool_] = newest.find(run.high, run.low) == run.numbers
    return is_newest


def put_newest(newest: OffsetMap, rows: Hashed) -> None:
    """Put rows in any order: the map has the greatest offset of each hash."""
    if (rows.numbers[1:] < rows.numbers[:-1]).any():
        rows = rows.taken(np.argsort(rows.numbers, kind="stable"))
    rows = rows.taken(newest.find(rows.high, rows.low) < rows.numbers)
    newest.put(rows.high, rows.low, rows.numbers)


def newest_offsets(log: SpreadLog, number: int, blocks: Blocks) -> Iterator[Block]:
    """The newest offset of each key of a range of hashes, for the parts of the log."""
    newest = OffsetMap()
    for content in blocks():
        put_newest(newest, rows_in(content))
    return offset_blocks(np.sort(newest.held().offsets), log.parts, number)


def write_part(part: LogPart, blocks: Blocks) -> LatestResult:
    """Write what changes in a part of the log."""
    found = [offsets_in(content, part.first) for content in blocks()]
    chosen = OffsetSet.of(found, part.first, part.end - 1, sum(map(len, found)))
    with _stopping():
        return written(part.task, chosen)
