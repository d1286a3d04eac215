"""Files of a lake on an object store: one object per file, complete as soon as it is visible.

Settings come from the usual environment variables, read by the same Rust library that deltalake uses:
``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_REGION``, ``AWS_ALLOW_HTTP``. The store
must support conditional puts (``If-None-Match``, ``If-Match``): Delta's commits and the lease need them.

A store that stops answering causes an error. One operation, with its retries, is abandoned after
``LOGLAKE_STORE_TIMEOUT`` seconds (60 unless set). After that this process tries only every few seconds, and operations
in between fail at once. So a job with a thousand files left does not wait a thousand times.

Only :mod:`spark_jobs.lake.store.storage` and the lease call this module.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import S3Store
from pyarrow import fs

from spark_jobs.lake.errors import StorageError, UsageError, said

if TYPE_CHECKING:
    from obstore import PutMode

PART_BYTES = 8 << 20
"""A large object is read and written in parts of this size, which fit in memory and in a request's time."""
PARTS_AT_ONCE = 4
DEFAULT_REGION = "us-east-1"

TIMEOUT_VARIABLE, DEFAULT_TIMEOUT = "LOGLAKE_STORE_TIMEOUT", 60.0
"""Seconds after which an unanswered operation is abandoned."""
_LEAST_TIMEOUT = 1.0

