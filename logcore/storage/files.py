"""Open, read and copy local files: the only module of `logcore` that opens files.

It never opens a source for writing, and never follows a link at the end of a path. Other modules decide what the bytes
mean, and which file is a segment of which log.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, TextIO

from logcore.errors import LogError
from logcore.ranges import joined
from logcore.storage.source_errors import SourceChanged, SourceUnreadable, refuse_large, shown, unreadable

CHUNK = 8 << 20
"""Bytes read at a time from a source."""
SECTOR = 4096
"""Bytes that are skipped where the disk fails to read them."""
MOST_SECTORS = 1000
"""Most sectors of one file that are skipped. Above that the whole file is unreadable: each sector may cost seconds."""
_HOLE = 1 << 16
"""A run of this many zeros becomes a hole in a copy."""

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a disk that cannot store more bytes."""


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """The result of `copy_range`.

    Attributes:
        size: Bytes.
        sha256: None if it was not requested.
        unreadable: Positions in the source that the disk failed to read, as ascending ranges.
    """

    size: int
    sha256: str | None
    unreadable: tuple[tuple[int, int], ...] = ()


def open_readonly(path: str) -> BinaryIO:
    """Open a regular file as an unbuffered stream. Links are not followed, and pipes do not block.

    Raises:
        SourceUnreadable: The file cannot be opened, or is not a regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SourceUnreadable("it is not a regular file", file=shown(path))
    return os.fdopen(descriptor, "rb", buffering=0)


def read_file(path: str, limit: int | None = None) -> bytes:
    """Read a whole file, up to its size when it was opened.

    Raises:
        SourceUnreadable: The file cannot be read, or has more than `limit` bytes.
    """
    with open_readonly(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        refuse_large(path, size, limit)
        return b"".join(chunks(partial(pread_range, stream, path), path, 0, size))


@contextmanager
def map_file(path: str) -> Iterator[mmap.mmap | bytes]:
    """Map a file for reading until the context ends; see `mapped_file`."""
    mapped = mapped_file(path)
    try:
        yield mapped
    finally:
        if isinstance(mapped, mmap.mmap):
            with suppress(BufferError):  # a view may still exist; the last one closes the map
                mapped.close()


def mapped_file(path: str) -> mmap.mmap | bytes:
    """Map a file for reading, for as long as the result is referenced.

    Only for files that are never truncated, such as our archive: access to a mapped byte after the end of the file
    kills the process.

    Raises:
        SourceUnreadable: The file cannot be opened or mapped.
    """
    with open_readonly(path) as stream:
        if os.fstat(stream.fileno()).st_size == 0:
            return b""  # the operating system cannot map an empty file
        try:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise unreadable(path, error) from error


@contextmanager
def written_in(directory: str) -> Iterator[None]:
    """Give errors of the system that name no file the directory: a full disk names none, nor do Arrow's errors.

    Args:
        directory: Where the caller writes.

    Raises:
        OSError: As in the block.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            raise OSError(error.errno, os.strerror(error.errno), directory) from error
        raise


@contextmanager
def new_text(path: str) -> Iterator[TextIO]:
    """Create a UTF-8 text file for a command's output; bytes that are not text become escapes.

    The file gets a temporary name beside its place, and its own name when it is complete and on disk. If the caller
    fails, no file remains.

    Raises:
        LogError: The file exists already or cannot be written.
    """
    unfinished = f"{path}.{uuid.uuid4().hex}.writing"
    try:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        stream = open(unfinished, "x", encoding="utf-8", errors="backslashreplace", newline="")  # noqa: SIM115
    except (OSError, ValueError) as error:
        raise _not_written(path, error) from error
    try:
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.rename(unfinished, path)
        except OSError as error:
            raise _not_written(path, error) from error
    except BaseException as error:
        with suppress(OSError):
            os.unlink(unfinished)
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            advice = "The unfinished file was removed. Make room, or choose another place."
            raise _not_written(path, error, advice) from error
        raise


