"""`loglake verify LAKE` on a lake that real Spark made and that real Spark then changes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from spark_jobs.engine.session import get_session
from tests.broker_directory import LogDirectory
from tests.spark.cycle import Lake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tasks_in_process")]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Offsets 0-39 of orders-0 in two files."""
    folder = tmp_path_factory.mktemp("verified")
    source, lake = LogDirectory(folder / "source"), Lake(folder / "lake")
    orders = source.partition("orders-0")
    for end in (20, 40):
        orders.append(20)
        source.high_watermarks(orders_0=end)
        lake.turn(source.path)
    return folder / "lake"


@pytest.fixture
def lake(made_once: Path, tmp_path: Path) -> Lake:
    return Lake(Path(shutil.copytree(made_once, tmp_path / "lake")))


@pytest.fixture
def verified(capsys: pytest.CaptureFixture[str]) -> Callable[[Lake], tuple[int, list[dict[str, Any]], dict[str, Any]]]:
    def run(lake: Lake) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
        capsys.readouterr()
        code = main(["verify", str(lake.path), "--format", "jsonl"])
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return code, lines[:-1], lines[-1]["summary"]

    return run


def sql(lake: Lake, statement: str) -> None:
    """A statement on `records`, which it names as {records}."""
    get_session(str(lake.path)).sql(statement.format(records=f"delta.`{lake.path / 'tables' / 'records'}`"))


def test_a_lake_made_by_spark_is_clean_and_proved_by_digest(lake, verified):
    code, findings, summary = verified(lake)
    assert (code, findings) == (0, [])
    assert summary["rows"] == summary["rows_by_digest"] == 40


@pytest.mark.long
def test_what_spark_optimized_is_proved_by_the_archive(lake, verified):
    sql(lake, "OPTIMIZE {records}")
    code, findings, summary = verified(lake)
    assert code == 0
    assert {each["rule"] for each in findings} <= {"foreign-commit", "rows-out-of-order"}
    assert "OPTIMIZE" in findings[0]["message"]
    assert (summary["rows"], summary["rows_by_archive"]) == (40, 40)


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [
        "value = CAST('other' AS BINARY)",
        "timestamp = timestamp + INTERVAL 1 MILLISECOND",
        "headers = array(named_struct('key', 'k', 'value', CAST('v' AS BINARY)))",
    ],
)
def test_a_row_that_spark_changed_is_named(lake, verified, change):
    sql(lake, f"UPDATE {{records}} SET {change} WHERE offset = 23")
    code, findings, _ = verified(lake)
    assert code == 2
    differing = [each for each in findings if each["rule"] == "rows-differ-from-archive"]
    assert [(each["offset"], each["end_offset"]) for each in differing] == [(23, 24)]


@pytest.mark.long
def test_rows_that_spark_deleted_are_named(lake, verified):
    sql(lake, "DELETE FROM {records} WHERE offset IN (3, 4, 30)")
    code, findings, _ = verified(lake)
    assert code == 2
    missing = [each for each in findings if each["rule"] == "rows-differ-from-ledger"]
    assert [(each["offset"], each["end_offset"]) for each in missing] == [(3, 5), (30, 31)]


@pytest.mark.long
def test_rows_that_spark_wrote_twice_are_named(lake, verified):
    sql(lake, "INSERT INTO {records} SELECT * FROM {records} WHERE offset = 11")
    code, findings, _ = verified(lake)
    assert code == 2
    assert [(e["offset"], e["end_offset"]) for e in findings if e["rule"] == "rows-differ-from-ledger"] == [(11, 12)]


@pytest.mark.long
def test_a_restored_table_and_a_column_of_the_user(lake, verified):
    sql(lake, "ALTER TABLE {records} ADD COLUMNS (label STRING)")
    sql(lake, "UPDATE {records} SET label = 'mine'")
    code, findings, summary = verified(lake)
    assert (code, {each["rule"] for each in findings} <= {"foreign-commit", "rows-out-of-order"}) == (0, True)
    assert summary["rows_by_archive"] == 40
    sql(lake, "RESTORE TABLE {records} TO VERSION AS OF 1")
    assert verified(lake)[0] == 2
