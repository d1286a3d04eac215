"""Files of a lake on an object store: one object per file, complete as soon as it is visible.

Settings come from the usual environment variables, as :mod:`logcore.storage.objects.settings` names them; deltalake
reads them with the same Rust library. The store must support conditional puts (``If-None-Match``, ``If-Match``):
Delta's commits and the lease need them.

A store that stops answering causes an error: see :mod:`logcore.storage.objects.answers`.

Only :mod:`spark_jobs.lake.store.storage` and the lease call this module.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import S3Store
from pyarrow import fs

from logcore.errors import LogError
from logcore.storage.objects import access, addresses, settings
from logcore.storage.objects import answers as store_answers
from logcore.storage.objects.addresses import AddressError
from logcore.storage.objects.answers import silence
from logcore.storage.objects.listing import StoredObject, pages, stored_object
from logcore.storage.objects.object_reads import ObjectVersion
from logcore.storage.objects.settings import RETRIES, Environment, StoreLimits
from spark_jobs.errors import StorageError, UsageError

if TYPE_CHECKING:
    from obstore import PutMode

PART_BYTES = 8 << 20
"""A large object is read and written in parts of this size, which fit in memory and in a request's time."""
PARTS_AT_ONCE = 4


def split(url: str) -> tuple[str, str]:
    """Split ``s3://bucket/key`` into bucket and key.

    Raises:
        UsageError: It has another scheme, names no bucket, or has more than a bucket and a key.
    """
    with _as_ours(url):
        return addresses.split(url)


def read(url: str) -> tuple[bytes, StoredObject]:
    """Read a whole small object.

    Raises:
        FileNotFoundError: It does not exist.
        StorageError: The store failed.
    """
    store, key = _at(url)
    with answers(url):
        got = obstore.get(store, key)
        return bytes(got.bytes()), stored_object(got.meta)


def head(url: str) -> StoredObject:
    """Return size, age and ETag of an object. Raises as :func:`read`."""
    store, key = _at(url)
    with answers(url):
        return stored_object(obstore.head(store, key))


def put(url: str, content: bytes) -> None:
    """Put an object, replacing an existing one.

    Raises:
        StorageError: The store failed.
    """
    _put(url, content, "overwrite")


def create(url: str, content: bytes) -> str | None:
    """Put an object if there is none (``If-None-Match: *``).

    Returns:
        Its ETag; None if there already is one.

    Raises:
        StorageError: The store failed.
    """
    with contextlib.suppress(AlreadyExistsError, PreconditionError):
        return _put(url, content, "create")
    return None


def update(url: str, content: bytes, etag: str) -> str | None:
    """Replace the object with ``etag`` (``If-Match``).

    Returns:
        The new ETag; None if there is another object, or none.

    Raises:
        StorageError: The store failed.
    """
    with contextlib.suppress(PreconditionError, FileNotFoundError):
        return _put(url, content, {"e_tag": etag})
    return None


def upload(path: str, url: str) -> None:
    """Upload a local file, in parts if it is large; nothing is visible before the last part.

    Raises:
        StorageError: The store failed.
    """
    store, key = _at(url)
    with answers(url):
        obstore.put(store, key, Path(path), chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)


def copy_within(source: str, version: ObjectVersion, url: str) -> bool:
    """Let the store copy an object of the same bucket, unless it is another one than ``version`` before or after that.

    Returns:
        Whether the copy is there. If not, there may be an object with other bytes, which the caller replaces.
    """
    bucket, key = split(source)
    if split(url)[0] != bucket or not version.etag:
        return False
    store, target = _at(url)
    try:
        # Not within `answers`: a copy that is refused or slow does not mean that the store is silent.
        obstore.copy(store, key, target, overwrite=True)
        now, made = (stored_object(obstore.head(store, name)) for name in (key, target))
    except (BaseError, OSError):
        return False  # a store may refuse copies, or may not allow them to this user
    return version.is_of(now) and made.size == version.size


def download(url: str, descriptor: int, start: int, end: int) -> None:
    """Copy bytes [start, end) of an object to the same positions of a file that is open for writing.

    Raises:
        FileNotFoundError: It does not exist.
        StorageError: The store failed.
    """
    store, key = _at(url)
    for position in range(start, end, PART_BYTES):
        with answers(url):
            part = memoryview(obstore.get_range(store, key, start=position, end=min(position + PART_BYTES, end)))
        done = 0
        while done < len(part):
            done += os.pwrite(descriptor, part[done:], position + done)


def delete(url: str) -> None:
    """Delete an object, which may be missing.

    Raises:
        StorageError: The store failed.
    """
    store, key = _at(url)
    with contextlib.suppress(FileNotFoundError), answers(url):
        obstore.delete(store, key)


def delete_many(urls: Sequence[str]) -> None:
    """Delete objects of one bucket, which may be missing, with one request for as many as the store takes at once.

    Raises:
        StorageError: The store failed. Some of them may be deleted.
    """
    if not urls:
        return
    store, _ = _at(urls[0])
    with contextlib.suppress(FileNotFoundError), answers(urls[0]):
        obstore.delete(store, [split(url)[1] for url in urls])


def listed(url: str) -> Iterator[StoredObject]:
    """Yield every object below ``url`` in key order, one page of the listing at a time.

    Raises:
        StorageError: The store failed.
    """
    following = pages(url)
    while True:
        with _as_ours(url):
            page = next(following, None)
        if page is None:
            return
        yield from page


def delta_options() -> dict[str, str]:
    """Return options for deltalake, which accesses the store by itself, to match our own settings.

    Raises:
        StorageError: The store has just not answered.
    """
    limits = StoreLimits(_budget())
    return {
        "max_retries": str(RETRIES),
        "retry_timeout": f"{limits.retries * 1000:.0f}ms",
        **limits.as_options,
        "AWS_REGION": settings.region(dict(settings.environment())),
    }


def arrow_filesystem() -> fs.FileSystem:
    """Return Arrow's own access, for datasets: its threads read without Python. Paths in it begin with the bucket.

    Raises:
        StorageError: The store has just not answered.
    """
    return _arrow_filesystem(settings.environment(), _budget())


@functools.lru_cache(maxsize=8)
def _arrow_filesystem(environment: Environment, seconds: float) -> fs.FileSystem:
    variables = dict(environment)
    return fs.S3FileSystem(
        region=settings.region(variables),
        endpoint_override=variables.get("AWS_ENDPOINT_URL") or None,
        request_timeout=max(1.0, seconds / 6),  # whole seconds without a byte, three times
        connect_timeout=StoreLimits(seconds).connect,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=3),
    )


def _put(url: str, content: bytes, mode: PutMode) -> str:
    store, key = _at(url)
    with answers(url):
        return obstore.put(store, key, content, mode=mode, use_multipart=False)["e_tag"] or ""


def _at(url: str) -> tuple[S3Store, str]:
    with _as_ours(url):
        return access.store_and_key(url)


def _budget() -> float:
    with _as_ours(settings.endpoint()):
        return silence.budget()


@contextlib.contextmanager
def answers(url: str) -> Iterator[None]:
    """Turn errors of the store, to us or to deltalake, into a StorageError of one paragraph."""
    with _as_ours(url), store_answers.answers(url, passing=(StorageError,)):
        yield


@contextlib.contextmanager
def _as_ours(url: str) -> Iterator[None]:
    """Turn errors of :mod:`logcore.storage.objects` into those of a lake."""
    try:
        yield
    except AddressError as error:
        raise UsageError(str(error)) from error
    except LogError as error:
        raise StorageError(str(error.at(file=url)).removeprefix("file ")) from error
