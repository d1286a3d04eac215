"""The existing names that are most similar to a requested one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from logcore.logs.model.log_selection import LogSelection

MOST = 3
"""Most names in a message."""
_ABBREVIATION = 3
"""Characters of the shortest abbreviation."""


def nearest(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return at most `MOST` names similar to the pattern, the most similar first; else names that begin with it.

    Where three characters or more begin one name only, that name is the answer.

    Args:
        pattern: A name or a glob. Its case and the special characters of a glob are ignored.
        names: The existing names.
    """
    plain = re.sub(r"\[[^]]*\]|[*?]", "", pattern).lower()
    by_lower: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        by_lower.setdefault(name.lower(), []).append(name)
    begun = [name for name in by_lower if plain and name.startswith(plain)]
    # A beginning that only one name has is its abbreviation: `trans` is more similar to `runs` than to `transactions`.
    is_abbreviation = len(begun) == 1 and len(plain) >= _ABBREVIATION
    close = begun if is_abbreviation else difflib.get_close_matches(plain, by_lower, MOST) or begun
    return tuple(name for lower in close for name in by_lower[lower])[:MOST]


def no_such_topic(pattern: str, topics: Iterable[str]) -> str:
    """Return the message for a pattern that matches no topic; arguments as `no_such`."""
    return no_such("topic", pattern, topics)


def no_such(kind: str, pattern: str, names: Iterable[str]) -> str:
    """Return the message for a name or a pattern that matches nothing.

    Args:
        kind: What it should match: `topic`, `group`.
        pattern: The name, or a glob.
        names: The existing names. The message has the nearest ones; if none is near, it has some of them.
    """
    known = sorted(set(names))
    close = nearest(pattern, known)
    if close:
        return f"{pattern!r} matches no {kind}; the nearest names are {', '.join(close)}."
    if not known:
        return f"{pattern!r} matches no {kind}: there is none."
    some = ", ".join(name or '""' for name in known[:MOST])
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return f"{pattern!r} matches no {kind}; there are {some}{more}."


def unmatched(selection: LogSelection, topics: Iterable[str]) -> str:
    """Return a sentence, after a space, for each `--topic` that matches no topic; else an empty text.

    Args:
        selection: The chosen logs.
        topics: The existing topics.
    """
    known = sorted(set(topics))
    return "".join(f" --topic {no_such_topic(pattern, known)}" for pattern in selection.unmatched_topics(known))
