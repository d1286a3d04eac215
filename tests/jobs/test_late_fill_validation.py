"""Validation starts again at the first affected offset when bytes come late or are removed. Published rows stay."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from spark_jobs.contracts import ValidateConfig
from spark_jobs.lake.segments import ledger_ranges
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.lake.view.ledger_comparison import differences
from spark_jobs.validate import validate_job as validate
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.spark.cycle import AS_OF_MS, Lake

PERMISSIVE = """
topics:
  orders:
    cleanup.policy: delete
    salvage: permissive
"""


@pytest.fixture
def orders(source: LogDirectory) -> Partition:
    """0-9 plain, 10-14 of a transaction | 15-19 plain, 20 its abort | 21-30 plain, 31-33 and 34 the next, 35-39."""
    orders = source.partition("orders-0")
    orders.append(10)
    in_transaction(orders, 5, 0)
    orders.roll()
    orders.append(5)
    orders.marker(7, handmade.ABORT)
    orders.roll()
    orders.append(10)
    in_transaction(orders, 3, 5)
    orders.marker(7, handmade.COMMIT)
    orders.append(5)
    source.high_watermarks(orders_0=40)
    return orders


def in_transaction(partition: Partition, count: int, sequence: int) -> None:
    fields = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
    partition.append(count, **fields)


WHOLE = [
    (0, 10, "present"),
    (10, 15, "aborted"),
    (15, 20, "present"),
    (20, 21, "control"),
    (21, 40, "present"),
]


def flags(lake: Lake) -> list[tuple[int, int, str, bool]]:
    rows = [(r["start_offset"], r["end_offset"], r["state"], r["published"]) for r in lake.rows("offset_ledger")]
    return sorted(rows)


def joined(ledger: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Neighbours of one state as one."""
    result: list[tuple[int, int, str]] = []
    for start, end, state in ledger:
        if result and result[-1][2] == state:
            result[-1] = (result[-1][0], end, state)
        else:
            result.append((start, end, state))
    return result


def transactions(lake: Lake) -> list[tuple]:
    columns = ("first_offset", "last_offset", "marker_offset", "state")
    return sorted(tuple(row[c] for c in columns) for row in lake.rows("transactions"))


def plan(lake: Lake) -> validate.ValidatePlan:
    return validate.plan(ValidateConfig(str(lake.path), "look", AS_OF_MS))


def test_a_late_segment_decides_unknown_outcomes_and_waits_for_publishing_below_the_frontier(
    source, lake, orders, tmp_path
):
    policies = tmp_path / "policies.yaml"
    policies.write_text(PERMISSIVE)
    late = orders.segments()[1]
    late.rename(tmp_path / late.name)
    lake.turn(source.path, policies=str(policies))
    assert lake.ledger("orders") == [
        (0, 10, "present"),
        (10, 15, "unknown"),
        (15, 21, "missing"),
        (21, 40, "present"),
    ]
    assert transactions(lake) == [(10, 14, None, "unknown"), (31, 33, 34, "committed")]
    rows = lake.published("orders")
    assert set(rows) == {*range(10), *range(21, 34), *range(35, 40)}

    (tmp_path / late.name).rename(late)
    done = lake.turn(source.path, policies=str(policies))
    assert done["validate"].plan.logs[0].from_offset == 10
    assert lake.ledger("orders") == WHOLE
    assert transactions(lake) == [(10, 14, 20, "aborted"), (31, 33, 34, "committed")]
    assert [row for row in flags(lake) if not row[3]] == [(15, 20, "present", False)]
    assert lake.published("orders") == rows, "a replacement brings them, not the frontier"

    assert differences(str(lake.path)) == ()

    # Whatever looks at the ledger next leaves the range due.
    ledger_ranges.sync_published(str(lake.path), "again")
    before = lake.versions()
    again = lake.turn(source.path, policies=str(policies))
    assert lake.versions() == before
    assert not any(report.used_executor for report in again.values())
    assert [row for row in flags(lake) if not row[3]] == [(15, 20, "present", False)]


