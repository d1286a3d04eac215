"""Views of a lake on an S3-compatible server: a lost object of one table leaves the views of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from logcore.cli import main
from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, PublishConfig, ValidateConfig
from spark_jobs.lake.store import storage
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


def test_a_lake_on_the_server_has_statements_for_spark_and_a_lost_object_is_said(
    lake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["views", lake, "--spark-sql"]) == 0
    whole = capsys.readouterr()
    assert whole.err == ""
    assert "raise_error" not in whole.out
    lost = next(file.path for file in storage.files_below(f"{lake}/tables/records") if file.path.endswith(".parquet"))
    storage.delete(lost)
    assert main.main(["views", lake, "--spark-sql"]) == 3
    out, err = capsys.readouterr()
    assert err.startswith(f"warning: The view records has no rows. Table records: {lost} can't be read ")
    assert "raise_error('Table records: " in out
    names = [line.split("VIEW ")[1].split()[0] for line in out.splitlines() if "TEMPORARY VIEW" in line]
    assert {"`segments`", "`logs`", "`offset_ledger`", "loglake_views"} <= set(names)
    assert main.main(["query", lake, "select count(*) as n from logs", "--format", "jsonl"]) == 0
    assert capsys.readouterr().out == '{"n":2}\n'
