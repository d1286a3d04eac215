"""Types and the clock of a call of `loglake status` in these tests, and the problems that metrics count."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spark_jobs.lake_commands.metrics import lake_samples

Captured = pytest.CaptureFixture[str]
Status = Callable[..., tuple[int, str]]
NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000
POLICIES = "lake:\n  ingest: every 5 min\n"


def lake_problems(lake: str) -> dict[str | None, float]:
    """What the metrics count."""
    figures = (each for each in lake_samples(lake, "s", NOW_MS) if each.metric == "loglake_problems" and each.value)
    return {dict(each.labels).get("kind"): each.value for each in figures}
