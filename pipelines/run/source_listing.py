"""The state of source directories as digests, so that growth is seen without opening a table or a segment.

On an object store the state is one listing, with the ETag of each object.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from logcore.errors import LogError
from logcore.segments.filenames import (
    HIGH_WATERMARK_FILE,
    DirectoryKind,
    TopicPartition,
    parse_partition_directory,
    segment_base_offset,
)
from logcore.segments.side_files.checkpoints import parse_offset_checkpoint
from logcore.storage.broker_state import MAX_SMALL_FILE
from logcore.storage.objects.addresses import AddressError, absolute, directory_of, is_object, split, url_of
from logcore.storage.objects.answers import StoreFailed
from logcore.storage.objects.listing import whole_listing
from logcore.storage.source_reads import read_file


def listing_digest(paths: Sequence[str]) -> str:
    """Digest of names, sizes and times of all files in and one level below the paths.

    A path that cannot be listed counts with its error, so that its return is a change too.

    Args:
        paths: Log directories, partition directories or files.
    """
    digest = hashlib.sha256()
    for line in sorted(line for path in paths for line in _lines_or_failure(path)):
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _lines_or_failure(path: str) -> Iterator[str]:
    try:
        yield from _lines(path, levels=2)
    except StoreFailed:
        yield _not_listed(path)


def _lines(path: str, levels: int) -> Iterator[str]:
    if is_object(path):
        yield from _object_lines(path)
        return
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir() and levels > 1:
                    yield from _lines(entry.path, levels - 1)
                    continue
                with suppress(FileNotFoundError):  # the broker deleted the file since the directory was opened
                    yield _line(entry.path, entry.stat(follow_symlinks=False))
    except NotADirectoryError:
        yield _of_file(path)
    except OSError as error:
        yield f"{path}\0{error.errno}\n"


def _object_lines(url: str) -> Iterator[str]:
    is_segment = segment_base_offset(os.path.basename(url)) is not None
    try:
        bucket, _ = split(url)
        stored = whole_listing(directory_of(url) if is_segment else absolute(url))
    except StoreFailed:
        raise
    except (LogError, AddressError):  # another attempt would find the same
        yield _not_listed(url)
        return
    for each in stored:
        yield f"{url_of(bucket, each.key)}\0{each.etag}\0{each.size}\0{each.modified_ms}\n"


def _not_listed(url: str) -> str:
    return f"{url}\0not listed\n"  # the same for each error: only the return of the store is a change


def _of_file(path: str) -> str:
    try:
        return _line(path, os.stat(path, follow_symlinks=False))
    except OSError as error:
        return f"{path}\0{error.errno}\n"


def _line(path: str, status: os.stat_result) -> str:
    return f"{path}\0{status.st_ino}\0{status.st_size}\0{status.st_mtime_ns}\n"


@dataclass(frozen=True, slots=True)
class SourceState:
    """Digests of two looks at the same listing."""

    closed: str
    """Of the segments that are not the last of their log, the names of the last ones, and how much of a log is
    visible below its last segment. It changes with a new log or segment, and not with growth inside a segment.
    """
    everything: str
    """Of all files, as :func:`listing_digest`."""


def source_state(paths: Sequence[str]) -> SourceState:
    """List the sources once and digest their state.

    Args:
        paths: Log directories, partition directories or files.

    Raises:
        StoreFailed: An object store failed. The state of the sources is not known: it may be as it was.
    """
    lines = sorted(line for path in paths for line in _lines(path, levels=2))
    everything, closed = hashlib.sha256(), hashlib.sha256()
    logs: dict[str, list[str]] = {}
    for line in lines:
        everything.update(line.encode(errors="surrogateescape"))
        directory, _, name = line.partition("\0")[0].rpartition(os.sep)
        parsed = parse_partition_directory(os.path.basename(directory))
        if parsed is not None and parsed[1] is DirectoryKind.LIVE and segment_base_offset(name) is not None:
            logs.setdefault(directory, []).append(line)  # in the order of their base offsets
    visible: dict[str, Mapping[TopicPartition, int]] = {}
    for directory, segments in sorted(logs.items()):
        active = segments[-1].partition("\0")[0]
        parent = os.path.dirname(directory)
        if parent not in visible:
            visible[parent] = _high_watermarks(parent)
        parsed = parse_partition_directory(os.path.basename(directory))
        high_watermark = visible[parent].get(parsed[0], 0) if parsed is not None else 0
        below = min(high_watermark, segment_base_offset(os.path.basename(active)) or 0)
        for line in (*segments[:-1], f"{active}\0{below}\n"):
            closed.update(line.encode(errors="surrogateescape"))
    return SourceState(closed.hexdigest()[:16], everything.hexdigest()[:16])


def _high_watermarks(directory: str) -> Mapping[TopicPartition, int]:
    try:
        return parse_offset_checkpoint(read_file(os.path.join(directory, HIGH_WATERMARK_FILE), MAX_SMALL_FILE))
    except StoreFailed:
        raise
    except (LogError, AddressError):
        return {}
