"""Opening, reading and copying local files: the only module of `logcore` that opens any.

Nothing here opens a source for writing or follows a link at the end of a path. What the bytes mean, and which file is
a segment of which log, is asked elsewhere.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import stat
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO, TextIO

from logcore.errors import LogError
from logcore.logs.model.sources import SegmentFile

CHUNK = 8 << 20
"""Bytes read at a time from a source."""
SECTOR = 4096
"""Bytes that are given up where the disk fails to read them."""
MOST_SECTORS = 1000
"""Sectors of one file that are given up; with more the whole file is unreadable: each may cost seconds."""
_HOLE = 1 << 16
"""Zeros in a row that a copy leaves out as a hole."""

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What a disk says that takes no more bytes."""


class SourceUnreadable(LogError):
    """The operating system does not let us read something: permission, an I/O error, or it is no regular file."""


class SourceChanged(LogError):
    """A source's file changed while it was read, or since it was seen: what was read is worth nothing. Try again."""


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """What `copy_range` wrote: its size in bytes and SHA-256 (None if nobody asked), and the file it came from as seen
    before and after. unreadable: positions in the source of what the disk failed to read, ascending ranges."""

    size: int
    sha256: str | None
    source_size: int
    source_modified_ms: int
    source_inode: int
    unreadable: tuple[tuple[int, int], ...] = ()


def shown(path: str) -> str:
    """A path fit for a message: bytes that are no UTF-8 and control characters are written as escapes."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def open_readonly(path: str) -> BinaryIO:
    """An unbuffered stream over a regular file, opened for reading; links are not followed, pipes not waited for.

    Raises SourceUnreadable.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SourceUnreadable("it is not a regular file", file=shown(path))
    return os.fdopen(descriptor, "rb", buffering=0)


