"""A log as a consumer sees it: which offsets are visible, where a read begins, and the chosen records.

The command line, the library and every other reader of records take a log from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

from logcore.columns.wanted import EVERYTHING, Wanted
from logcore.errors import LogError, OffsetOutOfRange
from logcore.logs import lookup
from logcore.logs.lookup import LookupLog, OffsetAnswer
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.notes import Notes
from logcore.reading.offset_lookup import lookup_log, offsets_before
from logcore.reading.read_options import OffsetRange, ReadRules
from logcore.reading.segment_reading import cannot_read, reading_start, segment_bytes
from logcore.reading.shown_segments import ShownSegment, segments_among
from logcore.reading.unmatched_options import log_end
from logcore.reading.visible_offsets import Window, visible_window, with_high_watermark

OffsetReset = Literal["none", "earliest", "latest"]
"""What a read does whose first offset is outside of the log, as a consumer's `auto.offset.reset`: `none` is an error,
`earliest` begins at the log start, `latest` begins at the end."""


@dataclass(frozen=True, slots=True)
class ChosenRecords:
    """The records of a log that a reader wants.

    Attributes:
        log: The log.
        wanted: The wanted records.
        seek: Begin at an entry of the index for this offset. Damage before it is not reported. None: at the beginning.
        end: Reading may end at this offset. Damage from there on is not reported. None: at the end of the files.
    """

    log: SourceLog
    wanted: Wanted
    seek: int | None = None
    end: int | None = None

    def files(self) -> Iterator[SegmentFile]:
        """Yield the segments that can hold a wanted offset. No file is opened."""
        return segments_among(self.log, self.wanted.visible)

    def segments(self, notes: Notes) -> Iterator[ShownSegment]:
        """Yield the segments that can hold a wanted offset, opened one by one.

        Args:
            notes: Reports a file that cannot be opened.
        """
        for segment in self.files():
            try:
                source = segment_bytes(self.log, segment)
                start = reading_start(segment, source, self.seek)
                yield ShownSegment(self.log, segment, source, self.wanted, start, self.end)
            except LogError as error:
                cannot_read(segment, error, notes)


@dataclass(frozen=True)
class ConsumerLog:
    """A log with the rules of its consumer. Reads are lazy.

    Attributes:
        source: The log, by its files.
        rules: The isolation level and the high watermark.
    """

    source: SourceLog
    rules: ReadRules

    @cached_property
    def log(self) -> SourceLog:
        """The log with the high watermark that the rules choose."""
        return with_high_watermark(self.source, self.rules.high_watermark)

    @cached_property
    def window(self) -> Window:
        """The visible offsets. For `read_committed` the whole log is read once."""
        return visible_window(self.log, self.rules)

    def position(self, offset: int, reset: OffsetReset = "none") -> int:
        """Return where a consumer with a position begins to read.

        Args:
            offset: The position.
            reset: What happens if the position is below the log start or above the log end.

        Raises:
            OffsetOutOfRange: The position is out of range, and `reset` is `none`.
            ValueError: There is no such value of `reset`.
        """
        if reset not in get_args(OffsetReset):
            raise ValueError(f"offset_reset is {', '.join(get_args(OffsetReset))}, not {reset!r}")
        log = self.log
        start = 0 if self.rules.show_all or log.named_files else log.log_start_offset
        is_last = not log.segments or offset > log.segments[-1].base_offset
        end = log_end(log) if is_last or reset == "latest" else None
        if start <= offset and (end is None or offset <= end):
            return offset
        if reset == "earliest":
            return start
        if reset == "latest":
            return self.window.end if end is None else min(self.window.end, end)
        bound = f"begins at offset {start}" if offset < start else f"ends at offset {end}"
        name = str(log.topic_partition)
        raise OffsetOutOfRange(f"it is out of range: the log {bound}", topic_partition=name, offset=offset)

    @cached_property
    def end_offset(self) -> int:
        """Where a consumer reaches the end: the high watermark or the last stable offset, at most the log end.

        The last segment is read only if its headers cannot be followed to its end.
        """
        end = log_end(self.log)
        if end is None:
            return self.list_offsets(lookup.LATEST, Notes()).offset
        return max(self.log.log_start_offset, min(self.window.end, end))

    def choose(self, offsets: OffsetRange, wanted: Wanted = EVERYTHING) -> ChosenRecords:
        """Return the visible records of a range of offsets that a reader wants.

        Args:
            offsets: The range.
            wanted: Which of the records are wanted; its visible offsets are replaced.
        """
        visible = self.window.ranges(offsets)
        seek = visible[0][0] if offsets.start is not None and visible else None
        return ChosenRecords(self.log, replace(wanted, visible=visible), seek, offsets.end)

    def lookup(self, at: int, notes: Notes) -> LookupLog:
        """Return the log as a lookup takes it. For a timestamp all of it is read, for the log end its last segment.

        Args:
            at: A timestamp in epoch milliseconds, or a special value of `logcore.logs.lookup`.
            notes: Gets the findings about the bytes that are read.
        """
        return lookup_log(self.log, at, self.window.end, notes)

    def offsets_before(self, at: int, count: int, as_of_ms: int, notes: Notes) -> tuple[int, ...]:
        """Return offsets at which segments begin; see `logcore.reading.offset_lookup.offsets_before`."""
        return offsets_before(self.log, at, count, as_of_ms, self.window.end, notes)

    def list_offsets(self, at: int, notes: Notes) -> OffsetAnswer:
        """Answer a ListOffsets request as a broker does; the arguments are those of `lookup`."""
        return lookup.list_offsets(self.lookup(at, notes), at)
