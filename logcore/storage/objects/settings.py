"""Settings of the access to object stores: they are read from the environment when they are needed.

The variables are those of the AWS tools, and the Rust library of `obstore` reads them: ``AWS_ENDPOINT_URL``,
``AWS_REGION``, ``AWS_ALLOW_HTTP``, and the credentials. Those are keys (``AWS_ACCESS_KEY_ID``,
``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN``), or a role: of a web identity, of a container or of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from logcore.storage.objects.addresses import AddressError

DEFAULT_REGION = "us-east-1"

TIMEOUT_VARIABLE, DEFAULT_TIMEOUT = "LOGLAKE_STORE_TIMEOUT", 60.0
"""Seconds after which an unanswered operation is abandoned."""
LEAST_TIMEOUT = 1.0

RETRIES = 6
"""Most retries of one operation. A missing endpoint must be reported within seconds; an overloaded one gets more
time."""

Environment = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """How the `seconds` of an operation are divided: a request may take one third, and none begins after two thirds."""

    seconds: float

    @property
    def request(self) -> float:
        """Seconds for one request."""
        return self.seconds / 3

    @property
    def retries(self) -> float:
        """Seconds after which no request is repeated."""
        return self.seconds * 2 / 3

    @property
    def connect(self) -> float:
        """Seconds until a connection must exist."""
        return min(5.0, self.request)

    @property
    def as_options(self) -> dict[str, str]:
        """The limits of a request in the form of the Rust library."""
        return {
            "timeout": f"{self.request * 1000:.0f}ms",
            "connect_timeout": f"{self.connect * 1000:.0f}ms",
        }


def patience() -> float:
    """Return the seconds after which an unanswered operation is abandoned, retries included.

    Raises:
        AddressError: The environment variable is not a number of seconds, or less than one.
    """
    given = os.environ.get(TIMEOUT_VARIABLE, "").strip()
    try:
        seconds = float(given) if given else DEFAULT_TIMEOUT
        if not LEAST_TIMEOUT <= seconds < 86_400:
            raise ValueError
    except ValueError:
        raise AddressError(f"{TIMEOUT_VARIABLE} is {given!r}: name a number of seconds, at least 1.") from None
    return seconds


def environment() -> Environment:
    """The variables that decide how a store is accessed."""
    return tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))


def region(settings: Mapping[str, str]) -> str:
    """The region of the store."""
    return settings.get("AWS_REGION") or settings.get("AWS_DEFAULT_REGION") or DEFAULT_REGION


def endpoint() -> str:
    """The address of the store, for messages."""
    return os.environ.get("AWS_ENDPOINT_URL") or "AWS"


def names_keys() -> bool:
    """Whether the environment has credentials or names a role, so that the machine's own role is not needed."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE")
    containers = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
    return any(os.environ.get(name) for name in (*names, *containers))
