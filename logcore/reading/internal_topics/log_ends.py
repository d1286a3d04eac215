"""The ends of logs of which groups have committed offsets: what lag is counted to.

The high watermark is the stated one, moved into the log, as a broker does. Without one it is the log end. An end is not
known if the source does not have the log, if only some of its segments were named, or if its last segment cannot be
read. Then the stated high watermark counts as it is, and no commit is called one beyond the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from logcore.errors import LogError
from logcore.logs.model import readable_end
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SourceLog
from logcore.reading.read_options import HighWatermark
from logcore.reading.segment_reading import reading_start
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

    def _log_end(self, topic: str, partition: int) -> int | None:
        place = topic, partition
        if place not in self._ends:
            log = self._by_place.get(place)
            self._ends[place] = None if log is None else _log_end(log)
        return self._ends[place]


def _log_end(log: SourceLog) -> int | None:
    """The offset after the last batch of a log; None if it is not known."""
    last = log.segments[-1] if log.segments else None
    if log.named_files or any(last is None or base >= last.base_offset for base in log.unreadable):
        return None
    if last is None:
        return log.log_start_offset
    end = max(log.log_start_offset, last.base_offset)
    try:
        # Entries of the index that their batches prove: only the rest of the segment is read.
        start = reading_start(last, SourceBytes(last.path, sealed=False, seen=last), MAX_OFFSET)
        for _, header in HeaderReader().headers(last, start.position):
            if header is not None:
                end = max(end, header.next_offset)
    except LogError:
        return None  # reported where the log itself is read
    return end
