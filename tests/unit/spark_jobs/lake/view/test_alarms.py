"""Damage is reported once, with its place, as long as it is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from logcore.logs.model.findings import Finding, Severity
from logcore.logs.model.offset_ledger import OffsetState
from pipelines.command.summary import damage_lines
from spark_jobs.contracts import Intake
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.finding_rows import record
from spark_jobs.lake.segments import archive
from spark_jobs.lake.setup import registry
from spark_jobs.lake.view.alarms import damage_of, problems_of, run_problems, stops_of
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake.view.runs.run_ends import RunEnds
from spark_jobs.placed_finding import PlacedFinding
from tests.unit.spark_jobs.lake.view.lakes import BEGAN, only_log, said_of


def test_a_lost_outcome_is_damage_and_has_its_offsets(lake: str):
    said_of(lake, 4, 6, OffsetState.UNKNOWN, "marker-lost")
    state = read_state(lake)
    (alarm,) = damage_of(state)
    assert (alarm.where, alarm.message) == ("orders-0 of lake lake, offsets [4, 6)", "unknown (marker-lost)")
    assert state.exit_code([], BEGAN) == 2


def test_offsets_in_the_remote_tier_are_no_damage(lake: str):
    said_of(lake, 4, 6, OffsetState.REMOTE, "remote-tier")
    assert damage_of(read_state(lake)) == ()


def test_damage_that_was_filled_with_better_bytes_is_history(lake: str):
    log = only_log(lake).log
    (segment,) = archive.read_segments(lake)
    bytes_found = Finding("corrupt-bytes", Severity.ERROR, "the crc does not fit", "f.log", 512, 78, 4)
    range_found = Finding("corrupt-offsets", Severity.ERROR, "2 offsets are corrupt", start_offset=4, end_offset=6)
    placed = [
        PlacedFinding(bytes_found, log, "orders", 0, segment.segment_id),
        PlacedFinding(range_found, log, "orders", 0),
    ]
    whole = frontier.read_ledger(lake, [log])[log]
    said_of(lake, 4, 6, OffsetState.CORRUPT, "crc")
    record(lake, placed, "test", BEGAN)
    state = read_state(lake)
    assert [(alarm.rule, alarm.offsets, alarm.position) for alarm in damage_of(state)] == [
        ("corrupt-bytes", "[4, 6)", 512)
    ]
    assert state.exit_code([], BEGAN) == 2
    assert state.logs[0].findings_by_severity == {Severity.ERROR: 2}

    better = replace(segment, segment_id="better", digest="other")
    planned = archive.planned_versions(lake, [log])
    replaced = {segment.segment_id: "better"}
    archive.swap_segments(lake, [segment], [better], planned, "fill", BEGAN, "filled", replaced)
    frontier.commit_ledger(lake, whole, [log], "fill")

    state = read_state(lake)
    assert damage_of(state) == ()
    assert state.exit_code([], BEGAN) == 0
    assert state.logs[0].findings == ()


def test_damage_in_the_ledger_of_a_log_that_no_table_knows_is_reported(lake: str):
    row = only_log(lake)
    said_of(lake, 4, 6, OffsetState.MISSING, "gap")
    archive.commit_logs(lake, [replace(row, log="AAAA.1/0", log_id="AAAA.1", incarnation=1)], "test")
    frontier.commit_ledger(
        lake, [replace(r, log="lost/0", log_id="lost") for r in frontier.read_ledger(lake)[row.log]], ["lost/0"], "test"
    )
    assert [(alarm.log, alarm.offsets, alarm.rule) for alarm in damage_of(read_state(lake))] == [
        (row.log, "[4, 6)", "missing"),
        ("lost/0", "[4, 6)", "missing"),
    ]


def test_a_log_that_stopped_is_named_with_its_source_and_is_no_damage_by_itself(lake: str):
    row = only_log(lake)
    found = Finding("source-behind", Severity.ERROR, "orders-0 stops: it ends at 5")
    record(lake, [PlacedFinding(found, row.log, "orders", 0)], "test", BEGAN)
    archive.commit_logs(lake, [replace(row, stopped="source-behind", stopped_because="it ends at 5")], "test")
    state = read_state(lake)
    assert damage_of(state) == ()
    (stop,) = stops_of(state)
    assert (stop.rule, stop.message, stop.file) == ("source-behind", "it ends at 5", row.source)
    assert state.exit_code([], BEGAN) == 2


@pytest.mark.parametrize("rule", ["topic-recreated", "source-behind", "source-diverged"])
def test_the_problem_of_a_stopped_log_has_the_command_that_status_shows(rule: str, lake: str):
    """Some have a word that only the reader knows, so the problem names the command that shows the choice."""
    row = only_log(lake)
    archive.commit_logs(lake, [replace(row, stopped=rule, stopped_because="it changed")], "test")
    state = read_state(lake)
    (problem,) = problems_of(state, BEGAN, None)
    assert problem.kind == "stopped"
    printed = "".join(damage_lines([state]))
    if rule != "topic-recreated":
        assert "loglake run COPY" in printed
        assert problem.command == f"loglake status {lake}"
    else:
        assert f"`{problem.command}`" in printed
        assert "on_recreate=append && loglake run" in problem.command


def test_a_source_of_several_registrations_is_named_once_in_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    lake, one, other = str(tmp_path / "lake"), str(tmp_path / "one"), str(tmp_path / "other")
    registry.remember(lake, Intake((one, other), topics=("orders",), partitions=(0,)))
    registry.remember(lake, Intake((other, one), topics=("payments",), partitions=(1,)))
    assert len(registry.recall(lake).intakes) == 2
    found = list(run_problems(lake, RunEnds(harmed={one: "a log is lost."}), 0, ""))
    [command] = [each.command for each in found if each.kind == "damage"]
    assert sorted(command.split()) == sorted(["loglake", "verify", one, other])