def read_range(path: str, start: int, end: int) -> bytes:
    """Bytes start..end of a file. Raises SourceUnreadable, and SourceChanged if the file ends before `end`."""
    with open_readonly(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if not 0 <= start <= end <= size:
            raise SourceChanged(f"bytes {start} to {end} were asked of {size}", file=shown(path), position=start)
        return b"".join(_chunks(stream, path, start, end))


def read_file(path: str, limit: int | None = None) -> bytes:
    """A whole file, as long as it was when opened. Raises SourceUnreadable, also for a file above `limit` bytes."""
    with open_readonly(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if limit is not None and size > limit:
            raise SourceUnreadable(f"it has {size} bytes where at most {limit} make sense", file=shown(path))
        return b"".join(_chunks(stream, path, 0, size))


@contextmanager
def map_file(path: str) -> Iterator[mmap.mmap | bytes]:
    """A file mapped for reading while the context lasts; see `mapped_file`."""
    mapped = mapped_file(path)
    try:
        yield mapped
    finally:
        if isinstance(mapped, mmap.mmap):
            with suppress(BufferError):  # a view of it may still be alive; the last one closes it
                mapped.close()


def mapped_file(path: str) -> mmap.mmap | bytes:
    """A file mapped for reading, for as long as someone holds it. For files that nobody cuts short, like our archive:
    touching a mapped byte that is gone kills the process. Raises SourceUnreadable."""
    with open_readonly(path) as stream:
        if os.fstat(stream.fileno()).st_size == 0:
            return b""  # nothing to map is an error to the operating system
        try:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise unreadable(path, error) from error


@contextmanager
def new_text(path: str) -> Iterator[TextIO]:
    """A new UTF-8 text file for a command's output; what is no text comes through as escapes. It must not exist yet.

    It is written under another name beside its place, and renamed when it is complete and on disk: where the caller
    fails, nothing is left.

    Raises LogError.
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
            advice = "Nothing is left of it. Make room, or name another place."
            raise _not_written(path, error, advice) from error
        raise


def _not_written(path: str, error: Exception, advice: str | None = None) -> LogError:
    message = f"it cannot be written: {getattr(error, 'strerror', None) or error}."
    return LogError(message, file=shown(path), advice=advice)


def file_digest(path: str, start: int = 0, end: int | None = None) -> str:
    """SHA-256, in hex, of a file's bytes from start to end. Raises like `read_range`."""
    digest = hashlib.sha256()
    with open_readonly(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        end = size if end is None else end
        if not 0 <= start <= end <= size:
            raise SourceChanged(f"bytes {start} to {end} were asked of {size}", file=shown(path), position=start)
        for chunk in _chunks(stream, path, start, end):
            digest.update(chunk)
    return digest.hexdigest()


def copy_range(
    source: str,
    start: int,
    end: int | None,
    destination: str,
    *,
    sealed: bool = False,
    seen: SegmentFile | None = None,
    is_summed: bool = True,
    reads_around: bool = False,
) -> CopiedRange:
    """Copy bytes start..end of a source's file into a new file, and refuse them if the source changed meanwhile.

    The source is looked at before and after: it must still be the same file and hold what was read; if it is `sealed`
    it must have kept its size and time of change. `seen`: what it looked like when this was decided. The destination
    must not exist; it is on disk (fsync) when this returns, and gone if this raises. The caller renames it. Where the
    source has holes, or many zeros, the destination has holes.

    end: None for the end of the file as it is when opened. is_summed: make the SHA-256, of zeros too. reads_around: of
    sectors that the disk fails to read the copy has zeros; without it they are a SourceUnreadable.

    Raises SourceUnreadable, SourceChanged; an OSError of the destination passes through.
    """
    with open_readonly(source) as stream:
        before = os.fstat(stream.fileno())
        if seen is not None:
            _refuse_other(source, seen, before, sealed)
        end = before.st_size if end is None else end
        if not 0 <= start <= end <= before.st_size:
            message = f"bytes {start} to {end} were to be copied of {before.st_size}"
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
                    _write_all(target, chunk, low - start)
                if digest is not None:
                    _sum_zeros(digest, end - done)
                os.fsync(target.fileno())
            refuse_change(source, before, sealed=sealed, least_size=before.st_size if sealed else end)
        except BaseException:
            os.unlink(destination)
            raise
    sha256 = None if digest is None else digest.hexdigest()
    modified_ms = before.st_mtime_ns // 1_000_000
    return CopiedRange(end - start, sha256, before.st_size, modified_ms, before.st_ino, joined(gone))


def unreadable(path: str, error: OSError | ValueError) -> SourceUnreadable:
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return SourceUnreadable("it is a symbolic link, which is not followed", file=shown(path))
    return SourceUnreadable(
        f"it cannot be read: {getattr(error, 'strerror', None) or error}.",
        file=shown(path),
        advice="Make it readable for this user, or leave it out.",
    )


def refuse_change(
    path: str, seen: os.stat_result, *, sealed: bool, least_size: int | None = None, advice: str | None = None
) -> None:
    """Raise SourceChanged if a file is no longer what it was when it was opened.

    Appending is no change unless the file is sealed. least_size: bytes that must still be there, if not all of them.
    """
    name, least = shown(path), seen.st_size if least_size is None else least_size
    try:
        now = os.stat(path, follow_symlinks=False)
    except OSError as error:
        raise SourceChanged("it went away while it was read", file=name, advice=advice) from error
    if (now.st_dev, now.st_ino) != (seen.st_dev, seen.st_ino):
        raise SourceChanged("another file took its name while it was read", file=name, advice=advice)
    if now.st_size < least:
        message = f"it shrank from {least} to {now.st_size} bytes while it was read"
        raise SourceChanged(message, file=name, position=now.st_size, advice=advice)
    if sealed and (now.st_size, now.st_mtime_ns) != (seen.st_size, seen.st_mtime_ns):
        raise SourceChanged("it was written to while it was read", file=name, advice=advice)


def _refuse_other(path: str, seen: SegmentFile, now: os.stat_result, sealed: bool) -> None:
    """Raise SourceChanged if a file is no longer what it was when the directory was listed."""
    if now.st_ino != seen.inode:
        raise SourceChanged("another file took its name", file=shown(path))
    if now.st_size < seen.size:
        raise SourceChanged(f"it shrank from {seen.size} to {now.st_size} bytes", file=shown(path))
    if sealed and (now.st_size, now.st_mtime_ns // 1_000_000) != (seen.size, seen.modified_ms):
        raise SourceChanged("it was written to although a later segment follows", file=shown(path))


def _chunks(stream: BinaryIO, path: str, start: int, end: int) -> Iterator[bytes]:
    """Bytes start..end in pieces of at most `CHUNK`; never more than asked for is held."""
    while start < end:
        chunk = pread_range(stream, path, min(CHUNK, end - start), start)
        if not chunk:
            raise SourceChanged(f"it ended at byte {start}, {end - start} bytes early", file=shown(path))
        start += len(chunk)
        yield chunk


def pread_range(stream: BinaryIO, path: str, size: int, position: int) -> bytes:
    try:
        return os.pread(stream.fileno(), size, position)
    except OSError as error:
        raise unreadable(path, error) from error


def data_ranges(stream: BinaryIO, path: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """What of bytes start..end is no hole, as far as the file system tells. Raises SourceUnreadable, and SourceChanged
    if the file ends before `end`."""
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
            if error.errno == errno.EINVAL:  # the file system cannot tell
                begin, hole = start, end
            elif error.errno == errno.ENXIO:  # nothing but a hole, or the file was cut short
                now = os.fstat(stream.fileno()).st_size
                if now < end:
                    message = f"it was cut short while it was read: byte {now} of {end} is gone"
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
    """Positions and bytes of what is not zero, in whole pieces. gone: ranges that the disk fails to read are added
    there, and count as zeros; None: they are an error."""
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
    """Bytes start..end in pieces; sector by sector where the disk fails."""
    behind = start  # of what failed as a whole
    while start < end:
        size = min(CHUNK if start >= behind else SECTOR - start % SECTOR, end - start)
        try:
            chunk = os.pread(stream.fileno(), size, start)
        except OSError as error:
            if error.errno != errno.EIO or gone is None:
                raise unreadable(path, error).at(position=start) from error
            if start >= behind and size > SECTOR:
                behind = start + size
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


def joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ascending ranges, those that touch as one."""
    found: list[tuple[int, int]] = []
    for low, high in ranges:
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return tuple(found)


def _sum_zeros(digest: hashlib._Hash, count: int) -> None:
    zeros = bytes(min(count, CHUNK))
    for at in range(0, count, CHUNK):
        digest.update(zeros[: count - at])


def _write_all(target: BinaryIO, chunk: bytes, position: int) -> None:
    target.seek(position)
    written = 0
    while written < len(chunk):
        written += target.write(chunk[written:]) if written else target.write(chunk)
