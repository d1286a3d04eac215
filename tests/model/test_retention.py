"""Retention leaves what the model leaves, after every short history and many long ones (I9)."""

from __future__ import annotations

import pytest

from tests.model import ours
from tests.model.checker import Settings
from tests.model.histories import SHORT_OF_RETENTION, random_history, run, shortest
from tests.model.naive_cleaner import NaiveCleaner


@pytest.mark.long
@pytest.mark.parametrize("retention_bytes", [-1, 0, 150])
@pytest.mark.parametrize("retention_ms", [4, -1])
def test_retention_is_the_models_after_every_short_history(retention_ms: int, retention_bytes: int):
    settings = Settings(retention_ms=retention_ms, retention_bytes=retention_bytes)
    found = shortest(settings, NaiveCleaner(), 6, retain=ours.retain, alphabet=SHORT_OF_RETENTION)
    assert sum(1 for _ in found) > 10_000


def test_retention_is_the_models_after_random_histories():
    for seed in range(1000):
        settings = Settings(retention_ms=(5, -1, 20)[seed % 3], retention_bytes=(-1, 200, 0, 500)[seed % 4])
        run(random_history(seed), settings, NaiveCleaner(), ours.retain)
