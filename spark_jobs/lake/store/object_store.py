"""Files of a lake on an object store: an object a file, whole from the moment it can be seen.

Settings come from the usual environment variables, read by the same Rust library that deltalake uses:
``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_REGION``, ``AWS_ALLOW_HTTP``. The store
has to know conditional puts (``If-None-Match``, ``If-Match``): Delta's commits and the lease stand on them.

A store that stops answering ends in an error. One operation, retries included, is given up after
``LOGLAKE_STORE_TIMEOUT`` seconds (60 unless set); after that this process asks only every few seconds, and what it
wants in between fails at once, so that a job with a thousand files left does not wait a thousand times.

Which file lies where is asked in :mod:`spark_jobs.lake.store.storage`; only it and the lease call this module.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
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

from spark_jobs.lake.errors import StorageError, UsageError, said

if TYPE_CHECKING:
    from obstore import PutMode

PART_BYTES = 8 << 20
"""A large object comes and goes in parts of this size: each well within a request's time, few enough to hold."""
PARTS_AT_ONCE = 4
DEFAULT_REGION = "us-east-1"

TIMEOUT_VARIABLE, DEFAULT_TIMEOUT = "LOGLAKE_STORE_TIMEOUT", 60.0
"""Seconds until an operation that is not answered is given up."""
_LEAST_TIMEOUT = 1.0

# An endpoint that is not there should be said within seconds, one that is overloaded be given a while.
_RETRIES = 6


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


def patience() -> float:
    """Seconds until an operation that is not answered is given up, retries included.

    Raises:
        UsageError: the environment asks for something that is no number of seconds, or for less than one.
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
    """How `seconds` are shared out: a request may take a third, and none begins after two."""

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
    """What deltalake, which gets to the store by itself, would otherwise do in another way than we.

    Raises:
        StorageError: the store has just not answered.
    """
    limits = _Limits(_silence.budget())
    return {
        "max_retries": str(_RETRIES),
        "retry_timeout": f"{limits.retries * 1000:.0f}ms",
        **_times(limits),
        "AWS_REGION": _region(dict(_environment())),
    }


def _times(limits: _Limits) -> dict[str, str]:
    """As the Rust library reads them."""
    return {
        "timeout": f"{limits.request * 1000:.0f}ms",
        "connect_timeout": f"{limits.connect * 1000:.0f}ms",
    }


def arrow_filesystem() -> fs.FileSystem:
    """Arrow's own access, for datasets: its threads read without Python. Paths in it begin with the bucket.

    Raises:
        StorageError: the store has just not answered.
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
            f"AWS_ENDPOINT_URL is {endpoint}, which is not encrypted: set AWS_ALLOW_HTTP=true if that is meant."
        )
    limits = _Limits(seconds)
    try:
        return S3Store(
            bucket,
            region=_region(settings),
            # Not as client_options, which would put aside what the environment says of the client (AWS_ALLOW_HTTP).
            config=_times(limits),  # type: ignore[arg-type]
            retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=limits.retries)},
        )
    except BaseError as error:
        raise UsageError(f"s3://{bucket}: the AWS_* settings can't be used: {said(error)}") from error


@contextlib.contextmanager
def answers(url: str) -> Iterator[None]:
    """What the store says in place of an answer, to us or to deltalake, becomes a StorageError of one paragraph."""
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
            raise StorageError(f"{url}: {_silence.paragraph()} The last it said: {said(error)}") from error
        raise StorageError(
            f"{url}: the object store at {_endpoint()} did not answer as it should: {said(error)} "
            "Look at AWS_ENDPOINT_URL, at the credentials and at the network, then run again: nothing is lost."
        ) from error


def _endpoint() -> str:
    return os.environ.get("AWS_ENDPOINT_URL") or "AWS"


class _Silence:
    """Whether the store has stopped answering, as far as this process knows."""

    def __init__(self) -> None:
        self._asked: float | None = None
        self._waited = 0.0

    @property
    def is_known(self) -> bool:
        return self._asked is not None

    def begin(self, waited: float) -> None:
        """An operation was given up after so many seconds."""
        self._asked = time.monotonic()
        self._waited = max(waited, self._waited)

    def ended(self) -> None:
        """It answered."""
        self._asked, self._waited = None, 0.0

    def budget(self) -> float:
        """Seconds that the next operation may take: all, or little where the one before was given up.

        Raises:
            StorageError: that was just now.
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
