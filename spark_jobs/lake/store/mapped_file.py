"""Bytes of a file of a lake, or of a segment at its source, as memory: whole or a range.

A file at its source is read into memory: others may truncate it, and access to a missing mapped byte kills the
process. An object at its source is read once in a run. The task that registers it keeps its bytes (`local_copies`), and
the tasks after it map that copy.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from logcore.logs.model.sources import SegmentFile
from logcore.records.varint import Buffer
from logcore.remote.chunked.chunk_map import RegisteredObject
from logcore.storage.discovery import SourceUnreadable, map_file
from logcore.storage.objects.object_reads import ObjectVersion
from logcore.storage.remote_tier.chunked_segment import is_chunked_segment
from logcore.storage.source_bytes import SourceBytes
from spark_jobs.lake.store import local_copies, object_store
from spark_jobs.lake.store.storage import is_remote


@contextmanager
def mapped_at_source(path: str, start: int, end: int | None, registered: RegisteredObject | None) -> Iterator[Buffer]:
    """Yield bytes [start, end) of a file at its source, at their positions in the file; see `mapped`.

    Args:
        path: The file.
        start: First byte.
        end: Exclusive end; None: the end of the file.
        registered: The object when it was registered; another object is refused. None: any is read.

    Raises:
        SourceUnreadable: It does not exist, or the disk fails to read some of it.
        SourceChanged: It was truncated while it was read, or was replaced since its registration.
    """
    with ExitStack() as stack:
        kept = None if registered is None or end is None else local_copies.kept_registered(path, registered.etag, end)
        copied = _mapped_copy(stack, kept)
        if copied is not None:
            yield copied
            return
    source = SourceBytes(path, sealed=False, seen=None if registered is None else _seen(path, end, registered))
    source.fetch(start, source.size if end is None else end)
    gone = source.unreadable(start, source.size if end is None else end)
    if gone:
        nbytes = sum(high - low for low, high in gone)
        message = f"the disk failed to read {nbytes} bytes of it, from this position on"
        raise SourceUnreadable(message, file=path, position=gone[0][0])
    yield source.content


def _mapped_copy(stack: ExitStack, kept: str | None) -> Buffer | None:
    """Map a local copy; None if there is none."""
    if kept is not None:
        with suppress(SourceUnreadable):  # the run has just removed its copies
            return stack.enter_context(map_file(kept))
    return None


def _seen(path: str, end: int | None, registered: RegisteredObject) -> SegmentFile | ObjectVersion | None:
    """The object as it was registered, of which the bytes up to `end` are read."""
    if end is None:
        return None
    if registered.chunk_map is not None and is_chunked_segment(path):
        return SegmentFile(0, path, end, 0, 0, etag=registered.etag, chunk_map=registered.chunk_map)
    return ObjectVersion(end, 0, registered.etag, is_part=True)


_HASHED_AT_A_TIME = 8 << 20


@contextmanager
def mapped(
    path: str,
    start: int = 0,
    end: int | None = None,
    *,
    at_source: bool = False,
    registered: RegisteredObject | None = None,
) -> Iterator[Buffer]:
    """Yield bytes [start, end) of a file, at their positions in the file; bytes around them must not be read.

    A local file is mapped. A file at its source is read into memory instead: others may truncate it, and access to a
    missing mapped byte kills the process. Of an object of the lake only these bytes are fetched, into an unnamed
    temporary file of the object's size that has holes elsewhere; a local copy is mapped instead.

    Args:
        path: The file.
        start: First byte.
        end: Exclusive end; None: the end of the file.
        at_source: It was registered at its source.
        registered: The object, if it was registered at its source; another object is refused.

    Raises:
        SourceUnreadable: It does not exist, or it is at its source and the disk fails to read some of it.
        SourceChanged: It is at its source and was truncated while it was read, or was replaced since its registration.
        StorageError: The object store failed.
    """
    if at_source and (registered is not None or not is_remote(path)):
        with mapped_at_source(path, start, end, registered) as content:
            yield content
        return
    if not is_remote(path):
        with map_file(path) as content:
            yield content
        return
    with ExitStack() as stack:
        copied = _mapped_copy(stack, local_copies.kept(path))
        if copied is not None:
            yield copied
            return
    fetched = _fetched(path, start, end)
    try:
        yield fetched
    finally:
        if isinstance(fetched, mmap.mmap):
            with suppress(BufferError):  # a view of it may still be alive; the last one closes it
                fetched.close()


def digest_of(path: str, start: int, end: int) -> str:
    """Return the SHA-256 of bytes [start, end) of a file of the lake; raises as :func:`mapped`."""
    digest = hashlib.sha256()
    if start == end:
        return digest.hexdigest()
    with mapped(path, start, end) as content, memoryview(content) as view:
        for at in range(start, end, _HASHED_AT_A_TIME):
            digest.update(view[at : min(end, at + _HASHED_AT_A_TIME)])
    return digest.hexdigest()


def _fetched(path: str, start: int, end: int | None) -> mmap.mmap | bytes:
    try:
        whole = object_store.head(path).size
        if not whole:
            return b""  # the operating system cannot map zero bytes
        with tempfile.TemporaryFile(prefix="loglake-") as file:
            os.truncate(file.fileno(), whole)
            object_store.download(path, file.fileno(), start, whole if end is None else min(end, whole))
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError as error:
        raise SourceUnreadable("it is not there", file=path) from error
