"""`loglake lineage` of offsets after the last readable one: lost if they were committed.

The lakes are made by the real jobs from a log directory packed by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests.broker_directory import LogDirectory, Partition
from tests.in_process import without_spark
from tests.spark.cycle import Lake

pytestmark = pytest.mark.slow

Captured = pytest.CaptureFixture[str]


def traced(lake: Lake, capsys: Captured, offset: int, *, code: int) -> dict[str, Any]:
    capsys.readouterr()
    table = str(lake.path / "tables" / "records")
    assert main(["lineage", table, "--offset", f"orders-0:{offset}", "--format", "jsonl"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def source(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path / "source")


@pytest.fixture
def orders(source: LogDirectory) -> Partition:
    """Offsets 0 to 9."""
    partition = source.partition("orders-0")
    partition.append(10)
    return partition


def taken(source: LogDirectory, tmp_path: Path, high_watermark: int, lake: Lake | None = None) -> Lake:
    source.high_watermarks(orders_0=high_watermark)
    lake = Lake(tmp_path / "lake") if lake is None else lake
    with without_spark():
        lake.turn(source.path)
    return lake


def test_a_committed_offset_after_the_last_readable_one_is_missing(
    source: LogDirectory, orders: Partition, tmp_path: Path, capsys: Captured
) -> None:
    lake = taken(source, tmp_path, 14)
    found = traced(lake, capsys, 12, code=2)
    assert found["damaged"] is True
    assert found["explanation"].startswith("missing")
    shown = {name: found["ledger"][name] for name in ("start_offset", "end_offset", "state", "evidence", "published")}
    assert shown == {
        "start_offset": 10,
        "end_offset": 14,
        "state": "missing",
        "evidence": "high-watermark",
        "published": False,
    }
    assert [finding["rule"] for finding in found["findings"]] == ["high-watermark-beyond-log-end"]


def test_of_a_log_that_ends_below_its_start_only_committed_offsets_from_there_on_are_missing(
    source: LogDirectory, orders: Partition, tmp_path: Path, capsys: Captured
) -> None:
    source.checkpoint("log-start", orders_0=12)
    lake = taken(source, tmp_path, 14)
    assert traced(lake, capsys, 11, code=0)["damaged"] is False
    assert traced(lake, capsys, 12, code=2)["ledger"]["start_offset"] == 12


@pytest.mark.parametrize("offset", [14, 99])
def test_an_offset_above_the_high_watermark_is_not_lost(
    source: LogDirectory, orders: Partition, tmp_path: Path, capsys: Captured, offset: int
) -> None:
    found = traced(taken(source, tmp_path, 14), capsys, offset, code=0)
    assert (found["damaged"], found["ledger"]) == (False, None)


def test_an_offset_that_came_later_is_not_missing_any_more(
    source: LogDirectory, orders: Partition, tmp_path: Path, capsys: Captured
) -> None:
    lake = taken(source, tmp_path, 14)
    orders.append(2)
    taken(source, tmp_path, 14, lake)
    assert traced(lake, capsys, 11, code=0)["in_table"] is True
    assert traced(lake, capsys, 12, code=2)["ledger"]["start_offset"] == 12


def test_bytes_that_are_left_for_a_later_run_are_not_missing(
    source: LogDirectory, orders: Partition, tmp_path: Path, capsys: Captured
) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text("topics:\n  orders: {active.min.growth: 1000000, publish.max.delay: 1000000}\n")
    source.high_watermarks(orders_0=10)
    lake = Lake(tmp_path / "lake")
    with without_spark():
        lake.turn(source.path, policies=str(policies))
        orders.append(5)
        source.high_watermarks(orders_0=15)
        lake.turn(source.path, policies=str(policies), at_once=False)
    found = traced(lake, capsys, 12, code=0)
    assert (found["damaged"], found["ledger"]) == (False, None)


@pytest.mark.parametrize(
    ("place", "state", "evidence"),
    [
        ("d-flip-len-0:35", "corrupt", "TRUNCATED"),
        ("d-cut-half-0:36", "missing", "high-watermark"),
        ("d-seg-gone-0:20", "missing", "no-explanation"),
    ],
)
def test_every_lost_offset_of_the_damaged_sample_ends_with_2(
    damaged_lake: Lake, capsys: Captured, place: str, state: str, evidence: str
) -> None:
    capsys.readouterr()
    table = str(damaged_lake.path / "tables" / "records")
    assert main(["lineage", table, "--offset", place, "--format", "jsonl"]) == 2
    ledger = json.loads(capsys.readouterr().out)["ledger"]
    assert (ledger["state"], ledger["evidence"]) == (state, evidence)


@pytest.fixture(scope="module")
def damaged_lake(sample: Any, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(tmp_path_factory.mktemp("damaged") / "lake")
    names = ("d-flip-len-0", "d-cut-half-0", "d-seg-gone-0")
    with without_spark():
        lake.turn(sample("damaged").logdir, logs=names)
    return lake
