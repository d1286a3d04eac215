"""What lies below a prefix: every object with size, time and ETag, from one listing.

A listing is read in pages of 1,000 objects. It is used only when its last page was read: a part of it would look like a
log whose other segments were deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logcore.storage.objects.access import store_and_key
from logcore.storage.objects.answers import StoreFailed, answers
from logcore.storage.source_errors import SourceUnreadable, shown

if TYPE_CHECKING:
    from obstore import ObjectMeta

MOST_OBJECTS = 1_000_000
"""Most objects of one listing: they are kept in memory, some 300 bytes each."""
PAGE_OBJECTS = 1000
"""Objects that a store lists in one answer."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as listed.

    Attributes:
        key: Its key in the bucket.
        size: In bytes.
        modified_ms: When it was put, by the store's clock, in epoch milliseconds.
        etag: Names its content, with the quotes that HTTP gives it; empty if the store states none.
    """

    key: str
    size: int
    modified_ms: int
    etag: str


def stored_object(meta: ObjectMeta) -> StoredObject:
    """The description of an object, from that of `obstore`."""
    modified_ms = int(meta["last_modified"].timestamp() * 1000)
    return StoredObject(meta["path"], meta["size"], modified_ms, meta["e_tag"] or "")


def pages(url: str) -> Iterator[list[StoredObject]]:
    """Yield the objects below a directory in key order, page by page.

    Raises:
        StoreFailed: The store failed.
    """
    store, key = store_and_key(url)
    import obstore

    stream = obstore.list(store, f"{key.rstrip('/')}/" if key else None, chunk_size=PAGE_OBJECTS)
    while True:
        with answers(url):
            page = next(iter(stream), None)
        if page is None:
            return
        yield [stored_object(meta) for meta in page]


def objects_in(url: str) -> list[StoredObject]:
    """List the objects directly in a directory, without those of directories below it.

    Raises:
        StoreFailed: The store failed.
    """
    store, key = store_and_key(url)
    import obstore

    with answers(url):
        found = obstore.list_with_delimiter(store, f"{key.rstrip('/')}/" if key else None)
        return [stored_object(meta) for meta in found["objects"]]


def has_objects(url: str) -> bool:
    """Whether there is any object below a directory.

    Raises:
        StoreFailed: The store failed.
    """
    return any(pages(url))


def whole_listing(url: str) -> list[StoredObject]:
    """List all objects below a directory.

    Raises:
        SourceUnreadable: The store failed before the last page, or there are too many objects.
    """
    found: list[StoredObject] = []
    try:
        for page in pages(url):
            found += page
            if len(found) > MOST_OBJECTS:
                raise SourceUnreadable(
                    f"it contains more than {MOST_OBJECTS:,} objects",
                    file=shown(url),
                    advice="Name the log directories below it.",
                )
    except StoreFailed as error:
        if not found:
            raise
        message = f"its listing stopped after {len(found):,} objects, and no part of it is used: {error.message}"
        raise StoreFailed(message, file=error.file, advice=error.advice) from error
    return found
