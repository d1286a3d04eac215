"""Partition directories that have each other's names, as after a restore.

Nothing inside of such a directory says which partition it is of. The checkpoint beside it does: it has the high
watermark and the recovery point of each log, and a log never ends below them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SourceLog
from logcore.reading.internal_topics.log_ends import log_end
from logcore.storage.objects.addresses import directory_of, is_object
from logcore.texts import shell_word, shown

_CLOSER = 10
"""So many times nearer is the other log's line: the copy of a running broker ends somewhat above its checkpoints."""


def exchanged_logs(logs: Iterable[SourceLog]) -> dict[str, Finding]:
    """Return a finding for each log, by directory, that has the records of another one.

    One log ends below its recovery point. Another one ends at the line of the first one in the checkpoints, and the
    first one at the line of the other one; or more logs do so in a circle. An end below the high watermark is not
    enough: in a copy of a running broker the checkpoint may be newer than the log. There is no finding if two logs fit
    the same one, nor for logs of an object store: each end is a request.

    Args:
        logs: All logs at the paths.
    """
    by_root: dict[str, list[SourceLog]] = defaultdict(list)
    for log in logs:
        if log.high_watermark is not None and log.segments and not (log.is_metadata or is_object(log.directory)):
            by_root[directory_of(log.directory)].append(log)
    return {
        each.directory: finding
        for each_root in by_root.values()
        for circle in _circles(each_root)
        for each, finding in _findings(circle)
    }


def _line(log: SourceLog) -> int:
    return max(log.high_watermark or 0, log.recovery_point or 0)


def _circles(logs: Sequence[SourceLog]) -> Iterator[list[SourceLog]]:
    """Logs of which each has the records of the next one, and the last one those of the first."""
    last_bases = {log.directory: log.segments[-1].base_offset for log in logs}
    ends = {
        log.directory: log_end(log)
        for log in logs
        if len(logs) > 1 and (log.recovery_point or 0) > last_bases[log.directory]
    }
    short = {
        log.directory
        for log in logs
        if (end := ends.get(log.directory)) is not None and end < (log.recovery_point or 0)
    }
    if not short:
        return
    ends |= {log.directory: log_end(log) for log in logs if log.directory not in ends}
    wrong = {log.directory: (log, end) for log in logs if (end := ends[log.directory]) not in (None, _line(log))}
    holders = {at: [x.directory for x, e in wrong.values() if _fits(x, e or 0, *wrong[at], logs)] for at in wrong}
    held = [at for of_log in holders.values() for at in of_log]
    done: set[str] = set()
    for first in wrong:
        circle = [first]
        while len(holders[circle[-1]]) == 1 and holders[circle[-1]][0] not in circle:
            circle.append(holders[circle[-1]][0])
        is_closed = holders[circle[-1]] == [first] and all(held.count(at) == 1 for at in circle)
        if is_closed and done.isdisjoint(circle) and not short.isdisjoint(circle):
            done.update(circle)
            yield [wrong[at][0] for at in reversed(circle)]


def _fits(x: SourceLog, end: int, log: SourceLog, own_end: int, logs: Sequence[SourceLog]) -> bool:
    """Whether by the checkpoints the directory of `x` has the records of another log."""
    away = end - _line(log)
    is_stated = log.high_watermark != 0 or log.recovery_point is not None
    is_new = not is_stated and log.segments[0].modified_ms > (log.high_watermark_ms or 0)
    if x is log or away < 0 or away * _CLOSER > abs(own_end - _line(log)) or is_new:
        return False
    if x.topic_partition.topic == log.topic_partition.topic:
        return True
    # Other partitions of either topic have its id, or another one.
    of_both = {x.topic_partition.topic, log.topic_partition.topic}
    return (
        sum(each.topic_id in (x.topic_id, log.topic_id) or each.topic_partition.topic in of_both for each in logs) == 2
    )


def _findings(circle: Sequence[SourceLog]) -> Iterator[tuple[SourceLog, Finding]]:
    places = [shown(log.directory) for log in circle]
    aside = f"{places[-1]}.moved"
    moves = [(places[-1], aside), *zip(places[-2::-1], places[:0:-1], strict=True), (aside, places[0])]
    command = " && ".join(f"mv -n {shell_word(old)} {shell_word(new)}" for old, new in moves)
    for place, log, right in zip(places, circle, [*circle[1:], circle[0]], strict=True):
        message = f"{place} has the records of {right.topic_partition}: it ends at offset {log_end(log)}. "
        message += f"By the checkpoints {log.topic_partition} reaches {_line(log)}, and {right.topic_partition} "
        message += f"{_line(right)}."
        if log is circle[0]:
            message += f" `{command}` gives {len(circle)} directories their names again."
        yield log, found("copy-under-another-name", message, file=place)
