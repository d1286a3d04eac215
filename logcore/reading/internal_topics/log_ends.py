"""The ends of logs of which groups have committed offsets: what lag is counted to.

The high watermark is the stated one, moved into the log, as a broker does. Without one it is the log end. An end is not
known if the source does not have the log, if only some of its segments were named, or if its last segment cannot be
read. Then the stated high watermark counts as it is, and no commit is called one beyond the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from logcore.errors import LogError
from logcore.logs.growth.divergence import is_same_batch
from logcore.logs.model import readable_end
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.read_options import HighWatermark
from logcore.reading.segment_reading import reading_start
from logcore.records.batch import BatchHeader
from logcore.segments.filenames import MAX_OFFSET
from logcore.storage.discovery import HeaderReader, shown
from logcore.storage.source_bytes import SourceBytes

_Place = tuple[str, int]
"""Topic and partition."""


@dataclass(slots=True)
class LogEnds:
    """The ends of the logs at a source. Each is read when it is first needed.

    Attributes:
        logs: One log of each topic partition.
        choice: `log-end`: high watermarks that the source states do not count.
    """

    logs: Iterable[SourceLog]
    choice: HighWatermark = "checkpoint"
    _by_place: dict[_Place, SourceLog] = field(init=False)
    _ends: dict[_Place, int | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._by_place = {(log.topic_partition.topic, log.topic_partition.partition): log for log in self.logs}

    def high_watermark(self, topic: str, partition: int) -> int | None:
        """Return the high watermark of a log; None if it is not known."""
        log = self._by_place.get((topic, partition))
        if log is None or log.named_files:
            return None
        stated = None if self.choice == "log-end" else log.high_watermark
        end = self._log_end(topic, partition)
        if end is None:
            return stated
        return readable_end.high_watermark(stated, log_start_offset=log.log_start_offset, log_end_offset=end)

    def commit_beyond(self, group: str, topic: str, partition: int, offset: int) -> Finding | None:
        """Return the finding about a commit beyond the end of its log; None if it is within the log."""
        end = self._log_end(topic, partition)
        if end is None or offset <= end:
            return None
        name = f"{shown(topic)}-{partition}"
        message = f"Group {shown(group)} has committed offset {offset} of {name}, whose log ends at {end}."
        return found("commit-beyond-log-end", message, start_offset=end, end_offset=offset)

    def commit_below(self, group: str, topic: str, partition: int, offset: int) -> Finding | None:
        """Return the finding about a commit below the start of its log; None if it is not there."""
        log = self._by_place.get((topic, partition))
        if log is None or log.named_files or offset >= log.log_start_offset:
            return None
        name, start = f"{shown(topic)}-{partition}", log.log_start_offset
        said = f"Group {shown(group)} has committed offset {offset} of {name}, whose log starts at {start}"
        message = f"{said}: [{offset}, {start}) are deleted."
        return found("commit-below-log-start", message, start_offset=offset, end_offset=start)

    def _log_end(self, topic: str, partition: int) -> int | None:
        place = topic, partition
        if place not in self._ends:
            log = self._by_place.get(place)
            self._ends[place] = None if log is None else log_end(log)
        return self._ends[place]


def log_end(log: SourceLog) -> int | None:
    """Return the offset after the last batch of a log; None if it is not known."""
    last = log.segments[-1] if log.segments else None
    if log.named_files or any(last is None or base >= last.base_offset for base in log.unreadable):
        return None
    if last is None:
        return log.log_start_offset
    try:
        header = header_reaching(last, MAX_OFFSET)
    except LogError:
        return None  # reported where the log itself is read
    return max(log.log_start_offset, last.base_offset, 0 if header is None else header.next_offset)


def whole_log_end(log: SourceLog) -> int | None:
    """Return the same; None also if bytes at the end that are no whole batch may hide more."""
    end = log_end(log)
    if end is None or not log.segments:
        return end
    last = log.segments[-1]
    with suppress(LogError):
        start = reading_start(last, SourceBytes(last.path, sealed=False, seen=last), MAX_OFFSET)
        if all(header is not None for _, header in HeaderReader().headers(last, start.position)):
            return end
    return None


def ends_inside(log: SourceLog, longer: SourceLog) -> bool:
    """Return whether the last batch of a log is also in another copy: then they do not part up to there.

    False also if that is not known, for instance because the other copy was cleaned there.
    """
    if not log.segments:
        return True
    with suppress(LogError):
        mine = header_reaching(log.segments[-1], MAX_OFFSET)
        for segment in reversed(longer.segments):
            if mine is not None and segment.base_offset <= mine.base_offset:
                theirs = header_reaching(segment, mine.base_offset)
                return theirs is not None and is_same_batch(mine, theirs)
    return False


def header_reaching(segment: SegmentFile, offset: int) -> BatchHeader | None:
    """Return the header of the first batch that reaches an offset, else the last one; None: there is no batch.

    Raises:
        SourceUnreadable: The file cannot be read.
    """
    # Entries of the index that their batches prove: only the rest of the segment is read.
    start = reading_start(segment, SourceBytes(segment.path, sealed=False, seen=segment), offset)
    found = None
    for _, header in HeaderReader().headers(segment, start.position):
        if header is not None and (found is None or header.next_offset > found.next_offset):
            found = header
            if header.last_offset >= offset:
                break
    return found
