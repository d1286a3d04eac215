"""A task of ``decode``: rows of some files of ``records`` of one log become files of its two tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.decode.decoding import TopicFormats, decoding_of
from spark_jobs.decode.split_rows import split_rows
from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, TopicTable, decoded_spec, undecoded_spec
from spark_jobs.lake.delta.live_files import LiveFile
from spark_jobs.lake.errors import JobError
from spark_jobs.lake.setup.compression import Compression
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.row_files.published_rows import Span, published_rows
from spark_jobs.row_files.typed_files import TypedFiles
from spark_jobs.tasks.executor import synced_late

BATCH_BYTES = 4 << 20
"""Bytes of keys and values that are decoded at once, unless one row has more: as Python objects they are many times
as large."""


@dataclass(frozen=True, slots=True)
class DecodeTask:
    """Offsets ``[start, end)`` of a log in some files of ``records``."""

    lake: str
    topic: str
    log: str
    log_id: str
    partition: int
    start: int
    end: int
    undecoded_from: int
    """The table of undecoded rows already has those below this offset."""
    formats: TopicFormats
    compression: Compression
    files: tuple[LiveFile, ...]
    is_plain: bool = False
    """Whether every row is decoded the plain way, without native code."""

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self.files)

    @property
    def span(self) -> Span:
        """The offsets, as a reader of ``records`` wants them."""
        return Span(self.topic, self.log_id, self.partition, self.start, self.end)

    def over(self, files: Sequence[LiveFile], most: int) -> list[DecodeTask]:
        """Return this task as tasks that each read files of about so many bytes, in the order of offsets."""
        chosen = sorted((f for f in files if self.span.may_be_in(f)), key=lambda f: (f.min_offset or 0, f.path))
        groups: list[list[LiveFile]] = []
        left = 0
        for file in chosen:
            if not groups or file.size > left:
                groups.append([])
                left = most
            groups[-1].append(file)
            left -= file.size
        return [replace(self, files=tuple(group)) for group in groups]

    def second_try(self) -> DecodeTask:
        """Return the task for another worker, after one died of it: the plain way."""
        return replace(self, is_plain=True)


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
    was_plain: bool = False


@synced_late
def decode_rows(task: DecodeTask) -> DecodeResult:
    """Decode the rows of a task and write them; never raise for what is in the table or in a value."""
    decoding = decoding_of(task.formats)
    good = decoded_spec(task.topic, decoding.key_field, decoding.value_field)
    bad = undecoded_spec(task.topic)
    decoded = TypedFiles(TopicTable(task.lake, DECODED, task.topic).uri, good, task.compression)
    undecoded = TypedFiles(TopicTable(task.lake, UNDECODED, task.topic).uri, bad, task.compression)
    reasons: dict[str, int] = {}
    try:
        for batch in published_rows(task.lake, task.files, task.span):
            for part in cut(batch):
                rows = split_rows(part, decoding, good, bad, is_plain=task.is_plain)
                decoded.write(rows.decoded)
                undecoded.write(_from(rows.undecoded, task.undecoded_from))
                for reason, count in rows.reasons.items():
                    reasons[reason] = reasons.get(reason, 0) + count
        decoded.end_log()
        undecoded.end_log()
    except (JobError, OSError) as error:
        return DecodeResult(error=str(error))
    finally:
        decoded.abandon()
        undecoded.abandon()
    return DecodeResult(
        tuple(decoded.written),
        tuple(undecoded.written),
        reasons,
        decoded.rows,
        was_plain=task.is_plain,
    )


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
