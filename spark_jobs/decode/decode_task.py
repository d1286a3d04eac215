"""A task of ``decode``: rows of some files of ``records`` of one log become files of its two tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from logcore.storage.objects.answers import said
from spark_jobs.decode.decoding import TopicFormats, decoding_of
from spark_jobs.decode.split_rows import SchemaStop, split_rows
from spark_jobs.engine.executor import synced_late
from spark_jobs.errors import JobError
from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, decoded_spec, topic_table, undecoded_spec
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.delta.files.parquet_files import ROW_GROUP_ROWS
from spark_jobs.lake.delta.files.typed_files import TypedFiles
from spark_jobs.lake.published.published_rows import Span, published_rows
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.policies.compression import Compression
from spark_jobs.reads import Reads

BATCH_BYTES = 4 << 20
"""Bytes of keys and values that are decoded at once, unless one row has more: as Python objects they are many times
as large."""


@dataclass(frozen=True, slots=True)
class DecodeTask:
    """Offsets of a log in some files of ``records``."""

    lake: str
    span: Span
    undecoded_from: int
    """The table of undecoded rows already has those below this offset."""
    formats: TopicFormats
    compression: Compression
    files: tuple[LiveFile, ...]
    is_plain: bool = False
    """Whether every row is decoded the plain way, without native code."""
    stops: bool = False
    """Whether the task ends before a row whose schema cannot be aligned with the table."""
    given_up: tuple[tuple[int, str], ...] = ()
    """Rows that end the process that decodes them: offset, and ``key`` or ``value``. That part is not decoded; where it
    is the key, the value is not decoded either."""

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return self.span.reads

    @property
    def size(self) -> int:
        """Bytes of the files, as far as the task reads them."""
        if len(self.files) == 1:
            return max(1, self.span.part_of(self.files[0])[2])
        return sum(each.size for each in self.files)

    @property
    def offsets(self) -> tuple[int, int]:
        """Offsets ``[start, end)`` that the task can have rows of."""
        least = min((file.min_offset or 0 for file in self.files), default=self.span.start)
        ends = (self.span.end if file.max_offset is None else file.max_offset + 1 for file in self.files)
        return max(self.span.start, least), min(self.span.end, max(ends, default=0))

    @property
    def has_overlaps(self) -> bool:
        """Whether two of its files may have rows of the same range of offsets."""
        pairs = pairwise(self.files)
        return any(a.max_offset is None or b.min_offset is None or a.max_offset >= b.min_offset for a, b in pairs)

    def over(self, files: Sequence[LiveFile], most: int, most_rows: int) -> list[DecodeTask]:
        """Return this task as tasks that each read files of about so many bytes, in the order of offsets.

        Args:
            most_rows: A file with more rows is read by several tasks.
        """
        chosen = sorted((f for f in files if self.span.may_be_in(f)), key=lambda f: (f.min_offset or 0, f.path))
        groups: list[list[LiveFile]] = []
        left = left_rows = 0
        for file in chosen:
            if not groups or file.size > left or file.rows > left_rows:
                groups.append([])
                left, left_rows = most, most_rows
            groups[-1].append(file)
            left -= file.size
            left_rows -= file.rows
        return [part for group in groups for part in replace(self, files=tuple(group))._parts(most, most_rows)]

    def _parts(self, most: int, most_rows: int) -> list[DecodeTask]:
        """This task, or parts of its offsets if its one file is large."""
        file = self.files[0]
        least, greatest = file.min_offset, file.max_offset
        count = max(-(-file.size // most), -(-file.rows // most_rows))
        if len(self.files) > 1 or count < 2 or least is None or greatest is None:
            return [self]
        start, end = max(self.span.start, least), min(self.span.end, greatest + 1)
        step = max(1, -(-(end - start) // count))
        if start == least and step > ROW_GROUP_ROWS:  # no group is read by two tasks, if there is no gap in the offsets
            step = -(-step // ROW_GROUP_ROWS) * ROW_GROUP_ROWS
        return [self._of(at, min(end, at + step)) for at in range(start, end, step)]

    def _of(self, start: int, end: int) -> DecodeTask:
        return replace(self, span=replace(self.span, start=start, end=end))

    def second_try(self) -> DecodeTask:
        """Return the task for another worker, after one died of it: the plain way."""
        return replace(self, is_plain=True)

    def after_deaths(self) -> list[DecodeTask]:
        """Return what to try after its workers died on both tries: halves of its offsets, or its one row given up.

        Returns:
            Tasks in the order of offsets; none if there is nothing else to try. So it is for a row that an earlier run
            decoded and committed: it can't be given up any more.
        """
        start, end = self.offsets
        if end - start > 1:
            middle = (start + end) // 2
            return [half for half in (self._between(start, middle), self._between(middle, end)) if half.files]
        part = dict(self.given_up).get(start)
        if part == "key" or (part is None and start < self.undecoded_from):
            return []
        given_up = (*(each for each in self.given_up if each[0] != start), (start, "key" if part else "value"))
        return [replace(self, given_up=given_up)]

    def _between(self, start: int, end: int) -> DecodeTask:
        """The task over some of its offsets, with the files that can have rows of them."""
        part = self._of(start, end)
        return replace(part, files=tuple(file for file in self.files if part.span.may_be_in(file)))


@dataclass(frozen=True, slots=True)
class DecodeResult:
    """The files that a task wrote, or why it wrote none."""

    decoded: tuple[WrittenFile, ...] = ()
    undecoded: tuple[WrittenFile, ...] = ()
    reasons: Mapping[str, int] | None = None
    """Rows that could not be decoded by reason, also those that the table has already."""
    rows: int = 0
    """Rows that were decoded."""
    error: str | None = None
    stop: SchemaStop | None = None
    """Why it ended before the end of its offsets."""
    was_plain: bool = False
    died: str | None = None
    """How its worker ended, if it had no result on either try."""


@synced_late
def decode_rows(task: DecodeTask) -> DecodeResult:
    """Decode the rows of a task and write them; never raise for what is in the table or in a value."""
    decoding = decoding_of(task.formats)
    good = decoded_spec(task.span.topic, decoding.key_field, decoding.value_field)
    bad = undecoded_spec(task.span.topic)
    decoded = TypedFiles(topic_table(task.lake, DECODED, task.span.topic).uri, good, task.compression)
    undecoded = TypedFiles(topic_table(task.lake, UNDECODED, task.span.topic).uri, bad, task.compression)
    reasons: dict[str, int] = {}
    stop = None
    try:
        for part in (part for batch in published_rows(task.lake, task.files, task.span) for part in cut(batch)):
            rows = split_rows(
                part, decoding, good, bad, is_plain=task.is_plain, stops=task.stops, given_up=dict(task.given_up)
            )
            decoded.write(rows.decoded)
            undecoded.write(_from(rows.undecoded, task.undecoded_from))
            for reason, count in rows.reasons.items():
                reasons[reason] = reasons.get(reason, 0) + count
            stop = rows.stop
            if stop is not None:
                break
        decoded.end_log()
        undecoded.end_log()
    except (JobError, OSError) as error:
        return DecodeResult(error=said(error) if isinstance(error, OSError) else str(error))
    finally:
        decoded.abandon()
        undecoded.abandon()
    return DecodeResult(
        tuple(decoded.written),
        tuple(undecoded.written),
        reasons,
        decoded.rows,
        stop=stop,
        was_plain=task.is_plain,
    )


def stop_at_start(task: DecodeTask, most_bytes: int) -> SchemaStop | None:
    """Return the stop that ends a task at its first offset. Only that row is decoded, the plain way.

    Args:
        most_bytes: A larger row is not looked at.

    Returns:
        None too if there is no such row, or it can't be read: the task itself says why.
    """
    decoding = decoding_of(task.formats)
    good, bad = decoded_spec(task.span.topic, decoding.key_field, decoding.value_field), undecoded_spec(task.span.topic)
    try:
        for row in published_rows(task.lake, task.files, replace(task.span, end=task.span.start + 1)):
            if row.nbytes > most_bytes:
                return None
            return split_rows(row, decoding, good, bad, is_plain=True, stops=True, given_up=dict(task.given_up)).stop
    except (JobError, OSError):
        pass
    return None


def _from(rows: pa.RecordBatch, offset: int) -> pa.RecordBatch:
    if not rows.num_rows:
        return rows
    return rows.filter(pc.greater_equal(rows["offset"], pa.scalar(offset, pa.int64())))


def cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts of about ``BATCH_BYTES``, each of one row at least."""
    if batch.nbytes <= BATCH_BYTES:
        yield batch
        return
    if batch.num_rows == 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from cut(batch.slice(0, half))
    yield from cut(batch.slice(half))
