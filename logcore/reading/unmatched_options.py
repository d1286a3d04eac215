"""Findings about options that match nothing: topics and partitions, and offsets.

A selection that matches nothing is not a success: it is reported with what exists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from logcore.errors import LogError
from logcore.logs.model.findings import Finding, Severity, found
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.sources import SourceLog
from logcore.reading.nearest_names import MOST, no_such, no_such_topic
from logcore.reading.read_options import OffsetRange, ReadOptions
from logcore.reading.segment_reading import reading_start
from logcore.reading.visible_offsets import visible_high_watermark
from logcore.records.model import LOG_OVERHEAD
from logcore.segments.filenames import MAX_OFFSET, TopicPartition
from logcore.storage.discovery import HeaderReader, read_range
from logcore.storage.source_bytes import SourceBytes


def nothing_chosen(selection: LogSelection, there: Iterable[TopicPartition]) -> Iterator[Finding]:
    """Yield findings for a selection that matches none of the logs: one for each topic, else for the partitions.

    Args:
        selection: The selection.
        there: What can be chosen; without any, the paths have findings of their own.
    """
    names = sorted(set(there))
    if not names:
        return
    topics = sorted({name.topic for name in names})
    for pattern in selection.unmatched_topics(topics):
        yield found("nothing-chosen", f"--topic {no_such_topic(pattern, topics)}")
    of_topics = [name for name in names if selection.matches_topic(name.topic)]
    for number in selection.unmatched_partitions({name.partition for name in of_topics}) if of_topics else ():
        yield found("nothing-chosen", f"--partition {number} matches nothing; there are {_listed(of_topics)}.")


def matches_nothing(option: str, kind: str, values: Iterable[str], names: Collection[str]) -> Iterator[Finding]:
    """Yield information about values of an option that match nothing, with the nearest names.

    Args:
        option: The option, such as `--group`.
        kind: What its values name: `topic`, `group`.
        values: Those that match nothing.
        names: What exists.
    """
    for value in values:
        finding = found("nothing-chosen", f"{option} {no_such(kind, value, names)}")
        yield replace(finding, severity=Severity.INFO)


def beyond_offsets(options: ReadOptions, logs: Sequence[SourceLog], *, everything: bool) -> Finding | None:
    """Return the finding if no log shows a chosen offset, although the logs have offsets; None if one does.

    It is an error if the first chosen offset is outside of every log, and else information.

    Args:
        options: The chosen offsets, and the high watermark.
        logs: The chosen logs.
        everything: Offsets below the log start or above the high watermark are shown too.
    """
    offsets = options.offsets
    is_all = offsets == OffsetRange()
    if not logs or (is_all and everything):
        return None
    texts: list[str] = []
    severity = Severity.INFO if is_all else Severity.ERROR
    for log in logs:
        stated = visible_high_watermark(log, options.rules.high_watermark)
        if is_all and (log.named_files or any(log.log_start_offset <= s.base_offset < stated for s in log.segments)):
            return None  # without a look at its batches
        end = log_end(log)
        if end is None:
            return None
        start = min([log.log_start_offset, *(segment.base_offset for segment in log.segments[:1])])
        low, high = start, end
        if not everything and not log.named_files:
            low = log.log_start_offset
            high = visible_high_watermark(log, options.rules.high_watermark, log_end_offset=end)
        if low < high and offsets.overlaps(low, high - 1):
            return None
        if (offsets.start or 0) <= end and (offsets.end is None or offsets.end > low):
            severity = Severity.INFO
        if len(texts) < MOST and start < end:
            texts.append(_range_text(log, (low, high), (start, end)))
    text = f"{'' if offsets.start is None else offsets.start}..{'' if offsets.end is None else offsets.end}"
    more = f", and {len(logs) - MOST} logs more" if len(logs) > MOST else ""
    if is_all:
        text = f"No record is shown: {', '.join(texts)}{more}. --all shows every record."
        return replace(found("nothing-chosen", text), severity=Severity.INFO) if texts else None
    text = f"--offsets {text} matches nothing: {', '.join(texts) or 'the logs are empty'}{more}."
    return replace(found("nothing-chosen", text), severity=severity)


def log_end(log: SourceLog) -> int | None:
    """Return the offset after the last batch; None if headers cannot be followed to the end of the last segment: there
    may be more.
    """
    if not log.segments:
        return log.log_start_offset
    segment = log.segments[-1]
    end = max(segment.base_offset, log.log_start_offset)
    try:
        # Entries of the index that their batches prove: only the rest of the segment is read.
        start = reading_start(segment, SourceBytes(segment.path, sealed=False, seen=segment), MAX_OFFSET)
        for position, header in HeaderReader().headers(segment, start.position):
            if header is not None:
                end = max(end, header.next_offset)
            elif any(read_range(segment.path, position, min(segment.log_bytes, position + LOG_OVERHEAD), segment)):
                return None
    except LogError:
        return None  # reported where the records are read
    return end


def _range_text(log: SourceLog, visible: tuple[int, int], there: tuple[int, int]) -> str:
    def span(start: int, end: int) -> str:
        return f"[{start}, {end})" if start < end else "none"

    if visible == there:
        return f"{log.topic_partition} contains offsets {span(*there)}"
    bounds = f"log start {visible[0]}, high watermark {visible[1]}"
    return f"{log.topic_partition} shows offsets {span(*visible)} of {span(*there)} ({bounds})"


def _listed(names: Sequence[TopicPartition]) -> str:
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(map(str, names[:MOST])) + more
