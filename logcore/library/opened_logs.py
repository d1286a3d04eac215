"""The logs at a path, as a caller of the library opens them."""

from __future__ import annotations

from logcore.errors import LogError
from logcore.logs.model.findings import Finding
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.sources import SourceLog
from logcore.reading.chosen_logs import concerns_choice, find_logs, root_of
from logcore.reading.nearest_names import no_such_topic
from logcore.reading.read_options import Notes, ReadOptions, ReadRules
from logcore.storage.discovery import discover, shown


def logs_at(
    path: str, rules: ReadRules, topics: tuple[str, ...] = (), partitions: tuple[int, ...] = ()
) -> tuple[tuple[SourceLog, ...], tuple[Finding, ...]]:
    """Find the chosen live logs at a path.

    Args:
        path: A segment file, a partition directory or a log directory.
        rules: Which offsets are visible.
        topics: Patterns such as `orders-*`. Empty: all topics.
        partitions: Numbers. Empty: all partitions.

    Returns:
        The logs, by topic partition, and the findings about the path.

    Raises:
        LogError: A pattern matches no topic, no log has one of the numbers, or the path is on an object store and the
            package that reads it is not installed.
        AddressError: The name of an object store, or a setting of its access, cannot be used.
    """
    notes = Notes()
    is_unused = rules.show_all or rules.high_watermark != "checkpoint"
    quiet = ["nothing-chosen", *(["no-high-watermark"] if is_unused else [])]
    selection = LogSelection(topics, partitions)
    logs = find_logs(ReadOptions(paths=(path,), selection=selection, rules=rules), notes, quiet=quiet)
    names = [log.topic_partition for log in logs]
    if selection.unmatched_topics({name.topic for name in names}):
        known = {log.topic_partition.topic for log in discover([path]).logs}
        for pattern in selection.unmatched_topics(known):
            raise LogError(no_such_topic(pattern, known), file=shown(path))
    for number in selection.unmatched_partitions({name.partition for name in names}):
        raise LogError(f"no chosen topic has a partition {number} there", file=shown(path))
    return logs, tuple(notes.findings)


def concerning(log: SourceLog, path: str, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings of `logs_at` that concern one of the logs.

    Args:
        log: The log.
        path: The path at which it was found.
        findings: The findings.
    """
    name = log.topic_partition
    options = ReadOptions(paths=(path,), selection=LogSelection((name.topic,), (name.partition,)))
    return tuple(finding for finding in findings if concerns_choice(finding, options, {root_of(log)}))


def not_among(topic: str, partition: int, topics: set[str]) -> str:
    """Return the reason why the log of a topic partition is not found among the logs of some topics."""
    return f"{topic} has no partition {partition} there" if topic in topics else no_such_topic(topic, topics)
