"""The index files of a segment for a round of cleaning: their sizes, and where its dirty part begins.

Valid files are used as they are. If one is invalid, or the offset index is missing, the result is that of a recovery.
An entry is trusted only if a batch begins at its position and everything before it ends below the requested offset.
Reading from a wrong entry would leave records out of the map. Then a tombstone among them would be removed before the
value that it deletes.

Source: Kafka Cleaner.buildOffsetMapForSegment, LogSegment.recover.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from logcore.errors import CorruptIndexError
from logcore.logs.checks.validation import BatchVerdict
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.partition_directory import PartitionFile
from logcore.segments.filenames import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from logcore.segments.side_files import offset_index, time_index
from logcore.segments.side_files.offset_index import OffsetEntry
from logcore.segments.side_files.time_index import NO_TIMESTAMP

_Entries = TypeVar("_Entries")


class SurveyedIndexes:
    """Gets every batch of a segment. `sought` has the offsets that may become the round's first dirty one."""

    def __init__(
        self,
        files: Mapping[str, PartitionFile],
        base_offset: int,
        interval_bytes: int,
        sought: Collection[int],
        findings: list[Finding],
    ) -> None:
        self._interval, self._sought = interval_bytes, sought
        self._last_at = self._entries = self._times = 0
        self._greatest = self._written = NO_TIMESTAMP
        self._reached = -1
        """Last offset of the batches until now."""
        self._rebuilt: dict[int, int] = {}
        self._believed: dict[int, int] = {}
        self._stated: dict[int, int] | None = None
        """Position in the index for each offset in `sought`."""
        self._stated_entries: int | None = None
        self._stated_times: int | None = None
        entries = _read(files.get(OFFSET_INDEX_SUFFIX), base_offset, offset_index.parse, findings)
        if entries is not None:
            self._stated_entries = len(entries)
            self._stated = {each: offset_index.lookup(entries, each, base_offset).position for each in sought}
        if OFFSET_INDEX_SUFFIX in files:  # without it a broker rebuilds both
            times = _read(files.get(TIME_INDEX_SUFFIX), base_offset, time_index.parse, findings)
            self._stated_times = None if times is None else len(times)

    def take(self, batch: BatchVerdict) -> None:
        """Add the next good batch."""
        self._greatest = max(self._greatest, batch.max_timestamp)
        if batch.position - self._last_at > self._interval:
            entry = OffsetEntry(batch.last_offset, batch.position)
            self._entries += 1
            self._consider()
            self._last_at = batch.position
            self._rebuilt |= {each: entry.position for each in self._sought if entry.offset <= each}
        if self._stated is not None:
            for each, position in self._stated.items():
                if position == batch.position and self._reached < each:
                    self._believed[each] = position
        self._reached = batch.last_offset

    def dirty_positions(self) -> dict[int, int]:
        """For each offset in `sought` a position from which reading finds it; 0 if it is missing."""
        return self._rebuilt if self._stated is None else self._believed

    def sizes(self) -> tuple[int, int]:
        """Bytes of the trimmed offset index and time index."""
        self._consider()
        entries = self._entries if self._stated_entries is None else self._stated_entries
        times = self._times if self._stated_times is None else self._stated_times
        return entries * offset_index.ENTRY_SIZE, times * time_index.ENTRY_SIZE

    def _consider(self) -> None:
        if self._greatest > self._written:
            self._written = self._greatest
            self._times += 1


def _read(
    file: PartitionFile | None, base_offset: int, parse: Callable[[bytes, int], _Entries], findings: list[Finding]
) -> _Entries | None:
    """The entries of an index; None if it is missing, or invalid, which is reported."""
    if file is None:
        return None
    try:
        return parse(bytes(file.content), base_offset)
    except CorruptIndexError as error:
        findings.append(index_ignored(file, error))
        return None


def index_ignored(file: PartitionFile, error: Exception) -> Finding:
    """The finding for an invalid index."""
    return found("corrupt-index", f"{file.name}: {error}; it is rebuilt from the batches", file=file.name)
