"""The logs of a lake as logs of a source: their live archived segments, and what `logs` says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.segments.filenames import DirectoryKind, TopicPartition
from logcore.storage.objects.listing import StoredObject, whole_listing
from spark_jobs.errors import UsageError
from spark_jobs.groups import by_key
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.store import storage


def archived_logs(lake: str, is_chosen: Callable[[TopicPartition], bool]) -> tuple[SourceLog, ...]:
    """Return the chosen logs of a lake that have archived segments, by topic partition.

    Args:
        lake: The lake.
        is_chosen: Whether a log is wanted.

    Raises:
        StorageError: The object store did not answer.
        UsageError: Two logs have the same topic partition: a topic was made again.
    """
    rows = {
        log: row for log, row in archive.read_logs(lake).items() if is_chosen(TopicPartition(row.topic, row.partition))
    }
    live = by_key(archive.read_segments(lake, list(rows)), lambda segment: segment.log)
    found: dict[TopicPartition, SourceLog] = {}
    for log, segments in sorted(live.items()):
        made = _source_log(lake, rows[log], segments)
        other = found.setdefault(made.topic_partition, made)
        if other is not made:
            raise UsageError(
                f"{lake} has two logs of {made.topic_partition}: the topic was made again (ids {other.topic_id} and "
                f"{made.topic_id}). Their rows are in the table records, by log_id"
            )
    return tuple(found[name] for name in sorted(found))


def _source_log(lake: str, row: LogRow, segments: Sequence[Segment]) -> SourceLog:
    ordered = sorted(segments, key=lambda each: (each.local_path(lake), each.base_offset))
    stored = _stored(lake, ordered)
    files = [
        _file(lake, list(slices), stored) for _, slices in groupby(ordered, key=lambda each: each.local_path(lake))
    ]
    cleaned = [each.next_offset for each in segments if each.generation != archive.GENERATION_INGESTED]
    return SourceLog(
        TopicPartition(row.topic, row.partition),
        f"{lake}/{row.topic_partition}",
        DirectoryKind.LIVE,
        row.topic_id,
        row.cluster,
        tuple(sorted(files, key=lambda file: file.base_offset)),
        row.next_offset if row.high_watermark is None else min(row.high_watermark, row.next_offset),
        max(row.log_start_offset, min(file.base_offset for file in files)),
        row.epochs,
        max([row.cleaner_checkpoint or 0, *cleaned]) if cleaned else row.cleaner_checkpoint,
        is_clean=True,
    )


def _stored(lake: str, segments: Sequence[Segment]) -> Mapping[str, StoredObject]:
    """The objects of archived segments by their address: a reader compares the object that it opens with the listed."""
    folders = {storage.directory_of(each.local_path(lake)) for each in segments if not each.lies_at_source}
    if not storage.is_remote(lake):
        return {}
    with storage.answers(lake):
        return {f"{folder}/{each.key.rpartition('/')[2]}": each for folder in folders for each in whole_listing(folder)}


def _file(lake: str, slices: Sequence[Segment], stored: Mapping[str, StoredObject]) -> SegmentFile:
    """The file that has some slices: one, unless the segment lies at its source."""
    first, last = slices[0], slices[-1]
    base = first.origin_base_offset if first.lies_at_source else first.base_offset
    path, end = first.local_path(lake), last.start + last.size
    listed = stored.get(path)
    if listed is not None:
        return SegmentFile(base, path, listed.size, listed.modified_ms, 0, etag=listed.etag, end=end)
    return SegmentFile(base, path, end, last.modified_ms, 0, etag=last.etag, end=end)
