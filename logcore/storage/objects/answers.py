"""What the answers of an object store mean: errors become one sentence, with what to do.

A store that stops answering causes an error. One operation, with its retries, is abandoned after
``LOGLAKE_STORE_TIMEOUT`` seconds (60 unless set). After that this process tries only every few seconds, and operations
in between fail at once. So a job with a thousand files left does not wait a thousand times.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator

from logcore.storage.objects.addresses import split
from logcore.storage.objects.settings import (
    LEAST_TIMEOUT,
    RETRIES,
    TIMEOUT_VARIABLE,
    StoreLimits,
    endpoint,
    names_keys,
    patience,
)
from logcore.storage.source_errors import SourceUnreadable, shown

_CODE = re.compile(r"<Code>([A-Za-z0-9._]{1,80})</Code>")
_STATUS = re.compile(r"status code: ([0-9]{3})")
_DECORATION = re.compile(r"\x1b\[[0-9;]*m|↳")
# Texts that native libraries add for their own developers, each up to the end of the message.
_FOR_DEVELOPERS = re.compile(
    r"<\?xml|<Error>|Debug source:|\n *stack backtrace:|\n *Backtrace:|\n\s*\d+: [^\n]*::|\n\s+at /"
)
_DURATION = re.compile(r" in [0-9.]+(?:ns|µs|ms|s)\b")
"""Times in a message would make each occurrence of one error a message of its own."""

_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"})
_UNKNOWN_KEYS = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "XAdminUserNotFound"})
_BUSY = frozenset({"SlowDown", "ServiceUnavailable", "Throttling", "RequestLimitExceeded"})
_UNREACHABLE = ("kind: Connect", "error sending request")
_REFUSED = "ConnectionRefused"
"""Also after many slow attempts, a machine that refuses connections is there, and its store is not."""
_NO_OBJECT = frozenset({None, "NoSuchKey", "NotFound"})
"""Codes of a missing object. The answer to a request for a head has no code."""


class StoreFailed(SourceUnreadable):
    """An object store failed: it is not reachable, denies access, or does not answer in time."""


def said(error: BaseException) -> str:
    """Return the message of another library's error in one line with a full stop, without a server's XML, debugging
    texts, stacks and terminal colours. Of an error of the system: its file, and the system's own text.
    """
    if isinstance(error, OSError) and error.errno is not None:
        where = f"{shown(os.fsdecode(error.filename))}: " if isinstance(error.filename, str | bytes) else ""
        return f"{where}{os.strerror(error.errno)}."
    text = _FOR_DEVELOPERS.split(str(error) or type(error).__name__, maxsplit=1)[0]
    line = _DURATION.sub("", " ".join(_DECORATION.sub(" ", text).split())).rstrip(": ")
    return line if line.endswith(".") else f"{line}."


@contextlib.contextmanager
def answers(url: str, passing: tuple[type[BaseException], ...] = ()) -> Iterator[None]:
    """Turn errors of the store, to us or to deltalake, into a StoreFailed of one sentence and its advice.

    Args:
        url: What is read or written.
        passing: Errors of the caller that stay as they are.

    Raises:
        StoreFailed: The store failed.
        FileNotFoundError: The object does not exist.
        obstore.exceptions.PreconditionError: The object is another one. It stays as it is, as an AlreadyExistsError.
    """
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    started = time.monotonic()
    stay: tuple[type[BaseException], ...] = (AlreadyExistsError, PreconditionError, *passing)
    try:
        yield
        silence.ended()
    except stay:
        raise
    except FileNotFoundError as error:
        if code_of(error) in _NO_OBJECT:
            raise FileNotFoundError(f"{url} is not there") from error
        raise _failed(url, error) from error
    except (BaseError, OSError) as error:
        waited = time.monotonic() - started
        if waited >= StoreLimits(patience()).request or silence.is_known:
            silence.begin(waited)
            if _STATUS.search(str(error)) or _REFUSED in str(error):  # an answer, although a late one
                raise _failed(url, error) from error
            raise StoreFailed(f"{silence.sentence()} Its last error: {said(error)}", file=shown(url)) from error
        raise _failed(url, error) from error


def code_of(error: BaseException) -> str | None:
    """The code in the store's own answer, such as `NoSuchKey`; None without one."""
    match = _CODE.search(str(error))
    return None if match is None else match[1]


def _failed(url: str, error: BaseException) -> StoreFailed:
    code = code_of(error)
    status = _STATUS.search(str(error))
    message, advice = (
        f"the object store at {endpoint()} did not answer as it should: {said(error)}",
        ("Look at AWS_ENDPOINT_URL, at the credentials and at the network, then run again: nothing is lost."),
    )
    if code == "NoSuchBucket":
        message = f"there is no bucket {split(url)[0]} at {endpoint()}"
        advice = "Correct the name, or make the bucket first."
    elif code in _EXPIRED:
        message = f"the credentials for the object store at {endpoint()} have expired: {code}"
        advice = "Renew them (AWS_SESSION_TOKEN, or the role), then run again: nothing is lost."
    elif code in _UNKNOWN_KEYS:
        message = f"the object store at {endpoint()} does not accept the credentials: {code}"
        advice = "Correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the role, then run again: nothing is lost."
    elif code == "AccessDenied" or (status is not None and status[1] in ("401", "403")):
        message = f"the object store at {endpoint()} denies access: {code or (status and status[1])}"
        # The answer to a request for a head has no code: the credentials themselves may be wrong.
        advice = "Check the credentials" if code is None else "Check what the credentials allow"
        advice += ": s3:ListBucket and s3:GetObject are needed there. Then run again: nothing is lost."
    elif code in _BUSY:
        message = f"the object store at {endpoint()} is overloaded ({code}): it refused every attempt"
        advice = "Run again later: nothing is lost."
    elif not names_keys() and ("169.254.169.254" in str(error) or "/latest/api/token" in str(error)):
        message = f"there are no credentials for the object store at {endpoint()}, and this machine has no role"
        advice = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role, then run again."
    elif any(sign in str(error) for sign in _UNREACHABLE):
        message = f"the object store at {endpoint()} cannot be reached, at {RETRIES + 1} attempts"
        advice = "Look at AWS_ENDPOINT_URL and at the network, then run again: nothing is lost."
    return StoreFailed(message, file=shown(url), advice=advice)


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
            StoreFailed: An operation was abandoned just before.
        """
        seconds = patience()
        if self._asked is None:
            return seconds
        pause = max(LEAST_TIMEOUT, seconds / 12)
        if time.monotonic() - self._asked < pause:
            raise StoreFailed(self.sentence())
        return pause

    def sentence(self) -> str:
        return (
            f"the object store at {endpoint()} did not answer for {self._waited:.0f} seconds and was given up "
            f"({TIMEOUT_VARIABLE} is {patience():g}). Look at it and at the network, then run again: nothing is lost."
        )


silence = _Silence()
