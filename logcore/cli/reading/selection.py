"""What the options --topic, --partition and --offsets choose: what they match nothing of, and whose findings count.

A choice that matches nothing is no success: it is reported with the nearest names.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
from collections.abc import Collection, Iterator, Sequence

from logcore.cli.reading.arguments import OffsetRange
from logcore.cli.reading.nearest_names import MOST, no_such_topic, unmatched
from logcore.errors import LogError
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SourceLog
from logcore.records.model import LOG_OVERHEAD
from logcore.segments.filenames import TopicPartition, parse_partition_directory
from logcore.storage.files import read_range
from logcore.storage.local import LocalReader, shown

_OF_ROOTS = ("broken-root-file", "no-high-watermark")
_OF_NO_TOPIC = ("unknown-directory", "illegal-topic-name")


def is_chosen(name: TopicPartition, topics: Sequence[str] | None, partitions: Sequence[int] | None) -> bool:
    """Whether options name this topic partition; options that are absent name all."""
    topic, partition = name.topic, name.partition
    return (not topics or any(fnmatch.fnmatchcase(topic, glob) for glob in topics)) and (
        not partitions or partition in partitions
    )


def root_of(log: SourceLog) -> str:
    """The log directory of a log, as findings name it."""
    return shown(os.path.dirname(os.path.abspath(log.directory)))


def concerns_choice(finding: Finding, arguments: argparse.Namespace, roots: Collection[str]) -> bool:
    """Whether what was found at the paths concerns the topic partitions that the options choose.

    roots: log directories that hold any of these; what all their logs need concerns them. So does a path that was
    named.
    """
    if finding.file is None or not (arguments.topic or arguments.partition):
        return True
    if finding.rule in _OF_ROOTS:
        return bool({finding.file, os.path.dirname(finding.file)} & set(roots))
    named = {shown(path).rstrip("/") for path in arguments.paths}
    if finding.file in named and finding.rule in ("path-not-found", "empty-directory", "not-a-log-directory"):
        return True
    if finding.rule in _OF_NO_TOPIC:
        return finding.file in named
    for path in (finding.file, os.path.dirname(finding.file)):
        parsed = parse_partition_directory(os.path.basename(path))
        if parsed is not None:
            return is_chosen(parsed[0], arguments.topic, arguments.partition)
    return True


def nothing_chosen(arguments: argparse.Namespace, logs: Sequence[SourceLog]) -> Iterator[Finding]:
    """Findings for options that match none of the logs: one for each topic, else for the partitions."""
    names = sorted({log.topic_partition for log in logs})
    if not names:
        return
    topics = sorted({name.topic for name in names})
    missing = unmatched(arguments.topic or (), topics)
    for glob in missing:
        yield found("nothing-chosen", f"--topic {no_such_topic(glob, topics)}")
    of_topics = [name for name in names if is_chosen(name, arguments.topic, None)]
    for number in arguments.partition or ():
        if of_topics and not any(name.partition == number for name in of_topics):
            yield found("nothing-chosen", f"--partition {number} matches nothing; there are {_listed(of_topics)}.")


def beyond_offsets(arguments: argparse.Namespace, logs: Sequence[SourceLog], *, everything: bool) -> Finding | None:
    """The finding if no log shows an offset of --offsets; None if one does, or if --offsets was not given.

    everything: also what lies below the log start or above the high watermark is shown.
    """
    asked: OffsetRange = arguments.offsets
    if asked == OffsetRange() or not logs:
        return None
    told: list[str] = []
    for log in logs:
        end = _log_end(log)
        if end is None:
            return None
        start = min([log.log_start_offset, *(segment.base_offset for segment in log.segments[:1])])
        low, high = start, end
        if not everything and not log.named_files:
            low, high = log.log_start_offset, _shown_end(log, end, arguments)
        if low < high and asked.overlaps(low, high - 1):
            return None
        if len(told) < MOST:
            told.append(_range_text(log, (low, high), (start, end)))
    text = f"{'' if asked.start is None else asked.start}..{'' if asked.end is None else asked.end}"
    more = f", and {len(logs) - MOST} logs more" if len(logs) > MOST else ""
    return found("nothing-chosen", f"--offsets {text} matches nothing: {', '.join(told)}{more}.")


def _shown_end(log: SourceLog, end: int, arguments: argparse.Namespace) -> int:
    asked = arguments.high_watermark
    if asked == "log-end" or (asked == "checkpoint" and (log.high_watermark is None or log.is_metadata)):
        return end
    high_watermark = asked if isinstance(asked, int) else max(log.high_watermark or 0, log.log_start_offset)
    return min(high_watermark, end)


def _log_end(log: SourceLog) -> int | None:
    """The offset behind the last batch; None where headers cannot be followed to the end of the last segment, so that
    there may be more."""
    if not log.segments:
        return log.log_start_offset
    segment = log.segments[-1]
    end = segment.base_offset
    try:
        for position, header in LocalReader().headers(segment):
            if header is not None:
                end = max(end, header.next_offset)
            elif any(read_range(segment.path, position, min(segment.size, position + LOG_OVERHEAD))):
                return None
    except LogError:
        return None  # reported where the records are read
    return end


def _range_text(log: SourceLog, visible: tuple[int, int], there: tuple[int, int]) -> str:
    def span(start: int, end: int) -> str:
        return f"{start} to {end - 1}" if start < end else "none"

    if visible == there:
        return f"{log.topic_partition} holds offsets {span(*there)}"
    return f"{log.topic_partition} shows offsets {span(*visible)} of {span(*there)}"


def _listed(names: Sequence[TopicPartition]) -> str:
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(map(str, names[:MOST])) + more