def _not_written(path: str, error: Exception, advice: str | None = None) -> LogError:
    message = f"it cannot be written: {getattr(error, 'strerror', None) or error}."
    return LogError(message, file=shown(path), advice=advice)


def copy_range(
    source: str,
    start: int,
    end: int | None,
    destination: str,
    *,
    sealed: bool = False,
    is_summed: bool = True,
    reads_around: bool = False,
    is_synced: bool = True,
) -> CopiedRange:
    """Copy bytes start..end of a source's file into a new file, unless the source changes meanwhile.

    The source is checked before and after: it must be the same file and still contain the range. If it is `sealed`, its
    size and modification time must be the same too. The destination must not exist. On an error it is removed. The
    caller renames it. Holes and long runs of zeros become holes in the destination.

    Args:
        source: Path of the source's file.
        start: First byte.
        end: Exclusive end; None for the end of the file when it is opened.
        destination: Path of the new file.
        sealed: No process may write to the source any more.
        is_summed: Compute the SHA-256, with zeros for holes.
        reads_around: Write zeros for sectors that the disk fails to read. Otherwise they raise SourceUnreadable.
        is_synced: Return when the copy is on disk. Otherwise the caller syncs it.

    Raises:
        SourceUnreadable: The source cannot be read.
        SourceChanged: The source changed.
        OSError: The destination cannot be written.
    """
    with open_readonly(source) as stream:
        before = os.fstat(stream.fileno())
        end = before.st_size if end is None else end
        if not 0 <= start <= end <= before.st_size:
            message = f"bytes {start} to {end} of {before.st_size} cannot be copied"
            raise SourceChanged(message, file=shown(source), position=start)
        digest = hashlib.sha256() if is_summed else None
        gone: list[tuple[int, int]] = []
        output = os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            with os.fdopen(output, "wb", buffering=0) as target:
                os.ftruncate(target.fileno(), end - start)
                done = start
                for low, chunk in _data(stream, source, start, end, gone if reads_around else None):
                    if digest is not None:
                        _sum_zeros(digest, low - done)
                        digest.update(chunk)
                    done = low + len(chunk)
                    write_all(target.fileno(), chunk, low - start)
                if digest is not None:
                    _sum_zeros(digest, end - done)
                if is_synced:
                    os.fsync(target.fileno())
            refuse_change(source, before, sealed=sealed, least_size=before.st_size if sealed else end)
        except BaseException:
            os.unlink(destination)
            raise
    sha256 = None if digest is None else digest.hexdigest()
    return CopiedRange(end - start, sha256, joined(gone))


def refuse_change(
    path: str, seen: os.stat_result, *, sealed: bool, least_size: int | None = None, advice: str | None = None
) -> None:
    """Raise SourceChanged if a file changed since it was opened.

    Args:
        path: The file.
        seen: Its state when it was opened.
        sealed: Appended bytes are a change too.
        least_size: Bytes that must still exist; by default all of them.
        advice: Advice for the error.
    """
    name, least = shown(path), seen.st_size if least_size is None else least_size
    try:
        now = os.stat(path, follow_symlinks=False)
    except OSError as error:
        raise SourceChanged("it was removed while it was read", file=name, advice=advice) from error
    if (now.st_dev, now.st_ino) != (seen.st_dev, seen.st_ino):
        raise SourceChanged("another file took its name while it was read", file=name, advice=advice)
    if now.st_size < least:
        message = f"it shrank from {least} to {now.st_size} bytes while it was read"
        raise SourceChanged(message, file=name, position=now.st_size, advice=advice)
    if sealed and (now.st_size, now.st_mtime_ns) != (seen.st_size, seen.st_mtime_ns):
        raise SourceChanged("it was written to while it was read", file=name, advice=advice)


