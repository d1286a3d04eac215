"""Copies bytes of an object into a new local file, several parts at once, and computes their digest."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from concurrent.futures import Future

from logcore.storage.objects.object_reads import (
    PART_BYTES,
    PARTS_AT_ONCE,
    ObjectVersion,
    part_threads,
    read_range,
)


def copy_object(url: str, start: int, end: int, destination: str, version: ObjectVersion) -> str:
    """Copy bytes start..end of an object into a new file.

    On an error the file is removed. It is not synced to disk.

    Args:
        url: The object.
        start: First byte.
        end: Exclusive end.
        destination: Path of the new file, which must not exist.
        version: The object as it was listed.

    Returns:
        The SHA-256 of the bytes, in hex.

    Raises:
        SourceUnreadable: The store failed.
        SourceChanged: It is not that version any more, or it ends before `end`.
        OSError: The destination cannot be written.
    """
    output = os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    digest = hashlib.sha256()
    waiting: deque[tuple[int, Future[memoryview]]] = deque()

    def part(at: int) -> memoryview:
        return memoryview(read_range(url, at, min(at + PART_BYTES, end), version))

    try:
        with os.fdopen(output, "wb", buffering=0) as target:
            following = start
            while following < end or waiting:
                # Only these parts are in memory.
                while following < end and len(waiting) < PARTS_AT_ONCE:
                    waiting.append((following, part_threads().submit(part, following)))
                    following += PART_BYTES
                at, reading = waiting.popleft()
                content = reading.result()
                digest.update(content)
                _write_all(target.fileno(), content, at - start)
                del content, reading
    except BaseException:
        for _, reading in waiting:
            reading.cancel()
        os.unlink(destination)
        raise
    return digest.hexdigest()


def _write_all(descriptor: int, content: memoryview, position: int) -> None:
    done = 0
    while done < len(content):
        done += os.pwrite(descriptor, content[done:], position + done)