def test_in_a_strict_log_what_comes_late_lies_above_the_frontier_and_is_published_like_any_other(
    source, lake, orders, tmp_path
):
    late = orders.segments()[1]
    late.rename(tmp_path / late.name)
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(10))
    (tmp_path / late.name).rename(late)
    lake.turn(source.path)
    assert joined(lake.ledger("orders")) == WHOLE
    assert lake.published("orders") == {o: row for o, row in orders.rows.items() if not 10 <= o < 15}
    assert all(published for *_, published in flags(lake))
    assert differences(str(lake.path)) == ()
    DeltaTable(str(lake.path / "tables" / "records")).delete("offset = 17")
    assert [(d.topic, d.partition, d.expected - d.found) for d in differences(str(lake.path))] == [("orders", 0, 1)]


def test_an_end_that_was_taken_back_leaves_nothing_of_it_in_ledger_and_transactions(source, lake, orders):
    lake.turn(source.path, publish=False)
    assert joined(lake.ledger("orders")) == WHOLE
    # The leader that kept [0, 34) wrote other batches after it: the marker at 34 was never committed.
    last = orders.segments()[-1]
    data = last.read_bytes()
    position = 0
    while int.from_bytes(data[position : position + 8]) < 34:
        position += handmade.size_of(data, position)
    last.write_bytes(data[:position])
    orders.next_offset = 34
    orders.epochs([(0, 0), (1, 34)])
    orders.append(2, leader_epoch=1)
    source.high_watermarks(orders_0=36)
    lake.turn(source.path, publish=False)
    assert joined(lake.ledger("orders")) == [*WHOLE[:4], (21, 31, "present"), (31, 36, "open")]
    assert transactions(lake) == [(10, 14, 20, "aborted"), (31, 33, None, "open")]
    assert plan(lake).is_empty
    lake.turn(source.path)
    assert set(lake.published("orders")) == {*range(10), *range(15, 20), *range(21, 31)}


def test_a_log_that_grows_while_transactions_overlap_is_the_log_that_was_seen_at_once(source, lake, tmp_path):
    orders = source.partition("orders-0")
    other = {"attributes": handmade.TRANSACTIONAL, "producer_id": 8, "producer_epoch": 0}
    in_transaction(orders, 3, 0)
    orders.append(4, base_sequence=0, **other)
    in_transaction(orders, 3, 3)
    orders.marker(7, handmade.ABORT)
    source.high_watermarks(orders_0=11)
    lake.turn(source.path)
    assert joined(lake.ledger("orders")) == [(0, 3, "aborted"), (3, 11, "open")]
    orders.append(5)
    orders.marker(8, handmade.COMMIT)
    source.high_watermarks(orders_0=17)
    grown = lake.turn(source.path)
    assert grown["validate"].plan.logs[0].from_offset == 3
    whole = Lake(tmp_path / "whole")
    whole.turn(source.path)
    assert joined(lake.ledger("orders")) == joined(whole.ledger("orders"))
    assert transactions(lake) == transactions(whole) == [(0, 9, 10, "aborted"), (3, 6, 16, "committed")]
    assert lake.published("orders") == whole.published("orders")
    assert set(lake.published("orders")) == {*range(3, 7), *range(11, 16)}


def test_a_lost_outcome_of_a_transaction_is_no_error_once_its_marker_is_found(source, lake, orders):
    """A late segment is copied at the next run; what was lost is history then."""
    late = orders.segments()[1]
    content = late.read_bytes()
    late.write_bytes(content[: -len(handmade.marker(20, handmade.ABORT, producer_id=7))])
    lake.turn(source.path)
    assert (10, 15, "unknown") in lake.ledger("orders")
    assert "transaction-outcome-lost" in {each.finding.rule for each in read_state(str(lake.path)).logs[0].findings}
    late.write_bytes(content)
    lake.turn(source.path)
    assert joined(lake.ledger("orders")) == WHOLE
    assert {each.finding.rule for each in read_state(str(lake.path)).logs[0].findings} == {"range-filled"}
