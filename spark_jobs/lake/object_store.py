"""Files of a lake on an object store: an object a file, whole from the moment it can be seen.

Settings come from the usual environment variables, read by the same Rust library that deltalake uses:
``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_REGION``, ``AWS_ALLOW_HTTP``. The store
has to know conditional puts (``If-None-Match``, ``If-Match``): Delta's commits and the lease stand on them.

Which file lies where is asked in :mod:`spark_jobs.lake.storage`; only it and the lease call this module.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import S3Store
from pyarrow import fs

from spark_jobs.lake.errors import StorageError, UsageError

if TYPE_CHECKING:
    from obstore import PutMode

PART_BYTES = 8 << 20
"""A large object comes and goes in parts of this size: each well within a request's time, few enough to hold."""
PARTS_AT_ONCE = 4
DEFAULT_REGION = "us-east-1"

# An endpoint that is not there should be said within seconds, one that is overloaded be given a while.
_RETRIES, _RETRY_TIME = 6, timedelta(seconds=60)
_DECORATION = re.compile(r"\x1b\[[0-9;]*m|↳")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as listed; ``etag`` names its content."""

    key: str
    size: int
    modified_ms: int
    etag: str


def split(url: str) -> tuple[str, str]:
    """Bucket and key of ``s3://bucket/key``.

    Raises:
        UsageError: it is of another scheme, names no bucket, or carries more than a bucket and a key.
    """
    scheme, rest = url.split("://", 1)
    bucket, _, key = rest.partition("/")
    if scheme != "s3":
        raise UsageError(f"{scheme}:// is no object store that Loglake knows; name it as s3://bucket/prefix.")
    if not bucket or "@" in bucket or "?" in rest or "#" in rest:
        raise UsageError(
            "An object store is named s3://bucket/prefix, without credentials or options: "
            "those are read from the AWS_* environment variables."
        )
    return bucket, key


def read(url: str) -> tuple[bytes, StoredObject]:
    """A whole small object.

    Raises:
        FileNotFoundError: it is not there.
        StorageError: the store did not answer as it should.
    """
    store, key = _at(url)
    with answers(url):
        got = obstore.get(store, key)
        return bytes(got.bytes()), _stored(got.meta)


def head(url: str) -> StoredObject:
    """Size, age and ETag of an object. Raises as :func:`read`."""
    store, key = _at(url)
    with answers(url):
        return _stored(obstore.head(store, key))


def put(url: str, content: bytes) -> None:
    """Put an object in its place, replacing what was there. Raises StorageError."""
    _put(url, content, "overwrite")


def create(url: str, content: bytes) -> str | None:
    """Put an object where there is none (``If-None-Match: *``).

    Returns:
        Its ETag; None where one is there already.

    Raises:
        StorageError: the store did not answer as it should.
    """
    with contextlib.suppress(AlreadyExistsError, PreconditionError):
        return _put(url, content, "create")
    return None


def update(url: str, content: bytes, etag: str) -> str | None:
    """Put an object in the place of the one with ``etag`` (``If-Match``).

    Returns:
        The new ETag; None where another object is there by now, or none.

    Raises:
        StorageError: the store did not answer as it should.
    """
    with contextlib.suppress(PreconditionError, FileNotFoundError):
        return _put(url, content, {"e_tag": etag})
    return None


def upload(path: str, url: str) -> None:
    """Put a local file in its place, in parts if it is large; nothing is visible before the last one. Raises
    StorageError."""
    store, key = _at(url)
    with answers(url):
        obstore.put(store, key, Path(path), chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)


def download(url: str, descriptor: int, start: int, end: int) -> None:
    """Bytes [start, end) of an object to the same positions of a file that is open for writing.

    Raises:
        FileNotFoundError: it is not there.
        StorageError: the store did not answer as it should.
    """
    store, key = _at(url)
    for position in range(start, end, PART_BYTES):
        with answers(url):
            part = memoryview(obstore.get_range(store, key, start=position, end=min(position + PART_BYTES, end)))
        done = 0
        while done < len(part):
            done += os.pwrite(descriptor, part[done:], position + done)


def delete(url: str) -> None:
    """Delete an object; none there is as well. Raises StorageError."""
    store, key = _at(url)
    with contextlib.suppress(FileNotFoundError), answers(url):
        obstore.delete(store, key)


def listed(url: str) -> Iterator[StoredObject]:
    """Every object below ``url``, in the order of their keys, a page of the listing at a time. Raises StorageError."""
    store, key = _at(url)
    pages = obstore.list(store, f"{key.rstrip('/')}/" if key else None)
    while True:
        with answers(url):
            page = next(iter(pages), None)
        if page is None:
            return
        yield from (_stored(meta) for meta in page)


def delta_options() -> dict[str, str]:
    """What deltalake, which gets to the store by itself, would otherwise do in another way than we."""
    region = _region(dict(_environment()))
    return {"max_retries": str(_RETRIES), "retry_timeout": f"{_RETRY_TIME.seconds}s", "AWS_REGION": region}


def arrow_filesystem() -> fs.FileSystem:
    """Arrow's own access, for datasets: its threads read without Python. Paths in it begin with the bucket."""
    return _arrow_filesystem(_environment())


