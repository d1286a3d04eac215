"""What most tests of the jobs begin with: a source that nobody has taken from, and a lake that is not there yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker_directory import LogDirectory
from tests.spark.cycle import Lake


@pytest.fixture
def source(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path / "source")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")
