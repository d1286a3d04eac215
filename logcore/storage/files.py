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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO, TextIO

from logcore.errors import LogError
from logcore.logs.sources import SegmentFile

CHUNK = 8 << 20
"""Bytes read at a time from a source."""


class SourceUnreadable(LogError):
    """The operating system does not let us read something: permission, an I/O error, or it is no regular file."""


class SourceChanged(LogError):
    """A source's file changed while it was read, or since it was seen: what was read is worth nothing. Try again."""


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """What `copy_range` wrote: its size in bytes and SHA-256, and the file it came from as seen before and after."""

    size: int
    sha256: str
    source_size: int
    source_modified_ms: int
    source_inode: int


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


def loaded_file(path: str) -> mmap.mmap | bytes:
    """A whole file in memory, as long as it was when opened, for large ones that may be cut short meanwhile.

    Raises SourceUnreadable, and SourceChanged if it was."""
    with open_readonly(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if not size:
            return b""
        memory, done = mmap.mmap(-1, size), 0
        with memoryview(memory) as view:
            while done < size:
                try:
                    given = os.readv(stream.fileno(), [view[done:]])
                except OSError as error:
                    raise unreadable(path, error) from error
                if not given:
                    raise SourceChanged(f"it ends at byte {done} and had {size}", file=shown(path), position=done)
                done += given
        return memory


def create_text(path: str) -> TextIO:
    """A new UTF-8 text file for a command's output; what is no text comes through as escapes. It must not exist yet.

    Raises LogError.
    """
    try:
        return open(path, "x", encoding="utf-8", errors="backslashreplace", newline="")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LogError(f"it cannot be written: {reason}.", file=shown(path)) from error


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
) -> CopiedRange:
    """Copy bytes start..end of a source's file into a new file, and refuse them if the source changed meanwhile.

    The source is looked at before and after: it must still be the same file and hold what was read; if it is `sealed`
    it must have kept its size and time of change. `seen`: what it looked like when this was decided. The destination
    must not exist; it is on disk (fsync) when this returns, and gone if this raises. The caller renames it.

    end: None for the end of the file as it is when opened. Raises SourceUnreadable, SourceChanged; an OSError of
    the destination passes through.
    """
    with open_readonly(source) as stream:
        before = os.fstat(stream.fileno())
        if seen is not None:
            _refuse_change(source, seen.inode, seen.size, seen.modified_ms, before, sealed)
        end = before.st_size if end is None else end
        if not 0 <= start <= end <= before.st_size:
            message = f"bytes {start} to {end} were to be copied of {before.st_size}"
            raise SourceChanged(message, file=shown(source), position=start)
        digest = hashlib.sha256()
        output = os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            with os.fdopen(output, "wb", buffering=0) as target:
                for chunk in _chunks(stream, source, start, end):
                    digest.update(chunk)
                    _write_all(target, chunk)
                os.fsync(target.fileno())
            try:
                after = os.stat(source, follow_symlinks=False)
            except OSError as error:
                raise SourceChanged("it went away while it was read", file=shown(source)) from error
            modified_ms = before.st_mtime_ns // 1_000_000
            least = before.st_size if sealed else end
            _refuse_change(source, before.st_ino, least, modified_ms, after, sealed)
            if sealed and after.st_mtime_ns != before.st_mtime_ns:
                raise SourceChanged("it was written to while it was read", file=shown(source))
        except BaseException:
            os.unlink(destination)
            raise
    return CopiedRange(end - start, digest.hexdigest(), before.st_size, modified_ms, before.st_ino)


def unreadable(path: str, error: OSError | ValueError) -> SourceUnreadable:
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return SourceUnreadable("it is a symbolic link, which is not followed", file=shown(path))
    return SourceUnreadable(
        f"it cannot be read: {getattr(error, 'strerror', None) or error}.",
        file=shown(path),
        advice="Make it readable for this user, or leave it out.",
    )


def _refuse_change(path: str, inode: int, least_size: int, modified_ms: int, now: os.stat_result, sealed: bool) -> None:
    if now.st_ino != inode:
        raise SourceChanged("another file took its name", file=shown(path))
    if now.st_size < least_size:
        raise SourceChanged(f"it shrank from {least_size} to {now.st_size} bytes", file=shown(path))
    if sealed and (now.st_size != least_size or now.st_mtime_ns // 1_000_000 != modified_ms):
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


def _write_all(target: BinaryIO, chunk: bytes) -> None:
    written = 0
    while written < len(chunk):
        written += target.write(chunk[written:]) if written else target.write(chunk)