def chunks(read: Callable[[int, int], bytes], path: str, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks that are not too large.

    Args:
        read: Reads so many bytes at a position.
        path: The file.
        start: The position of the first byte.
        end: The position after the last one.

    Raises:
        SourceChanged: The file ends early.
    """
    while start < end:
        chunk = read(min(CHUNK, end - start), start)
        if not chunk:
            raise SourceChanged(f"it ended at byte {start}, {end - start} bytes early", file=shown(path))
        start += len(chunk)
        yield chunk


def pread_range(stream: BinaryIO, path: str, size: int, position: int) -> bytes:
    """Bytes of a file at a position.

    Raises:
        SourceUnreadable: The system does not give them.
    """
    try:
        return os.pread(stream.fileno(), size, position)
    except OSError as error:
        raise unreadable(path, error) from error


def data_ranges(stream: BinaryIO, path: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of start..end that are not holes, as far as the file system reports holes.

    Raises:
        SourceUnreadable: The file cannot be read.
        SourceChanged: The file ends before `end`.
    """
    status = os.fstat(stream.fileno())
    if status.st_blocks * 512 >= status.st_size or not hasattr(os, "SEEK_DATA"):
        if start < end:
            yield start, end
        return
    while start < end:
        try:
            begin = os.lseek(stream.fileno(), start, os.SEEK_DATA)
            hole = os.lseek(stream.fileno(), begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.EINVAL:  # the file system does not report holes
                begin, hole = start, end
            elif error.errno == errno.ENXIO:  # only a hole is left, or the file was truncated
                now = os.fstat(stream.fileno()).st_size
                if now < end:
                    message = f"it was truncated while it was read: byte {now} of {end} is gone"
                    raise SourceChanged(message, file=shown(path), position=now) from error
                return
            else:
                raise unreadable(path, error) from error
        if begin < end:
            yield begin, min(hole, end)
        start = max(hole, start + 1)


def _data(
    stream: BinaryIO, path: str, start: int, end: int, gone: list[tuple[int, int]] | None
) -> Iterator[tuple[int, bytes]]:
    """Yield (position, bytes) of the data that is not zero, in whole pieces.

    Args:
        stream: The open file.
        path: Its path, for errors.
        start: First byte.
        end: Exclusive end.
        gone: Receives the ranges that the disk fails to read; they count as zeros. None: they are an error.
    """
    zeros = bytes(_HOLE)
    for low, high in data_ranges(stream, path, start, end):
        for position, chunk in _read(stream, path, low, high, gone):
            begun: int | None = None
            for at in range(0, len(chunk), _HOLE):
                if chunk.startswith(zeros, at):
                    if begun is not None:
                        yield position + begun, chunk[begun:at]
                    begun = None
                elif begun is None:
                    begun = at
            if begun is not None:
                yield position + begun, chunk[begun:] if begun else chunk


def _read(
    stream: BinaryIO, path: str, start: int, end: int, gone: list[tuple[int, int]] | None
) -> Iterator[tuple[int, bytes]]:
    """Yield bytes start..end in pieces; one sector at a time where the disk fails."""
    after_failed = start  # the end of the piece that failed as a whole
    while start < end:
        size = min(CHUNK if start >= after_failed else SECTOR - start % SECTOR, end - start)
        try:
            chunk = os.pread(stream.fileno(), size, start)
        except OSError as error:
            if error.errno != errno.EIO or gone is None:
                raise unreadable(path, error).at(position=start) from error
            if start >= after_failed and size > SECTOR:
                after_failed = start + size
                continue
            gone.append((start, start + size))
            if len(gone) > MOST_SECTORS:
                raise unreadable(path, error).at(position=gone[0][0]) from error
            start += size
            continue
        if not chunk:
            raise SourceChanged(f"it ended at byte {start}, {end - start} bytes early", file=shown(path))
        yield start, chunk
        start += len(chunk)


def _sum_zeros(digest: hashlib._Hash, count: int) -> None:
    zeros = bytes(min(count, CHUNK))
    for at in range(0, count, CHUNK):
        digest.update(zeros[: count - at])


def write_all(descriptor: int, content: bytes | memoryview, position: int) -> None:
    """Write bytes at a position of a file."""
    left = memoryview(content)
    while left:
        written = os.pwrite(descriptor, left, position)
        left, position = left[written:], position + written
