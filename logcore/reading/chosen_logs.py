"""The logs at some paths that a selection chooses, and the findings about these paths.

A selection that matches nothing is not a success: it is reported with what exists.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from logcore.logs.checks.beyond_log_end import beyond_finding
from logcore.logs.growth.lost_start import lost_start_finding
from logcore.logs.model.findings import Finding, Severity, found
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.remote_tier import below_start_finding
from logcore.logs.model.sources import SourceLog
from logcore.reading.compared_copies import ComparedCopies
from logcore.reading.nearest_names import MOST, no_such, no_such_topic
from logcore.reading.read_options import Notes, OffsetRange, ReadOptions
from logcore.reading.segment_reading import segment_end
from logcore.reading.visible_offsets import requested_high_watermark, visible_high_watermark
from logcore.segments.filenames import DirectoryKind, TopicPartition, parse_partition_directory
from logcore.storage.discovery import discover, shown
from logcore.storage.objects.addresses import directory_of

_OF_ROOTS = ("broken-root-file", "no-meta-properties", "no-high-watermark")
_ZOOKEEPER = "zookeeper-directory"
_OF_NO_TOPIC = ("unknown-directory", "illegal-topic-name")


def find_logs(
    options: ReadOptions,
    notes: Notes,
    *,
    quiet: Iterable[str] = (),
    is_check: bool = False,
    with_aside: bool = False,
    is_one_copy: bool = False,
    without_misnamed: bool = False,
    with_zookeeper: bool = False,
) -> tuple[SourceLog, ...]:
    """Find the chosen logs, by topic partition, and report findings about the paths.

    Args:
        options: The paths and the selection.
        notes: Gets the findings.
        quiet: Rules whose findings are not reported.
        is_check: A selection that matches nothing is an error; else it is only reported.
        with_aside: Add logs in -delete, -future and -stray directories, after the others.
        without_misnamed: Leave out directories that have another log than their name says.
        with_zookeeper: Add the data of ZooKeepers, as logs of `__cluster_metadata`, after the others.
        is_one_copy: Of a log in several directories only the copy that has its history, or none if that is not known.

    Raises:
        AddressError: The name of an object store, or a setting of its access, cannot be used.
        LogError: The package that reads object stores is not installed.
    """
    discovery = discover(options.paths, any_name=True)
    live, copies = discovery.logs, ComparedCopies(discovery.logs, discovery.findings)
    if options.remotes:
        from logcore.reading.joined_logs import join_remote

        live = join_remote(live, options.remotes, notes, options.selection)
    found_logs = [sorted(logs, key=lambda log: log.topic_partition) for logs in (live, discovery.set_aside)]
    logs = [*found_logs[0], *found_logs[1]] if with_aside else found_logs[0]
    selection = options.selection
    chosen = tuple(log for log in logs if selection.matches(log.topic_partition.topic, log.topic_partition.partition))
    watched = {place for log in chosen if not log.named_files for place in (root_of(log), shown(log.directory))}
    for finding in discovery.findings:
        # A file that was named shows everything, for any high watermark.
        if finding.rule in quiet or (finding.rule == "no-high-watermark" and finding.file not in watched):
            continue
        if finding.rule == "no-meta-properties" and not is_check:  # it says nothing of what the logs contain
            continue
        if finding.rule == _ZOOKEEPER:
            if with_zookeeper:
                continue
            if not logs:
                finding = replace(finding, severity=Severity.ERROR)
        if concerns_choice(finding, options, watched):
            notes.say(finding)
    said = {(finding.rule, finding.file) for finding in discovery.findings}
    for log in chosen:
        absent = log.remote or log.removed
        if absent is not None and log.kind is DirectoryKind.LIVE:
            finding = below_start_finding(log.topic_partition, absent, is_searched=bool(options.remotes))
            if finding.rule not in quiet:
                notes.say(replace(finding, file=shown(log.directory)))
        if log.lost_start is not None and "log-start-fell" not in quiet:
            notes.say(lost_start_finding(log, log.lost_start))
        stated = requested_high_watermark(log, options.rules.high_watermark) or 0
        is_gone = not (log.segments or log.unreadable or log.named_files or log.is_metadata)
        if is_gone and log.kind is DirectoryKind.LIVE and stated > log.log_start_offset:
            notes.say(beyond_finding(log, log.log_start_offset, stated))  # no reader comes to an end of the log
    of_copies = [log for log in chosen if log.kind is DirectoryKind.LIVE]
    for finding in copies.findings(of_copies, compares="several-copies" not in quiet):
        if finding.rule not in quiet and (finding.rule, finding.file) not in said:
            notes.say(finding)
    if without_misnamed:
        misnamed = copies.under_other_names(chosen)
        chosen = tuple(log for log in chosen if log.directory not in misnamed)
    if is_one_copy:
        chosen, undecided = copies.of_each(chosen)
        notes.say_all(undecided)
    there = [log.topic_partition for log in logs]
    for finding in nothing_chosen(selection, there) if "nothing-chosen" not in quiet else ():
        notes.say(finding if is_check else replace(finding, severity=Severity.INFO))
    return (*chosen, *discovery.zookeepers) if with_zookeeper else chosen


def labels_of(logs: Sequence[SourceLog]) -> dict[str, str]:
    """Return what a text calls each log, by directory: its name, and the directory if it is one of several copies."""
    counts = Counter((log.topic_partition, log.kind) for log in logs)
    return {
        log.directory: str(log.topic_partition)
        if counts[log.topic_partition, log.kind] == 1
        else f"{log.topic_partition} ({shown(log.directory)})"
        for log in logs
    }


def concerns_choice(finding: Finding, options: ReadOptions, roots: Collection[str]) -> bool:
    """Whether a finding about the paths concerns the chosen topic partitions.

    A finding about a path that was named always does.

    Args:
        finding: The finding.
        options: The paths and the selection.
        roots: Log directories of chosen logs; findings about their root files concern these logs.
    """
    selection = options.selection
    if finding.file is None or selection.is_everything:
        return True
    if finding.rule in _OF_ROOTS:
        return bool({finding.file, os.path.dirname(finding.file)} & set(roots))
    named = {shown(path).rstrip("/") for path in options.paths}
    if finding.file in named and finding.rule in ("path-not-found", "empty-directory", "not-a-log-directory"):
        return True
    if finding.rule in _OF_NO_TOPIC:
        return finding.file in named
    for path in (finding.file, os.path.dirname(finding.file)):
        parsed = parse_partition_directory(os.path.basename(path))
        if parsed is not None:
            return selection.matches(parsed[0].topic, parsed[0].partition)
    return True


def root_of(log: SourceLog) -> str:
    """Return the log directory of a log, as findings name it."""
    return shown(directory_of(log.directory))


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
    return segment_end(log, log.segments[-1])


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
