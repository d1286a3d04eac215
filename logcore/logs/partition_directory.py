"""A partition directory as a value, and what maintenance proposes to make of it.

What comes in is every file by its name, with its bytes and its time of change (which is state: retention and old
tombstones go by it), and what the root files of the log directory say of the partition. What goes out names each file
of the new directory:

    Keep    a file as it was, under its own or another name
    Cut     the first bytes of a file
    Write   new bytes

Nothing here opens or writes a file: `logcore.storage.partition_directories` reads one, `partition_output` writes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from logcore.records.varint import Buffer
from logcore.segments.filenames import TopicPartition, segment_base_offset


@dataclass(frozen=True, slots=True)
class PartitionFile:
    """A file's bytes, and when it was changed last, in milliseconds."""

    name: str
    content: Buffer
    modified_ms: int


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """What a partition directory holds, and the lines of the root files about it.

    Of the lines None means that nothing states them. is_clean: whether the broker left its mark when it stopped.
    """

    topic_partition: TopicPartition
    files: Mapping[str, PartitionFile]
    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    first_dirty_offset: int | None = None
    is_clean: bool = False

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
