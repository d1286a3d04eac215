"""The existing names that are most similar to a requested one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

MOST = 3
"""Most names in a message."""


def nearest(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return at most `MOST` names similar to the pattern, the most similar first.

    Args:
        pattern: A name or a glob. Its case and the special characters of a glob are ignored.
        names: The existing names.
    """
    plain = re.sub(r"\[[^]]*\]|[*?]", "", pattern).lower()
    by_lower: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        by_lower.setdefault(name.lower(), []).append(name)
    close = difflib.get_close_matches(plain, by_lower, MOST)
    return tuple(name for lower in close for name in by_lower[lower])[:MOST]


def no_such_topic(pattern: str, topics: Iterable[str]) -> str:
    """Return the message for a pattern that matches no topic.

    Args:
        pattern: A name or a glob.
        topics: The existing topics. The message has the nearest ones; if none is near, it has some of them.
    """
    known = sorted(set(topics))
    close = nearest(pattern, known)
    if close:
        return f"{pattern!r} matches no topic; the nearest names are {', '.join(close)}."
    if not known:
        return f"{pattern!r} matches no topic: there is none."
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return f"{pattern!r} matches no topic; there are {', '.join(known[:MOST])}{more}."
