"""The existing names that are most similar to a requested one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

MOST = 3
"""Most names in a message."""


def nearest(asked: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return at most `MOST` names similar to the given one, the most similar first.

    Case and the special characters of a glob are ignored.
    """
    plain = re.sub(r"\[[^]]*\]|[*?]", "", asked).lower()
    by_lower: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        by_lower.setdefault(name.lower(), []).append(name)
    close = difflib.get_close_matches(plain, by_lower, MOST)
    return tuple(name for lower in close for name in by_lower[lower])[:MOST]


def no_such_topic(asked: str, topics: Iterable[str]) -> str:
    """Report a pattern that matches no topic, with the nearest names, else with existing names."""
    known = sorted(set(topics))
    close = nearest(asked, known)
    if close:
        return f"{asked!r} matches no topic; the nearest names are {', '.join(close)}."
    if not known:
        return f"{asked!r} matches no topic: there is none."
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return f"{asked!r} matches no topic; there are {', '.join(known[:MOST])}{more}."
