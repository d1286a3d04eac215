"""The selection by the options --topic, --partition and --offsets: what matches nothing, and which findings count.

A selection that matches nothing is not a success: it is reported with the nearest names.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Iterator, Sequence

from logcore.cli.reading.arguments import OffsetRange, selection_of
from logcore.cli.reading.nearest_names import MOST, no_such_topic
from logcore.errors import LogError
from logcore.logs.model import readable_end
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SourceLog
from logcore.records.model import LOG_OVERHEAD
from logcore.segments.filenames import MAX_OFFSET, TopicPartition, parse_partition_directory
from logcore.storage.files import read_range
from logcore.storage.local import LocalReader, shown

_OF_ROOTS = ("broken-root-file", "no-high-watermark")
_OF_NO_TOPIC = ("unknown-directory", "illegal-topic-name")


def root_of(log: SourceLog) -> str:
    """Return the log directory of a log, as findings name it."""
    return shown(os.path.dirname(os.path.abspath(log.directory)))


def concerns_choice(finding: Finding, arguments: argparse.Namespace, roots: Collection[str]) -> bool:
    """Whether a finding about the paths concerns the topic partitions that the options choose.

    A finding about a path that was named always does.

    Args:
        finding: The finding.
        arguments: The command line.
        roots: Log directories of chosen logs; findings about their root files concern these logs.
    """
    selection = selection_of(arguments)
    if finding.file is None or selection.is_everything:
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
            return selection.matches(parsed[0].topic, parsed[0].partition)
    return True


def nothing_chosen(arguments: argparse.Namespace, logs: Sequence[SourceLog]) -> Iterator[Finding]:
    """Yield findings for options that match none of the logs: one for each topic, else for the partitions."""
    names = sorted({log.topic_partition for log in logs})
    if not names:
        return
    topics = sorted({name.topic for name in names})
    selection = selection_of(arguments)
    for pattern in selection.unmatched_topics(topics):
        yield found("nothing-chosen", f"--topic {no_such_topic(pattern, topics)}")
    of_topics = [name for name in names if selection.matches_topic(name.topic)]
    for number in selection.unmatched_partitions({name.partition for name in of_topics}) if of_topics else ():
        yield found("nothing-chosen", f"--partition {number} matches nothing; there are {_listed(of_topics)}.")


def beyond_offsets(arguments: argparse.Namespace, logs: Sequence[SourceLog], *, everything: bool) -> Finding | None:
    """Return the finding if no log shows an offset of --offsets; None if one does, or without --offsets.

    Args:
        arguments: The command line.
        logs: The chosen logs.
        everything: Offsets below the log start or above the high watermark are shown too.
    """
    asked: OffsetRange = arguments.offsets
    if asked == OffsetRange() or not logs:
        return None
    texts: list[str] = []
    for log in logs:
        end = _log_end(log)
        if end is None:
            return None
        start = min([log.log_start_offset, *(segment.base_offset for segment in log.segments[:1])])
        low, high = start, end
        if not everything and not log.named_files:
            low = log.log_start_offset
            high = shown_high_watermark(log, arguments.high_watermark, log_end_offset=end)
        if low < high and asked.overlaps(low, high - 1):
            return None
        if len(texts) < MOST:
            texts.append(_range_text(log, (low, high), (start, end)))
    text = f"{'' if asked.start is None else asked.start}..{'' if asked.end is None else asked.end}"
    more = f", and {len(logs) - MOST} logs more" if len(logs) > MOST else ""
    return found("nothing-chosen", f"--offsets {text} matches nothing: {', '.join(texts)}{more}.")


def requested_high_watermark(log: SourceLog, asked: str | int) -> int | None:
    """Return the high watermark by the option --high-watermark; None if the log end replaces it.

    A number is used as given, also below the log start or after the log end.
    """
    if isinstance(asked, int):
        return asked
    if asked == "log-end" or log.named_files or log.high_watermark is None:
        return None
    return readable_end.high_watermark(log.high_watermark, log_start_offset=log.log_start_offset)


def shown_high_watermark(log: SourceLog, asked: str | int, *, log_end_offset: int = MAX_OFFSET) -> int:
    """Return the end of the shown offsets by the option --high-watermark.

    KRaft's metadata log is shown to its end: each of its lines shows whether it is committed.
    """
    if log.is_metadata and asked == "checkpoint":
        asked = "log-end"
    return readable_end.high_watermark(requested_high_watermark(log, asked), log_end_offset=log_end_offset)


def _log_end(log: SourceLog) -> int | None:
    """Return the offset after the last batch; None if headers cannot be followed to the end of the last segment: there
    may be more.
    """
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
        return f"{log.topic_partition} contains offsets {span(*there)}"
    return f"{log.topic_partition} shows offsets {span(*visible)} of {span(*there)}"


def _listed(names: Sequence[TopicPartition]) -> str:
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(map(str, names[:MOST])) + more