@functools.lru_cache(maxsize=8)
def _arrow_filesystem(environment: tuple[tuple[str, str], ...]) -> fs.FileSystem:
    settings = dict(environment)
    return fs.S3FileSystem(region=_region(settings), endpoint_override=settings.get("AWS_ENDPOINT_URL") or None)


def _region(settings: Mapping[str, str]) -> str:
    return settings.get("AWS_REGION") or settings.get("AWS_DEFAULT_REGION") or DEFAULT_REGION


def _put(url: str, content: bytes, mode: PutMode) -> str:
    store, key = _at(url)
    with answers(url):
        return obstore.put(store, key, content, mode=mode, use_multipart=False)["e_tag"] or ""


def _stored(meta: obstore.ObjectMeta) -> StoredObject:
    modified_ms = int(meta["last_modified"].timestamp() * 1000)
    return StoredObject(meta["path"], meta["size"], modified_ms, meta["e_tag"] or "")


def _at(url: str) -> tuple[S3Store, str]:
    bucket, key = split(url)
    return _store(bucket, _environment()), key


def _environment() -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))


@functools.lru_cache(maxsize=8)
def _store(bucket: str, environment: tuple[tuple[str, str], ...]) -> S3Store:
    settings = dict(environment)
    endpoint = settings.get("AWS_ENDPOINT_URL", "")
    if urlsplit(endpoint).scheme == "http" and settings.get("AWS_ALLOW_HTTP", "").lower() not in ("true", "1"):
        raise UsageError(
            f"AWS_ENDPOINT_URL is {endpoint}, which is not encrypted: set AWS_ALLOW_HTTP=true if that is meant."
        )
    try:
        return S3Store(
            bucket, region=_region(settings), retry_config={"max_retries": _RETRIES, "retry_timeout": _RETRY_TIME}
        )
    except BaseError as error:
        raise UsageError(f"s3://{bucket}: the AWS_* settings can't be used: {_said(error)}") from error


@contextlib.contextmanager
def answers(url: str) -> Iterator[None]:
    """What the store says in place of an answer, to us or to deltalake, becomes a StorageError of one paragraph."""
    try:
        yield
    except (AlreadyExistsError, PreconditionError, StorageError):
        raise
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise StorageError(f"{url}: there is no bucket {split(url)[0]} at {_endpoint()}; make it first.") from error
        raise FileNotFoundError(f"{url} is not there") from error
    except (BaseError, OSError) as error:
        raise StorageError(
            f"{url}: the object store at {_endpoint()} did not answer as it should: {_said(error)} "
            "Look at AWS_ENDPOINT_URL, at the credentials and at the network, then run again: nothing is lost."
        ) from error


def _endpoint() -> str:
    return os.environ.get("AWS_ENDPOINT_URL") or "AWS"


def _said(error: BaseException) -> str:
    """In one line, without the server's XML, the library's own debugging text and the colours of a terminal."""
    text = str(error).partition("<?xml")[0].partition("Debug source:")[0]
    line = " ".join(_DECORATION.sub(" ", text).split()).rstrip(": ")
    return line if line.endswith(".") else f"{line}."
