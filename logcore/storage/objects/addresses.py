"""Names of objects, `s3://bucket/key`, and of the directories that keys form. Nothing is read here.

An object store has no directories. Here a key is a path: `s3://bucket/logs/orders-0/00000000000000000000.log` lies in
the partition directory `s3://bucket/logs/orders-0`.
"""

from __future__ import annotations

import os
import posixpath

_SCHEME = "s3"


class AddressError(ValueError):
    """An object store, or its settings in the environment, are named in a way that cannot be used."""


def is_object(path: str) -> bool:
    """Whether a path is on an object store."""
    return "://" in path


def split(url: str) -> tuple[str, str]:
    """Split `s3://bucket/key` into bucket and key; the key may be empty.

    Raises:
        AddressError: It has another scheme, names no bucket, or has more than a bucket and a key.
    """
    scheme, rest = url.split("://", 1)
    bucket, _, key = rest.partition("/")
    if scheme != _SCHEME:
        raise AddressError(f"{scheme}:// is no object store that Loglake supports; name it as s3://bucket/prefix.")
    if not bucket or "@" in bucket or "?" in rest or "#" in rest:
        raise AddressError(
            "An object store is named s3://bucket/prefix, without credentials or options: "
            "those are read from the AWS_* environment variables."
        )
    return bucket, key


def url_of(bucket: str, key: str) -> str:
    """The name of an object, or of a directory of objects, without a slash at its end."""
    return f"{_SCHEME}://{bucket}/{key}".rstrip("/")


def absolute(path: str) -> str:
    """The absolute path of a file, or the name of an object without a slash at its end.

    Raises:
        AddressError: As `split`.
    """
    return url_of(*split(path)) if is_object(path) else os.path.abspath(path)


def directory_of(path: str) -> str:
    """The directory that contains a file or an object, by its name."""
    return posixpath.dirname(absolute(path)) if is_object(path) else os.path.dirname(os.path.abspath(path))
