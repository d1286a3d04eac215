"""A log's archived segments under Kafka's names: as the partition directory that its broker would have, or as files.

Slices of one source segment are joined into one file: the ends of segments decide what is cleaned and merged, and a
broker has never had the slices. Side files are included if they lie beside a segment that cleaning wrote. For any other
segment they are left out, and readers that need them compute them.

Memory: files are mapped, joined ones through an unnamed temporary file on the local disk.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress

from logcore.errors import CorruptionReason, CorruptRecordError, LogError
from logcore.logs.model.partition_directory import PartitionDirectory, PartitionFile
from logcore.records.batch import read_header
from logcore.records.varint import Buffer
from logcore.segments.filenames import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    TopicPartition,
    segment_file_name,
)
from spark_jobs.lake.segments.archive import GENERATION_INGESTED, Segment
from spark_jobs.lake.segments.log_segments import LogSegment, log_segments
from spark_jobs.lake.store import mapped_file, storage

Opened = Callable[[str, LogSegment], AbstractContextManager[memoryview]]
"""A function that yields the bytes of a segment of a lake."""

SIDE_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


def side_file(path: str, suffix: str) -> str:
    """Return the path of a side file of a segment: same directory, same base offset."""
    return path.removesuffix(LOG_SUFFIX) + suffix


@contextmanager
def log_directory(
    lake: str,
    segments: Sequence[Segment],
    *,
    log_start_offset: int | None = None,
    high_watermark: int | None = None,
    first_dirty_offset: int | None = None,
    opened: Opened | None = None,
) -> Iterator[PartitionDirectory]:
    """Yield the live segments of one log while the context lasts, with the offsets of the root checkpoint files.

    Args:
        opened: Yields the bytes of a segment, if they must not be read; the default is :func:`segment_bytes`.

    Raises:
        SourceUnreadable: A file is missing.
        CorruptRecordError: A file is shorter than its registered size.
        StorageError: The object store failed.
    """
    files: dict[str, PartitionFile] = {}
    with ExitStack() as maps:
        for segment in log_segments(segments):
            name = segment_file_name(segment.base_offset)
            content = maps.enter_context((opened or segment_bytes)(lake, segment))
            modified_ms = segment.slices[-1].modified_ms
            files[name] = PartitionFile(name, content, modified_ms)
            for suffix, side in _side_files(lake, segment).items():
                files[side_file(name, suffix)] = PartitionFile(side_file(name, suffix), side, modified_ms)
        first = segments[0]
        yield PartitionDirectory(
            topic_partition=TopicPartition(first.topic, first.partition),
            files=files,
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
            first_dirty_offset=first_dirty_offset,
            is_clean=True,
        )


@contextmanager
def segment_bytes(lake: str, segment: LogSegment) -> Iterator[memoryview]:
    """Yield all bytes of a segment, its slices joined. Raises as :func:`log_directory`."""
    if len(segment.slices) == 1:
        with slice_bytes(lake, segment.slices[0]) as content:
            yield content
        return
    with tempfile.TemporaryFile(prefix="loglake-") as file:
        for each in segment.slices:
            with slice_bytes(lake, each) as content:
                file.write(content)
        file.flush()
        if not file.tell():
            yield memoryview(b"")
            return
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            with memoryview(mapped) as content:
                yield content
        finally:
            with suppress(BufferError):  # a view of it may still be alive; the last one closes it
                mapped.close()


@contextmanager
def zeros(size: int) -> Iterator[memoryview]:
    """Yield zeros that take no memory, instead of bytes that are not read."""
    if not size:
        yield memoryview(b"")
        return
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ) as mapped:
        content = memoryview(mapped)
        try:
            yield content
        finally:
            content.release()


@contextmanager
def slice_bytes(lake: str, segment: Segment) -> Iterator[memoryview]:
    """Yield the bytes of the archived file of a row of ``segments``. Raises as :func:`log_directory`."""
    end = segment.start + segment.size
    path = segment.local_path(lake)
    with (
        mapped_file.mapped(
            path, segment.start, end, at_source=segment.lies_at_source, registered=segment.registered
        ) as mapped,
        memoryview(mapped) as whole,
    ):
        if len(whole) < end:
            message = f"the archived file has {len(whole)} bytes where {end} were registered"
            raise CorruptRecordError(CorruptionReason.LENGTH, message, file=path)
        content = whole[segment.start : end]
        try:
            yield content
        finally:
            with suppress(BufferError):
                content.release()


def first_timestamp(lake: str, segment: Segment) -> int:
    """Return the max timestamp of the first batch, -1 if none can be read.

    Raises:
        StorageError: The object store failed.
    """
    try:
        with slice_bytes(lake, segment) as content:
            return read_header(content).max_timestamp if len(content) else -1
    except LogError:
        return -1


def _side_files(lake: str, segment: LogSegment) -> dict[str, Buffer]:
    """Yield the side files of a segment that cleaning wrote: offset index, time index, and the transaction index if it
    has any entry.
    """
    first = segment.slices[0]
    if len(segment.slices) != 1 or first.generation == GENERATION_INGESTED or first.lies_at_source:
        return {}
    found: dict[str, Buffer] = {}
    for suffix in SIDE_SUFFIXES:
        with suppress(FileNotFoundError):
            found[suffix] = storage.read(storage.join(lake, side_file(first.path, suffix)))
    return found if OFFSET_INDEX_SUFFIX in found and TIME_INDEX_SUFFIX in found else {}


@contextmanager
def segment_files(lake: str, segments: Sequence[Segment], *, joined: bool) -> Iterator[dict[str, PartitionFile]]:
    """Yield the `.log` files of segments by name while the context lasts.

    Args:
        joined: True joins slices of one source segment into its one file; False yields each archived file by itself.

    Raises:
        SourceUnreadable: A file is missing.
        CorruptRecordError: A file is shorter than its registered size.
        StorageError: The object store failed.
    """
    chosen = log_segments(segments) if joined else [LogSegment((segment,)) for segment in segments]
    with ExitStack() as opened:
        files = {}
        for each in chosen:
            name = segment_file_name(each.base_offset)
            content = opened.enter_context(segment_bytes(lake, each))
            files[name] = PartitionFile(name, content, each.slices[-1].modified_ms)
        yield files
