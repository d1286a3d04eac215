"""A log's second life: a source that parted below the frontier, or a recreated topic, followed by policy."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from logcore.logs.model.findings import Severity
from spark_jobs.lake.view.lake_state import read_state
from tests.broker_directory import OTHER_TOPIC_ID, TOPIC_ID
from tests.spark.cycle import Lake, states

FIRST, SECOND = f"{TOPIC_ID}.0", f"{TOPIC_ID}.1"


@pytest.fixture
def policies(tmp_path: Path) -> str:
    path = tmp_path / "policies.yaml"
    path.write_text('topics:\n  "*": {on_truncate: follow, on_recreate: append}\n')
    return str(path)


def rows_of(lake: Lake, log_id: str) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Published key and value by offset of one incarnation; an offset published twice fails here."""
    rows = [r for r in lake.rows("records") if r["log_id"] == log_id]
    found = {row["offset"]: (row["key"], row["value"]) for row in rows}
    assert len(found) == len(rows)
    return found


def ledger_of(lake: Lake, log_id: str) -> list[tuple[int, int, str]]:
    rows = [r for r in lake.rows("offset_ledger") if r["log_id"] == log_id]
    return sorted((r["start_offset"], r["end_offset"], r["state"]) for r in rows)


def test_a_source_that_parted_below_the_frontier_is_followed_from_the_fork_and_earlier_rows_stay(
    source, lake, policies
):
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    orders.append(30)
    payments.append(5)
    source.high_watermarks(orders_0=30, payments_0=5)
    lake.turn(source.path)
    first = dict(orders.rows)
    orders.truncate(15)
    orders.append(10, tag=b"other", leader_epoch=1)
    orders.epochs([(0, 0), (1, 15)])
    source.high_watermarks(orders_0=25, payments_0=5)
    lake.turn(source.path)
    assert lake.stopped() == {"orders-0": "source-diverged", "payments-0": None}

    report = lake.turn(source.path, policies=policies)["ingest"]
    assert rows_of(lake, FIRST) == first
    assert rows_of(lake, SECOND) == {offset: row for offset, row in orders.rows.items() if offset >= 15}
    assert ledger_of(lake, SECOND) == [(0, 15, "trimmed"), (15, 25, "present")]
    known = {row["log_id"]: row for row in lake.rows("logs") if row["topic"] == "orders"}
    assert {i: (r["incarnation"], r["log_start_offset"], r["stopped"]) for i, r in known.items()} == {
        FIRST: (0, 0, None),
        SECOND: (1, 15, None),
    }
    assert known[SECOND]["high_watermark"] == 25
    [opened] = [f.finding for f in report.findings if f.finding.rule == "incarnation-opened"]
    assert (opened.start_offset, opened.severity) == (15, Severity.WARNING)

    versions = lake.versions()
    reports = lake.turn(source.path, policies=policies)
    assert not any(r.used_executor or r.changed for r in reports.values())
    assert lake.versions() == versions
    orders.append(5, tag=b"more", leader_epoch=1)
    source.high_watermarks(orders_0=30, payments_0=5)
    lake.turn(source.path, policies=policies)
    assert rows_of(lake, SECOND) == {offset: row for offset, row in orders.rows.items() if offset >= 15}
    assert rows_of(lake, FIRST) == first


def test_a_source_of_which_nothing_agrees_is_followed_from_its_beginning(source, lake, policies):
    orders = source.partition("orders-0")
    orders.append(10)
    lake.turn(source.path)
    first = dict(orders.rows)
    orders.truncate(0)
    orders.append(20, tag=b"other", leader_epoch=3)
    orders.epochs([(3, 0)])
    lake.turn(source.path, policies=policies)
    assert rows_of(lake, FIRST) == first
    assert rows_of(lake, SECOND) == orders.rows
    assert states(ledger_of(lake, SECOND)) == {"present": 20}


def test_a_fork_is_followed_twice_if_the_source_parts_twice(source, lake, policies):
    orders = source.partition("orders-0")
    orders.append(20)
    lake.turn(source.path)
    for epoch, fork in ((1, 15), (2, 20)):
        orders.truncate(fork)
        orders.append(10, tag=b"epoch%d-" % epoch, leader_epoch=epoch)
        orders.epochs([(0, 0), (1, 15), (2, 20)][: epoch + 1])
        lake.turn(source.path, policies=policies)
    assert sorted(row["log_id"] for row in lake.rows("logs")) == [FIRST, SECOND, f"{TOPIC_ID}.2"]
    assert set(rows_of(lake, FIRST)) == set(range(20))
    assert set(rows_of(lake, SECOND)) == set(range(15, 25))
    third = rows_of(lake, f"{TOPIC_ID}.2")
    assert third == {offset: row for offset, row in orders.rows.items() if offset >= 20}


def test_a_source_that_parts_below_the_beginning_of_an_incarnation_is_followed_from_where_the_one_before_it_agrees(
    source, lake, policies
):
    orders = source.partition("orders-0")
    orders.append(20)
    lake.turn(source.path)
    for epoch, fork in ((1, 15), (2, 10)):
        orders.truncate(fork)
        orders.append(10, tag=b"epoch%d-" % epoch, leader_epoch=epoch)
        orders.epochs([(0, 0), (epoch, fork)])
        lake.turn(source.path, policies=policies)
    assert set(rows_of(lake, FIRST)) == set(range(20))
    assert set(rows_of(lake, SECOND)) == set(range(15, 25))
    third = rows_of(lake, f"{TOPIC_ID}.2")
    assert third == {offset: row for offset, row in orders.rows.items() if offset >= 10}
    assert ledger_of(lake, f"{TOPIC_ID}.2") == [(0, 10, "trimmed"), (10, 20, "present")]


