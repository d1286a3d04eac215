"""A segment's bytes that are loaded into memory on request.

A scan over bytes that are all in memory needs none of this. A scan over a file that may change or fail requests bytes
before it reads them. Bytes that were not requested read as zeros.
"""

from __future__ import annotations

from typing import Protocol

from logcore.records.varint import Buffer


class FetchedBytes(Protocol):
    """The bytes of one file, at their positions in it; `logcore.storage.source_bytes` fetches them.

    Each method raises LogError if the file cannot be read or has changed.
    """

    @property
    def content(self) -> Buffer:
        """As long as the file was when it was opened. Only fetched bytes are present."""

    def fetch(self, start: int, end: int) -> None:
        """Load bytes start..end into memory. Positions after the end of the file are ignored."""

    def read(self, start: int, end: int) -> bytes:
        """Return a copy of bytes start..end and do not add it to `content`. For a search that needs few bytes again."""

    def fetch_batch(self, position: int) -> int:
        """Load the batch at a position into memory, as far as its size field fits the file.

        Returns:
            The position after the batch, or `position` itself if the size field is invalid.
        """

    def release(self, end: int) -> None:
        """Release the bytes before `end`. A later reader of them must fetch them again."""

    def unreadable(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """The ranges of start..end that the disk failed to read, ascending, as far as they were requested. They read as
        zeros.
        """

    def next_data(self, position: int) -> int:
        """The first position at or after `position` that is not in a hole of a sparse file; the file's size if only a
        hole is left.
        """

    def zeros_from(self) -> int:
        """Where the zeros at the end of the file begin; the file's size if it does not end in zeros."""
