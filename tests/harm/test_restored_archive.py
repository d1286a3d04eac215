"""`repair --archive --apply` says what it restored, and counts what is harmed afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.run.run_request import RunRequest
from tests.broker_directory import LogDirectory
from tests.harm.small_lake import SmallLake


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallLake:
    """Two archived segments of one log."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    source = LogDirectory(tmp_path / "source")
    orders = source.partition("orders-0")
    orders.append(5)
    orders.roll()
    orders.append(5)
    source.high_watermarks(orders_0=10)
    made = SmallLake(tmp_path / "lake", RunRequest((str(source.path),)))
    assert made.run().code == 0
    return made


@pytest.mark.parametrize("gone", [0, 1])
def test_a_repair_counts_what_is_harmed_after_it(lake: SmallLake, tmp_path: Path, gone: int) -> None:
    for number, path in enumerate(sorted((lake.path / "archive").rglob("*.log"))):
        path.write_bytes(b"other bytes")
        if number < gone:
            (tmp_path / "source" / "orders-0" / f"{number:020d}.log").unlink()
    planned = lake.loglake("repair", lake.path, "--archive")
    assert planned.code == (2 if gone else 1)
    assert "2 of 2 archived files are harmed" in planned.said
    done = lake.loglake("repair", lake.path, "--archive", "--apply")
    assert done.code == (2 if gone else 0)
    assert f"{2 - gone} archived files were restored\n{gone} of 2 archived files are harmed" in done.said
