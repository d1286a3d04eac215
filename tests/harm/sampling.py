"""Which of many cases of one claim `make test` runs; `make test-long` runs all."""

from __future__ import annotations

import os
from collections.abc import Iterable

EVERY_HARM = os.environ.get("LOGLAKE_TEST_EVERY_HARM") == "1"


def sampled(cases: Iterable[str], *chosen: str) -> tuple[str, ...]:
    """All cases, or a sample of them."""
    everything = tuple(cases)
    assert set(chosen) <= set(everything)
    return everything if EVERY_HARM else chosen
