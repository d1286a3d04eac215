"""`register` of a lake on an S3-compatible server."""

from __future__ import annotations

from pathlib import Path

import pytest

from logcore.cli import main
from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, PublishConfig, ValidateConfig
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.in_process import InProcessExecutor
from tests.spark.cycle import AS_OF_MS

pytestmark = pytest.mark.object_store


@pytest.fixture
def lake(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lake with records of two topics; names of its folders have characters that a URL would escape."""
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    source = LogDirectory(tmp_path / "source")
    source.partition("orders.eu-0").append(3)
    source.partition("customers-0", OTHER_TOPIC_ID).append(3)
    source.high_watermarks(**{"orders.eu_0": 3, "customers_0": 3})
    path = f"{bucket}/a lake"
    for config in (
        IngestConfig(path, (str(source.path),), "run", AS_OF_MS),
        ValidateConfig(path, "run", AS_OF_MS),
        PublishConfig(path, "run", AS_OF_MS),
    ):
        launch.run(config)
    return path


def test_a_lake_on_the_server_has_statements_for_spark(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["register", lake, "--in", "spark"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    place = f"{lake}/tables/records".replace("s3://", "s3a://")
    assert f"CREATE TABLE IF NOT EXISTS `records` USING delta LOCATION '{place}';\n" in out


def test_a_file_of_duckdb_is_refused_with_what_reads_the_lake(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["register", lake, "--in", "duckdb", "-o", "lake.duckdb"]) == 64
    assert f"delta_scan('{lake}/tables/records')" in capsys.readouterr().err
