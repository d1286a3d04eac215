"""Copies bytes of an object into a new local file, several parts at once, and computes their digest."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from logcore.storage.files import write_all
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
    return copy_parts(lambda low, high: memoryview(read_range(url, low, high, version)), start, end, destination)


def copy_parts(
    read: Callable[[int, int], memoryview], start: int, end: int, destination: str, part_bytes: int = PART_BYTES
) -> str:
    """Copy bytes start..end into a new file, as `copy_object`; several threads read.

    Args:
        read: Reads the bytes between two positions.
        start: First byte.
        end: Exclusive end.
        destination: Path of the new file, which must not exist.
        part_bytes: Bytes that are read at once.

    Returns:
        The SHA-256 of the bytes, in hex.

    Raises:
        OSError: The destination cannot be written.
        LogError: As `read` raises it.
    """
    output = os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    digest = hashlib.sha256()
    waiting: deque[tuple[int, Future[memoryview]]] = deque()

    try:
        with os.fdopen(output, "wb", buffering=0) as target:
            following = start
            while following < end or waiting:
                # Only these parts are in memory.
                while following < end and len(waiting) < PARTS_AT_ONCE:
                    high = min(following - following % part_bytes + part_bytes, end)
                    waiting.append((following, part_threads().submit(read, following, high)))
                    following = high
                at, reading = waiting.popleft()
                content = reading.result()
                digest.update(content)
                write_all(target.fileno(), content, at - start)
                del content, reading
    except BaseException:
        for _, reading in waiting:
            reading.cancel()
        os.unlink(destination)
        raise
    return digest.hexdigest()
