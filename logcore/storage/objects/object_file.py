"""One object as a file that is open for reading, of the version that was listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from logcore.storage.objects.object_reads import ObjectVersion, head, read_into, read_range
from logcore.storage.objects.remembered_reads import RememberedReads
from logcore.storage.source_errors import SourceUnreadable, shown


class ObjectFile:
    """An object; a `logcore.storage.opened_source.OpenedSource`.

    Args:
        url: Its name.
        version: The object as it was listed; None: as it is now, which costs a request.
        remembered: Small reads of earlier times; None: each read is a request.

    Raises:
        SourceUnreadable: It does not exist, or the store failed.
    """

    inode = 0
    is_remote = True
    unit_bytes = 1

    def __init__(
        self, url: str, version: ObjectVersion | None = None, remembered: RememberedReads | None = None
    ) -> None:
        self.path, self._remembered = url, remembered
        if version is None:
            try:
                version = ObjectVersion.of(head(url))
            except FileNotFoundError as error:
                raise SourceUnreadable("it is not there.", file=shown(url)) from error
        self.version = version

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.version.size

    @property
    def allocated(self) -> int:
        """Size in bytes: objects have no holes."""
        return self.version.size

    @property
    def modified_ms(self) -> int:
        """When it was put, in epoch milliseconds."""
        return self.version.modified_ms

    def read(self, size: int, position: int) -> bytes:
        """Read at most `size` bytes, with one request or from the memory.

        Raises:
            SourceUnreadable: The store failed.
            SourceChanged: Another object took its name.
        """
        end = min(position + size, self.size)
        if position >= end:
            return b""
        if self._remembered is None:
            return bytes(read_range(self.path, position, end, self.version))
        return self._remembered.read(self.path, position, end, self.version)

    def view(self, size: int, position: int) -> memoryview:
        """Read at most `size` bytes with one request, without another copy of them. Raises as `read`."""
        return memoryview(read_range(self.path, position, min(position + size, self.size), self.version))

    def fill(self, target: memoryview, position: int, gone: Callable[[int, int], bool]) -> None:
        """Read into the whole target. Raises as `read`."""
        read_into(self.path, target, position, self.version)

    def request(self, start: int, end: int) -> None:
        """Do nothing: an object has nothing to decode, so its bytes are read ahead as a whole."""

    def data_ranges(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the range itself: objects have no holes."""
        if start < end:
            yield start, end

    def refuse_change(self, *, sealed: bool, least_size: int | None = None, advice: str | None = None) -> None:
        """Do nothing: every read was of the version that was listed."""

    def close(self) -> None:
        """Do nothing: nothing is open between two reads."""
