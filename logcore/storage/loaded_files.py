"""Files of a partition directory that come into memory when they are asked for, whole, by ordinary reads.

Nobody reads all files of a log at once: a segment is looked at, and let go. What was looked at last is kept for whoever
asks again, up to `KEPT_BYTES`; everything else lives as long as someone holds it. Each time a file is read it must be
what it was when it was first seen.
"""

from __future__ import annotations

import gc
import os
from collections import OrderedDict

from logcore.records.varint import Buffer
from logcore.storage.files import SourceUnreadable, open_readonly, refuse_change, shown
from logcore.storage.source_bytes import SourceBytes

KEPT_BYTES = 256 << 20
"""Of files that nobody may hold any more; the file that was asked for last is kept, however large it is."""
KEPT_FILES = 64
_MUCH = 64 << 20
_ADVICE = "Stop whoever writes there, and type the same command again."


class LoadedFiles:
    """The files that were asked for last. reads_around: sectors that the disk fails to read are zeros in memory, as
    `SourceBytes` tells; else such a file is an error."""

    def __init__(self, *, reads_around: bool = False) -> None:
        self._reads_around = reads_around
        self._kept: OrderedDict[str, tuple[SourceBytes, int]] = OrderedDict()
        self._nbytes = 0

    def file(self, path: str) -> SourceFile:
        """A file as it is now. Raises SourceUnreadable."""
        with open_readonly(path) as stream:
            return SourceFile(path, os.fstat(stream.fileno()), self)

    def load(self, file: SourceFile) -> SourceBytes:
        """All bytes of a file. Raises SourceChanged, SourceUnreadable."""
        known = self._kept.pop(file.path, None)
        if known is None:
            self._make_room(file.allocated)
            file.refuse_change()
            source = SourceBytes(file.path, sealed=True)
            nbytes = source.fetch_all()
            file.refuse_change()  # of the path, and so of what was opened: it is the same file again
            if not self._reads_around:
                _refuse_unreadable(source, file.path)
            self._nbytes += nbytes
            known = source, nbytes
        self._kept[file.path] = known
        return known[0]

    def _make_room(self, nbytes: int) -> None:
        """In front of the reading, so that no more is held than what is kept or what is read."""
        before = self._nbytes
        while self._kept and (self._nbytes + nbytes > KEPT_BYTES or len(self._kept) >= KEPT_FILES):
            _, (_, gone) = self._kept.popitem(last=False)
            self._nbytes -= gone
        if before - self._nbytes >= _MUCH:
            gc.collect()  # who looked at it may hold itself, and it with it


class SourceFile:
    """One file, as it was first seen: a `logcore.logs.model.partition_directory.HeldElsewhere`."""

    def __init__(self, path: str, seen: os.stat_result, files: LoadedFiles) -> None:
        self.path = path
        self._seen, self._files = seen, files

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._seen.st_size

    @property
    def allocated(self) -> int:
        """Bytes of the file that are no hole, about."""
        return min(self._seen.st_size, self._seen.st_blocks * 512)

    @property
    def modified_ns(self) -> int:
        """When it was changed last, in nanoseconds."""
        return self._seen.st_mtime_ns

    @property
    def content(self) -> Buffer:
        """All bytes of the file, for as long as someone holds them. Raises SourceChanged, SourceUnreadable."""
        return self._files.load(self).content

    @property
    def fetched(self) -> SourceBytes:
        """What knows more of these bytes. Raises SourceChanged, SourceUnreadable."""
        return self._files.load(self)

    def refuse_change(self) -> None:
        """Raise SourceChanged if the file is no longer what it was when it was first seen."""
        refuse_change(self.path, self._seen, sealed=True, advice=_ADVICE)


def _refuse_unreadable(source: SourceBytes, path: str) -> None:
    gone = source.unreadable(0, source.size)
    if gone:
        nbytes = sum(end - start for start, end in gone)
        raise SourceUnreadable(
            f"the disk failed to read {nbytes} bytes of it, from this position on",
            file=shown(path),
            position=gone[0][0],
            advice="See what `loglake recover --salvage` makes of it, or bring the file back from another replica.",
        )
