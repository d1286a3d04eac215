"""The logs of a read, and which of their offsets are read."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from logcore.columns.wanted import Wanted
from logcore.errors import LogError, OffsetOutOfRange
from logcore.library.damage import DamageFound, Reports
from logcore.logs import lookup
from logcore.logs.model.findings import Finding, Severity
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.sources import SourceLog
from logcore.reading.chosen_logs import find_logs
from logcore.reading.consumer_log import ConsumerLog
from logcore.reading.nearest_names import no_such_topic
from logcore.reading.read_options import Notes, OffsetRange, ReadOptions
from logcore.reading.shown_segments import columns_of
from logcore.segments.filenames import METADATA_TOPIC, TopicPartition, is_coordinator_topic
from spark_jobs.data_source.source_options import EARLIEST, LATEST, Bound, DataSourceOptions, Offsets
from spark_jobs.errors import UsageError

WARNINGS = logging.getLogger("pyspark_loglake")
_WHOLE = ("nothing-chosen", "no-high-watermark")
"""Rules that say nothing of records."""

_ADVICE = "failOnDataLoss=false reads up to it; mode=permissive leaves it out and reads on"

_NO_LOGS = ("path-not-found", "not-a-log-directory")

Logs = Mapping[TopicPartition, ConsumerLog]


@dataclass(frozen=True, slots=True)
class LogRange:
    """Offsets of a log that are read.

    Attributes:
        log: The log.
        start: The first offset.
        end: The offset after the last one.
        is_open: The end is that of the log: damage and losses there are reported.
    """

    log: ConsumerLog
    start: int
    end: int
    is_open: bool = False

    @property
    def name(self) -> TopicPartition:
        """The topic partition."""
        return self.log.source.topic_partition


class Losses:
    """What happens to lost offsets: the read fails, or a warning names them. As `failOnDataLoss` says."""

    def __init__(self, options: DataSourceOptions) -> None:
        self._fails = options.fail_on_data_loss

    def say(self, error: LogError) -> None:
        """Raise the error, or log it as a warning."""
        if self._fails:
            raise error
        WARNINGS.warning("%s", error)

    def notes(self) -> Reports:
        """Return notes that take each finding of severity `error` as a loss."""
        return Reports(_fail if self._fails else _warn)


def opened_logs(options: DataSourceOptions, *, may_be_gone: bool = False) -> dict[TopicPartition, ConsumerLog]:
    """Find the chosen logs.

    Args:
        options: The options of the read.
        may_be_gone: A chosen topic or topic partition may be missing.

    Raises:
        UsageError: A chosen topic or topic partition is not there.
        LogError: A path cannot be read, and failOnDataLoss is true.
    """
    from spark_jobs.lake.setup.identity import read_identity

    lakes = [path for path in options.paths if read_identity(path) is not None]
    paths = tuple(path for path in options.paths if path not in lakes)
    if lakes and (paths or len(lakes) > 1):
        raise UsageError("one read has one lake or log directories, because a log may be in both")
    logs = _archived(lakes[0], options) if lakes else _found(paths, options)
    missing = _missing(options, {log.topic_partition for log in logs})
    if missing is not None and not may_be_gone:
        raise UsageError(f"{', '.join(options.paths)}: {missing}")
    return {log.topic_partition: ConsumerLog(log, options.rules) for log in logs}


def _archived(lake: str, options: DataSourceOptions) -> Sequence[SourceLog]:
    from spark_jobs.lake.segments.archived_logs import archived_logs  # loads Delta

    return archived_logs(lake, partial(_is_chosen, options))


def _found(paths: tuple[str, ...], options: DataSourceOptions) -> Sequence[SourceLog]:
    topics = options.topics or (options.assigned and tuple(sorted({name.topic for name in options.assigned}))) or ()
    read = ReadOptions(paths, LogSelection(topics), rules=options.rules, remotes=options.remotes)
    everything = find_logs(read, notes := Notes(), quiet=_WHOLE, is_one_copy=True)
    logs = [log for log in everything if _is_chosen(options, log.topic_partition)]
    losses = Losses(options).notes()
    for finding in notes.findings:
        if finding.rule in _NO_LOGS:
            raise UsageError(finding.message)
        losses.say(finding)
    return logs


def _is_chosen(options: DataSourceOptions, name: TopicPartition) -> bool:
    if options.assigned is not None:
        return name in options.assigned
    if options.topics is not None:
        return name.topic in options.topics
    if options.pattern is None:
        return True
    if is_coordinator_topic(name.topic) or name.topic == METADATA_TOPIC:
        return False  # as a consumer of Kafka, whose patterns match no internal topic
    return re.fullmatch(options.pattern, name.topic) is not None


def _missing(options: DataSourceOptions, names: set[TopicPartition]) -> str | None:
    """Which choice matches nothing, as a sentence; None: each matches."""
    topics = {name.topic for name in names}
    for topic in options.topics or ():
        if topic not in topics:
            return f"the option subscribe: {no_such_topic(topic, _topics(options))}"
    for name in sorted((options.assigned or set()) - names):
        return f"the option assign: there is no partition {name}"
    if not names and options.pattern is not None:
        return f"the option subscribePattern: {options.pattern!r} matches no topic"
    return None


def _topics(options: DataSourceOptions) -> set[str]:
    everything = replace(options, topics=None, assigned=None, pattern=None, fail_on_data_loss=False)
    return {name.topic for name in opened_logs(everything)}


def starts(logs: Logs, options: DataSourceOptions, usual: int) -> dict[TopicPartition, int]:
    """Return where reading of each log begins.

    Args:
        usual: `EARLIEST` or `LATEST`, where no option says it.

    Raises:
        UsageError: An option does not name all logs, or no record has a starting timestamp and the strategy is `error`.
        OffsetOutOfRange: An offset is out of range, and failOnDataLoss is true.
    """
    bound = options.start or Bound(usual)
    _check_named(bound, logs)
    return {name: _start(name, log, bound, options) for name, log in logs.items()}


def _start(name: TopicPartition, log: ConsumerLog, bound: Bound, options: DataSourceOptions) -> int:
    at = bound.default if bound.values is None else bound.values[name]
    if bound.are_times:
        offset = _offset_at(log, at)
        if offset is None and options.strategy == "error":
            raise UsageError(
                f"the option {bound.option}: {name} has no record with timestamp {at} or a later one. With "
                "startingOffsetsByTimestampStrategy=latest such a log begins at its end"
            )
        return log.end_offset if offset is None else offset
    if at in (EARLIEST, LATEST):
        return log.window.start if at == EARLIEST else log.end_offset
    return within(name, log, at, Losses(options))


def within(name: TopicPartition, log: ConsumerLog, offset: int, losses: Losses) -> int:
    """Return the offset, or the bound of the log next to it after the loss was said."""
    low, high = log.window.start, log.end_offset
    if low <= offset <= high:
        return offset
    bound = f"begins at offset {low}" if offset < low else f"ends at offset {high}"
    losses.say(OffsetOutOfRange(f"it is out of range: the log {bound}", topic_partition=str(name), offset=offset))
    return min(max(offset, low), high)


def ends(logs: Logs, options: DataSourceOptions) -> dict[TopicPartition, int | None]:
    """Return where a batch read of each log ends; None: at its end. Raises as `starts`."""
    bound = options.end or Bound(LATEST)
    _check_named(bound, logs)
    found: dict[TopicPartition, int | None] = {}
    for name, log in logs.items():
        at = bound.default if bound.values is None else bound.values[name]
        if bound.are_times:
            found[name] = _offset_at(log, at)
        else:
            found[name] = None if at == LATEST else within(name, log, at, Losses(options))
    return found


def batch_ranges(
    logs: Logs, options: DataSourceOptions, is_wanted: Callable[[TopicPartition], bool] = lambda _: True
) -> list[LogRange]:
    """Return the offsets of a batch read.

    Args:
        logs: The logs that the options choose.
        options: The options of the read.
        is_wanted: Whether a filter of the query leaves a log in.

    Raises:
        UsageError: As `starts`, or an end is below its start.
        OffsetOutOfRange: As `starts`.
    """
    after = ends(logs, options)
    ranges = []
    for name, start in starts(logs, options, EARLIEST).items():
        end = after[name]
        if end is not None and start > end:
            raise UsageError(f"the start offset {start} of {name} is greater than the end offset {end}")
        if is_wanted(name):
            ranges.append(LogRange(logs[name], start, logs[name].end_offset if end is None else end, end is None))
    return sound_ranges(ranges, options)


def sound_ranges(ranges: Iterable[LogRange], options: DataSourceOptions) -> list[LogRange]:
    """Return the ranges; without failOnDataLoss in the mode `strict` each ends at the first damage, which is logged."""
    if options.mode == "permissive" or options.fail_on_data_loss:
        return list(ranges)
    return [_sound(each) for each in ranges]


def _sound(reads: LogRange) -> LogRange:
    seen, notes = reads.start, Reports(_fail_at_damage)
    try:
        offsets = OffsetRange(reads.start, None if reads.is_open else reads.end)
        for shows in reads.log.choose(offsets, Wanted(columns=("offset",))).segments(notes):
            for rows in columns_of(shows, notes):
                seen = rows.column("offset")[-1].as_py() + 1 if rows.num_rows else seen
    except DamageFound as damage:
        at = damage.finding.start_offset
        end = seen if at is None else max(seen, at)
        WARNINGS.warning("rows of the log end at offset %d: %s", end, damage.finding.message)
        return replace(reads, end=min(end, reads.end), is_open=False)
    return reads


def _check_named(bound: Bound, logs: Logs) -> None:
    """As Spark's Kafka source: an option with values by log names each log that is read, and no other."""
    if bound.values is None or set(bound.values) == set(logs):
        return
    lacking, foreign = sorted(set(logs) - set(bound.values)), sorted(set(bound.values) - set(logs))
    text = f"it does not name {lacking[0]}" if lacking else f"it names {foreign[0]}, which is not read"
    raise UsageError(f"the option {bound.option} must name each topic partition that is read: {text}")


