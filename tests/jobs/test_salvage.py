"""Damage ends what is published of a log, or is passed where its policy says so; and small growth may wait."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.contracts import IngestConfig, JobReport, PublishConfig, ReplaceConfig, ValidateConfig
from spark_jobs.launch import run
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.spark.cycle import AS_OF_MS, Lake, states

TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_epoch": 0, "base_sequence": 0}


class Policed:
    """A source, a lake and the policies of its jobs."""

    def __init__(self, folder: Path) -> None:
        self.source = LogDirectory(folder / "source")
        self.lake = Lake(folder / "lake")
        self.policies = folder / "policies.yaml"
        self.turns = 0

    def say(self, **settings: object) -> None:
        lines = [f"    {name.replace('_', '.')}: {value}" for name, value in settings.items()]
        self.policies.write_text("\n".join(["topics:", '  "orders":', *lines]) + "\n")

    def turn(self, as_of_ms: int = AS_OF_MS, fill_from: tuple[str, ...] = (), **publishing: Any) -> JobReport:
        self.turns += 1
        lake, run_id, policies = str(self.lake.path), f"run-{self.turns}", str(self.policies)
        run(IngestConfig(lake, (str(self.source.path),), run_id, as_of_ms, fill_from=fill_from))
        run(ValidateConfig(lake, run_id, as_of_ms, policies=read_policies(policies)))
        return run(PublishConfig(lake, run_id, as_of_ms, policies=read_policies(policies), **publishing))


@pytest.fixture
def policed(tmp_path: Path) -> Policed:
    return Policed(tmp_path)


@pytest.fixture
def orders(policed: Policed) -> Partition:
    return policed.source.partition("orders-0")


def flip_batch(orders: Partition, number: int) -> None:
    """Damage the batch of this number in the first segment."""
    path = orders.segments()[0]
    data, at = path.read_bytes(), 0
    for _ in range(number):
        at += handmade.size_of(data, at)
    path.write_bytes(handmade.flip(data, at + 80))


def test_damage_is_passed_where_the_policy_says_so_and_reported_too(policed, orders):
    policed.say(salvage="strict")
    orders.append(20)
    flip_batch(orders, 1)
    orders.roll()
    orders.append(5)
    policed.source.high_watermarks(orders_0=25)
    policed.turn()
    assert set(policed.lake.published("orders")) == set(range(5))
    policed.say(salvage="permissive")
    policed.turn()
    assert policed.lake.published("orders") == {o: r for o, r in orders.rows.items() if not 5 <= o < 10}
    assert states(policed.lake.ledger("orders")) == {"present": 20, "corrupt": 5}
    assert "corrupt-offsets" in policed.lake.rules()
    assert sum(row["size"] for row in policed.lake.rows("quarantine")) > 0
    versions = policed.lake.versions()
    assert not policed.turn().used_executor
    assert policed.lake.versions() == versions


def test_damage_at_the_end_is_not_passed(policed, orders):
    """A frontier after it would not show later whether it was filled before or after."""
    policed.say(salvage="permissive")
    orders.append(10)
    flip_batch(orders, 1)
    orders.roll()
    policed.source.high_watermarks(orders_0=10)
    policed.turn()
    assert set(policed.lake.published("orders")) == set(range(5))
    orders.append(5)
    policed.source.high_watermarks(orders_0=15)
    policed.turn()
    assert set(policed.lake.published("orders")) == {*range(5), *range(10, 15)}


def test_an_open_transaction_is_not_passed_with_damage_before_it(policed, orders):
    policed.say(salvage="permissive")
    orders.append(10)
    flip_batch(orders, 1)
    orders.append(5, producer_id=7, **TRANSACTIONAL)
    orders.append(5)
    orders.roll()
    orders.append(5)
    policed.source.high_watermarks(orders_0=25)
    policed.turn()
    assert set(policed.lake.published("orders")) == set(range(5))
    orders.marker(7, handmade.COMMIT)
    policed.source.high_watermarks(orders_0=26)
    policed.turn()
    assert set(policed.lake.published("orders")) == {*range(5), *range(10, 25)}


@pytest.mark.parametrize(
    ("salvage", "published"), [("strict", {*range(5)}), ("permissive", {*range(5), *range(21, 31)})]
)
def test_a_transaction_whose_marker_is_lost_is_not_published_and_in_permissive_salvage_holds_nothing_back(
    policed, orders, salvage, published
):
    """Offsets 5-9 of producer 7; 10-14, its marker perhaps among them, are damaged; its next transaction is aborted."""
    policed.say(salvage=salvage)
    orders.append(5)
    orders.append(5, producer_id=7, **TRANSACTIONAL)
    orders.append(5)
    flip_batch(orders, 2)
    orders.append(5, producer_id=7, **TRANSACTIONAL | {"base_sequence": 5})
    orders.marker(7, handmade.ABORT)
    orders.append(5)
    orders.roll()
    orders.append(5)
    policed.source.high_watermarks(orders_0=31)
    policed.turn()
    assert set(policed.lake.published("orders")) == published
    assert states(policed.lake.ledger("orders")) == {
        "present": 15,
        "unknown": 5,
        "corrupt": 5,
        "aborted": 5,
        "control": 1,
    }


def test_a_scheduled_run_leaves_little_for_later_until_it_is_much_or_old(policed, orders):
    policed.say(publish_min_bytes=1 << 20, publish_max_delay=600_000)
    orders.append(10)
    policed.source.high_watermarks(orders_0=10)
    policed.turn(at_once=False)
    assert policed.lake.published("orders") == {}
    assert policed.turn(AS_OF_MS + 599_999, at_once=False).changed == ()
    assert policed.lake.published("orders") == {}
    policed.turn(AS_OF_MS + 600_000, at_once=False)
    assert policed.lake.published("orders") == orders.rows

    orders.append(5)
    policed.source.high_watermarks(orders_0=15)
    policed.turn(AS_OF_MS + 600_001, at_once=False)
    assert set(policed.lake.published("orders")) == set(range(10))
    policed.say(publish_min_bytes=100, publish_max_delay=600_000)
    policed.turn(AS_OF_MS + 600_002, at_once=False)
    assert policed.lake.published("orders") == orders.rows


def test_a_requested_run_publishes_at_once(policed, orders):
    policed.say(publish_min_bytes=1 << 20, publish_max_delay=600_000)
    orders.append(10)
    policed.source.high_watermarks(orders_0=10)
    policed.turn(at_once=False)
    assert policed.lake.published("orders") == {}
    policed.turn()
    assert policed.lake.published("orders") == orders.rows


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_offsets_filled_below_the_frontier_are_published_as_a_replacement(policed, orders, tmp_path, isolation_level):
    policed.say(salvage="permissive")
    orders.append(20)
    orders.roll()
    orders.append(5)
    policed.source.high_watermarks(orders_0=25)
    replica = Path(shutil.copytree(policed.source.path, tmp_path / "replica"))
    flip_batch(orders, 1)
    policed.turn(isolation_level=isolation_level)
    whole = {o: r for o, r in orders.rows.items() if not 5 <= o < 10}
    assert policed.lake.published("orders") == whole

    policed.turn(fill_from=(str(replica),), isolation_level=isolation_level)
    assert states(policed.lake.ledger("orders")) == {"present": 25}
    assert policed.lake.published("orders") == whole
    lake, policies = str(policed.lake.path), str(policed.policies)
    report = run(ReplaceConfig(lake, "replace", AS_OF_MS, policies=read_policies(policies)))
    assert report.metrics["records"] == 5
    assert policed.lake.published("orders") == orders.rows
    assert all(row["published"] for row in policed.lake.rows("offset_ledger"))
    assert not run(ReplaceConfig(lake, "again", AS_OF_MS, policies=read_policies(policies))).used_executor

    policed.turn(isolation_level=isolation_level)
    rows = policed.lake.rows("records_uncommitted")
    assert sorted(row["offset"] for row in rows) == (list(range(25)) if isolation_level == "read_uncommitted" else [])
    versions = policed.lake.versions()
    assert not policed.turn(isolation_level=isolation_level).used_executor
    assert policed.lake.versions() == versions


def test_an_aborted_transaction_filled_below_the_frontier_is_published_to_who_reads_uncommitted(
    policed, orders, tmp_path
):
    orders.append(5)
    orders.append(5, producer_id=8, **TRANSACTIONAL)
    orders.marker(8, handmade.ABORT)
    orders.append(5)
    orders.roll()
    orders.append(5)
    policed.source.high_watermarks(orders_0=21)
    shutil.copytree(orders.path, tmp_path / "replica" / "orders-0")
    flip_batch(orders, 1)
    policed.say(salvage="permissive")
    reading: dict[str, Any] = {"at_once": True, "isolation_level": "read_uncommitted"}
    policed.turn(**reading)
    before = {row["offset"]: row["transaction_state"] for row in policed.lake.rows("records_uncommitted")}
    assert set(before) == {*range(5), *range(11, 21)}
    policed.turn(fill_from=(str(tmp_path / "replica"),), **reading)
    after = {row["offset"]: row["transaction_state"] for row in policed.lake.rows("records_uncommitted")}
    assert after == before | dict.fromkeys(range(5, 10), "aborted")
    assert not policed.turn(**reading).used_executor
