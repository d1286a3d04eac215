"""`loglake doctor` and `loglake metrics` of a lake and a source in a bucket."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, JobConfig, PublishConfig, ValidateConfig
from spark_jobs.lake.store.lease import hold
from tests.broker_directory import LogDirectory
from tests.object_store.gateway import upload

pytestmark = pytest.mark.object_store

AS_OF_MS = 1_800_000_000_000
Captured = pytest.CaptureFixture[str]
RequestsOf = Callable[[Callable[[], object]], list[str]]


@pytest.fixture
def lake(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Ten published records; the source is in the bucket too."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    source = LogDirectory(tmp_path / "source")
    source.partition("orders-0").append(10)
    source.high_watermarks(orders_0=10)
    upload(source.path, f"{bucket}/logs")
    lake = f"{bucket}/lake"
    configs: list[JobConfig] = [
        IngestConfig(lake, (str(source.path),), "run-1", AS_OF_MS),
        ValidateConfig(lake, "run-1", AS_OF_MS),
        PublishConfig(lake, "run-1", AS_OF_MS),
    ]
    for config in configs:
        launch.run(config, engine="local")
    return lake


def doctor(capsys: Captured, *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    capsys.readouterr()
    code = main(["doctor", "--format", "jsonl", *arguments])
    checks = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return code, {each["check"]: (each["state"], each["text"]) for each in checks}


def test_a_lake_and_a_source_in_a_bucket_can_be_reached(bucket: str, lake: str, capsys: Captured) -> None:
    code, found = doctor(capsys, "--lake", lake, f"{bucket}/logs")
    assert code == 0
    assert {found[name][0] for name in ("lake", "source")} == {"ok"}
    assert "lake-disk" not in found


def test_a_bucket_or_prefix_that_is_not_there_is_named(bucket: str, lake: str, capsys: Captured) -> None:
    code, found = doctor(capsys, "--lake", f"{bucket}/nothing", f"{bucket}/empty")
    assert code == 3
    assert found["lake"][0] == "failed"
    assert found["source"] == ("warning", f"{bucket}/empty: the store answers and has no objects there.")
    code, found = doctor(capsys, "--lake", "s3://no-such-bucket/lake", "s3://no-such-bucket/logs")
    assert code == 3
    assert (found["lake"][0], found["source"][0]) == ("failed", "failed")


def test_metrics_read_only(lake: str, capsys: Captured, requests_of: RequestsOf) -> None:
    codes: list[int] = []
    found = requests_of(lambda: codes.append(main(["metrics", lake])))
    text = capsys.readouterr().out
    assert codes == [0]
    assert 'loglake_published_records{lake="lake",topic="orders",partition="0",incarnation="0"} 10\n' in text
    assert 'loglake_lease_held{lake="lake"} 0\n' in text
    assert [each for each in found if not re.match("GET|HEAD", each)] == []
    with hold(lake, "run"):
        main(["metrics", lake])
    assert 'loglake_lease_held{lake="lake"} 1\n' in capsys.readouterr().out
