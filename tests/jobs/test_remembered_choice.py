"""What a lake remembers of its runs: the topics that it took, and when the intake succeeded last."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs.lake.setup.registry import recall
from tests.broker_directory import LogDirectory
from tests.in_process import without_spark

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    with without_spark():
        yield


def logs(root: Path) -> Path:
    source = LogDirectory(root)
    source.partition("orders-0").append(5)
    source.partition("users-0").append(5)
    source.high_watermarks(orders_0=5, users_0=5)
    return root


def said(capsys: Captured, *arguments: str | Path) -> str:
    assert main([str(word) for word in arguments]) == 0
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_a_run_that_takes_more_than_the_topics_chosen_before_says_so(tmp_path: Path, capsys: Captured) -> None:
    run = ("run", logs(tmp_path / "logs"), "--lake", tmp_path / "lake")
    assert "took only" not in said(capsys, *run, "--topic", "orders")
    assert "took only" not in said(capsys, *run, "--topic", "orders")
    widened = said(capsys, *run)
    assert "note: until now this lake took only --topic orders of these sources." in widened
    assert "took only" not in said(capsys, *run)


def test_a_run_that_takes_more_from_sources_that_were_moved_says_so(tmp_path: Path, capsys: Captured) -> None:
    run, more = ("run", logs(tmp_path / "logs"), "--lake", tmp_path / "lake"), ("--lake", tmp_path / "lake")
    said(capsys, *run, "--topic", "orders")
    (tmp_path / "logs").rename(tmp_path / "moved")
    moved = said(capsys, "run", tmp_path / "moved", *more, "--move-source")
    assert "note: until now this lake took only --topic orders of these sources." in moved
    assert "every log, and the schedules go on with that." in moved
    assert recall(str(tmp_path / "lake")).intakes[0].topics == ("orders",)


def test_an_intake_that_found_nothing_before_maintenance_succeeded_too(tmp_path: Path, capsys: Captured) -> None:
    run = ("run", logs(tmp_path / "logs"), "--lake", tmp_path / "lake")
    said(capsys, *run)
    said(capsys, *run)  # Dagster's history is complete

    def last_success() -> str:
        found = re.search(r"intake: last success: (\S+)", said(capsys, "status", tmp_path / "lake"))
        assert found
        return found[1]

    before = last_success()
    time.sleep(1.1)  # its times are whole seconds
    said(capsys, *run, "--maintain")
    assert last_success() > before