def _offset_at(log: ConsumerLog, timestamp: int) -> int | None:
    answer = log.list_offsets(timestamp, Notes())
    return None if answer == lookup.NOTHING else answer.offset


def _fail(finding: Finding) -> None:
    if finding.severity is Severity.ERROR:
        raise DamageFound(finding, "" if finding.start_offset is None else _ADVICE)
    _warn(finding)


def _fail_at_damage(finding: Finding) -> None:
    if finding.rule == "missing-offsets":
        _warn(finding)  # as Spark's Kafka source goes on after offsets that are gone
    else:
        _fail(finding)


def _warn(finding: Finding) -> None:
    if finding.severity is not Severity.INFO:
        WARNINGS.warning("%s", finding.message)


def known_ends(logs: Logs) -> Offsets:
    """Return the ends of all logs."""
    return {name: log.end_offset for name, log in logs.items()}


def stream_ranges(logs: Logs, before: Offsets, after: Offsets, options: DataSourceOptions) -> list[LogRange]:
    """Return the offsets of a micro-batch. A log that is new begins at its start.

    Args:
        logs: The logs that are there.
        before: Where the micro-batch before ended.
        after: Where this one ends.
        options: The options of the stream.

    Raises:
        OffsetOutOfRange: Offsets are gone: a log, its beginning or its end; and failOnDataLoss is true.
    """
    losses = Losses(options)
    ranges = []
    for name, end in sorted(after.items()):
        log, start = logs.get(name), before.get(name)
        if log is None:
            losses.say(LogError("the log is gone; the stream had read it", topic_partition=str(name), offset=start))
            continue
        low = log.window.start
        if start is None:
            start = 0
            if low > 0:
                losses.say(LogError(f"the log is new, and begins at offset {low}", topic_partition=str(name), offset=0))
        start, high = within(name, log, start, losses), log.end_offset
        if start <= high < end:
            text = f"it is out of range: the log ends at offset {high}"
            losses.say(OffsetOutOfRange(text, topic_partition=str(name), offset=end))
        ranges.append(LogRange(log, start, max(start, min(end, high))))
    return ranges


def limited(ranges: Sequence[LogRange], most: int) -> list[LogRange]:
    """Return the ranges with at most so many offsets, shared out by their lengths as Spark's Kafka source does."""
    total = sum(each.end - each.start for each in ranges)
    if total <= most:
        return list(ranges)
    found = []
    for each in ranges:
        share = most * (each.end - each.start) / total
        length = math.ceil(share) if share < 1 else math.floor(share)
        found.append(replace(each, end=min(each.end, each.start + length)))
    return found
