"""Tests of jobs on small lakes: tasks run in the test process, in `make test-long` on Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.in_process import unreported
from tests.spark.conftest import lake, source, tasks_in_process  # noqa: F401 - fixtures


@pytest.fixture(scope="module", autouse=True)
def executor(tasks_in_process: None) -> None:  # noqa: F811
    """No claim here is about Spark."""


@pytest.fixture(scope="module", autouse=True)
def history() -> Iterator[None]:
    """Nor about Dagster."""
    with unreported():
        yield
