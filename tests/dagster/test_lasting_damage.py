"""What checks, assets and the command line say of damage and of open transactions, from the tables as they are."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from logcore.logs.model.findings import Finding, Severity
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.model.offset_ledger import OffsetState
from pipelines.command.run_lake import chosen_state
from pipelines.command.summary import LISTED, damage_lines, open_transaction_lines, warning_lines
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.finding_rows import record
from spark_jobs.lake.segments import archive
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.placed_finding import PlacedFinding
from tests.dagster.conftest import Execute, check_of, materialized
from tests.dagster.fake_jobs import World, log_of
from tests.unit.spark_jobs.lake.view.lakes import BEGAN, MINUTE, begin_transaction, said_of

pytestmark = pytest.mark.dagster

LOG = log_of("orders-0")


@pytest.fixture
def lake(execute: Execute, world: World, tmp_path: Path) -> str:
    """One log of ten offsets, published."""
    world.ends = {"orders-0": 10}
    path = str(tmp_path / "lake")
    assert execute(lake=path).success
    return path


def test_a_lost_outcome_is_damage_and_is_called_by_its_name(execute: Execute, world: World, lake: str):
    said_of(lake, 4, 6, OffsetState.UNKNOWN, "marker-lost")
    check = check_of(execute(lake=lake), "no_damage")
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "offsets [4, 6): unknown" in (check.description or "")
    state = read_state(lake)
    damage, advice = damage_lines([state])
    assert damage == "damage: orders-0 of lake lake, offsets [4, 6): unknown (marker-lost)"
    assert "loglake config set policies.yaml orders salvage=permissive && loglake run" in advice
    assert state.exit_code([], BEGAN) == 2


def test_offsets_in_the_remote_tier_are_a_warning_that_names_them_and_no_damage(
    execute: Execute, world: World, lake: str
):
    said_of(lake, 4, 6, OffsetState.REMOTE, "remote-tier")
    state = read_state(lake)
    assert damage_lines([state]) == []
    assert state.exit_code([], BEGAN) == 1
    result = execute(lake=lake)
    check = check_of(result, "nothing_remote")
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert check.description == "orders-0 of lake lake, offsets [4, 6): 2 offsets in the remote tier"
    source = read_state(lake).logs[0].row.source
    advice = str(check.metadata["what to do"].value)
    assert f"`loglake run {os.path.dirname(source)} --lake {lake} --remote DIR`" in advice
    assert f"`loglake verify {os.path.dirname(source)} --remote DIR` says why" in advice
    assert check_of(result, "no_damage").passed
    assert check_of(result, "every_offset_accounted_for").passed


def test_damage_of_logs_that_were_not_chosen_is_not_printed(lake: str):
    row = archive.read_logs(lake)[LOG]
    said_of(lake, 4, 6, OffsetState.MISSING, "gap")
    archive.commit_logs(lake, [replace(row, log=log_of("orders-1"), partition=1)], "test")
    segments = [replace(segment, log=log_of("orders-1"), partition=1) for segment in archive.read_segments(lake)]
    archive.commit_segments(lake, segments, {log_of("orders-1"): None}, "test", BEGAN)
    ranges = [replace(r, log=log_of("orders-1"), partition=1) for r in frontier.read_ledger(lake, [LOG])[LOG]]
    frontier.commit_ledger(lake, ranges, [log_of("orders-1")], "test")
    chosen = chosen_state(read_state(lake), LogSelection(partitions=(1,)))
    assert damage_lines([chosen], advises=False) == ["damage: orders-1 of lake lake, offsets [4, 6): missing (gap)"]


def test_open_warnings_are_printed_with_their_message_and_many_are_counted(lake: str):
    some = [Finding("sequence-gap", Severity.WARNING, f"message {number}") for number in range(LISTED + 3)]
    record(lake, [PlacedFinding(each, LOG, "orders", 0) for each in some[:1]], "test", BEGAN)
    one = warning_lines([read_state(lake)])
    record(lake, [PlacedFinding(each, LOG, "orders", 0) for each in some[1:]], "test", BEGAN)
    many = warning_lines([read_state(lake)])

    warning, advice = one
    assert warning == "warning: orders-0 of lake lake: sequence-gap: message 0"
    assert advice.startswith("  What to do: The records are kept")
    assert many[-1] == "3 more warnings are in the table findings"
    assert len(many) == LISTED + 2, "equal advice is printed once"


def test_a_log_that_waits_is_named_and_one_that_waits_too_long_is_a_warning(lake: str):
    begin_transaction(lake, BEGAN)
    state = chosen_state(read_state(lake), LogSelection())
    early, late = BEGAN + 3 * MINUTE, BEGAN + 16 * MINUTE
    what = "orders-0 of lake lake: the transaction of producer 7 epoch 1 from offset 10 on, open for"
    behind = "nothing from there on is published"
    assert open_transaction_lines([state], early) == [f"waits: {what} 3 min; {behind}"]
    warning, advice = open_transaction_lines([state], late)
    assert warning.startswith(f"warning: {what} 16 min; {behind}")  # then: its source, which is made up here, is gone
    assert f"--lake {lake} --maintain --isolation.level read_uncommitted`" in advice


def test_the_asset_shows_open_transactions_and_a_check_warns_of_one_that_hangs(
    execute: Execute, world: World, lake: str
):
    begin_transaction(lake, BEGAN)
    world.ends = {"orders-0": 12}
    early = execute(lake=lake, as_of=f"{BEGAN + 3 * MINUTE}ms")
    late = execute(lake=lake, as_of=f"{BEGAN + 16 * MINUTE}ms")

    assert materialized(early, "records") == ["orders-0"]
    (event,) = [e for e in early.get_asset_materialization_events() if e.asset_key.path[-1] == "records"]
    shown = event.materialization.metadata["open transactions"].value
    assert shown == "1; the oldest: producer 7 epoch 1 from offset 10 on, open for 3 min"
    assert check_of(early, "no_hanging_transaction").passed
    check = check_of(late, "no_hanging_transaction")
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "orders-0 of lake lake: producer 7 epoch 1 from offset 10 on, open for 16 min" in (check.description or "")


def test_a_failed_expectation_is_history_once_its_log_meets_them_all(execute: Execute, world: World, lake: str):
    failed = Finding("expectation-failed", Severity.ERROR, "offsets_are_unique", start_offset=0, end_offset=10)
    record(lake, [PlacedFinding(failed, LOG, "orders", 0)], "test", BEGAN)
    (kept,) = Path(os.environ["LOGLAKE_HOME"], "expectations").iterdir()
    answers = kept.read_bytes()
    kept.unlink()
    assert read_state(lake).exit_code([], BEGAN) == 2

    kept.write_bytes(answers)

    state = read_state(lake)
    assert state.exit_code([], BEGAN) == 0
    assert state.logs[0].findings == ()
