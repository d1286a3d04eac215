"""Access to an object store: one handle for each bucket and setting of this process."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from logcore.errors import LogError
from logcore.storage.objects.addresses import AddressError, split
from logcore.storage.objects.answers import said, silence
from logcore.storage.objects.settings import RETRIES, Environment, StoreLimits, environment, region

if TYPE_CHECKING:
    from obstore.store import S3Store

EXTRA = "s3"
"""The extra of the wheel that brings `obstore`."""


def store_and_key(url: str) -> tuple[S3Store, str]:
    """Return the store of a bucket, and the key in it.

    Raises:
        AddressError: The name or a setting cannot be used.
        StoreFailed: The store did not answer just before.
        LogError: The package `obstore` is not installed.
    """
    bucket, key = split(url)
    require_obstore(url)
    return _store(bucket, environment(), silence.budget()), key


def require_obstore(url: str) -> None:
    """Check that objects can be read here.

    Raises:
        LogError: The package `obstore` is not installed; the text names the extra that brings it.
    """
    try:
        import obstore  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise LogError(
            f"{url} is on an object store, and the package obstore is not installed here.",
            advice=f"Install the wheel with its extra `{EXTRA}`, as docs/deploy.md says; or install obstore itself.",
        ) from error


@functools.lru_cache(maxsize=8)
def _store(bucket: str, variables: Environment, seconds: float) -> S3Store:
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    settings = dict(variables)
    endpoint = settings.get("AWS_ENDPOINT_URL", "")
    if urlsplit(endpoint).scheme == "http" and settings.get("AWS_ALLOW_HTTP", "").lower() not in ("true", "1"):
        raise AddressError(
            f"AWS_ENDPOINT_URL is {endpoint}, which is not encrypted: set AWS_ALLOW_HTTP=true if that is intended."
        )
    limits = StoreLimits(seconds)
    try:
        return S3Store(
            bucket,
            region=region(settings),
            # Not as client_options, which would override the client settings of the environment (AWS_ALLOW_HTTP).
            config=limits.as_options,  # type: ignore[arg-type]
            retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=limits.retries)},
        )
    except BaseError as error:
        raise AddressError(f"s3://{bucket}: the AWS_* settings can't be used: {said(error)}") from error
