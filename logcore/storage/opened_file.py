"""A file of a source that is open for reading. `logcore.storage.opened_source` opens all kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator


class OpenedFile(ABC):
    """A file that is open for reading, as it was at the moment when it was opened or listed.

    Methods that most kinds do not need do nothing here: an object has nothing to request, to compare or to close.

    Attributes:
        path: Its path or name.
        size: Size in bytes.
        allocated: Approximate number of bytes outside of holes.
        is_remote: Whether each read is a request to another machine, so that fewer and larger reads are better.
        unit_bytes: A read costs as much as one of whole units of this size.
    """

    is_remote = False
    unit_bytes = 1

    def __init__(self, path: str, size: int, allocated: int | None = None) -> None:
        self.path, self.size, self.allocated = path, size, size if allocated is None else allocated

    @abstractmethod
    def read(self, size: int, position: int) -> bytes:
        """Read at most `size` bytes; fewer at the end of the file.

        Raises:
            SourceUnreadable: The bytes cannot be read.
            SourceChanged: The file is another one than it was.
        """

    def view(self, size: int, position: int) -> memoryview:
        """Read at most `size` bytes; from an object without another copy of them. Raises as `read`."""
        return memoryview(self.read(size, position))

    @abstractmethod
    def fill(self, target: memoryview, position: int, gone: Callable[[int, int], bool]) -> None:
        """Read into the whole target.

        Args:
            target: Gets the bytes.
            position: Of the first byte.
            gone: Gets the ranges that the disk fails to read, which stay zero, and returns whether to go on.

        Raises as `read`; SourceChanged also where the file ends early.
        """

    def request(self, start: int, end: int) -> None:  # noqa: B027
        """Say that start..end are read soon. A segment in chunks fetches the stored bytes meanwhile."""

    def data_ranges(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of start..end that are not holes. Raises as `read`. Only files of a disk have holes."""
        if start < end:
            yield start, end

    def refuse_change(self, *, sealed: bool, least_size: int | None = None, advice: str | None = None) -> None:  # noqa: B027
        """Raise SourceChanged if the file changed since it was opened; see `logcore.storage.files.refuse_change`."""

    def close(self) -> None:  # noqa: B027
        """Close it."""
