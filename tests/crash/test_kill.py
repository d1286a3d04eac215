"""Killed anywhere and run again, a lake is what it would have been undisturbed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.crash.sampling import EVERY_KILL
from tests.crash.visible import OF_THE_RUN, TABLES, rows

pytestmark = pytest.mark.crash

AS_OF = "1800000000000"
POINTS = [
    "segment copied before its row is committed",
    "segments committed before the row of the log",
    "between batches and validations",
    "ledger committed before validations",
    "Parquet written before the publish commit",
    "publish commit landed before its answer",
    "inside the next job",
]


def _source(path: Path) -> LogDirectory:
    """Two logs, one of them with a transaction, an open one, and a damaged batch in a closed segment."""
    source = LogDirectory(path)
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    transactional = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    orders.append(20)
    orders.append(5, **transactional)
    orders.marker(7, handmade.COMMIT)
    orders.roll()
    orders.append(10)
    orders.append(5, **transactional | {"base_sequence": 5})
    payments.append(15)
    first = payments.segments()[0]
    first.write_bytes(handmade.flip(first.read_bytes(), handmade.size_of(first.read_bytes()) + 80))
    payments.roll()
    payments.append(5)
    source.high_watermarks(orders_0=41, payments_0=20)
    return source


def _run(source: Path, lake: Path, point: str | None = None) -> subprocess.CompletedProcess[str]:
    how = ["-m", "logcore.cli.main"] if point is None else ["-m", "tests.crash.killed_run", point]
    command = [sys.executable, *how, "run", str(source), "--lake", str(lake), "--as-of", AS_OF]
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)


def _tables(lake: Path) -> dict[str, list[dict[str, Any]]]:
    """Every table's rows, without what names the run; sorted, so that equal means equal as sets."""
    return {
        name: sorted(({k: v for k, v in row.items() if k not in OF_THE_RUN} for row in rows(lake, name)), key=repr)
        for name in TABLES
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _source(tmp_path_factory.mktemp("crash") / "source").path


@pytest.fixture(scope="module")
def undisturbed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    lake = tmp_path_factory.mktemp("undisturbed") / "lake"
    done = _run(source, lake)
    assert done.returncode == 2, done.stderr  # the damage that was planted, and nothing worse
    tables = _tables(lake)
    assert len(tables["records"]) == 20 + 5 + 10 + 5
    assert {row["state"] for row in tables["offset_ledger"]} == {"present", "control", "open", "corrupt"}
    return tables


@pytest.mark.parametrize("point", POINTS if EVERY_KILL else POINTS[1::2])
def test_killed_and_run_again_the_tables_are_those_of_an_undisturbed_run(point, source, undisturbed, tmp_path):
    lake = tmp_path / "lake"
    killed = _run(source, lake, point)
    assert killed.returncode == -signal.SIGKILL, f"it did not die at: {point}\n{killed.stderr}"
    again = _run(source, lake)
    assert again.returncode == 2, again.stderr
    tables = _tables(lake)
    for name in TABLES:
        assert tables[name] == undisturbed[name], name


def test_of_two_runs_on_one_lake_one_works_and_the_other_names_it(source, tmp_path):
    lake = tmp_path / "lake"
    command = [sys.executable, "-m", "logcore.cli.main", "run", str(source), "--lake", str(lake), "--as-of", AS_OF]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not (lake / "lease.json").is_file() or not (lake / "lease.json").read_bytes():
            assert first.poll() is None, first.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        second = _run(source, lake)
        assert second.returncode == 3
        assert str(first.pid) in second.stderr
        assert "Traceback" not in second.stderr
    finally:
        out, err = first.communicate(timeout=300)
    assert first.returncode == 2, (out, err)
