"""A partition directory as a value, and what maintenance proposes to make of it.

What comes in is every file by its name, with its bytes and its time of change (which is state: retention and old
tombstones go by it), and what the root files of the log directory say of the partition. What goes out names each file
of the new directory:

    Keep    a file as it was, under its own or another name
    Cut     the first bytes of a file
    Write   new bytes

Nothing here opens or writes a file: `logcore.storage.partition_directories` reads one, `partition_output` writes one.
Bytes of a file may be read only when they are used. A reference to `content` keeps them in memory, so it is dropped
once its segment is done.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from logcore.records.varint import Buffer
from logcore.segments.filenames import TopicPartition, segment_base_offset
from logcore.segments.scanning.fetched_bytes import FetchedBytes


class HeldElsewhere(Protocol):
    """Bytes of a file that are read when they are asked for, and stay in memory for as long as someone holds them.

    Its members raise SourceChanged where the file is no longer as it was first seen, and SourceUnreadable.
    """

    @property
    def size(self) -> int:
        """Bytes of the file; nothing is read for it."""

    @property
    def content(self) -> Buffer:
        """All of them."""

    @property
    def fetched(self) -> FetchedBytes | None:
        """What knows more of them; its `content` is all of them, and all there."""


@dataclass(frozen=True, slots=True)
class PartitionFile:
    """A file, and when it was changed last, in milliseconds. held: its bytes, or who reads them."""

    name: str
    held: Buffer | HeldElsewhere
    modified_ms: int

    @property
    def content(self) -> Buffer:
        """The file's bytes. Raises as `HeldElsewhere` does."""
        return self.held if isinstance(self.held, BYTES) else self.held.content

    @property
    def fetched(self) -> FetchedBytes | None:
        """What knows more of the file's bytes, which are its `content`; None where nothing does."""
        return None if isinstance(self.held, BYTES) else self.held.fetched

    @property
    def size(self) -> int:
        """Bytes of the file; nothing is read for it."""
        return len(self.held) if isinstance(self.held, BYTES) else self.held.size

    def beginning(self, size: int, modified_ms: int) -> PartitionFile:
        """The first bytes of the file, changed at that time."""
        held = memoryview(self.held)[:size] if isinstance(self.held, BYTES) else _Beginning(self.held, size)
        return PartitionFile(self.name, held, modified_ms)


BYTES = (bytes, bytearray, memoryview, mmap.mmap)
"""What `Buffer` stands for."""


@dataclass(frozen=True, slots=True)
class _Beginning:
    whole: HeldElsewhere
    size: int
    fetched: None = None

    @property
    def content(self) -> Buffer:
        return memoryview(self.whole.content)[: self.size]


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """What a partition directory holds, and the lines of the root files about it.

    Of the lines None means that nothing states them. is_clean: whether the broker left its mark when it stopped.
    high_watermark_ms: when the file that states the high watermark was changed last, in epoch milliseconds; None
    without one.
    """

    topic_partition: TopicPartition
    files: Mapping[str, PartitionFile]
    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    first_dirty_offset: int | None = None
    is_clean: bool = False
    high_watermark_ms: int | None = None

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """Of the segments under their plain names, ascending."""
        found = (segment_base_offset(name) for name in self.files)
        return tuple(sorted(base_offset for base_offset in found if base_offset is not None))


@dataclass(frozen=True, slots=True)
class Keep:
    """The file `source` as it is, its time of change too."""

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
"""The files of a new partition directory, by name. What is not named is not in it."""


@dataclass(frozen=True, slots=True)
class RootLines:
    """What the root files of the log directory are to say of the partition; None: no line."""

    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    first_dirty_offset: int | None = None


class ByteSink(Protocol):
    """Takes the bytes of a file that is too large to be held, in order."""

    def write(self, data: Buffer, /) -> object: ...
