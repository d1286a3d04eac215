"""A task of ``latest``: new rows of ``records`` of one log, and the files of its table, become changed files.

A large log is many tasks, whose table has the rows that one task gives it:

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

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logcore.columns.cleaning.keyed_batches import hashes_of_column
from logcore.columns.cleaning.offset_map import Halves, HashKey, OffsetMap
from logcore.storage.objects.answers import said
from spark_jobs.engine.executor import Executor, run_tasks, synced_late
from spark_jobs.engine.shuffle import Block, Blocks, Shuffle, ShuffleEnded, Through, shuffled
from spark_jobs.errors import JobError
from spark_jobs.lake.decoded.topic_tables import LATEST, latest_spec, topic_table, written_key
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.delta.files.typed_files import TypedFiles
from spark_jobs.lake.published.published_rows import Span, published_rows
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.latest.decoded_values import DecodedFiles, DecodedValues
from spark_jobs.newest.hash_ranges import range_count, sample_of
from spark_jobs.newest.newest_keys import NewestKeys, OffsetSet
from spark_jobs.newest.newest_rows import KEY_COLUMNS, NewestCounts, add_keys, chosen_rows, with_key
from spark_jobs.newest.packed_rows import Hashed, offset_blocks, offsets_in, packed_rows, rows_in
from spark_jobs.policies.compression import Compression
from spark_jobs.reads import Reads

FILE_BYTES = 8 << 20
"""Bytes of rows in memory of a file: a changed key costs the rewriting of one."""
_BATCH_ROWS, _KEYS = 8192, 65_536
"""Rows that are read at once, and keys."""
_Staying = npt.NDArray[np.bool_]
"""Which rows of a file stay."""


@dataclass(frozen=True, slots=True)
class LatestTask:
    """Offsets of a log that are added to its rows in ``latest/<topic>``."""

    lake: str
    span: Span
    published: tuple[LiveFile, ...]
    """Files of ``records`` that may have rows of the span."""
    held: tuple[LiveFile, ...]
    """Files of the table with rows of the log, in the order of offsets; none if the table is written again."""
    keeps_tombstones: bool
    compression: Compression
    keys_in_memory: int
    spread_bytes: int
    """With more bytes of new rows, many tasks do the work of this one: see :attr:`is_large`."""
    values: DecodedFiles | None = None
    """Where decoded keys and values are; None: the topic is not decoded."""

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return self.span.reads

    @property
    def spec(self) -> TableSpec:
        """The columns of the table."""
        return latest_spec(self.span.topic, None if self.values is None else self.values.columns)

    @property
    def size(self) -> int:
        """Bytes that the task reads."""
        decoded = () if self.values is None else (*self.values.decoded, *self.values.undecoded)
        return max(1, sum(file.size for file in (*self.published, *self.held, *decoded)))

    @property
    def new_rows(self) -> int:
        """The number of new rows, or a few more."""
        span = self.span.end - self.span.start
        return min(span, sum(file.rows if file.rows >= 0 else span for file in self.published))

    @property
    def most_keys(self) -> int:
        """The number of keys of the log, or more."""
        return self.new_rows + sum(file.rows for file in self.held)

    @property
    def is_large(self) -> bool:
        """Whether new rows have many bytes, or may have more keys than one map has room for."""
        of_span = sum(self.span.part_of(file)[2] for file in self.published)
        return of_span > self.spread_bytes or self.new_rows > self.keys_in_memory

    def of(self, held: tuple[LiveFile, ...], start: int, end: int) -> LatestTask:
        """Return the task of some files of the table, and of new rows between two offsets."""
        span = replace(self.span, start=start, end=end)
        published = tuple(file for file in self.published if span.may_be_in(file))
        values = None if self.values is None else self.values.of(span)
        return replace(self, span=span, published=published, held=held, values=values)


@dataclass(frozen=True, slots=True)
class LatestResult:
    """What a task wrote, or why it wrote nothing."""

    written: tuple[WrittenFile, ...] = ()
    removed: tuple[LiveFile, ...] = ()
    counts: NewestCounts | None = None
    rows_written: int = 0
    """New rows of the table."""
    rows_moved: int = 0
    """Rows that were written again unchanged."""
    error: str | None = None


@synced_late
def latest_rows(task: LatestTask) -> LatestResult:
    """Write what changes in one log; never raise for what is in a table."""
    try:
        with NewestKeys(task.keys_in_memory) as newest:
            add_keys(newest, published_rows(task.lake, task.published, task.span, KEY_COLUMNS))
            stays = None
            if newest.spilled:
                add_keys(newest, held_keys(task))
            else:
                stays = _staying_rows(task, newest)
            chosen = newest.newest()
        return written(task, chosen, stays)
    except (JobError, OSError) as error:
        return failure(error)


def failure(error: JobError | OSError) -> LatestResult:
    """Return the result of a task that ended with an error."""
    return LatestResult(error=said(error) if isinstance(error, OSError) else str(error))


def held_keys(task: LatestTask) -> Iterator[pa.RecordBatch]:
    """Yield offset and key of the rows of the table.

    Raises:
        TableUnreadable: A file is missing or damaged.
    """
    for file in task.held:
        for batch in _rows(task, file, ("offset", written_key(task.spec))):
            yield batch.rename_columns(["offset", "key"])


def written(task: LatestTask, chosen: OffsetSet, stays: Sequence[_Staying | None] | None = None) -> LatestResult:
    """Write the files that change.

    Args:
        task: What is written.
        chosen: The newest offsets.
        stays: Which rows of each file of the table stay. None: those with a chosen offset.

    Raises:
        JobError: A table is damaged.
        OSError: A file can't be written.
    """
    if stays is None:
        stays = [
            _joined([chosen.has(np.asarray(batch["offset"])) for batch in _rows(task, file, ("offset",))])
            for file in task.held
        ]
    files = TypedFiles(topic_table(task.lake, LATEST, task.span.topic).uri, task.spec, task.compression, FILE_BYTES)
    try:
        return _written(task, files, chosen, stays)
    finally:
        files.abandon()


def _written(task: LatestTask, files: TypedFiles, chosen: OffsetSet, stays: Sequence[_Staying | None]) -> LatestResult:
    counts, removed = NewestCounts(), []
    kept = _kept(task.held, [staying is None or bool(staying.all()) for staying in stays], task.new_rows)
    for file, staying, is_kept in zip(task.held, stays, kept, strict=True):
        if is_kept:
            files.end_log()
            continue
        removed.append(file)
        for batch in _staying(task, file, staying):
            files.write(batch)
    moved = files.rows
    new = chosen_rows(
        published_rows(task.lake, task.published, task.span),
        chosen,
        latest_spec(task.span.topic),
        counts,
        keeps_tombstones=task.keeps_tombstones,
    )
    values = None
    if task.values is not None and task.published:
        values = DecodedValues(task.lake, task.span, task.values)
    for batch in new:
        files.write(batch if values is None else values.added_to(batch))
    files.end_log()
    return LatestResult(tuple(files.written), tuple(removed), counts, files.rows - moved, moved)


def _staying_rows(task: LatestTask, newest: NewestKeys) -> list[_Staying | None]:
    """Return which rows of each file stay; None: all of them.

    A log has one row for each key. So files are read from the newest one on until each new key has been found. Keys
    that are new to the table are in none of them: then all files are read.
    """
    stays: list[_Staying | None] = []
    left, key = newest.keys, written_key(task.spec)
    for file in reversed(task.held):
        if left <= 0:
            stays.append(None)
            continue
        staying = _joined([~newest.added(batch[key]) for batch in _rows(task, file, (key,))])
        left -= len(staying) - int(np.count_nonzero(staying))
        stays.append(staying)
    return stays[::-1]


def is_small(file: LiveFile) -> bool:
    """Return whether a file is joined with new rows if only such files are after it."""
    return file.size <= FILE_BYTES // 4


def _kept(held: Sequence[LiveFile], unchanged: Sequence[bool], new_rows: int) -> list[bool]:
    """Which files stay: those without an outdated row, but for small ones at the end, which are joined."""
    kept = list(unchanged)
    joined = new_rows
    for at in range(len(held) - 1, -1, -1):
        if held[at].rows > 2 * joined or not is_small(held[at]):
            break
        kept[at] = False
        joined += held[at].rows
    return kept


def _staying(task: LatestTask, file: LiveFile, staying: _Staying | None) -> Iterator[pa.RecordBatch]:
    """Rows of a file that stay. Columns that have the value of the log in all rows are not read.

    Raises:
        TableUnreadable: The file is missing or damaged.
    """
    schema = task.spec.schema.remove_metadata()
    of_log = {"log_id": task.span.log_id, "partition": task.span.partition}
    alike = {name: value for name, value in of_log.items() if file.nulls.get(name) == 0 and file.only(name) == value}
    at = 0
    for batch in _rows(task, file, [name for name in schema.names if name not in alike]):
        rows = batch if staying is None else batch.filter(pa.array(staying[at : at + batch.num_rows]))
        at += batch.num_rows
        same = {name: pa.repeat(pa.scalar(value, schema.field(name).type), len(rows)) for name, value in alike.items()}
        yield pa.RecordBatch.from_arrays(
            [same[name] if name in same else rows[name] for name in schema.names], schema=schema
        )


def _rows(task: LatestTask, file: LiveFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows of a file of the table.

    Raises:
        TableUnreadable: It is missing or damaged.
    """
    table = topic_table(task.lake, LATEST, task.span.topic)
    schema = pa.schema([task.spec.schema.field(name) for name in columns]).remove_metadata()
    for batch in table.batches(file, columns, _KEYS if "value" not in columns else _BATCH_ROWS):
        with table.reading():
            rows = [batch[each.name].cast(each.type) for each in schema]
        yield pa.RecordBatch.from_arrays(rows, names=schema.names)


def _joined(parts: Sequence[npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


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
