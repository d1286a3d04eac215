"""A lake of one log, in a home of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.spark_jobs.lake.view.lakes import made


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty lake home that the environment names."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def lake(home: Path, tmp_path: Path) -> str:
    """A lake with one log, `orders-0`, whose ten records are published."""
    return made(tmp_path, orders_0=10)
