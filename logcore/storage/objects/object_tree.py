"""The directories that the keys of objects form, from one listing; a `logcore.storage.source_tree.SourceTree`.

    s3://bucket/logs/replication-offset-checkpoint             a root file of the log directory s3://bucket/logs
    s3://bucket/logs/orders-0/00000000000000000000.log         a segment of orders-0
    s3://bucket/logs/orders-1/                                 an empty object: the mark of an empty directory

The small files that a discovery reads are fetched together, several at a time, before the first of them is used. Files
above the listed directory, such as the root files of a partition directory that was named alone, are requested one by
one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from logcore.errors import LogError
from logcore.storage.objects.addresses import split, url_of
from logcore.storage.objects.listing import StoredObject, whole_listing
from logcore.storage.objects.object_reads import ObjectVersion, head, whole_object
from logcore.storage.objects.remembered_reads import RememberedReads
from logcore.storage.source_errors import refuse_large
from logcore.storage.source_tree import FileState

_SMALL_FILES_AT_ONCE = 16
_ODD_NAMES = ("", ".", "..")


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """A name in a directory of objects: an object, or None for a directory."""

    path: str
    stored: StoredObject | None

    @property
    def name(self) -> str:
        """The name."""
        return os.path.basename(self.path)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether objects lie below it."""
        return self.stored is None

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is an object."""
        return self.stored is not None

    def is_symlink(self) -> bool:
        """Objects are never links."""
        return False


@dataclass(slots=True)
class ObjectTree:
    """The directories below a listed one.

    Attributes:
        root: The listed directory.
        remembered: Small reads of objects by earlier runs; None: none.
        odd: Number of objects whose names cannot be paths: a part of the key is empty, `.` or `..`.
    """

    root: str
    remembered: RememberedReads | None = None
    odd: int = 0
    _folders: dict[str, dict[str, ObjectEntry]] = field(default_factory=dict)
    _fetched: dict[str, bytes | LogError] = field(default_factory=dict)

    @classmethod
    def listed(cls, root: str, remembered: RememberedReads | None = None) -> ObjectTree:
        """List a directory and everything below it.

        Raises:
            SourceUnreadable: The listing is not complete, or there are too many objects.
        """
        tree = cls(root, remembered)
        bucket, key = split(root)
        below = f"{key}/" if key else ""
        for stored in whole_listing(root):
            tree._add(bucket, below, stored)
        return tree

    @property
    def is_empty(self) -> bool:
        """Whether there is no object below the listed directory."""
        return not self._folders and not self.odd

    def is_directory(self, path: str) -> bool:
        """Whether objects lie below a path. Raises FileNotFoundError if there is nothing at it."""
        if path in self._folders:
            return True
        if self._entry(path) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return False

    def entries(self, path: str) -> Sequence[ObjectEntry]:
        """List a directory by name. Raises FileNotFoundError if there is none."""
        if path not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return sorted(self._folders[path].values(), key=lambda entry: entry.name)

    def identity(self, path: str) -> Hashable:
        """The path itself."""
        return path

    def state(self, path: str) -> FileState:
        """Describe an object as it was listed. Raises FileNotFoundError if there is none."""
        entry = self._entry(path)
        if entry is None or entry.stored is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return FileState(entry.stored.size, entry.stored.modified_ms, 0, entry.stored.etag)

    def exists(self, path: str) -> bool:
        """Whether there is an object, or a directory of objects. Raises SourceUnreadable if the store failed."""
        if self._is_listed(path):
            return path in self._folders or self._entry(path) is not None
        return self._described(path) is not None

    def small_file(self, path: str, limit: int) -> bytes | None:
        """Read a whole object of the listed version; None if there is none.

        Raises:
            SourceUnreadable: The store failed, or the object has more than `limit` bytes.
            SourceChanged: Another object took its name after it was listed.
        """
        if not self._is_listed(path):
            try:
                return whole_object(path, limit)
            except FileNotFoundError:
                return None
        entry = self._entry(path)
        if entry is None or entry.stored is None:
            return None
        known = self._fetched.get(path)
        if known is None:
            return self._read(path, entry.stored, limit)
        if isinstance(known, LogError):
            raise known
        return known

    def modified_ms(self, path: str) -> int | None:
        """When an object was put, in epoch milliseconds; None if there is none."""
        entry = self._entry(path)
        if entry is not None:
            return None if entry.stored is None else entry.stored.modified_ms
        stored = None if self._is_listed(path) else self._described(path)
        return None if stored is None else stored.modified_ms

    def fetch(self, is_wanted: Callable[[str], bool], limit: int) -> None:
        """Read all listed objects with a wanted name that are not larger than the limit, several at a time.

        An error is raised when the file is used.
        """
        wanted = [entry for entry in self._files() if is_wanted(entry.name) and entry.stored.size <= limit]  # type: ignore[union-attr]

        def read(entry: ObjectEntry) -> bytes | LogError:
            try:
                return self._read(entry.path, entry.stored, limit)  # type: ignore[arg-type]
            except LogError as error:
                return error

        if wanted:
            with ThreadPoolExecutor(min(_SMALL_FILES_AT_ONCE, len(wanted)), "object-small") as threads:
                contents = list(threads.map(read, wanted))
            self._fetched |= {entry.path: content for entry, content in zip(wanted, contents, strict=True)}

    def _files(self) -> Iterator[ObjectEntry]:
        for folder in self._folders.values():
            yield from (entry for entry in folder.values() if entry.stored is not None)

    def _read(self, path: str, stored: StoredObject, limit: int) -> bytes:
        version = ObjectVersion.of(stored)
        refuse_large(path, stored.size, limit)
        if self.remembered is not None:
            return self.remembered.whole(path, limit, version)
        return whole_object(path, limit, version)

    def _described(self, path: str) -> StoredObject | None:
        try:
            return head(path)
        except FileNotFoundError:
            return None

    def _is_listed(self, path: str) -> bool:
        return path == self.root or path.startswith(f"{self.root}/")

    def _entry(self, path: str) -> ObjectEntry | None:
        parent, _, name = path.rpartition("/")
        return self._folders.get(parent, {}).get(name)

    def _add(self, bucket: str, below: str, stored: StoredObject) -> None:
        *folders, name = stored.key[len(below) :].split("/")
        if any(part in _ODD_NAMES for part in folders) or (name in _ODD_NAMES and name):
            self.odd += 1
            return
        parent = self.root
        self._folders.setdefault(parent, {})
        for folder in folders:
            path = f"{parent}/{folder}"
            # An object may have the name of a directory. The directory hides it, as on a disk only one can exist.
            self._folders[parent][folder] = ObjectEntry(path, None)
            self._folders.setdefault(path, {})
            parent = path
        if name and name not in self._folders[parent]:
            self._folders[parent][name] = ObjectEntry(url_of(bucket, stored.key), stored)