def test_a_source_that_only_ends_earlier_is_not_followed(source, lake, policies):
    orders = source.partition("orders-0")
    orders.append(20)
    lake.turn(source.path)
    orders.truncate(10)
    lake.turn(source.path, policies=policies)
    assert lake.stopped() == {"orders-0": "source-behind"}
    assert [row["log_id"] for row in lake.rows("logs")] == [FIRST]


def test_what_differs_above_the_frontier_is_cut_back_also_where_following_is_allowed(source, lake, policies):
    orders = source.partition("orders-0")
    orders.append(20)
    source.high_watermarks(orders_0=10)
    lake.turn(source.path)
    orders.truncate(15)
    orders.append(5, tag=b"other", leader_epoch=1)
    orders.epochs([(0, 0), (1, 15)])
    source.high_watermarks(orders_0=20)
    lake.turn(source.path, policies=policies)
    assert [row["log_id"] for row in lake.rows("logs")] == [FIRST]
    assert lake.published("orders") == orders.rows


def test_a_run_that_died_before_it_wrote_the_new_incarnations_row_is_taken_up(source, lake, policies):
    from tests.jobs.test_cut_back import put_back

    orders = source.partition("orders-0")
    orders.append(20)
    lake.turn(source.path)
    orders.truncate(10)
    orders.append(20, tag=b"other", leader_epoch=1)
    orders.epochs([(0, 0), (1, 10)])
    before = lake.rows("logs")[0]
    lake.turn(source.path, policies=policies, publish=False)
    after = sorted(lake.rows("logs"), key=lambda row: row["log_id"])
    segments = len(lake.rows("segments"))
    put_back(lake, before)
    report = lake.turn(source.path, policies=policies)["ingest"]
    assert not report.used_executor
    assert sorted(lake.rows("logs"), key=lambda row: row["log_id"]) == after
    assert len(lake.rows("segments")) == segments
    assert rows_of(lake, SECOND) == {offset: row for offset, row in orders.rows.items() if offset >= 10}


def test_a_topic_made_again_is_appended_as_a_log_of_its_own_where_its_policy_says_so(source, lake, policies):
    orders = source.partition("orders-0")
    orders.append(10)
    source.high_watermarks(orders_0=10)
    lake.turn(source.path)
    first = dict(orders.rows)
    shutil.rmtree(orders.path)
    again = source.partition("orders-0", OTHER_TOPIC_ID)
    again.append(15, tag=b"again")
    source.high_watermarks(orders_0=5)
    lake.turn(source.path)
    assert lake.stopped() == {"orders-0": "topic-recreated"}
    # A checkpoint names a topic, not its id: this one says nothing of the log that we hold.
    assert [row["high_watermark"] for row in lake.rows("logs")] == [10]
    assert "high-watermark-fell" not in lake.rules()
    source.high_watermarks(orders_0=15)

    report = lake.turn(source.path, policies=policies)["ingest"]
    assert [f.finding.severity for f in report.findings if f.finding.rule == "incarnation-opened"] == [Severity.INFO]
    assert Severity.WARNING not in read_state(str(lake.path)).open_findings, "the policy accepts it"
    second = f"{OTHER_TOPIC_ID}.1"
    assert rows_of(lake, FIRST) == first
    assert rows_of(lake, second) == again.rows
    assert {row["log_id"]: (row["topic_id"], row["stopped"]) for row in lake.rows("logs")} == {
        FIRST: (TOPIC_ID, None),
        second: (OTHER_TOPIC_ID, None),
    }
    versions = lake.versions()
    assert not any(r.changed for r in lake.turn(source.path, policies=policies).values())
    assert lake.versions() == versions

    shutil.rmtree(again.path)  # a copy of the first incarnation comes back: it is older than the archive
    old = source.partition("orders-0", TOPIC_ID)
    old.append(20)
    lake.turn(source.path, policies=policies)
    assert len(lake.rows("logs")) == 2
    assert {row["log_id"]: row["stopped"] for row in lake.rows("logs")}[second] == "topic-recreated"


def test_a_lost_partition_metadata_is_no_other_topic(source, lake, policies):
    orders = source.partition("orders-0")
    orders.append(10)
    lake.turn(source.path)
    written = (orders.path / "partition.metadata").read_text()
    (orders.path / "partition.metadata").unlink()
    orders.append(5)
    source.high_watermarks(orders_0=15)
    [placed] = lake.turn(source.path, policies=policies)["ingest"].findings
    assert (placed.finding.rule, placed.finding.severity) == ("broken-partition-file", Severity.WARNING)
    assert lake.stopped() == {"orders-0": None}
    assert len(lake.rows("logs")) == 1
    assert lake.published("orders") == orders.rows
    subprocess.run(placed.finding.message.split("`")[1], shell=True, check=True)
    assert (orders.path / "partition.metadata").read_text() == written
    assert lake.turn(source.path, policies=policies)["ingest"].findings == ()
