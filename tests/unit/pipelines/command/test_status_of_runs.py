"""`loglake status` about runs: killed, failed, refused and missed ones, and what starts the next one."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs.contracts import Intake
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.setup import registry
from spark_jobs.lake.store import lease
from spark_jobs.lake.view.registered_lakes import read_registered
from spark_jobs.lake.view.runs.run_ends import RunEnds, keep_run_end
from tests import pasted_advice
from tests.broker_directory import LogDirectory
from tests.in_process import without_spark
from tests.unit.pipelines.command.asked_status import MINUTE_MS, NOW_MS, Captured, Status, lake_problems

pytestmark = pytest.mark.usefixtures("history")


def test_a_killed_run_is_an_error_until_the_next_one_also_if_it_was_not_the_first(
    loaded: Path, status: Status, capsys: Captured
) -> None:
    lake = str(loaded)
    command = f"loglake run {loaded.parent / 'source'} --lake {lake}"
    kills = "import os, sys; from spark_jobs.lake.store.lease import hold\n"
    kills += "with hold(sys.argv[1], 'loglake run', sys.argv[2]): os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", kills, lake, command], check=False).returncode == -signal.SIGKILL
    code, said = status(lake)
    assert (code, "The newest run did not end: 'loglake run'" in said, f"`{command}`" in said) == (3, True, True), said
    assert main(["runs", lake]) == 0
    assert "The newest run did not end" in capsys.readouterr().out
    with without_spark():
        assert main(shlex.split(command)[1:]) == 0
    assert status(lake)[0] == 0


def test_a_first_run_that_was_interrupted_is_an_error_with_its_command_until_a_run_has_ended(
    tmp_path: Path, status: Status, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kills are in `tests/crash/test_kill.py`."""
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with without_spark():
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr("spark_jobs.publish.publish_job._commit", interrupt)
            main(["run", str(source.path), "--lake", lake])
        code, said = status(lake)
        assert code == 3
        [command] = [words for words in pasted_advice.commands_in(said) if " run " in words]
        assert main(["runs", lake]) == 0
        assert f"`{command}`" in capsys.readouterr().out
        assert main(["verify", lake]) == 3
        assert f"`{command}`" in capsys.readouterr().err
        assert lake_problems(lake) == {"failing": 1}
        assert main(shlex.split(command)[1:]) == 0
        assert status(lake)[0] == main(["verify", lake]) == 0
        assert lake_problems(lake) == {}


def test_a_second_topic_that_matches_nothing_is_an_error_of_a_run(tmp_path: Path, capsys: Captured) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    with without_spark():
        assert main(["run", str(source.path), "--lake", lake, "--topic", "orders", "--topic", "oders"]) == 3
    printed = capsys.readouterr()
    assert "published 5 records" in printed.out
    assert "error: --topic 'oders' matches no topic; the nearest names are orders" in printed.err
    assert not read_registered(lake).intakes  # later runs would fail for the misspelled name


def test_a_run_that_chooses_no_log_makes_no_lake_and_names_the_nearest_topic(tmp_path: Path, capsys: Captured) -> None:
    source, lake = LogDirectory(tmp_path / "source"), tmp_path / "lake"
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    with without_spark():
        assert main(["run", str(source.path), "--lake", str(lake), "--topic", "oders"]) == 3
    assert "--topic 'oders' matches no topic; the nearest names are orders." in capsys.readouterr().err
    assert not lake.exists()


def test_run_status_and_config_check_note_a_pattern_that_matches_no_topic_of_the_lake(
    lakes: Path, status: Status, capsys: Captured
) -> None:
    lake, policies = str(lakes / "sound"), lakes / "own.yaml"
    kept = "{cleanup.policy: delete, retention.ms: -1}"
    policies.write_text(f"topics: {{oders*: {kept}, ord*: {kept}, '*': {kept}}}")
    [source] = read_registered(lake).intakes[0].sources
    note = f"note: {policies}: the pattern 'oders*' matches no topic; the nearest names are orders.\n"
    run = ["run", source, "--lake", lake, "--policies", str(policies)]
    with without_spark():
        assert main(run) == 0
        assert note in capsys.readouterr().err
        assert main([*run, "--topic", "orders"]) == 0
        assert "note:" not in capsys.readouterr().err, "the source may have topics that --topic leaves out"
    code, said = status(lake)
    assert (code, note in said) == (0, True)
    assert main(["config", "check", str(policies), "--lake", lake]) == 0
    assert note in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["topic", "partition", "other cluster", "two clusters", "cluster"])
