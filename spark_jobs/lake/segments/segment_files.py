"""A log's archived segments as files that maintenance of a partition directory takes: mapped, by Kafka's own names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from logcore.logs.model.partition_directory import PartitionFile
from logcore.segments.filenames import segment_file_name
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.log_directory import segment_bytes
from spark_jobs.lake.segments.log_segments import LogSegment, log_segments


@contextmanager
def segment_files(lake: str, segments: Sequence[Segment], *, joined: bool) -> Iterator[dict[str, PartitionFile]]:
    """The `.log` files of segments, by name, for as long as the context lasts.

    Args:
        joined: slices of one source segment as the one file that they are there; else each archived file as it lies.

    Raises:
        SourceUnreadable: a file is gone.
        CorruptRecordError: a file is shorter than it was registered.
        StorageError: the object store did not answer as it should.
    """
    chosen = log_segments(segments) if joined else [LogSegment((segment,)) for segment in segments]
    with ExitStack() as opened:
        files = {}
        for each in chosen:
            name = segment_file_name(each.base_offset)
            content = opened.enter_context(segment_bytes(lake, each))
            files[name] = PartitionFile(name, content, each.slices[-1].modified_ms)
        yield files
