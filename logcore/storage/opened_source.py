"""The kinds of files that a source may have: on a local disk, on an object store, or a segment in chunks.

Everything that reads bytes of a source reads them through `OpenedFile`. `open_source` decides by the name which kind
it is.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import replace

from logcore.logs.model.sources import SegmentFile
from logcore.remote.stored_part import file_version
from logcore.storage.files import SECTOR, data_ranges, open_readonly, pread_range, refuse_change
from logcore.storage.objects.addresses import is_object
from logcore.storage.objects.object_reads import ObjectVersion, head, read_into, read_range
from logcore.storage.objects.remembered_reads import RememberedReads
from logcore.storage.opened_file import OpenedFile
from logcore.storage.remote_tier.chunked_segment import ChunkedSegment, is_chunked_segment
from logcore.storage.source_errors import SourceChanged, SourceUnreadable, shown, unreadable


class FirstPart(OpenedFile):
    """The bytes of an open file before a position, as a file that ends there.

    The next segment of a log may begin inside of a remote segment: another leader cut its segments elsewhere. The log
    then takes the bytes before the first batch of the next segment (`SegmentFile.end`).

    Args:
        whole: The file. It is closed with this object.
        end: The position.

    Raises:
        SourceChanged: The file ends before the position.
    """

    def __init__(self, whole: OpenedFile, end: int) -> None:
        super().__init__(whole.path, end, min(whole.allocated, end))
        self.is_remote, self.unit_bytes, self._whole = whole.is_remote, whole.unit_bytes, whole
        if whole.size < end:
            whole.close()
            raise SourceChanged(f"it has {whole.size} bytes, and its first {end} are read", file=shown(whole.path))

    def read(self, size: int, position: int) -> bytes:
        """Read at most `size` bytes; fewer at the end of the part. Raises as the file."""
        return self._whole.read(max(min(size, self.size - position), 0), position)

    def fill(self, target: memoryview, position: int, gone: Callable[[int, int], bool]) -> None:
        """Read into the whole target. Raises as the file; SourceChanged where the part ends early."""
        if position + len(target) > self.size:
            message = f"bytes up to {position + len(target)} were requested of its first {self.size}"
            raise SourceChanged(message, file=shown(self.path), position=position)
        self._whole.fill(target, position, gone)

    def request(self, start: int, end: int) -> None:
        """Say that start..end are read soon."""
        self._whole.request(start, min(end, self.size))

    def data_ranges(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of start..end that are not holes. Raises as the file."""
        yield from self._whole.data_ranges(start, min(end, self.size))

    def refuse_change(self, *, sealed: bool, least_size: int | None = None, advice: str | None = None) -> None:
        """Raise SourceChanged if the file changed since it was opened."""
        self._whole.refuse_change(sealed=sealed, least_size=least_size, advice=advice)

    def close(self) -> None:
        """Close the file."""
        self._whole.close()


class ObjectFile(OpenedFile):
    """An object. Every read is of the version that was listed, and nothing is open between two reads.

    Args:
        url: Its name.
        version: The object as it was listed; None: as it is now, which costs a request.
        remembered: Small reads of earlier times; None: each read is a request.

    Raises:
        SourceUnreadable: It does not exist, or the store failed.
    """

    is_remote = True

    def __init__(
        self, url: str, version: ObjectVersion | None = None, remembered: RememberedReads | None = None
    ) -> None:
        if version is None:
            try:
                version = ObjectVersion.of(head(url))
            except FileNotFoundError as error:
                raise SourceUnreadable("it is not there.", file=shown(url)) from error
        super().__init__(url, version.size)
        self.version, self._remembered = version, remembered

    def read(self, size: int, position: int) -> bytes:
        """Read at most `size` bytes, with one request or from the memory."""
        end = min(position + size, self.size)
        if position >= end:
            return b""
        if self._remembered is None:
            return bytes(read_range(self.path, position, end, self.version))
        return self._remembered.read(self.path, position, end, self.version)

    def view(self, size: int, position: int) -> memoryview:
        """Read at most `size` bytes with one request, without another copy of them."""
        return memoryview(read_range(self.path, position, min(position + size, self.size), self.version))

    def fill(self, target: memoryview, position: int, gone: Callable[[int, int], bool]) -> None:
        """Read into the whole target."""
        read_into(self.path, target, position, self.version)


