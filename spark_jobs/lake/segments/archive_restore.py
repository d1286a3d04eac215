"""Restore archived files: find bytes that are missing or changed at their source, and in copies of the log.

The table ``segments`` records the SHA-256 of every archived segment. Bytes with that digest are the archived ones,
wherever they come from. Segments without a copy are reported as lost.

This module finds harmed files of the archive and copies of their bytes. Offsets that were never archived belong to
``late_segments``, rows of tables to ``replace``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from logcore.errors import LogError
from logcore.segments.filenames import segment_file_name
from logcore.storage.files import copy_range
from logcore.storage.objects.addresses import is_object
from logcore.storage.objects.object_copy import copy_parts
from logcore.storage.opened_source import open_source
from logcore.storage.remote_tier.chunked_segment import is_chunked_segment
from logcore.storage.source_reads import file_digest
from spark_jobs.errors import JobError
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.store import mapped_file, storage


@dataclass(frozen=True, slots=True)
class Harmed:
    """An archived segment whose file is missing or changed."""

    segment: Segment
    problem: str
    """What is wrong with the file."""
    found_in: str | None
    """A file with the same bytes; None: no copy was found."""
    position: int = 0
    """Position of the bytes in that file."""


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """Harmed files, and those that can be restored."""

    looked_at: int
    """Number of archived segments whose digest was computed."""
    harmed: tuple[Harmed, ...]
    at_source: int = 0
    """Number of segments that are registered at their source: the lake has no file of them to restore."""

    @property
    def restorable(self) -> tuple[Harmed, ...]:
        """Segments whose bytes were found."""
        return tuple(each for each in self.harmed if each.found_in is not None)

    @property
    def lost(self) -> tuple[Harmed, ...]:
        """Segments without a copy."""
        return tuple(each for each in self.harmed if each.found_in is None)


def plan(lake: str, copies: Sequence[str] = ()) -> RestorePlan:
    """Read every archived file, and look for the bytes of those that are harmed.

    Args:
        copies: Log directories, or partition directories, that may have the same bytes. They are only read.

    Raises:
        TableUnreadable: The table ``segments`` cannot be read.
        StorageError: The object store did not answer.
    """
    kept = [segment for segment in archive.read_segments(lake, live=False) if segment.is_kept]
    segments = [segment for segment in kept if not segment.lies_at_source]
    harmed = []
    for segment in segments:
        problem = _problem(lake, segment)
        if problem is not None:
            place = next(_places_with(segment, copies), None)
            harmed.append(Harmed(segment, problem, *(place or (None, 0))))
    return RestorePlan(len(segments), tuple(harmed), len(kept) - len(segments))


def apply(lake: str, made: RestorePlan) -> tuple[Harmed, ...]:
    """Restore what was found; return what was restored.

    A file appears in its place complete, and only with the recorded digest. The process can be killed and run again.

    Raises:
        JobError: A copy changed since the plan.
        OSError: The archive cannot be written.
    """
    done = []
    for each in made.restorable:
        segment, source = each.segment, str(each.found_in)
        target = storage.join(lake, segment.path)
        with storage.staged(storage.directory_of(target)) as staged:
            if _copied(source, each.position, each.position + segment.size, staged.path) != segment.digest:
                raise JobError(f"{source} changed while it was read; run the command again.")
            staged.place(target, modified_ms=segment.modified_ms)
        done.append(each)
    return tuple(done)


def _copied(source: str, start: int, end: int, destination: str) -> str:
    """Copy bytes of a file, an object or a segment in chunks into a new file; return their SHA-256."""
    if not is_object(source) and not is_chunked_segment(source):
        copied = copy_range(source, start, end, destination)
        return str(copied.sha256)
    with closing(open_source(source)) as file:
        return copy_parts(lambda low, high: memoryview(file.read(high - low, low)), start, end, destination)


def _problem(lake: str, segment: Segment) -> str | None:
    path = segment.local_path(lake)
    try:
        size = storage.stat(path).size
    except (FileNotFoundError, NotADirectoryError):
        return "the file is gone"
    if size != segment.start + segment.size:
        return f"the file has {size} bytes instead of {segment.start + segment.size}"
    if mapped_file.digest_of(path, segment.start, segment.start + segment.size) != segment.digest:
        return "the bytes differ from those that were archived"
    return None


def _places_with(segment: Segment, copies: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield files with the segment's bytes, and the position there."""
    for path in _candidates(segment, copies):
        end = segment.origin_position + segment.size
        try:
            if file_digest(path, segment.origin_position, end) == segment.digest:
                yield path, segment.origin_position
        except (OSError, LogError):
            continue  # skip an unreadable copy; try the others


def _candidates(segment: Segment, copies: Sequence[str]) -> Iterator[str]:
    name = segment_file_name(segment.origin_base_offset)
    yield segment.origin_file
    for copy in copies:
        yield storage.join(copy, f"{segment.topic}-{segment.partition}", name)
        if posixpath.basename(copy.rstrip("/")) == f"{segment.topic}-{segment.partition}":
            yield storage.join(copy, name)
