"""A run of a new lake on a path where no log is makes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs import launch
from spark_jobs.errors import JobError
from spark_jobs.policies.policies_file import NO_POLICIES
from tests.broker_directory import LogDirectory


def make_server_logs(folder: Path) -> str:
    (folder / "server.log").write_text("[2026-01-05 10:00:00,000] INFO started (kafka.server)\n")
    return "has text logs of a broker"


def make_parent(folder: Path) -> str:
    LogDirectory(folder / "data" / "disk1").partition("orders-0").append(5)
    return f"{folder}/data/disk1: name these. Nothing was made"


@pytest.mark.parametrize("make", [make_server_logs, make_parent])
def test_a_wrong_place_is_refused_before_a_lake_is_made(tmp_path: Path, make) -> None:
    source, lake = tmp_path / "source", tmp_path / "lake"
    source.mkdir()
    expected = make(source)
    with pytest.raises(JobError, match=expected):
        launch.check_run(str(lake), [str(source)], (), NO_POLICIES)
    assert not lake.exists()


def test_an_empty_directory_may_be_a_mount_that_comes_later(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    launch.check_run(str(tmp_path / "lake"), [str(tmp_path / "source")], (), NO_POLICIES)
