"""A command with nothing to do loads no Dagster and reports nothing, unless Dagster shows something else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

from pipelines.command.dagster_history import open_instance
from tests.broker_directory import LogDirectory
from tests.daemons import WAIT_SECONDS

pytestmark = pytest.mark.dagster

PROGRAM = """
import sys
from logcore.cli.main import main
code = main(sys.argv[1:])
print("loaded:", *sorted({"dagster", "great_expectations", "pandas", "pyspark"} & sys.modules.keys()))
sys.exit(code)
"""


@pytest.fixture
def source(tmp_path: Path) -> LogDirectory:
    made = LogDirectory(tmp_path / "kafka-logs")
    made.partition("orders-0").append(20)
    made.high_watermarks(orders_0=20)
    return made


def run(tmp_path: Path, source: LogDirectory, *options: str, history: str = "history") -> tuple[int, list[str], bool]:
    """One command in a process of its own: exit code, what was loaded, and whether it printed "nothing new"."""
    places = {"LOGLAKE_HOME": str(tmp_path / "home"), "DAGSTER_HOME": str(tmp_path / history)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "run", str(source.path), "--lake", str(tmp_path / "lake"), *options],
        env=os.environ | places,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert lines, done.stderr
    assert done.returncode != 3, done.stderr
    return done.returncode, lines[-1].split()[1:], any(line.startswith("nothing new") for line in lines)


def intakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, history: str = "history") -> int:
    """How many intakes were reported: each one answers each check once."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / history))
    with open_instance(str(tmp_path / history)) as instance:
        assert instance.get_runs_count() == 0
        events = instance.all_logs("", of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        return sum(e.get_dagster_event().asset_check_evaluation_data.check_name == "no_damage" for e in events)


@pytest.mark.long
def test_a_run_with_nothing_to_do_loads_no_dagster_and_reports_nothing(tmp_path, source, monkeypatch):
    first = run(tmp_path, source)
    assert (first[0], "dagster" in first[1], first[2]) == (0, True, False)
    again = run(tmp_path, source)
    assert again == (0, [], True)
    assert intakes(tmp_path, monkeypatch) == 1


@pytest.mark.long
def test_maintenance_after_an_intake_without_work_records_no_intake(tmp_path, source, monkeypatch):
    run(tmp_path, source)
    code, loaded, _ = run(tmp_path, source, "--maintain", "--apply")
    assert (code, "dagster" in loaded) == (0, True)
    assert intakes(tmp_path, monkeypatch) == 1
    source.partition("orders-1").append(5)
    source.high_watermarks(orders_0=20, orders_1=5)
    assert run(tmp_path, source, "--maintain", "--apply")[0] == 0
    assert intakes(tmp_path, monkeypatch) == 2


@pytest.mark.long
def test_growth_is_found_and_recorded(tmp_path, source, monkeypatch):
    run(tmp_path, source)
    source.partition("orders-1").append(5)
    source.high_watermarks(orders_0=20, orders_1=5)
    code, loaded, is_nothing = run(tmp_path, source)
    assert (code, "dagster" in loaded, is_nothing) == (0, True, False)
    assert intakes(tmp_path, monkeypatch) == 2


@pytest.mark.long
def test_a_lasting_failure_is_printed_each_time_and_recorded_once(tmp_path, source, monkeypatch):
    (segment,) = (source.path / "orders-0").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    source.partition("orders-0").roll(20)
    assert run(tmp_path, source)[0] == 2
    assert run(tmp_path, source) == (2, [], True)
    assert intakes(tmp_path, monkeypatch) == 1


@pytest.mark.long
def test_what_another_engine_did_and_its_repair_are_both_recorded(tmp_path, source, monkeypatch):
    run(tmp_path, source)
    DeltaTable(str(tmp_path / "lake" / "tables" / "records")).delete('"offset" = 4')
    code, loaded, _ = run(tmp_path, source)
    assert (code, "dagster" in loaded) == (2, True)
    assert run(tmp_path, source, "--replace", "..")[0] == 0
    assert intakes(tmp_path, monkeypatch) == 3
    assert run(tmp_path, source) == (0, [], True)


@pytest.mark.long
def test_another_history_does_not_have_the_answers(tmp_path, source, monkeypatch):
    run(tmp_path, source)
    code, loaded, is_nothing = run(tmp_path, source, history="another")
    assert (code, "dagster" in loaded, is_nothing) == (0, True, True)
    assert intakes(tmp_path, monkeypatch, "another") == 1
    assert run(tmp_path, source, history="another") == (0, [], True)
