"""The files of a partition directory during a broker's start: those that exist now, and what happened to the others.

A start begins with cleaning up after interrupted work; see `logcore.segments.startup`.

The offsets of a log's producer snapshots, in order.

Every recovered segment needs the latest snapshot, those above an offset and those below one. In order, the cost is that
of the result and not of all snapshots. So a start stays linear in the number of segments.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from logcore.errors import CorruptRecordError
from logcore.logs.model.broker_line import DEFAULT_LINE, BrokerLine
from logcore.logs.model.partition_directory import Cut, Keep, PartitionDirectory, PartitionFile, ProposedFile, Write
from logcore.logs.recovery.loaded_segment import LoadedSegment
from logcore.logs.recovery.segment_recovery import WouldNotStart
from logcore.records.varint import Buffer
from logcore.segments.filenames import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    segment_file_name,
    snapshot_end_offset,
)
from logcore.segments.startup import is_plain_name, kept_at_start, misnamed


class SnapshotOffsets:
    """A sorted set of offsets."""

    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self._offsets = sorted(set(offsets))

    def __iter__(self) -> Iterator[int]:
        return iter(self._offsets)

    def __contains__(self, offset: int) -> bool:
        at = bisect_left(self._offsets, offset)
        return at < len(self._offsets) and self._offsets[at] == offset

    @property
    def latest(self) -> int | None:
        """The greatest one; None if there is none."""
        return self._offsets[-1] if self._offsets else None

    def outside(self, above: int, up_to: int) -> list[int]:
        """Those at or below the first offset or above the second, ascending."""
        low, high = bisect_right(self._offsets, above), bisect_right(self._offsets, up_to)
        return self._offsets[:low] + self._offsets[max(low, high) :]

    def copy(self) -> SnapshotOffsets:
        """An independent copy."""
        return SnapshotOffsets(self._offsets)

    def add(self, offset: int) -> None:
        """Add an offset, if it is not there."""
        if offset not in self:
            self._offsets.insert(bisect_left(self._offsets, offset), offset)

    def discard(self, offset: int) -> None:
        """Remove an offset, if it is there."""
        if offset in self:
            del self._offsets[bisect_left(self._offsets, offset)]


@dataclass(frozen=True, slots=True)
class RecoveryStep:
    """One action of the start: on which file, and why."""

    action: str
    file: str
    reason: str


class WorkingFiles:
    """Files by their present names. `dropped` has former names that are gone, and why."""

    def __init__(self, directory: PartitionDirectory, as_of_ms: int, line: BrokerLine = DEFAULT_LINE) -> None:
        self._directory, self._as_of_ms, self._line = directory, as_of_ms, line
        self.files: dict[str, ProposedFile] = {}
        self.dropped: dict[str, str] = {}
        self.steps: list[RecoveryStep] = []
        self._snapshots = SnapshotOffsets()

    def clean_up(self) -> None:
        """Finish or undo interrupted work.

        Raises:
            WouldNotStart: A broker would not start.
        """
        found = self._directory.files
        for name in misnamed(found):
            message = "it has the name of an interrupted cleaning's output, but without an offset of 20 digits"
            raise WouldNotStart(message, file=name)
        start = kept_at_start(found, self._end_of_swapped, with_strays=True)
        for name in found:
            if not is_plain_name(name) and name not in start.dropped and name not in start.kept.values():
                self.files[name] = Keep(name)
        for name, now in start.kept.items():
            self.files[name] = Keep(now)
            if name != now:
                self.steps.append(RecoveryStep("rename", now, "an interrupted cleaning had finished writing it"))
        for name, reason in start.dropped.items():
            self._drop(name, str(reason))
        found_offsets = (snapshot_end_offset(name) for name in self.files)
        self._snapshots = SnapshotOffsets(offset for offset in found_offsets if offset is not None)

    def _end_of_swapped(self, name: str) -> int:
        files = self._directory.files
        index = files.get(name[:20] + OFFSET_INDEX_SUFFIX + SWAP_SUFFIX)
        entries = b"" if index is None else bytes(index.content)
        try:
            return LoadedSegment(int(name[:20]), files[name].held, entries, self._line).read_next_offset()
        except CorruptRecordError as error:
            raise WouldNotStart(error.message, file=name, position=error.position) from error

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def bases(self) -> list[int]:
        """Base offsets of the segments, ascending."""
        return sorted(int(name[:20]) for name in self.files if is_plain_name(name) and name.endswith(LOG_SUFFIX))

    def file(self, name: str) -> PartitionFile:
        """A file in its present state."""
        match self.files[name]:
            case Keep(source):
                return self._directory.files[source]
            case Cut(source, size, modified_ms):
                return self._directory.files[source].beginning(size, modified_ms)
            case Write(content, modified_ms):
                return PartitionFile(name, content, modified_ms)

    def content(self, name: str) -> Buffer:
        """The present bytes of a file."""
        return self.file(name).content

    def modified_ms(self, name: str) -> int:
        """The mtime of a file."""
        return self.file(name).modified_ms

    def write(self, name: str, content: bytes) -> None:
        """Write a file. A file with the same bytes stays as it is."""
        if name in self.files and _is(self.file(name), content):
            return
        # A file that was removed before may return unchanged.
        source = self._directory.files.get(name)
        is_same = source is not None and _is(source, content)
        self.files[name] = Keep(name) if is_same else Write(content, self._as_of_ms)
        self.dropped.pop(name, None)

    def cut(self, name: str, size: int) -> None:
        """Cut a file to its first bytes."""
        match self.files[name]:
            case Keep(source) | Cut(source):
                self.files[name] = Cut(source, size, self._as_of_ms)
            case Write(content):
                self.files[name] = Write(content[:size], self._as_of_ms)

    def remove(self, name: str, reason: str) -> None:
        """Remove a file, if it is there."""
        file = self.files.pop(name, None)
        if isinstance(file, Keep | Cut):
            self._drop(file.source, reason)

    def _drop(self, name: str, reason: str) -> None:
        self.dropped[name] = reason
        self.steps.append(RecoveryStep("drop", name, reason))

    def snapshot_offsets(self) -> SnapshotOffsets:
        """The present offsets of the producer snapshots; writing and removing files changes this same object."""
        return self._snapshots

    def read_snapshot(self, offset: int) -> bytes:
        """The content of the snapshot file at an offset."""
        return bytes(self.content(segment_file_name(offset, PRODUCER_SNAPSHOT_SUFFIX)))

    def write_snapshot(self, offset: int, content: bytes) -> None:
        """Write the snapshot file at an offset."""
        self.write(segment_file_name(offset, PRODUCER_SNAPSHOT_SUFFIX), content)
        self._snapshots.add(offset)

    def remove_snapshot(self, offset: int, why: str) -> None:
        """Remove the snapshot file at an offset, and record why."""
        self.remove(segment_file_name(offset, PRODUCER_SNAPSHOT_SUFFIX), why)
        self._snapshots.discard(offset)


def _is(file: PartitionFile, wanted: bytes) -> bool:
    return file.size == len(wanted) and bytes(file.content) == wanted