def open_source(
    path: str, seen: SegmentFile | ObjectVersion | None = None, remembered: RememberedReads | None = None
) -> OpenedFile:
    """Open a file of a source.

    Args:
        path: The file.
        seen: The file when its directory was listed, or the version of an object that is known. An object must still be
            that one; so must a file of a disk whose version is `file_version`. Only the bytes before `SegmentFile.end`
            are there to read.
        remembered: Small reads of objects by earlier runs.

    Raises:
        SourceUnreadable: It cannot be opened, or is not a regular file.
        SourceChanged: It ends before `SegmentFile.end`.
    """
    if isinstance(seen, SegmentFile) and seen.end is not None:
        return FirstPart(open_source(path, replace(seen, end=None), remembered), seen.end)
    if is_chunked_segment(path):
        etag, modified_ms = (None, 0) if seen is None else (seen.etag, seen.modified_ms)
        chunk_map = seen.chunk_map if isinstance(seen, SegmentFile) else None
        return ChunkedSegment(path, open_stored, etag, modified_ms, chunk_map)
    if is_object(path):
        return ObjectFile(path, None if seen is None else ObjectVersion.of(seen), remembered)
    return LocalFile(path, None if seen is None else seen.etag)


def open_stored(path: str, version: ObjectVersion | None = None) -> ObjectFile | LocalFile:
    """Open a file or an object with its bytes as they are stored.

    Args:
        path: The file.
        version: The version of an object that is known; None: as it is now.

    Raises:
        SourceUnreadable: It cannot be opened, or is not a regular file.
    """
    return ObjectFile(path, version) if is_object(path) else LocalFile(path, None if version is None else version.etag)


class LocalFile(OpenedFile):
    """A regular file of a local disk. Links are not followed."""

    def __init__(self, path: str, version: str | None = None) -> None:
        """Open the file.

        Args:
            path: The file.
            version: Its `file_version` when it was registered; None or empty: it is used as it is now.

        Raises:
            SourceUnreadable: It cannot be opened, or is not a regular file.
            SourceChanged: It is another version.
        """
        self._stream = open_readonly(path)
        self._seen = os.fstat(self._stream.fileno())
        super().__init__(path, self._seen.st_size, min(self._seen.st_size, self._seen.st_blocks * 512))
        now = file_version(self.size, self._seen.st_mtime_ns // 1_000_000)
        if version and version != now:
            self._stream.close()
            raise SourceChanged(f"it was registered as a {version}, and is a {now}", file=shown(path))

    def read(self, size: int, position: int) -> bytes:
        """Read at most `size` bytes; fewer at the end of the file."""
        return pread_range(self._stream, self.path, size, position)

    def fill(self, target: memoryview, position: int, gone: Callable[[int, int], bool]) -> None:
        """Read into the whole target; see `OpenedFile.fill`."""
        done, size = 0, len(target)
        while done < size:
            try:
                with target[done:] as left:
                    given = os.preadv(self._stream.fileno(), [left], position + done)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise unreadable(self.path, error) from error
                self._fill_around(target, position, done, gone, error)
                return
            if not given:
                message = f"it was truncated while it was read: byte {position + done} of {self.size} is gone"
                raise SourceChanged(message, file=shown(self.path), position=position + done)
            done += given

    def data_ranges(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of start..end that are not holes."""
        if self.allocated < self.size:
            yield from data_ranges(self._stream, self.path, start, end)
        else:
            yield from super().data_ranges(start, end)

    def refuse_change(self, *, sealed: bool, least_size: int | None = None, advice: str | None = None) -> None:
        """Raise SourceChanged if the file changed since it was opened."""
        refuse_change(self.path, self._seen, sealed=sealed, least_size=least_size, advice=advice)

    def close(self) -> None:
        """Close it."""
        self._stream.close()

    def _fill_around(
        self, target: memoryview, position: int, done: int, gone: Callable[[int, int], bool], error: OSError
    ) -> None:
        """Halve the rest of a failed read until the failing sectors are known."""
        start, end = position + done, position + len(target)
        if end - start <= SECTOR:
            if not gone(start, end):
                raise unreadable(self.path, error) from error
            return
        middle = max((start + end) // 2 // SECTOR, start // SECTOR + 1) * SECTOR
        for low, high in ((start, middle), (middle, end)):
            with target[low - position : high - position] as part:
                self.fill(part, low, gone)
