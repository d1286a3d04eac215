"""Patterns that match no topic of a lake are reported with the nearest names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logcore.logs.model.findings import Severity
from pipelines.run import checks
from spark_jobs.contracts import IngestConfig
from spark_jobs.ingest import ingest_job as ingest
from spark_jobs.lake.view.lake_state import read_state
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.in_process import InProcessExecutor

pytestmark = pytest.mark.dagster


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A lake with a log of `orders` and one of `payments`."""
    source = LogDirectory(tmp_path / "kafka-logs")
    source.partition("orders-0").append(3)
    source.partition("payments-0", OTHER_TOPIC_ID).append(3)
    config = IngestConfig(lake=str(tmp_path / "lake"), run_id="run", as_of_ms=0, sources=(str(source.path),))
    ingest.apply(ingest.plan(config), config, InProcessExecutor())
    return config.lake


def test_a_topic_that_neither_lake_nor_sources_have_fails_the_check_of_the_sources(lake: str, tmp_path: Path) -> None:
    sources = (str(tmp_path / "kafka-logs"),)
    config = IngestConfig(lake, sources, "next", 0, topics=("paymets", "ord*"))
    (finding,) = [each for each in ingest.plan(config).of_paths if each.rule == "nothing-chosen"]
    assert finding.message == "--topic 'paymets' matches no topic; the nearest names are payments."
    answer = checks.sources_agree(read_state(lake), (), [finding])
    assert (answer.passed, answer.severity) == (False, Severity.ERROR)
    shutil.rmtree(tmp_path / "kafka-logs" / "orders-0")
    assert "ord*" not in str(ingest.plan(config).of_paths)  # the lake has it
