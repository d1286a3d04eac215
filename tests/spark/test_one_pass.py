"""A sound segment is read by one task: once it is copied, no job of the run opens it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs import launch
from spark_jobs.engine.executor import Executor
from spark_jobs.engine.local_executor import LocalExecutor
from spark_jobs.engine.session import get_session
from spark_jobs.engine.spark_executor import SparkExecutor
from spark_jobs.ingest.intake_results import IntakeResults
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.crash import visible
from tests.spark.cycle import Lake

pytestmark = pytest.mark.spark


@pytest.fixture(params=["workers", "spark"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "spark":
        yield SparkExecutor(get_session())
        return
    workers = LocalExecutor(2)
    yield workers
    workers.stop()


def test_after_the_copy_no_job_of_the_run_needs_the_bytes(tmp_path, monkeypatch, executor):
    """They are away while `validate` and `publish` run, in the archive and at the source."""
    source = LogDirectory(tmp_path / "source")
    views, clicks = source.partition("views-0"), source.partition("clicks-0", OTHER_TOPIC_ID)
    views.append(20)
    views.roll()  # an empty active segment follows
    clicks.append(15)
    source.high_watermarks(views_0=20, clicks_0=10)
    lake, run = Lake(tmp_path / "lake"), launch.run
    monkeypatch.setattr(launch, "start_executor", lambda *_: executor)

    def without_bytes(config, **options):
        if config.JOB == "ingest":
            return run(config, **options)
        away = {path: path.with_name(path.name + ".away") for path in tmp_path.rglob("*.log")}
        assert len(away) == 4 + 1, "two segments, twice, and the empty one"
        for path, aside in away.items():
            path.rename(aside)
        try:
            return run(config, **options)
        finally:
            for path, aside in away.items():
                aside.rename(path)

    monkeypatch.setattr(launch, "run", without_bytes)
    with IntakeResults() as results:
        lake.turn(source.path, results=results)
    assert sorted(lake.published("views")) == list(range(20))
    assert sorted(lake.published("clicks")) == list(range(10))
    visible.check(Path(lake.path))
