"""Files of a partition directory that are loaded into memory on request, whole, with ordinary reads.

Maintenance does not read all files of a log at once. The files that were used last stay in memory, up to `KEPT_BYTES`;
other files live as long as they are referenced. Each read checks that the file did not change since it was first seen.
"""

from __future__ import annotations

import gc
import os
from collections import OrderedDict

from logcore.records.varint import Buffer
from logcore.storage.files import open_readonly, refuse_change
from logcore.storage.source_bytes import SourceBytes
from logcore.storage.source_errors import SourceUnreadable, shown

KEPT_BYTES = 256 << 20
"""Bytes of files that may be unreferenced. The file that was requested last is kept, even if it is larger."""
KEPT_FILES = 64
_MUCH = 64 << 20
_ADVICE = "Stop the program that writes there, and run the same command again."


class LoadedFiles:
    """The files that were requested last.

    Args:
        reads_around: Replace sectors that the disk fails to read by zeros, which `SourceBytes` reports. Otherwise such
            a file is an error.
    """

    def __init__(self, *, reads_around: bool = False) -> None:
        self._reads_around = reads_around
        self._kept: OrderedDict[str, tuple[SourceBytes, int]] = OrderedDict()
        self._nbytes = 0

    def file(self, path: str) -> SourceFile:
        """Return a file as it is now.

        Raises:
            SourceUnreadable: The file cannot be opened.
        """
        with open_readonly(path) as stream:
            return SourceFile(path, os.fstat(stream.fileno()), self)

    def load(self, file: SourceFile) -> SourceBytes:
        """Load all bytes of a file.

        Raises:
            SourceChanged: The file changed since it was first seen.
            SourceUnreadable: The file cannot be read.
        """
        known = self._kept.pop(file.path, None)
        if known is None:
            self._make_room(file.allocated)
            file.refuse_change()
            source = SourceBytes(file.path, sealed=True)
            nbytes = source.fetch_all()
            file.refuse_change()  # this checks the path, and so the open file: both are the same file
            if not self._reads_around:
                _refuse_unreadable(source, file.path)
            self._nbytes += nbytes
            known = source, nbytes
        self._kept[file.path] = known
        return known[0]

    def _make_room(self, nbytes: int) -> None:
        """Remove files before a read, so that memory never exceeds the limit or the new file."""
        before = self._nbytes
        while self._kept and (self._nbytes + nbytes > KEPT_BYTES or len(self._kept) >= KEPT_FILES):
            _, (_, gone) = self._kept.popitem(last=False)
            self._nbytes -= gone
        if before - self._nbytes >= _MUCH:
            gc.collect()  # a reader may be in a reference cycle that keeps the bytes


class SourceFile:
    """One file as it was first seen: a `logcore.logs.model.partition_directory.LazyBytes`."""

    def __init__(self, path: str, seen: os.stat_result, files: LoadedFiles) -> None:
        self.path = path
        self._seen, self._files = seen, files

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._seen.st_size

    @property
    def allocated(self) -> int:
        """Approximate number of bytes outside of holes."""
        return min(self._seen.st_size, self._seen.st_blocks * 512)

    @property
    def modified_ns(self) -> int:
        """Modification time in nanoseconds."""
        return self._seen.st_mtime_ns

    @property
    def content(self) -> Buffer:
        """All bytes of the file, valid while referenced. Raises as `LoadedFiles.load`."""
        return self._files.load(self).content

    @property
    def fetched(self) -> SourceBytes:
        """The loaded bytes with their details, such as unreadable ranges. Raises as `LoadedFiles.load`."""
        return self._files.load(self)

    def refuse_change(self) -> None:
        """Raise SourceChanged if the file changed since it was first seen."""
        refuse_change(self.path, self._seen, sealed=True, advice=_ADVICE)


def _refuse_unreadable(source: SourceBytes, path: str) -> None:
    gone = source.unreadable(0, source.size)
    if gone:
        nbytes = sum(end - start for start, end in gone)
        raise SourceUnreadable(
            f"the disk failed to read {nbytes} bytes of it, starting at this position",
            file=shown(path),
            position=gone[0][0],
            advice="Try `loglake recover --salvage`, or restore the file from another replica.",
        )
