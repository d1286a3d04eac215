"""What a round of retention found about the segments of a partition directory: damage, and time indexes that differ."""

from __future__ import annotations

from collections.abc import Iterator

from logcore.logs.checks.validation import Reader, damage_found
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.retention.retained_segments import DirectorySegment, TimestampSource
from logcore.logs.retention.retention import Decision
from logcore.segments.filenames import TIME_INDEX_SUFFIX, segment_file_name
from logcore.segments.scanning.scan import Stretch


def segment_findings(
    directory: PartitionDirectory,
    decision: Decision[DirectorySegment],
    config: TopicConfig,
    as_of_ms: int,
    read: Reader,
) -> list[Finding]:
    """Return the findings about the segments.

    Args:
        directory: The directory.
        decision: The decision about them.
        config: The configuration of the topic.
        as_of_ms: The clock.
        read: Reads what a decision does not look at.
    """
    findings: list[Finding] = []
    for segment in [each.segment for each in decision.deletions] + [each.segment for each in decision.stays]:
        log = segment.log
        steps = read(log.content, segment.base_offset, segment.next_base_offset, log.fetched)
        findings += [damage_found(log.name, step) for step in steps if isinstance(step, Stretch) and not step.tail]
        if segment.timestamp_source is not None and not _is_recovered(directory, segment):
            findings.extend(_index_finding(segment, config, as_of_ms))
    return findings


def _is_recovered(directory: PartitionDirectory, segment: DirectorySegment) -> bool:
    """Whether a broker's start rebuilds the segment's indexes."""
    end = segment.next_base_offset
    return not directory.is_clean and (end is None or end > (directory.recovery_point or 0))


def _index_finding(segment: DirectorySegment, config: TopicConfig, as_of_ms: int) -> Iterator[Finding]:
    """What a broker would do with a time index that differs from the batches."""
    if segment.timestamp_source is TimestampSource.TIME_INDEX and not segment.reading.is_damaged:
        yield found(
            "time-index-differs",
            f"{segment.log.name}: its time index ends later than any of its batches, so the segment may have been cut; "
            "the later time counts, as for a broker",
            file=segment_file_name(segment.base_offset, TIME_INDEX_SUFFIX),
        )
    seen = segment.seen_by_broker()
    if seen is None:
        return
    timestamp, state = seen
    age = as_of_ms - timestamp
    name = "local.retention.ms" if config.copies_to_remote else "retention.ms"
    verdict = "delete" if age > config.local_limit_ms else "keep"
    yield found(
        "time-index-differs",
        f"{segment.log.name}: {state}; for a broker that starts on these files its latest record is {age} ms old, "
        f"and would {verdict} it by {name} {config.local_limit_ms} alone",
        file=segment_file_name(segment.base_offset, TIME_INDEX_SUFFIX),
    )
