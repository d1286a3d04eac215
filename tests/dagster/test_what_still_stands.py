"""What is said of damage, replaced bytes and open transactions, from the tables as they stand."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from logcore.logs.model.findings import Finding, Severity
from logcore.logs.model.offset_ledger import OffsetState
from pipelines.command.run_lake import chosen_state
from pipelines.command.summary import damage_lines, open_transaction_lines, verdict
from pipelines.view.open_transactions import duration
from pipelines.view.standing import stands
from pipelines.view.state import read_alarms, read_state
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.tables import BATCHES, TRANSACTIONS
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.ledger.finding_rows import PlacedFinding, record
from spark_jobs.lake.segments import archive
from tests.dagster.conftest import Execute, check_of, materialized
from tests.dagster.fake_jobs import World, log_of

pytestmark = pytest.mark.dagster

LOG = log_of("orders-0")
BEGAN, MINUTE = 1_700_000_000_000, 60_000


@pytest.fixture
def lake(execute: Execute, world: World, tmp_path: Path) -> str:
    """One log of ten offsets, published."""
    world.ends = {"orders-0": 10}
    path = str(tmp_path / "lake")
    assert execute(lake=path).success
    return path


def said_of(lake: str, start: int, end: int, state: OffsetState, evidence: str) -> None:
    """The ledger says this of some offsets, and they are not published."""
    (whole,) = frontier.read_ledger(lake, [LOG])[LOG]
    pieces = [
        replace(whole, end_offset=start, records=start),
        replace(whole, start_offset=start, end_offset=end, state=state, records=0, evidence=evidence, published=False),
        replace(whole, start_offset=end, records=10 - end, published=False),
    ]
    frontier.commit_ledger(lake, pieces, [LOG], "test")


def begin_transaction(lake: str, began: int) -> None:
    """A producer's batch at offsets 10 to 12 without a marker."""
    place = {"log": LOG, "topic": "orders", "log_id": "orders@test.0", "partition": 0}
    row = {**place, "producer_id": 7, "producer_epoch": 1, "first_offset": 10, "last_offset": 12}
    open_one = {**dict.fromkeys(TRANSACTIONS.names), **row, "state": "open"}
    ended = open_one | {"producer_id": 8, "first_offset": 1, "marker_offset": 5, "state": "committed"}
    rows = pa.Table.from_pylist([open_one, ended], schema=TRANSACTIONS)
    commits.append(lake, "transactions", rows, "test")
    batch = {**dict.fromkeys(BATCHES.names), **place, "base_offset": 10, "last_offset": 11, "max_timestamp": began}
    batches = [batch, batch | {"base_offset": 12, "last_offset": 12, "max_timestamp": began + 5 * MINUTE}]
    commits.append(lake, "batches", pa.Table.from_pylist(batches, schema=BATCHES), "test")


def test_a_lost_outcome_is_damage_and_is_called_by_its_name(execute: Execute, world: World, lake: str):
    said_of(lake, 4, 6, OffsetState.UNKNOWN, "marker-lost")
    check = check_of(execute(lake=lake), "no_damage")
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "offsets 4..6: unknown" in (check.description or "")
    state = read_state(lake)
    assert damage_lines([state]) == ["damage: orders-0 of lake lake, offsets 4..6: unknown (marker-lost)"]
    assert verdict(state, [], BEGAN) == 2


def test_offsets_in_the_remote_tier_are_a_warning_that_names_them_and_no_damage(
    execute: Execute, world: World, lake: str
):
    said_of(lake, 4, 6, OffsetState.REMOTE, "remote-tier")
    state = read_state(lake)
    assert damage_lines([state]) == []
    assert verdict(state, [], BEGAN) == 1
    result = execute(lake=lake)
    check = check_of(result, "nothing_remote")
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert check.description == "orders-0 of lake lake, offsets 4..6: 2 offsets in the remote tier"
    assert check_of(result, "no_damage").passed
    assert check_of(result, "every_offset_accounted_for").passed


def test_a_finding_of_the_remote_tier_stands_as_long_as_the_log_knows_of_it(lake: str):
    row = archive.read_logs(lake)[LOG]
    assert not stands("remote-tier", row)
    assert stands("remote-tier", replace(row, gaps='[[0, 4, "remote-tier"]]'))


