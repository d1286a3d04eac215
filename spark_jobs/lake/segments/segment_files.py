"""A log's archived segments as mapped files under Kafka's names, as maintenance of a partition directory needs them."""

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