# A missing endpoint must be reported within seconds; an overloaded one gets more time.
_RETRIES = 6


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as listed; ``etag`` names its content."""

    key: str
    size: int
    modified_ms: int
    etag: str


def split(url: str) -> tuple[str, str]:
    """Split ``s3://bucket/key`` into bucket and key.

    Raises:
        UsageError: It has another scheme, names no bucket, or has more than a bucket and a key.
    """
    scheme, rest = url.split("://", 1)
    bucket, _, key = rest.partition("/")
    if scheme != "s3":
        raise UsageError(f"{scheme}:// is no object store that Loglake supports; name it as s3://bucket/prefix.")
    if not bucket or "@" in bucket or "?" in rest or "#" in rest:
        raise UsageError(
            "An object store is named s3://bucket/prefix, without credentials or options: "
            "those are read from the AWS_* environment variables."
        )
    return bucket, key


def read(url: str) -> tuple[bytes, StoredObject]:
    """Read a whole small object.

    Raises:
        FileNotFoundError: It does not exist.
        StorageError: The store failed.
    """
    store, key = _at(url)
    with answers(url):
        got = obstore.get(store, key)
        return bytes(got.bytes()), _stored(got.meta)


def head(url: str) -> StoredObject:
    """Return size, age and ETag of an object. Raises as :func:`read`."""
    store, key = _at(url)
    with answers(url):
        return _stored(obstore.head(store, key))


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
    store, key = _at(url)
    pages = obstore.list(store, f"{key.rstrip('/')}/" if key else None)
    while True:
        with answers(url):
            page = next(iter(pages), None)
        if page is None:
            return
        yield from (_stored(meta) for meta in page)


def patience() -> float:
    """Return the seconds after which an unanswered operation is abandoned, retries included.

    Raises:
        UsageError: The environment variable is not a number of seconds, or less than one.
    """
    given = os.environ.get(TIMEOUT_VARIABLE, "").strip()
    try:
        seconds = float(given) if given else DEFAULT_TIMEOUT
        if not _LEAST_TIMEOUT <= seconds < 86_400:
            raise ValueError
    except ValueError:
        raise UsageError(f"{TIMEOUT_VARIABLE} is {given!r}: name a number of seconds, at least 1.") from None
    return seconds


@dataclass(frozen=True, slots=True)
class _Limits:
    """How `seconds` are divided: a request may take one third, and none begins after two thirds."""

    seconds: float

    @property
    def request(self) -> float:
        return self.seconds / 3

    @property
    def retries(self) -> float:
        return self.seconds * 2 / 3

    @property
    def connect(self) -> float:
        return min(5.0, self.request)


def delta_options() -> dict[str, str]:
    """Return options for deltalake, which accesses the store by itself, to match our own settings.

    Raises:
        StorageError: The store has just not answered.
    """
    limits = _Limits(_silence.budget())
    return {
        "max_retries": str(_RETRIES),
        "retry_timeout": f"{limits.retries * 1000:.0f}ms",
        **_times(limits),
        "AWS_REGION": _region(dict(_environment())),
    }


def _times(limits: _Limits) -> dict[str, str]:
    """Return the limits in the form of the Rust library."""
    return {
        "timeout": f"{limits.request * 1000:.0f}ms",
        "connect_timeout": f"{limits.connect * 1000:.0f}ms",
    }


def arrow_filesystem() -> fs.FileSystem:
    """Return Arrow's own access, for datasets: its threads read without Python. Paths in it begin with the bucket.

    Raises:
        StorageError: The store has just not answered.
    """
    return _arrow_filesystem(_environment(), _silence.budget())


@functools.lru_cache(maxsize=8)
def _arrow_filesystem(environment: tuple[tuple[str, str], ...], seconds: float) -> fs.FileSystem:
    settings = dict(environment)
    return fs.S3FileSystem(
        region=_region(settings),
        endpoint_override=settings.get("AWS_ENDPOINT_URL") or None,
        request_timeout=max(1.0, seconds / 6),  # whole seconds without a byte, three times
        connect_timeout=_Limits(seconds).connect,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=3),
    )


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
    return _store(bucket, _environment(), _silence.budget()), key


def _environment() -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))


@functools.lru_cache(maxsize=8)
def _store(bucket: str, environment: tuple[tuple[str, str], ...], seconds: float) -> S3Store:
    settings = dict(environment)
    endpoint = settings.get("AWS_ENDPOINT_URL", "")
    if urlsplit(endpoint).scheme == "http" and settings.get("AWS_ALLOW_HTTP", "").lower() not in ("true", "1"):
        raise UsageError(
            f"AWS_ENDPOINT_URL is {endpoint}, which is not encrypted: set AWS_ALLOW_HTTP=true if that is intended."
        )
    limits = _Limits(seconds)
    try:
        return S3Store(
            bucket,
            region=_region(settings),
            # Not as client_options, which would override the client settings of the environment (AWS_ALLOW_HTTP).
            config=_times(limits),  # type: ignore[arg-type]
            retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=limits.retries)},
        )
    except BaseError as error:
        raise UsageError(f"s3://{bucket}: the AWS_* settings can't be used: {said(error)}") from error


@contextlib.contextmanager
def answers(url: str) -> Iterator[None]:
    """Turn errors of the store, to us or to deltalake, into a StorageError of one paragraph."""
    started = time.monotonic()
    try:
        yield
        _silence.ended()
    except (AlreadyExistsError, PreconditionError, StorageError):
        raise
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise StorageError(f"{url}: there is no bucket {split(url)[0]} at {_endpoint()}; make it first.") from error
        raise FileNotFoundError(f"{url} is not there") from error
    except (BaseError, OSError) as error:
        waited = time.monotonic() - started
        if waited >= _Limits(patience()).request or _silence.is_known:
            _silence.begin(waited)
            raise StorageError(f"{url}: {_silence.paragraph()} Its last error: {said(error)}") from error
        raise StorageError(
            f"{url}: the object store at {_endpoint()} did not answer as it should: {said(error)} "
            "Look at AWS_ENDPOINT_URL, at the credentials and at the network, then run again: nothing is lost."
        ) from error


def _endpoint() -> str:
    return os.environ.get("AWS_ENDPOINT_URL") or "AWS"


class _Silence:
    """Whether the store has stopped answering in this process."""

    def __init__(self) -> None:
        self._asked: float | None = None
        self._waited = 0.0

    @property
    def is_known(self) -> bool:
        return self._asked is not None

    def begin(self, waited: float) -> None:
        """Note that an operation was abandoned after this many seconds."""
        self._asked = time.monotonic()
        self._waited = max(waited, self._waited)

    def ended(self) -> None:
        """Note that the store answered."""
        self._asked, self._waited = None, 0.0

    def budget(self) -> float:
        """Return the seconds for the next operation: all, or few if the one before was abandoned.

        Raises:
            StorageError: An operation was abandoned just before.
        """
        seconds = patience()
        if self._asked is None:
            return seconds
        pause = max(_LEAST_TIMEOUT, seconds / 12)
        if time.monotonic() - self._asked < pause:
            raise StorageError(self.paragraph())
        return pause

    def paragraph(self) -> str:
        return (
            f"the object store at {_endpoint()} did not answer for {self._waited:.0f} seconds and was given up "
            f"({TIMEOUT_VARIABLE} is {patience():g}). Look at it and at the network, then run again: nothing is lost."
        )


_silence = _Silence()
