"""Which of many places to be killed at `make test` tries; `make test-long` tries all."""

from __future__ import annotations

import os

from tests.crash.forks import JOBS

EVERY_KILL = os.environ.get("LOGLAKE_TEST_EVERY_KILL") == "1"


def places(job: str, count: int) -> range:
    """Numbers of the side effects of a job to be killed before: every third, in turn over the jobs, or all."""
    return range(count) if EVERY_KILL else range(JOBS.index(job) % 3, count, 3)
