"""Reads of a source's file by its name alone: a whole small file, a range of bytes, a digest.

Readers of segments use `logcore.storage.source_bytes` instead.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import closing

from logcore.logs.model.sources import SegmentFile
from logcore.remote import aiven_layout
from logcore.remote.stored_part import SegmentPart
from logcore.storage import files
from logcore.storage.objects.addresses import is_object
from logcore.storage.objects.listing import objects_in
from logcore.storage.objects.object_reads import object_exists
from logcore.storage.opened_file import OpenedFile
from logcore.storage.opened_source import open_source, open_stored
from logcore.storage.remote_tier.chunked_segment import read_index, read_stored
from logcore.storage.source_errors import SourceChanged, SourceUnreadable, refuse_large, shown


def read_file(path: str, limit: int | None = None) -> bytes:
    """Read a whole file, up to its size when it was opened. It may be an index of a segment in chunks.

    Raises:
        SourceUnreadable: The file cannot be read, or has more than `limit` bytes.
    """
    if aiven_layout.named_index(path) is not None:
        return _read_index(path, limit)
    return read_stored(path, limit)


def _read_index(path: str, limit: int | None) -> bytes:
    name, part = aiven_layout.named_index(path) or (path, SegmentPart.INDEXES)
    content = read_index(name, part, open_stored)
    if content is None:
        raise SourceUnreadable("the manifest does not describe it", file=shown(path))
    refuse_large(path, len(content), limit)
    return content


def exists(path: str) -> bool:
    """Whether there is anything at a path: a file, a directory, a link, or an object of this name.

    Raises:
        SourceUnreadable: The object store failed.
    """
    named = aiven_layout.named_index(path)
    path = path if named is None else named[0]  # the manifest named the index, so it is in its object
    return object_exists(path) if is_object(path) else os.path.lexists(path)


def sizes_in(directory: str) -> list[tuple[str, int]]:
    """List names and sizes in bytes of what lies directly in a directory, by name.

    Raises:
        OSError: The directory cannot be listed.
        SourceUnreadable: The object store failed.
    """
    if is_object(directory):
        return sorted((os.path.basename(stored.key), stored.size) for stored in objects_in(directory))
    with os.scandir(directory) as entries:
        return sorted((entry.name, entry.stat(follow_symlinks=False).st_size) for entry in entries)


def read_range(path: str, start: int, end: int, seen: SegmentFile | None = None) -> bytes:
    """Read bytes start..end of a file.

    Args:
        path: The file.
        start: First byte.
        end: Exclusive end.
        seen: The file when its directory was listed; an object must still be that one.

    Raises:
        SourceUnreadable: The file cannot be read.
        SourceChanged: The file ends before `end`, or another object took its name.
    """
    with closing(open_source(path, seen)) as file:
        _refuse_outside(file, start, end)
        return b"".join(files.chunks(file.read, path, start, end))


def file_digest(path: str, start: int = 0, end: int | None = None, seen: SegmentFile | None = None) -> str:
    """Return the SHA-256, in hex, of a file's bytes from start to end. Arguments and errors as `read_range`."""
    digest = hashlib.sha256()
    with closing(open_source(path, seen)) as file:
        end = file.size if end is None else end
        _refuse_outside(file, start, end)
        for chunk in files.chunks(file.read, path, start, end):
            digest.update(chunk)
    return digest.hexdigest()


def _refuse_outside(file: OpenedFile, start: int, end: int) -> None:
    if not 0 <= start <= end <= file.size:
        message = f"bytes {start} to {end} were requested of {file.size}"
        raise SourceChanged(message, file=shown(file.path), position=start)
