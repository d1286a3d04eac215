"""Patterns that match no topic, and the existing names that are most similar to them."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Sequence

MOST = 3
"""Names that a message lists at most."""


def unmatched(patterns: Iterable[str], topics: Sequence[str]) -> tuple[str, ...]:
    """The patterns (globs, in their order) that match no topic."""
    return tuple(glob for glob in patterns if not any(fnmatch.fnmatchcase(topic, glob) for topic in topics))


def nearest(asked: str, names: Iterable[str]) -> tuple[str, ...]:
    """At most `MOST` names similar to the given one, the most similar first. Case and the marks of a glob do not
    count."""
    plain = re.sub(r"\[[^]]*\]|[*?]", "", asked).lower()
    by_lower: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        by_lower.setdefault(name.lower(), []).append(name)
    close = difflib.get_close_matches(plain, by_lower, MOST)
    return tuple(name for lower in close for name in by_lower[lower])[:MOST]


def no_such_topic(asked: str, topics: Iterable[str]) -> str:
    """The sentence about a pattern that matches none of some topics: which names are nearest, else which there are."""
    known = sorted(set(topics))
    close = nearest(asked, known)
    if close:
        return f"{asked!r} matches no topic; the nearest names are {', '.join(close)}."
    if not known:
        return f"{asked!r} matches no topic: there is none."
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return f"{asked!r} matches no topic; there are {', '.join(known[:MOST])}{more}."
