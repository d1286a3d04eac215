"""One writer per lake: a lock file that the operating system releases when its holder dies, or an object that its
holder renews.

The lease saves work, but it does not protect tables: guards in the commits do (a lease can be lost between a check and
a commit). Within one process it may be taken again, as the steps of a run do.

On an object store, ``lease.json`` is created by a conditional put. Its holder puts it again every `RENEW_SECONDS`, on
the condition that no other process did. A process that finds it older than `EXPIRES_SECONDS` replaces it on the same
condition. Both ages come from the store's own clock. So a killed holder blocks the lake for at most two minutes, and
only one of two waiting processes gets the lease. A holder that was suspended for so long loses it. Then the guards
refuse its commits if another process changed what they depend on.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from logcore.storage.objects.answers import said
from logcore.storage.objects.listing import StoredObject
from spark_jobs.errors import JobError, LeaseHeld, StorageError
from spark_jobs.lake.store import object_store, storage

LEASE_FILE = "lease.json"
RENEW_SECONDS, EXPIRES_SECONDS = 20, 120
_TAKE_ATTEMPTS = 3
_LOOK_SECONDS = 0.02
"""Pause before the lock is tried again: a look at it (:func:`is_held`) takes some microseconds."""


@dataclass(slots=True)
class _Held:
    release: Callable[[], None]
    depth: int


_held: dict[str, _Held] = {}
_guard = threading.Lock()


@contextlib.contextmanager
def hold(lake: str, purpose: str, command: str = "") -> Iterator[None]:
    """Hold the lease of ``lake`` while the block runs.

    Args:
        purpose: What the holder does, for the message to a refused process: ``loglake run``, ``compaction``.
        command: What to type again if the holder is killed.

    Raises:
        LeaseHeld: Another process holds it; the text names process, host and purpose.
        StorageError: The object store did not answer.
        JobError: The lake cannot be written.
    """
    is_remote = storage.is_remote(lake)
    path = storage.join(lake if is_remote else os.path.realpath(lake), LEASE_FILE)
    with _guard:
        held = _held.get(path)
        if held is None:
            holder = _holder(purpose) | ({"command": command} if command else {})
            held = _held[path] = _Held(_ObjectLease(path, holder).take() if is_remote else _taken(path, holder), 0)
        held.depth += 1
    try:
        yield
    finally:
        with _guard:
            held.depth -= 1
            if held.depth == 0:
                del _held[path]
                held.release()


def is_held(lake: str, now_ms: int) -> bool:
    """Return whether a process holds the lease of ``lake``. Nothing is written.

    Args:
        lake: The lake.
        now_ms: The clock, epoch milliseconds. It decides whether a lease on an object store has expired.

    Raises:
        StorageError: The object store did not answer.
        OSError: The lease of a local lake cannot be opened.
    """
    remote = storage.is_remote(lake)
    path = storage.join(lake if remote else os.path.realpath(lake), LEASE_FILE)
    try:
        if remote:
            content, about = object_store.read(path)
            return not _is_free(content) and now_ms - about.modified_ms < EXPIRES_SECONDS * 1000
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def killed_holder(lake: str, now_ms: int) -> tuple[str, str] | None:
    """Return who held the lease last and did not give it back, and its command or an empty text.

    None: a process holds the lease, or the last holder gave it back. Arguments and errors are those of `is_held`.
    """
    if is_held(lake, now_ms):
        return None
    try:
        content = storage.read(storage.join(lake, LEASE_FILE))
        if not content or _is_free(content) or is_held(lake, now_ms):  # another process took it since the first look
            return None
        return _describe(content), str(json.loads(content).get("command", ""))
    except (FileNotFoundError, ValueError, AttributeError):
        return None


def _taken(path: str, holder: Mapping[str, str | int]) -> Callable[[], None]:
    """Take the lease of a local lake; return a function that releases it."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return _take(path, holder)
    except OSError as error:
        raise JobError(
            f"The lake {os.path.dirname(path)} cannot be written: {said(error)} Remove the cause, and type the same "
            "command again."
        ) from error