def test_a_refused_command_is_neither_a_success_nor_a_failure_of_the_intake(
    kind: str, lakes: Path, status: Status, capsys: Captured
) -> None:
    lake = str(lakes / "sound")
    [sound] = read_registered(lake).intakes[0].sources
    other = LogDirectory(lakes / "other-source", "BBBBBBBBBBBBBBBBBBBBBB")
    other.partition("orders-0").append(5)
    refused = {
        "topic": [sound, "--topic", "oders"],
        "partition": [sound, "--partition", "7"],
        "other cluster": [str(other.path)],
        "two clusters": [sound, str(other.path)],
        "cluster": [sound, "--cluster", "another"],
    }
    rows = read_rows(lake, "runs").num_rows
    before = status(lake)
    with without_spark():
        assert main(["run", "--lake", lake, *refused[kind]]) in (3, 64)
    capsys.readouterr()
    assert status(lake) == before
    assert read_rows(lake, "runs").num_rows == rows


def test_a_run_whose_options_the_lake_refuses_leaves_the_registered_ones(tmp_path: Path, status: Status) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    run = ["run", str(source.path), "--lake", lake]
    with without_spark():
        assert main(run) == 0
        before = read_registered(lake).intakes
        assert main([*run, "--cluster", "another"]) == 3
        assert read_registered(lake).intakes == before


def test_harm_to_the_table_of_runs_stops_no_run(tmp_path: Path, status: Status) -> None:
    source, lake = LogDirectory(tmp_path / "source"), tmp_path / "lake"
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    run = ["run", str(source.path), "--lake", str(lake)]
    with without_spark():
        assert main(run) == main(run) == 0
        for file in (lake / "tables" / "runs").glob("**/*.parquet"):
            file.write_bytes(b"harm")
        assert main(run) != 3


def test_a_run_without_work_has_a_row_when_what_failed_is_mended(tmp_path: Path, capsys: Captured) -> None:
    source, lake = LogDirectory(tmp_path / "source"), tmp_path / "lake"
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    run = ["run", str(source.path), "--lake", str(lake)]
    with without_spark():
        assert main(run) == 0
        [path] = (lake / "archive").glob("**/*.log")
        path.rename(tmp_path / "away")
        assert main(run) == 2
        (tmp_path / "away").rename(path)
        assert main(run) == main(run) == 0
    capsys.readouterr()
    assert main(["runs", str(lake), "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["failed_checks"] for row in rows] == [0, 1, 0]


@pytest.mark.parametrize(("minutes", "code"), [(14, 0), (15, 0), (16, 3)])
def test_three_intervals_without_a_success_are_a_missed_schedule(
    lakes: Path, status: Status, minutes: int, code: int
) -> None:
    lake = str(lakes / "sound")
    intake = Intake(registry.recall(lake).intakes[0].sources, policies=str(lakes / "policies.yaml"))
    registry.remember(lake, intake)
    keep_run_end(lake, "intake", NOW_MS - minutes * MINUTE_MS)
    found, said = status(lake)
    assert found == code
    assert ("missed" in said or "no intake has succeeded for 16 minutes" in said) == (code == 3)
    assert ("/locations/loglake/schedules/sound__timed_intake\n" in said) == (code == 3)
    assert "next intake: 2027-01-15T08:05:00Z, if the schedule sound__timed_intake is on\n" in said
    assert "Z, if the schedule sound__nightly_verification is on\n" in said


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        ("{}", "next intake: when a segment is closed, if the sensor sound__new_segments is on; else by hand\n"),
        ("{ingest: by hand}", "next intake: by hand, by the policies\n"),
    ],
)
def test_status_says_what_starts_the_next_intake_of_a_lake_without_a_schedule(
    policy: str, line: str, lakes: Path, status: Status
) -> None:
    lake = str(lakes / "sound")
    (lakes / "policies.yaml").write_text(f"lake: {policy}\n")
    intake = Intake(registry.recall(lake).intakes[0].sources, policies=str(lakes / "policies.yaml"))
    registry.remember(lake, intake)
    assert line in status(lake)[1]


def test_during_the_first_run_it_says_so(lakes: Path, status: Status, capsys: Captured) -> None:
    assert status(lakes / "new") == (3, f"error: {lakes / 'new'} is no lake: it has no lake.json.\n")
    with lease.hold(str(lakes / "new"), "loglake run"):
        code, said = status(lakes / "new")
        assert (code, "the first run is working on it" in said) == (0, True)
        main(["doctor", "--lake", str(lakes / "new")])
        assert "the first run" in capsys.readouterr().out


def test_a_plan_of_maintenance_is_named_as_one_and_is_no_success(tmp_path: Path, status: Status) -> None:
    source, lake = LogDirectory(tmp_path / "source"), str(tmp_path / "lake")
    source.partition("orders-0").append(5)
    source.high_watermarks(orders_0=5)
    run = ["run", str(source.path), "--lake", lake]
    with without_spark():
        assert main([*run, "--maintain"]) == 0
        said = status(lake)[1]
        assert "  maintenance: last success: never; last plan, without --apply: 20" in said
        assert "  intake: last success: 20" in said
        assert main([*run, "--maintain", "--apply"]) == 0
        assert "  maintenance: last success: 20" in status(lake)[1]


def test_a_plan_ends_the_failure_before_it() -> None:
    assert RunEnds(failed_ms=2, planned_ms=1).is_failing
    assert not RunEnds(failed_ms=2, planned_ms=3).is_failing
