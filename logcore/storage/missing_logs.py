"""Logs that a log directory names and does not have, and its directories that are not read."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from logcore.errors import LogError
from logcore.logs.model.findings import Finding, Severity, found
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.segments import filenames
from logcore.segments.filenames import DirectoryKind, TopicPartition
from logcore.storage.headers import HeaderReader
from logcore.storage.objects.addresses import directory_of, is_object
from logcore.texts import shell_word, shown

_MOST_NAMED = 5
"""As many logs or directories are named in one message."""
_WORD_ENDS = re.compile(r"[a-zA-Z0-9](?![a-zA-Z0-9])")


@dataclass(frozen=True, slots=True)
class ListedDirectory:
    """What a log directory has, and what its checkpoints name.

    Attributes:
        path: The log directory.
        names: The names in it.
        unread: Its directories that are no partitions, and where segments are at and below each.
        logs: The logs that its checkpoints name.
        high_watermarks: Those of its checkpoint.
        recovery_points: Those of its checkpoint; None: it is not there. A broker that deletes a log removes its line
            at once. The high watermark of the last log of a directory keeps its line for ever. So a line here proves
            that the broker had the log and did not delete it.
    """

    path: str
    names: Collection[str]
    unread: Mapping[str, Sequence[str]]
    logs: Collection[TopicPartition]
    high_watermarks: Mapping[TopicPartition, int]
    recovery_points: Mapping[TopicPartition, int] | None = None

    def findings(self, there: Sequence[SourceLog], why_gone: Callable[[TopicPartition], str]) -> Iterator[Finding]:
        """Report directories that are not read, and logs that had records and have no directory.

        Args:
            there: The logs that were found, in any directory, also those set aside: `orders-0.<id>-delete`.
            why_gone: Why it is information that a log is not there; empty: it is a warning or an error.
        """
        listed = {parsed[0] for name in self.names if (parsed := filenames.parse_partition_directory(name)) is not None}
        absent = sorted(set(self.logs) - listed - {log.topic_partition for log in there})
        by_name: dict[str, list[TopicPartition]] = {}
        for log in absent:
            by_name.setdefault(str(log), []).append(log)
            by_name.setdefault(log.topic, []).append(log)
        meant = {
            place: meant_logs(os.path.basename(place), by_name) for places in self.unread.values() for place in places
        }
        for path in self.unread:
            yield from self._of_unread(path, meant)
        named = {log for logs in meant.values() for log in logs}
        absent = [log for log in absent if self.recovery_points is None or log in self.recovery_points]
        lost = [log for log in absent if self._end_of(log) > 0 and log not in named]
        may_be = self._renamed_from(lost, there) if lost else {}
        often = Counter(each for logs in may_be.values() for each in logs)
        for log, logs in may_be.items():
            if len(logs) == 1 and often[logs[0]] == 1:
                lost.remove(log)
                yield self._renamed(logs[0], log)
        aside = self._set_aside(there)
        why = {log: why_gone(log) for log in (*lost, *aside)}
        topics = {log.topic for log in listed}
        yield from self._missing([log for log in lost if not why[log]], topics)
        for log, copies in aside.items():
            finding = self._only_set_aside(log, copies)
            yield _explained(finding, why[log]) if why[log] else finding
        for log in filter(why.get, lost):
            for finding in self._missing([log], topics):
                yield _explained(finding, why[log])

    def _end_of(self, log: TopicPartition) -> int:
        return max(self.high_watermarks.get(log, 0), (self.recovery_points or {}).get(log, 0))

    def _set_aside(self, there: Sequence[SourceLog]) -> dict[TopicPartition, list[SourceLog]]:
        """The logs with records that are only in directories set aside here, while checkpoints still name them.

        A broker that deletes a log removes its recovery point, and leaves its high watermark for some seconds.
        """
        live = {log.topic_partition for log in there if log.kind is DirectoryKind.LIVE}
        aside: dict[TopicPartition, list[SourceLog]] = {}
        knows = self.recovery_points is not None
        named = set(self.high_watermarks if self.recovery_points is None else self.recovery_points) - live
        for log in there:
            own, is_here = log.topic_partition, directory_of(log.directory) == self.path
            if is_here and own in named and self._end_of(own) > 0 and (knows or log.kind is not DirectoryKind.DELETE):
                aside.setdefault(own, []).append(log)
        return aside

    def _only_set_aside(self, log: TopicPartition, copies: Sequence[SourceLog]) -> Finding:
        right = os.path.join(self.path, str(log))
        ends = [_end(copy.segments[-1]) if copy.segments else 0 for copy in copies]
        listing = " and ".join(
            f"{shown(copy.directory)}, with offsets {copy.log_start_offset}..{end}"
            for copy, end in zip(copies, ends, strict=True)
        )
        message = f"{shown(self._checkpoint)} names {log}, which is only in {listing}. It is not read."
        if len(copies) == 1 and ends[0] >= self._end_of(log) and not is_object(right):
            message += f" `mv {shell_word(copies[0].directory)} {shell_word(right)}` gives it its name again."
        return found("log-directory-missing", message, file=shown(right))

    @property
    def _checkpoint(self) -> str:
        """The file that shows which logs the broker had."""
        known = self.recovery_points is not None
        return os.path.join(self.path, filenames.RECOVERY_POINT_FILE if known else filenames.HIGH_WATERMARK_FILE)

    def _missing(self, logs: Sequence[TopicPartition], topics: Collection[str]) -> Iterator[Finding]:
        """Report lost logs. One of ``topics``, which have other logs here, was not left out with its topic."""
        for topic in dict.fromkeys(log.topic for log in logs):
            is_proven = self.recovery_points is not None and topic in topics
            of_topic = [log for log in logs if log.topic == topic]
            listing = _in_short([f"{log} (with offsets up to {self._end_of(log)})" for log in of_topic])
            message = f"{shown(self._checkpoint)} names {listing}. There is no such directory."
            if is_proven:
                message += " A broker removes the line of a log that it deletes or moves."
            place = shown(os.path.join(self.path, str(of_topic[0])))
            yield found("log-lost" if is_proven else "log-directory-missing", message, file=place)

    def _renamed_from(
        self, lost: Sequence[TopicPartition], there: Sequence[SourceLog]
    ) -> dict[TopicPartition, list[TopicPartition]]:
        """Which directories may have the records of each lost log.

        A broker has a line for each log that it opened, some seconds after it made the directory; never one for its
        metadata log. The line of a deleted log stays as long. So a directory whose first segment changed after the
        checkpoint may be of a new topic. One that is shorter than the lost log is another log.
        """
        here = [log for log in there if log.kind is DirectoryKind.LIVE and directory_of(log.directory) == self.path]
        topics = {log.topic_id: log.topic_partition.topic for log in here if log.topic_partition in self.logs}
        may_be: dict[TopicPartition, list[TopicPartition]] = {log: [] for log in lost}
        for log in here:
            own, written_ms = log.topic_partition, log.high_watermark_ms or 0
            is_known = own in self.logs or log.is_metadata or not log.segments
            if is_known or log.segments[0].modified_ms > written_ms:
                continue
            topic, end = topics.get(log.topic_id), _end(log.segments[-1])
            for each in lost:
                is_alike = own.topic == each.topic or own.partition == each.partition
                is_topic = topic == each.topic or (topic is None and each.topic not in topics.values())
                if is_alike and is_topic and end >= self._end_of(each):
                    may_be[each].append(own)
        return may_be

    def _renamed(self, log: TopicPartition, right: TopicPartition) -> Finding:
        place = os.path.join(self.path, str(log))
        message = (
            f"{shown(place)} has the records of {right}: a checkpoint names {right}, of which there is no directory, "
        )
        message += f"and none names {log}."
        if not is_object(place):
            command = f"mv {shell_word(place)} {shell_word(os.path.join(self.path, str(right)))}"
            message += f" `{command}` gives it its name again."
        return found("copy-under-another-name", message, file=shown(place))

    def _of_unread(self, path: str, meant: Mapping[str, Sequence[TopicPartition]]) -> Iterator[Finding]:
        said, places = f"{shown(path)} is not a partition; it is not read", self.unread[path]
        if not places:
            yield found("unknown-directory", f"{said}.", file=shown(path))
            return
        often = Counter(log for logs in meant.values() for log in logs)
        for place in places:
            if logs := meant[place]:
                lost = os.path.join(self.path, str(logs[0]))
                message = f"{shown(place)} has segments and is not read. A checkpoint names {_in_short(logs)}, of "
                message += "which there is no directory."
                if len(logs) == 1 and often[logs[0]] == 1 and not is_object(place):
                    message += f" `mv {shell_word(place)} {shell_word(lost)}` gives it this name."
                finding = found("unread-segments", message, file=shown(lost))
                yield replace(finding, severity=Severity.WARNING)
        if not any(meant[place] for place in places):
            below = "" if list(places) == [path] else f", in {_in_short(places)}"
            yield found("unread-segments", f"{said}, although it has segments{below}.", file=shown(path))


def meant_logs(name: str, absent: Mapping[str, list[TopicPartition]]) -> list[TopicPartition]:
    """Which of the logs that are not there a directory may be, by its name: `orders-0.bak` and `orders` orders-0.

    Args:
        name: The directory's name. One that states a partition means no other one.
        absent: The logs, by `topic-partition` and by topic.
    """
    for word in re.split(r"[^a-zA-Z0-9._-]+", name):
        forms = [word[: end.end()] for end in _WORD_ENDS.finditer(word)][::-1]
        for form in [each for each in forms if re.fullmatch(r".+-\d+", each)] or forms:
            plain = re.sub(r"-0+(\d+)$", r"-\1", form) if form == name else form
            if plain in absent:
                return absent[plain]
    return []


def _explained(finding: Finding, why: str) -> Finding:
    return replace(finding, severity=Severity.INFO, message=f"{finding.message} {why}")


def _end(segment: SegmentFile) -> int:
    end = segment.base_offset
    with suppress(LogError):
        for _, header in HeaderReader().headers(segment):
            end = end if header is None else header.next_offset
    return end


def _in_short(things: Sequence[object]) -> str:
    more = len(things) - _MOST_NAMED
    return ", ".join(map(str, things[:_MOST_NAMED])) + (f" and {more:,} more" if more > 0 else "")
