"""Bytes of segments that were registered at their source, as the tasks of a run read them.

A file is read into memory: others may truncate it, and access to a missing mapped byte kills the process. An object is
read once in a run. The task that registers it keeps its bytes (`local_copies`), and the tasks after it map that copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from logcore.logs.model.sources import SegmentFile
from logcore.records.varint import Buffer
from logcore.remote.chunked.chunk_map import RegisteredObject
from logcore.storage.discovery import SourceUnreadable, map_file
from logcore.storage.objects.object_reads import ObjectVersion
from logcore.storage.remote_tier.chunked_segment import is_chunked_segment
from logcore.storage.source_bytes import SourceBytes
from spark_jobs.lake.store import local_copies


@contextmanager
def mapped_at_source(path: str, start: int, end: int | None, registered: RegisteredObject | None) -> Iterator[Buffer]:
    """Yield bytes [start, end) of a file at its source, at their positions in the file; see `mapped_file.mapped`.

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
        if kept is not None:
            copied = None
            with suppress(SourceUnreadable):  # the run has just removed its copies
                copied = stack.enter_context(map_file(kept))
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


def _seen(path: str, end: int | None, registered: RegisteredObject) -> SegmentFile | ObjectVersion | None:
    """The object as it was registered, of which the bytes up to `end` are read."""
    if end is None:
        return None
    if registered.chunk_map is not None and is_chunked_segment(path):
        return SegmentFile(0, path, end, 0, 0, etag=registered.etag, chunk_map=registered.chunk_map)
    return ObjectVersion(end, 0, registered.etag, is_part=True)