def _take(path: str, holder: Mapping[str, str | int]) -> Callable[[], None]:
    # The descriptor is close-on-exec, so a JVM that is started meanwhile does not keep the lock after its parent died.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    for left in reversed(range(_TAKE_ATTEMPTS)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if left:
                time.sleep(_LOOK_SECONDS)
                continue
            other = os.pread(descriptor, 4096, 0)
            os.close(descriptor)
            raise LeaseHeld(_refusal(path, other)) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder).encode(), 0)

    def release() -> None:
        if not isinstance(sys.exception(), KeyboardInterrupt | SystemExit):
            with contextlib.suppress(OSError):  # of a disk that fails: the error of the work counts
                os.ftruncate(descriptor, 0)  # the work has ended: see `killed_holder`
        os.close(descriptor)

    return release


class _ObjectLease:
    """The lease of a lake on an object store."""

    def __init__(self, url: str, holder: Mapping[str, str | int]) -> None:
        self._url = url
        self._holder = {**holder, "token": uuid.uuid4().hex}
        self._renewals = 0
        self._etag = ""
        self._released = threading.Event()
        self._putting = threading.Lock()

    def take(self) -> Callable[[], None]:
        """Take the lease; return a function that releases it."""
        for _ in range(_TAKE_ATTEMPTS):
            etag = object_store.create(self._url, self._content())
            if etag is None:
                try:
                    found, about = object_store.read(self._url)
                except FileNotFoundError:
                    continue
                if self._is_mine(found):  # the answer to our own put was lost
                    etag = about.etag
                else:
                    left = 0 if _is_free(found) else EXPIRES_SECONDS - self._age_ms(about) / 1000
                    if left > 0:
                        raise LeaseHeld(
                            f"{_refusal(self._url, found)} If it was killed, the lake is free in {left:.0f} seconds."
                        )
                    etag = object_store.update(self._url, self._content(), about.etag)
            if etag is not None:
                self._etag = etag
                threading.Thread(target=self._renew, name="lease", daemon=True).start()
                return self._release
        raise LeaseHeld(
            f"The lease of {os.path.dirname(self._url)} was just taken by another process; run again later."
        )

    def _renew(self) -> None:
        while not self._released.wait(RENEW_SECONDS):
            # An error now leaves time for more attempts.
            with self._putting, contextlib.suppress(StorageError, FileNotFoundError):
                if self._released.is_set() or not self._put_again(self._content()):
                    return

    def _put_again(self, content: bytes) -> bool:
        """Renew our own lease; return False if it is no longer ours."""
        etag = object_store.update(self._url, content, self._etag)
        if etag is None:
            found, about = object_store.read(self._url)
            if not self._is_mine(found):
                return False
            etag = about.etag
        self._etag = etag
        return True

    def _release(self) -> None:
        self._released.set()
        # Marked, not deleted: only a put can be conditional, so that it does nothing if another process holds it.
        with self._putting, contextlib.suppress(StorageError):  # then it expires
            object_store.update(self._url, b"{}", self._etag)

    def _content(self) -> bytes:
        # Different each time: an ETag is a digest, and a renewed lease must not look like the one before.
        self._renewals += 1
        return json.dumps(self._holder | {"renewals": self._renewals}).encode()

    def _is_mine(self, content: bytes) -> bool:
        return str(self._holder["token"]).encode() in content

    def _age_ms(self, about: StoredObject) -> int:
        """Return the age by the store's clock, which comes from an object that is put now."""
        return storage.clock_ms(os.path.dirname(self._url)) - about.modified_ms


def _holder(purpose: str) -> dict[str, str | int]:
    return {"purpose": purpose, "pid": os.getpid(), "host": socket.gethostname()}


def _refusal(path: str, holder: bytes) -> str:
    return (
        f"The lake {os.path.dirname(path)} is being worked on by {_describe(holder)}. "
        "Wait until it has ended, or end it; the next run continues its unfinished work."
    )


def _is_free(content: bytes) -> bool:
    return content.strip() == b"{}"


def _describe(content: bytes) -> str:
    try:
        holder = json.loads(content)
        return f"{holder['purpose']!r} (process {holder['pid']} on {holder['host']})"
    except (ValueError, KeyError, TypeError):
        return "another process"
