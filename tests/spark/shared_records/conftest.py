"""A lake with three files of ten offsets of each log, and what a mixer leaves of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.spark.cycle import Lake
from tests.spark.shared_records.mixed_files import Logs, Mix, make


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Logs]:
    """Made once for all tests that need no growing source."""
    folder = tmp_path_factory.mktemp("shared")
    return folder, make(folder)[2]


@pytest.fixture
def logs(made_once: tuple[Path, Logs]) -> Logs:
    return made_once[1]


@pytest.fixture
def shared(made_once: tuple[Path, Logs], tmp_path: Path) -> Lake:
    """A copy of that lake."""
    return Lake(Path(shutil.copytree(made_once[0] / "lake", tmp_path / "lake")))


@pytest.fixture(scope="module")
def mixed_once(made_once: tuple[Path, Logs]) -> Callable[[Mix], Path]:
    """Makes the lake that a mixer leaves, each once."""

    @cache
    def make_mixed(mix: Mix) -> Path:
        path = Path(shutil.copytree(made_once[0] / "lake", made_once[0] / mix.__name__))
        mix(Lake(path))
        return path

    return make_mixed


@pytest.fixture
def mixed(mix: Mix, mixed_once: Callable[[Mix], Path], tmp_path: Path) -> Lake:
    """A copy of the lake that the mixer of the test leaves."""
    return Lake(Path(shutil.copytree(mixed_once(mix), tmp_path / "mixed")))
