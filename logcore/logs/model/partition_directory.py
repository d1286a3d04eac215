"""A partition directory as a value, and the new directory that maintenance proposes.

The input is every file by its name, with its bytes and its mtime. The mtime is state: retention and the removal of old
tombstones depend on it. The lines of the log directory's root files about the partition belong to it too. The output
names each file of the new directory:

    Keep    a file as it was, under its own or another name
    Cut     the first bytes of a file
    Write   new bytes

Nothing here opens or writes a file: `logcore.storage.partition_directories` reads a directory, `partition_output`
writes one. Bytes of a file may be read only when they are used. A reference to `content` keeps them in memory, so drop
it after its segment is done.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from logcore.records.varint import Buffer
from logcore.segments.filenames import TopicPartition, segment_base_offset
from logcore.segments.scanning.fetched_bytes import FetchedBytes


class LazyBytes(Protocol):
    """Bytes of a file that are read on request, and stay in memory as long as someone refers to them.

    Its members raise SourceChanged if the file has changed since it was first seen, and SourceUnreadable.
    """

    @property
    def size(self) -> int:
        """The file's size in bytes; nothing is read for it."""

    @property
    def content(self) -> Buffer:
        """All bytes."""

    @property
    def fetched(self) -> FetchedBytes | None:
        """More facts about the bytes; its `content` is all of them, in memory."""


class HeldBytes:
    """Something with the bytes of a file in `held`, or with an object that reads them."""

    __slots__ = ()

    held: Buffer | LazyBytes

    @property
    def content(self) -> Buffer:
        """The file's bytes. Raises as `LazyBytes` does."""
        return self.held if isinstance(self.held, BYTES) else self.held.content

    @property
    def size(self) -> int:
        """The file's size in bytes; nothing is read for it."""
        return len(self.held) if isinstance(self.held, BYTES) else self.held.size


@dataclass(frozen=True, slots=True)
class PartitionFile(HeldBytes):
    """A file, and its mtime in milliseconds."""

    name: str
    held: Buffer | LazyBytes
    modified_ms: int

    @property
    def fetched(self) -> FetchedBytes | None:
        """More facts about the bytes in `content`; None if there are none."""
        return None if isinstance(self.held, BYTES) else self.held.fetched

    def beginning(self, size: int, modified_ms: int) -> PartitionFile:
        """The first bytes of the file, with this mtime."""
        held = memoryview(self.held)[:size] if isinstance(self.held, BYTES) else _Beginning(self.held, size)
        return PartitionFile(self.name, held, modified_ms)


BYTES = (bytes, bytearray, memoryview, mmap.mmap)
"""The types of `Buffer`."""


@dataclass(frozen=True, slots=True)
class _Beginning:
    whole: LazyBytes
    size: int
    fetched: None = None

    @property
    def content(self) -> Buffer:
        return memoryview(self.whole.content)[: self.size]


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """The files of a partition directory, and the lines of the root files about it.

    Attributes:
        topic_partition: The partition.
        files: By name.
        recovery_point: As the other lines None if there is no line.
        log_start_offset: From `log-start-offset-checkpoint`.
        high_watermark: From `replication-offset-checkpoint`.
        first_dirty_offset: From `cleaner-offset-checkpoint`.
        is_clean: Whether the broker wrote its clean-shutdown marker.
        high_watermark_ms: The mtime of the file with the high watermark, in epoch milliseconds; None without one.
        is_tiered: Whether the log directory has a sign of a remote tier.
    """

    topic_partition: TopicPartition
    files: Mapping[str, PartitionFile]
    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    first_dirty_offset: int | None = None
    is_clean: bool = False
    high_watermark_ms: int | None = None
    is_tiered: bool = False

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """The base offsets of the segments with plain names, ascending."""
        found = (segment_base_offset(name) for name in self.files)
        return tuple(sorted(base_offset for base_offset in found if base_offset is not None))

    @property
    def root_lines(self) -> RootLines:
        """The lines of the root files as they are."""
        return RootLines(self.recovery_point, self.log_start_offset, self.high_watermark, self.first_dirty_offset)


@dataclass(frozen=True, slots=True)
class Keep:
    """The file `source` as it is, with its mtime."""

    source: str


@dataclass(frozen=True, slots=True)
class Cut:
    """The first `size` bytes of the file `source`."""

    source: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Write:
    """New bytes."""

    content: bytes = field(repr=False)
    modified_ms: int


ProposedFile: TypeAlias = Keep | Cut | Write
Proposal: TypeAlias = Mapping[str, ProposedFile]
"""The files of a new partition directory, by name. It has no others."""


@dataclass(frozen=True, slots=True)
class RootLines:
    """The partition's new lines in the root files of the log directory; None: no line."""

    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    first_dirty_offset: int | None = None


class ByteSink(Protocol):
    """Receives the bytes of a file that is too large for memory, in order."""

    def write(self, data: Buffer, /) -> object:
        """Write all of the bytes."""
