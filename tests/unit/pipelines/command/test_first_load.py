"""Workers start before everything else is loaded only where a run certainly has tasks."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from pipelines import cli
from spark_jobs import prestart
from spark_jobs.errors import UsageError


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The engines that were started."""
    engines: list[str | None] = []
    monkeypatch.setattr(prestart, "start_workers", engines.append)
    return engines


def begin(folder: Path, lake: str, *paths: str, engine: str | None = None) -> None:
    options = argparse.Namespace(lake=lake, sources=[str(folder / path) for path in paths], engine=engine)
    cli._start_workers_for_a_first_load(options)


def test_a_lake_that_is_not_there_yet_needs_workers(tmp_path, started):
    (tmp_path / "source").mkdir()
    begin(tmp_path, str(tmp_path / "lake"), "missing", "source", engine="local")
    assert started == ["local"]


@pytest.mark.parametrize("case", ["a lake that is there", "an object store", "no source"])
def test_nothing_starts_for(tmp_path, started, case):
    (tmp_path / "source").mkdir()
    (tmp_path / "lake").mkdir()
    lake = {"a lake that is there": str(tmp_path / "lake"), "an object store": "s3://bucket/lake"}.get(case, "new")
    begin(tmp_path, lake, "missing" if case == "no source" else "source")
    assert not started


def test_an_engine_that_does_not_exist_is_left_to_the_run_to_refuse(tmp_path, monkeypatch):
    def refuse(engine: str | None) -> None:
        raise UsageError(f"engine {engine!r}")

    monkeypatch.setattr(prestart, "start_workers", refuse)
    (tmp_path / "source").mkdir()
    begin(tmp_path, str(tmp_path / "lake"), "source", engine="fast")


def test_spark_needs_no_workers_of_ours(monkeypatch):
    from spark_jobs.engine import local_executor

    monkeypatch.setattr(local_executor, "get_local_executor", lambda: pytest.fail("a worker was started"))
    prestart.start_workers("spark")
