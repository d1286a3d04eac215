"""One loop that retries a commit, or a whole job, after another commit was faster."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from spark_jobs.errors import ConcurrentChange

COMMIT_ATTEMPTS = 8
"""Attempts of a commit. With the pauses, a writer that commits every few seconds cannot starve it."""
FIRST_PAUSE_S = 0.05
"""Pause before the second attempt; it doubles before each further one."""

Result = TypeVar("Result")


def retried(
    attempt: Callable[[], Result], attempts: int = COMMIT_ATTEMPTS, sleep: Callable[[float], None] = time.sleep
) -> Result:
    """Return the result of the first attempt that no other commit overtakes.

    Args:
        attempt: Reads its inputs at each call; raises :class:`ConcurrentChange` if they have changed.
        sleep: Called with the seconds of each pause.

    Raises:
        ConcurrentChange: The last attempt was overtaken too.
    """
    for done in range(attempts - 1):
        try:
            return attempt()
        except ConcurrentChange:
            sleep(FIRST_PAUSE_S * 2**done)
    return attempt()
