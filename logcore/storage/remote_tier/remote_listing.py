"""What lies in remote storage: every object that is a part of a segment, from one listing.

Remote storage is a directory, or a prefix of a bucket. Objects are known by the ends of their names, so it may be any
directory above them, and it may hold the segments of several clusters. Nothing is written to it.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from logcore.remote import aiven_layout
from logcore.remote.stored_names import part_of
from logcore.remote.stored_part import RemoteObject
from logcore.storage.objects.addresses import absolute, is_object, split, url_of
from logcore.storage.objects.listing import MOST_OBJECTS, StoredObject, pages, whole_listing
from logcore.storage.source_errors import SourceUnreadable, shown, unreadable
from logcore.storage.source_tree import FileState

_MOST_DEPTH = 32
_MOST_OTHERS = 10_000
"""So many objects are looked at for one of a segment."""


@dataclass(frozen=True, slots=True)
class RemoteListing:
    """What lies in remote storage.

    Attributes:
        root: Its directory or prefix.
        objects: Parts of segments, by path.
        iceberg: Paths of files that describe a segment of an Iceberg table.
        old: Paths of indexes as old releases of Aiven's plugin stored them.
        other: Number of other objects.
        other_bytes: Their bytes.
    """

    root: str
    objects: tuple[RemoteObject, ...]
    iceberg: tuple[str, ...] = ()
    old: tuple[str, ...] = ()
    other: int = 0
    other_bytes: int = 0

    @property
    def has_segments(self) -> bool:
        """Whether there is an object of any segment. Without one it may be an empty mount point, or another prefix."""
        return bool(self.objects or self.iceberg or self.old)


def list_remote(root: str) -> RemoteListing:
    """List remote storage.

    Raises:
        SourceUnreadable: A directory cannot be read, the listing is not complete, or there are too many objects. A part
            of a listing would look like segments that were lost.
        AddressError: The name of an object store, or a setting of its access, cannot be used.
        LogError: The package that reads object stores is not installed.
    """
    root = absolute(root)
    objects, iceberg, old, other, other_bytes = [], [], [], 0, 0
    for path, seen in _in_store(root, whole_listing(root)) if is_object(root) else _on_disk(root):
        part = part_of(path)
        if part is not None:
            objects.append(RemoteObject(path, part, seen.size, seen.modified_ms, seen.inode, seen.etag))
        elif aiven_layout.iceberg_segment(path) is not None:
            iceberg.append(path)
        elif aiven_layout.is_of_old_release(path):
            old.append(path)
        else:
            other, other_bytes = other + 1, other_bytes + seen.size
    objects.sort(key=lambda each: each.path)
    return RemoteListing(root, tuple(objects), tuple(sorted(iceberg)), tuple(sorted(old)), other, other_bytes)


def has_segments(root: str) -> bool:
    """Whether remote storage has an object of any segment. Without one it may be an empty mount point.

    Only as much is listed as that takes, and at most 10,000 objects.

    Raises:
        As `list_remote`.
    """
    root = absolute(root)
    listed = _in_store(root, itertools.chain.from_iterable(pages(root))) if is_object(root) else _on_disk(root)
    return any(_is_of_segment(path) for path, _ in itertools.islice(listed, _MOST_OTHERS))


def _is_of_segment(path: str) -> bool:
    described = aiven_layout.iceberg_segment(path) is not None or aiven_layout.is_of_old_release(path)
    return part_of(path) is not None or described


def _in_store(root: str, found: Iterable[StoredObject]) -> Iterator[tuple[str, FileState]]:
    bucket, _ = split(root)
    for stored in found:
        yield url_of(bucket, stored.key), FileState(stored.size, stored.modified_ms, 0, stored.etag)


def _on_disk(root: str) -> Iterator[tuple[str, FileState]]:
    """The regular files below a directory. Links below it are not followed."""
    waiting, seen = [(root, 0)], 0
    while waiting:
        directory, depth = waiting.pop()
        try:
            entries = list(os.scandir(directory))
        except OSError as error:
            raise unreadable(directory, error) from error
        for entry in entries:
            try:
                state = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # removed since its directory was listed
            except OSError as error:
                raise unreadable(entry.path, error) from error
            seen += 1
            if seen > MOST_OBJECTS:
                message = f"it contains more than {MOST_OBJECTS:,} files"
                raise SourceUnreadable(message, file=shown(root), advice="Name the directories below it.")
            if stat.S_ISDIR(state.st_mode):
                if depth < _MOST_DEPTH:
                    waiting.append((entry.path, depth + 1))
            elif stat.S_ISREG(state.st_mode):
                yield entry.path, FileState(state.st_size, state.st_mtime_ns // 1_000_000, state.st_ino)