def test_damage_that_was_filled_with_better_bytes_is_history(lake: str):
    (segment,) = archive.read_segments(lake)
    bytes_found = Finding("corrupt-bytes", Severity.ERROR, "the crc does not fit", "f.log", 512, 78, 4)
    range_found = Finding("corrupt-offsets", Severity.ERROR, "2 offsets are corrupt", start_offset=4, end_offset=6)
    placed = [
        PlacedFinding(bytes_found, LOG, "orders", 0, segment.segment_id),
        PlacedFinding(range_found, LOG, "orders", 0),
    ]
    whole = frontier.read_ledger(lake, [LOG])[LOG]
    said_of(lake, 4, 6, OffsetState.CORRUPT, "crc")
    record(lake, placed, "test", BEGAN)
    assert [alarm.rule for alarm in read_alarms(lake)] == ["corrupt-bytes"]
    assert verdict(read_state(lake), [], BEGAN) == 2

    better = replace(segment, segment_id="better", digest="other")
    planned = archive.planned_versions(lake, [LOG])
    replaced = {segment.segment_id: "better"}
    archive.swap_segments(lake, [segment], [better], planned, "fill", BEGAN, "filled", replaced)
    frontier.commit_ledger(lake, whole, [LOG], "fill")

    assert read_alarms(lake) == ()
    state = read_state(lake)
    assert verdict(state, [], BEGAN) == 0
    assert state.logs[0].findings == {}


def test_the_age_of_an_open_transaction_counts_from_its_first_batch(lake: str):
    begin_transaction(lake, BEGAN)
    (log,) = read_state(lake).logs
    (transaction,) = log.open_transactions
    assert (transaction.producer_id, transaction.first_offset, transaction.since_ms) == (7, 10, BEGAN)
    assert transaction.age_ms(BEGAN + 90_000) == 90_000
    assert transaction.age_ms(BEGAN - 1) == 0
    assert [transaction.hangs(BEGAN + 15 * MINUTE + more) for more in (0, 1)] == [False, True]


def test_a_log_that_waits_is_named_and_one_that_waits_too_long_is_a_warning(lake: str):
    begin_transaction(lake, BEGAN)
    state = chosen_state(lake, [], [], [])
    early, late = BEGAN + 3 * MINUTE, BEGAN + 16 * MINUTE
    what = "orders-0 of lake lake: the transaction of producer 7 epoch 1 from offset 10 on, open for"
    behind = "nothing from there on is published"
    assert open_transaction_lines([state], early) == [f"waits: {what} 3 min; {behind}"]
    assert open_transaction_lines([state], late) == [f"warning: {what} 16 min; {behind}"]
    assert [verdict(state, [], at) for at in (early, late)] == [0, 1]


def test_the_asset_shows_open_transactions_and_a_check_warns_of_one_that_hangs(
    execute: Execute, world: World, lake: str
):
    begin_transaction(lake, BEGAN)
    world.ends = {"orders-0": 12}
    early = execute(lake=lake, as_of_ms=BEGAN + 3 * MINUTE)
    late = execute(lake=lake, as_of_ms=BEGAN + 16 * MINUTE)

    assert materialized(early, "records") == ["orders-0"]
    (event,) = [e for e in early.get_asset_materialization_events() if e.asset_key == dg.AssetKey("records")]
    shown = event.materialization.metadata["open transactions"].value
    assert shown == "1; the oldest: producer 7 epoch 1 from offset 10 on, open for 3 min"
    assert check_of(early, "no_hanging_transaction").passed
    check = check_of(late, "no_hanging_transaction")
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "orders-0 of lake lake: producer 7 epoch 1 from offset 10 on, open for 16 min" in (check.description or "")


@pytest.mark.parametrize(
    ("ms", "said"),
    [(0, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (172_799_999, "47 h 59 min"), (172_800_000, "2 days")],
)
def test_durations_are_said_in_the_unit_that_tells(ms: int, said: str):
    assert duration(ms) == said


def test_of_logs_of_one_name_the_newest_incarnation_comes_last_and_is_called_so(lake: str):
    row = archive.read_logs(lake)[LOG]
    newer = replace(row, log="AAAA.1/0", log_id="AAAA.1", incarnation=1, next_offset=0)
    archive.commit_logs(lake, [newer], "test")
    logs = read_state(lake).logs
    assert [log.log for log in logs] == [LOG, "AAAA.1/0"]
    assert [log.label for log in logs] == ["orders-0", "orders-0 (incarnation 1)"]


def test_a_failed_expectation_is_history_once_its_log_meets_them_all(execute: Execute, world: World, lake: str):
    failed = Finding("expectation-failed", Severity.ERROR, "offsets_are_unique", start_offset=0, end_offset=10)
    record(lake, [PlacedFinding(failed, LOG, "orders", 0)], "test", BEGAN)
    (kept,) = Path(os.environ["LOGLAKE_HOME"], "expectations").iterdir()
    answers = kept.read_bytes()
    kept.unlink()
    assert verdict(read_state(lake), [], BEGAN) == 2

    kept.write_bytes(answers)

    state = read_state(lake)
    assert verdict(state, [], BEGAN) == 0
    assert state.logs[0].findings == {}
