"""What most tests of the jobs begin with: a source that no run has ingested, and a lake that does not exist yet.

Tasks of jobs run on Spark. A module that needs Spark for something else uses `tasks_in_process`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_directory import LogDirectory
from tests.in_process import EVERY_JOB_ON_SPARK, on_spark, without_spark
from tests.spark.cycle import Lake
from tests.spark.scattered_files import add_files, spans_of


@pytest.fixture(scope="module", autouse=True)
def engine() -> Iterator[None]:
    """Spark, whatever the product chooses on this machine."""
    with on_spark():
        yield


@pytest.fixture(scope="module")
def tasks_in_process() -> Iterator[None]:
    """Jobs run their tasks in the test process; in `make test-long` on Spark."""
    with on_spark() if EVERY_JOB_ON_SPARK else without_spark():
        yield


@pytest.fixture
def source(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path / "source")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def scattered(tmp_path):
    """Two topics, two partitions and two incarnations in small files."""
    add_files(tmp_path, *spans_of("a", 0, "a.0", *range(0, 60, 10)), *spans_of("a", 1, "a.0", 0, 5, 10))
    add_files(tmp_path, *spans_of("a", 0, "a.1", 25, 30, 35, 40), *spans_of("b", 0, "b.0", 0, 10))
    return tmp_path
