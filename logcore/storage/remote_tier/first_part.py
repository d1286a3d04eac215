"""The first bytes of a remote segment, as a file that ends there.

The next segment of a log may begin inside of a remote segment: another leader cut its segments elsewhere. The log then
takes the bytes before the first batch of the next segment (`SegmentFile.end`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from logcore.storage.source_errors import SourceChanged, shown

if TYPE_CHECKING:
    from logcore.storage.opened_source import OpenedSource


class FirstPart:
    """The bytes of an open file before a position; a `logcore.storage.opened_source.OpenedSource`.

    Args:
        whole: The file. It is closed with this object.
        end: The position.

    Raises:
        SourceChanged: The file ends before the position.
    """

    def __init__(self, whole: OpenedSource, end: int) -> None:
        self.path, self._whole, self._end = whole.path, whole, end
        if whole.size < end:
            whole.close()
            raise SourceChanged(f"it has {whole.size} bytes, and its first {end} are read", file=shown(whole.path))

    @property
    def is_remote(self) -> bool:
        """Whether each read is a request to another machine."""
        return self._whole.is_remote

    @property
    def unit_bytes(self) -> int:
        """As of the file."""
        return self._whole.unit_bytes

    @property
    def size(self) -> int:
        """Size of the part in bytes."""
        return self._end

    @property
    def allocated(self) -> int:
        """Approximate number of bytes outside of holes."""
        return min(self._whole.allocated, self._end)

    @property
    def modified_ms(self) -> int:
        """Modification time of the file in epoch milliseconds."""
        return self._whole.modified_ms

    @property
    def inode(self) -> int:
        """The inode of the file; 0 for an object."""
        return self._whole.inode

    def read(self, size: int, position: int) -> bytes:
        """Read at most `size` bytes; fewer at the end of the part. Raises as the file."""
        return self._whole.read(max(min(size, self._end - position), 0), position)

    def fill(self, target: memoryview, position: int, gone: Callable[[int, int], bool]) -> None:
        """Read into the whole target. Raises as the file; SourceChanged where the part ends early."""
        if position + len(target) > self._end:
            message = f"bytes up to {position + len(target)} were requested of its first {self._end}"
            raise SourceChanged(message, file=shown(self.path), position=position)
        self._whole.fill(target, position, gone)

    def request(self, start: int, end: int) -> None:
        """Say that start..end are read soon."""
        self._whole.request(start, min(end, self._end))

    def data_ranges(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of start..end that are not holes. Raises as the file."""
        yield from self._whole.data_ranges(start, min(end, self._end))

    def refuse_change(self, *, sealed: bool, least_size: int | None = None, advice: str | None = None) -> None:
        """Raise SourceChanged if the file changed since it was opened."""
        self._whole.refuse_change(sealed=sealed, least_size=least_size, advice=advice)

    def close(self) -> None:
        """Close the file."""
        self._whole.close()
