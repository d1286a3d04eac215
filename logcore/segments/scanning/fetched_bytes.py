"""A segment's bytes that come into memory when they are asked for: what a walk over them needs to know.

A walk over bytes that are all there needs none of this. A walk over a file that may change or fail asks for bytes
before it looks at them. Bytes that nobody asked for read as zeros.
"""

from __future__ import annotations

from typing import Protocol

from logcore.records.varint import Buffer


class FetchedBytes(Protocol):
    """The bytes of one file, at the positions that they have in it; `logcore.storage.source_bytes` fetches them.

    Each method raises LogError where the file cannot be read or has changed.
    """

    @property
    def content(self) -> Buffer:
        """As long as the file was when it was opened. Only bytes that were fetched are there."""

    def fetch(self, start: int, end: int) -> None:
        """Have bytes start..end in memory. Positions behind the end of the file are ignored."""

    def read(self, start: int, end: int) -> bytes:
        """A copy of bytes start..end, which stays out of `content`: for a search, of which little is needed again."""

    def fetch_batch(self, position: int) -> int:
        """Have the batch at a position in memory, as far as its size field fits the file. The position behind it;
        `position` itself if the size field cannot be right."""

    def release(self, end: int) -> None:
        """Nobody looks at bytes in front of `end` any more; who does must fetch them again."""

    def is_zero_from(self, position: int) -> bool:
        """Whether all bytes from a position to the end of the file are zero."""

    def unreadable(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """Of bytes start..end those that the disk failed to read, as ascending ranges; as far as they were asked for.
        They read as zeros."""

    def next_data(self, position: int) -> int:
        """The position from which on bytes may be other than zero: `position`, or the end of the hole that it lies in;
        the file's size where nothing but a hole is left."""

    def zeros_from(self) -> int:
        """Where the zeros at the end of the file begin; its size if it does not end in any."""
