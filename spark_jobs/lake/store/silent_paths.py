"""Paths that did not answer a look in time, such as those of a dead mount. A look below one may wait for ever.

A thread of its own looks at a source; see :mod:`spark_jobs.lake.view.unread_sources`.
"""

from __future__ import annotations

import time

awaited: dict[str, float] = {}
"""Paths at which a thread looks now, and until when its answer is in time (monotonic clock, seconds)."""


def is_silent(path: str) -> bool:
    """Return whether a path is one that did not answer in time, and still does not, or lies below one."""
    now = time.monotonic()
    return any(until <= now and f"{path}/".startswith(f"{at.rstrip('/')}/") for at, until in list(awaited.items()))
