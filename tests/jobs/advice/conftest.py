"""A place to paste commands in, and a lake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_directory import LogDirectory
from tests.in_process import without_spark
from tests.jobs.advice.advised_lake import (
    Captured,
    Lake,
    log_of_segments,
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Commands are pasted in a directory of the operator, with a home of its own."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with without_spark():
        yield tmp_path / "here"


@pytest.fixture
def lake(tmp_path: Path, capsys: Captured) -> Lake:
    source = LogDirectory(tmp_path / "my logs")
    return Lake(tmp_path / "lake", source, log_of_segments(source.path), capsys)
