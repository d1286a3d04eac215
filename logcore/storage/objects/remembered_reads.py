"""Small reads of objects that are kept from one run to the next, by the ETag of the object.

A run looks at few bytes of each log before it knows that nothing is new: at the checkpoint files, and at one batch
header. An object with the same ETag has the same bytes, so they need not be read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from logcore.storage.objects.object_reads import ObjectVersion, read_range, whole_object

MOST_BYTES = 1 << 20
"""Larger objects are not kept: a checkpoint file has a line for each log."""
MOST_HEADER_BYTES = 61
"""Longer reads within an object are not kept: they would have keys and values of records."""
MOST_BYTES_IN_ALL = 64 << 20
"""More bytes are not kept."""


@dataclass(frozen=True, slots=True)
class RememberedRead:
    """Bytes start..end of the object with an ETag."""

    url: str
    etag: str
    start: int
    end: int
    content: bytes


@dataclass(slots=True)
class RememberedReads:
    """Reads by object and range.

    Attributes:
        is_changed: Whether the reads that were used differ from those that were known at first.
    """

    _known: dict[tuple[str, int, int], RememberedRead] = field(default_factory=dict)
    _used: dict[tuple[str, int, int], RememberedRead] = field(default_factory=dict)
    is_changed: bool = False
    _nbytes: int = 0

    @classmethod
    def of(cls, reads: Iterable[RememberedRead]) -> RememberedReads:
        """What an earlier run has kept."""
        return cls({(read.url, read.start, read.end): read for read in reads})

    def __iter__(self) -> Iterator[RememberedRead]:
        """The reads that were used since this object was made, in the order of their names."""
        return iter(self._used[key] for key in sorted(self._used))

    def known(self, url: str, start: int, end: int, version: ObjectVersion) -> bytes | None:
        """The bytes of a read; None if they are not known of this version."""
        key = (url, start, end)
        read = self._known.get(key)
        if read is None or not version.etag or read.etag != version.etag or len(read.content) != end - start:
            return None
        if key not in self._used:
            self._used[key] = read
            self._nbytes += end - start
        return read.content

    def keep(self, read: RememberedRead) -> None:
        """Keep a read, unless it is long or the object has no ETag."""
        nbytes = len(read.content)
        if read.etag and nbytes <= MOST_BYTES and self._nbytes + nbytes <= MOST_BYTES_IN_ALL:
            self._nbytes += nbytes
            key = (read.url, read.start, read.end)
            self._known[key] = self._used[key] = read
            self.is_changed = True

    def read(self, url: str, start: int, end: int, version: ObjectVersion) -> bytes:
        """Bytes start..end of an object, from the memory or with one request.

        Raises:
            SourceUnreadable: The store failed.
            SourceChanged: It is not that version any more.
        """
        content = self.known(url, start, end, version)
        if content is None:
            content = bytes(read_range(url, start, end, version))
            if end - start <= MOST_HEADER_BYTES:
                self.keep(RememberedRead(url, version.etag, start, end, content))
        return content

    def whole(self, url: str, limit: int, version: ObjectVersion) -> bytes:
        """A whole small object, from the memory or with one request. Raises as `read`."""
        content = self.known(url, 0, version.size, version)
        if content is None:
            content = whole_object(url, limit, version)
            self.keep(RememberedRead(url, version.etag, 0, version.size, content))
        return content
