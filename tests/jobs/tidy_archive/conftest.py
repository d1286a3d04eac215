"""A lake whose archive has a segment to retire and slices to join."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark_jobs import launch
from spark_jobs.contracts import (
    RebuildIndexesConfig,
)
from tests.broker_directory import LogDirectory
from tests.jobs.tidy_archive.tidied_lake import POLICY
from tests.spark.archived import append_segment
from tests.spark.cycle import AS_OF_MS, Lake


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """orders: a segment of ten with side files, then one that came in three slices of five; all published."""
    folder = tmp_path_factory.mktemp("tidy_archive")
    source, lake = LogDirectory(folder / "source"), Lake(folder / "lake")
    orders = source.partition("orders-0")
    append_segment(orders, [(b"k", b"v")] * 10, 1_700_000_001_000)
    append_segment(orders, [(b"k%d" % n, b"v") for n in range(5)], 1_700_000_002_000)
    lake.turn(source.path)
    for _ in range(2):
        orders.append(5)
        lake.turn(source.path)
    launch.run(RebuildIndexesConfig(str(lake.path), "rebuild", AS_OF_MS))
    (folder / "policies.yaml").write_text(POLICY)
    return lake


@pytest.fixture
def lake(built: Lake, tmp_path: Path) -> Lake:
    shutil.copy(built.path.parent / "policies.yaml", tmp_path)
    copy = Lake(Path(shutil.copytree(built.path, tmp_path / "lake")))
    copy.turns = built.turns
    return copy
