"""Bytes of segments that were registered at their source, as the tasks of a run read them.

A file is read into memory: others may truncate it, and access to a missing mapped byte kills the process. An object is
read once in a run. The task that registers it keeps its bytes (`local_copies`), and the tasks after it map that copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from logcore.records.varint import Buffer
from logcore.storage.discovery import SourceUnreadable, map_file
from logcore.storage.objects.object_reads import ObjectVersion
from logcore.storage.source_bytes import SourceBytes
from spark_jobs.lake.store import local_copies


@contextmanager
def mapped_at_source(path: str, start: int, end: int | None, etag: str | None) -> Iterator[Buffer]:
    """Yield bytes [start, end) of a file at its source, at their positions in the file; see `mapped_file.mapped`.

    Args:
        path: The file.
        start: First byte.
        end: Exclusive end; None: the end of the file.
        etag: Names the content of an object; another object is refused.

    Raises:
        SourceUnreadable: It does not exist, or the disk fails to read some of it.
        SourceChanged: It was truncated while it was read, or was replaced since its registration.
    """
    with ExitStack() as stack:
        kept = None if etag is None or end is None else local_copies.kept_registered(path, etag, end)
        if kept is not None:
            copied = None
            with suppress(SourceUnreadable):  # the run has just removed its copies
                copied = stack.enter_context(map_file(kept))
            if copied is not None:
                yield copied
                return
    version = None if etag is None or end is None else ObjectVersion(end, 0, etag, is_part=True)
    source = SourceBytes(path, sealed=False, seen=version)
    source.fetch(start, source.size if end is None else end)
    gone = source.unreadable(start, source.size if end is None else end)
    if gone:
        nbytes = sum(high - low for low, high in gone)
        message = f"the disk failed to read {nbytes} bytes of it, from this position on"
        raise SourceUnreadable(message, file=path, position=gone[0][0])
    yield source.content
