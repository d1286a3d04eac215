"""Errors of reading a source, and names of its files as messages show them."""

from __future__ import annotations

import errno

from logcore.errors import LogError
from logcore.texts import shown

__all__ = ["SourceChanged", "SourceUnreadable", "refuse_large", "shown", "unreadable"]


class SourceUnreadable(LogError):
    """A source cannot be read: permission, an I/O error, not a regular file, or an object store that fails."""


class SourceChanged(LogError):
    """A source's file changed while it was read, or since it was listed. The bytes cannot be used. Try again."""


def refuse_large(path: str, size: int, limit: int | None) -> None:
    """Raise SourceUnreadable for a file with more bytes than allowed; None allows any size."""
    if limit is not None and size > limit:
        raise SourceUnreadable(f"it has {size} bytes; at most {limit} are allowed", file=shown(path))


def unreadable(path: str, error: OSError | ValueError) -> SourceUnreadable:
    """The error for a file that the system does not let us read."""
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return SourceUnreadable("it is a symbolic link, which is not followed", file=shown(path))
    return SourceUnreadable(
        f"it cannot be read: {getattr(error, 'strerror', None) or error}.",
        file=shown(path),
        advice="Make it readable for this user, or leave it out.",
    )
