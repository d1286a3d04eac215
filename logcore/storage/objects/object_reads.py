"""Reads of objects that notice another object under the same name.

Every read names the ETag of the object as it was listed (`If-Match`), and what comes back is compared with it again:
some stores ignore the condition. So all bytes of a file are of one object, although each read is a request of its own.
"""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logcore.logs.model.sources import SegmentFile
from logcore.storage.objects.access import store_and_key
from logcore.storage.objects.answers import StoreFailed, answers, code_of
from logcore.storage.objects.listing import StoredObject, stored_object
from logcore.storage.source_errors import SourceChanged, refuse_large, shown

if TYPE_CHECKING:
    from obstore import Bytes, GetOptions

PART_BYTES = 8 << 20
"""A larger range is read in parts of this size, which fit in memory and in a request's time."""
PARTS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """What distinguishes an object from another one under the same name.

    Attributes:
        size: In bytes.
        modified_ms: When it was put.
        etag: Empty if the store states none; then size and time must be the same.
        is_part: The object may be longer; `size` counts only the bytes at its beginning that are wanted.
    """

    size: int
    modified_ms: int
    etag: str
    is_part: bool = False

    @classmethod
    def of(cls, seen: SegmentFile | StoredObject | ObjectVersion) -> ObjectVersion:
        """The version that was listed."""
        return seen if isinstance(seen, ObjectVersion) else cls(seen.size, seen.modified_ms, seen.etag or "")

    def is_of(self, other: StoredObject) -> bool:
        """Whether an object is this one."""
        if self.is_part:
            return self.etag == other.etag and self.size <= other.size
        if self.etag and other.etag:
            return (self.etag, self.size) == (other.etag, other.size)
        return (self.size, self.modified_ms) == (other.size, other.modified_ms)


def head(url: str) -> StoredObject:
    """Describe an object.

    Raises:
        FileNotFoundError: It does not exist.
        StoreFailed: The store failed.
    """
    store, key = store_and_key(url)
    import obstore

    with answers(url):
        return stored_object(obstore.head(store, key))


def object_exists(url: str) -> bool:
    """Whether an object exists.

    Raises:
        StoreFailed: The store failed.
    """
    try:
        head(url)
    except FileNotFoundError:
        return False
    return True


def whole_object(url: str, limit: int | None = None, version: ObjectVersion | None = None) -> bytes:
    """Read a whole small object.

    Args:
        url: The object.
        limit: Most bytes that it may have; None: any number.
        version: The object as it was listed; None: as it is now.

    Raises:
        FileNotFoundError: It does not exist, and no version of it was named.
        SourceUnreadable: The store failed, or the object has more than `limit` bytes.
        SourceChanged: It is not that version any more.
    """
    store, key = store_and_key(url)
    import obstore

    options: GetOptions = {"if_match": version.etag} if version is not None and version.etag else {}
    try:
        with answers(url):
            got = obstore.get(store, key, options=options)
            meta = stored_object(got.meta)
            refuse_large(url, meta.size, limit)
            content = bytes(got.bytes())
    except Exception as error:
        _refuse_replaced(url, error, version)
        raise
    _refuse_other(url, meta, version)
    if len(content) != meta.size:
        raise SourceChanged(f"{len(content)} bytes came of {meta.size}", file=shown(url))
    return content


def read_range(url: str, start: int, end: int, version: ObjectVersion) -> Bytes | bytes:
    """Read bytes start..end of an object with one request.

    Raises:
        SourceUnreadable: The store failed.
        SourceChanged: It is not that version any more, or it ends before `end`.
    """
    if start >= end:
        return b""
    store, key = store_and_key(url)
    import obstore

    options: GetOptions = {"range": (start, end)}
    if version.etag:
        options["if_match"] = version.etag
    try:
        with answers(url):
            got = obstore.get(store, key, options=options)
            meta = stored_object(got.meta)
            _refuse_other(url, meta, version)
            content = got.bytes()
    except Exception as error:
        _refuse_replaced(url, error, version)
        raise
    if len(content) != end - start:
        message = f"it ended at byte {start + len(content)}, {end - start - len(content)} bytes early"
        raise SourceChanged(message, file=shown(url), position=start + len(content))
    return content


def read_into(url: str, target: memoryview, start: int, version: ObjectVersion) -> None:
    """Read bytes of an object from `start` on into the whole target, several parts at once. Raises as `read_range`."""

    def part(at: int) -> None:
        end = min(at + PART_BYTES, len(target))
        got = read_range(url, start + at, start + end, version)
        with target[at:end] as place, memoryview(got) as content:
            place[:] = content

    if len(target) <= PART_BYTES:
        part(0)
        return
    for _ in part_threads().map(part, range(0, len(target), PART_BYTES)):
        pass


@functools.cache
def part_threads() -> ThreadPoolExecutor:
    """The threads of this process that read parts; they wait for the network most of the time."""
    return ThreadPoolExecutor(PARTS_AT_ONCE, "object-part")


def _refuse_replaced(url: str, error: Exception, version: ObjectVersion | None) -> None:
    """Raise SourceChanged for an error which means that the listed object is not there any more."""
    from obstore.exceptions import PreconditionError

    if version is None:
        return
    if isinstance(error, FileNotFoundError):
        raise SourceChanged("the object was removed after it was listed", file=shown(url)) from error
    if isinstance(error, PreconditionError):
        raise SourceChanged("another object took its name after it was listed", file=shown(url)) from error
    cause = error.__cause__ if isinstance(error, StoreFailed) else None
    if cause is not None and code_of(cause) == "InvalidRange":
        message = f"the object is shorter than the {version.size} bytes that were listed"
        raise SourceChanged(message, file=shown(url)) from error


def _refuse_other(url: str, now: StoredObject, version: ObjectVersion | None) -> None:
    if version is None or version.is_of(now):
        return
    what = f"it has {now.size} bytes where {version.size} were listed"
    if now.size == version.size:
        what = "it has another ETag" if version.etag and now.etag else "it was put again"
    raise SourceChanged(f"another object took its name after it was listed: {what}", file=shown(url))
