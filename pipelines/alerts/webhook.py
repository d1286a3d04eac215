"""Posts one JSON document to an address. The address may hold a secret: errors name only its host."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

TIMEOUT_S = 10.0


class NotDelivered(Exception):
    """The document was not taken; the text says why, without the address."""


def post(address: str, document: dict[str, Any], timeout_s: float = TIMEOUT_S) -> None:
    """Post a document.

    Args:
        address: An ``http`` or ``https`` address, or ``env:NAME`` for one in an environment variable.
        document: What is posted, as JSON.
        timeout_s: The longest wait for an answer, seconds.

    Raises:
        NotDelivered: There is no answer, or it is not of the 2xx kind.
    """
    if address.startswith("env:"):
        name = address.removeprefix("env:")
        address = os.environ.get(name, "")
        if not address:
            raise NotDelivered(f"the environment variable {name} is not set")
    try:
        parts = urllib.parse.urlsplit(address)
        host = parts.hostname
    except ValueError:
        raise NotDelivered("the address cannot be parsed") from None
    if parts.scheme not in ("http", "https") or not host:
        raise NotDelivered("the address is not an http or https address")
    body = json.dumps(document, sort_keys=True).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"}, method="POST")  # noqa: S310 - the scheme was checked
    try:
        with urllib.request.urlopen(request, timeout=timeout_s):  # noqa: S310 - as above
            return
    except urllib.error.HTTPError as error:
        raise NotDelivered(f"{host} answered with status {error.code}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise NotDelivered(f"{host} did not answer: {type(reason).__name__}") from None
