"""Inputs that once came out otherwise than Kafka's own classes leave them, with what those left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential import trials
from tests.differential.campaign import compared

FOUND = sorted((Path(__file__).parent / "found").glob("*.tar.xz"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_what_came_out_otherwise_does_not_any_more(path: Path):
    trial, kafka = trials.kept(path)
    assert compared(trial, kafka).differences == ()
