"""``records_uncommitted`` is what a consumer that waits for no transaction reads, and says what became of each."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.archived_rows import archived_bytes, uncommitted_rows
from spark_jobs.contracts import IngestConfig, JobReport, PublishConfig, ReplaceConfig, ValidateConfig
from spark_jobs.launch import run
from spark_jobs.publish import publish_job as publish
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, Partition
from tests.spark.cycle import AS_OF_MS, Lake

TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_epoch": 0, "base_sequence": 0}


class Reading:
    """A lake whose turns keep ``records_uncommitted`` too."""

    def __init__(self, folder: Path) -> None:
        self.lake = Lake(folder / "lake")
        self.turns = 0

    def turn(self, source: Path, **settings: Any) -> JobReport:
        self.validate(source)
        return run(self.config(**settings))

    def validate(self, source: Path) -> None:
        self.turns += 1
        lake, run_id = str(self.lake.path), f"run-{self.turns}"
        run(IngestConfig(lake, (str(source),), run_id, AS_OF_MS))
        run(ValidateConfig(lake, run_id, AS_OF_MS))

    def config(self, **settings: Any) -> PublishConfig:
        run_id = f"run-{self.turns}"
        return PublishConfig(str(self.lake.path), run_id, AS_OF_MS, isolation_level="read_uncommitted", **settings)

    def states(self, topic: str) -> dict[int, str]:
        """Transaction state by offset; an offset that is there twice fails here."""
        rows = [row for row in self.lake.rows("records_uncommitted") if row["topic"] == topic]
        found = {row["offset"]: row["transaction_state"] for row in rows}
        assert len(found) == len(rows)
        return found

    def values(self, topic: str) -> dict[int, tuple[bytes | None, bytes | None]]:
        rows = [row for row in self.lake.rows("records_uncommitted") if row["topic"] == topic]
        return {row["offset"]: (row["key"], row["value"]) for row in rows}


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(tmp_path)


def three_transactions(orders: Partition) -> None:
    """Offsets 0-4 outside of any; 5-9 of producer 7; 10-14 of producer 8; 15 aborts that; 16-20 outside of any."""
    orders.append(5)
    orders.append(5, producer_id=7, **TRANSACTIONAL)
    orders.append(5, producer_id=8, **TRANSACTIONAL)
    orders.marker(8, handmade.ABORT)
    orders.append(5)


def test_open_offsets_are_there_until_they_are_decided_and_then_say_how(source, reading):
    orders = source.partition("orders-0")
    three_transactions(orders)
    source.high_watermarks(orders_0=21)
    reading.turn(source.path)
    assert set(reading.lake.published("orders")) == set(range(5))
    assert reading.states("orders") == {
        **dict.fromkeys(range(5), "committed"),
        **dict.fromkeys([*range(5, 15), *range(16, 21)], "open"),
    }
    assert reading.values("orders") == orders.rows

    orders.marker(7, handmade.COMMIT)
    orders.append(5, producer_id=7, **TRANSACTIONAL | {"base_sequence": 5})
    source.high_watermarks(orders_0=27)
    reading.turn(source.path)
    assert reading.states("orders") == {
        **dict.fromkeys([*range(10), *range(16, 21)], "committed"),
        **dict.fromkeys(range(10, 15), "aborted"),
        **dict.fromkeys(range(22, 27), "open"),
    }
    assert reading.values("orders") == orders.rows
    assert set(reading.lake.published("orders")) == {*range(10), *range(16, 21)}


def test_it_ends_at_the_high_watermark_and_grows_with_it(source, reading):
    orders = source.partition("orders-0")
    orders.append(5)
    orders.append(15, producer_id=7, **TRANSACTIONAL)
    source.high_watermarks(orders_0=10)
    reading.turn(source.path)
    assert set(reading.states("orders")) == set(range(10))
    source.high_watermarks(orders_0=15)
    reading.turn(source.path)
    assert set(reading.states("orders")) == set(range(15))


def test_nothing_new_makes_no_new_version_and_starts_no_jvm(source, reading):
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    three_transactions(orders)
    payments.append(5)
    source.high_watermarks(orders_0=21, payments_0=5)
    reading.turn(source.path)
    versions = reading.lake.versions()
    assert not reading.turn(source.path).used_executor
    assert reading.lake.versions() == versions
    payments.append(5)
    source.high_watermarks(orders_0=21, payments_0=10)
    before = reading.states("orders")
    reading.turn(source.path)
    assert set(reading.states("payments")) == set(range(10))
    assert reading.states("orders") == before


@pytest.mark.parametrize("dies_at", ["sync_published", "rewrite_files"])
def test_a_run_that_dies_between_its_commits_is_completed_by_the_next(source, reading, monkeypatch, dies_at):
    orders = source.partition("orders-0")
    three_transactions(orders)
    source.high_watermarks(orders_0=21)
    reading.validate(source.path)
    owner = publish if dies_at == "sync_published" else uncommitted_rows.commits
    with monkeypatch.context() as dying:
        dying.setattr(owner, dies_at, lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            run(reading.config())
    assert set(reading.lake.published("orders")) == set(range(5))
    assert reading.states("orders") == {}
    reading.turn(source.path)
    assert reading.values("orders") == orders.rows


def test_of_two_plans_of_one_tail_only_the_first_to_commit_replaces_it(source, reading):
    orders = source.partition("orders-0")
    three_transactions(orders)
    source.high_watermarks(orders_0=21)
    reading.validate(source.path)
    config = reading.config()
    first, second = publish.plan(config), publish.plan(config)
    executor = launch.start_executor(config.lake)
    publish.apply(first, config, executor)
    publish.apply(second, config, executor)
    assert reading.values("orders") == orders.rows


def test_damage_ends_it_as_it_ends_what_is_published(source, reading):
    orders = source.partition("orders-0")
    orders.append(15)
    first = orders.segments()[0]
    data = first.read_bytes()
    first.write_bytes(handmade.flip(data, handmade.size_of(data) + 80))
    source.high_watermarks(orders_0=15)
    reading.turn(source.path)
    assert set(reading.states("orders")) == set(range(5))


def test_it_is_what_a_real_consumer_of_each_isolation_level_read(sample, reading):
    transactions = sample("transactions-4.4.0")
    reading.turn(transactions.logdir)
    rows = reading.lake.rows("records_uncommitted")
    found = sorted((row["topic"], row["partition"], row["offset"], row["key"], row["value"]) for row in rows)
    assert found == consumed(transactions.consumed("read_uncommitted"))
    assert len(found) == 507
    visible = [row for row in rows if row["transaction_state"] == "committed"]
    found = sorted((row["topic"], row["partition"], row["offset"], row["key"], row["value"]) for row in visible)
    assert found == consumed(transactions.consumed("read_committed"))
    assert {row["transaction_state"] for row in rows} >= {"committed", "aborted", "open"}


def consumed(lines: list[dict[str, Any]]) -> list[tuple[str, int, int, bytes | None, bytes | None]]:
    """A consumer's output, internal topics apart."""

    def decoded(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    ours = [line for line in lines if not line["topic"].startswith("__")]
    return sorted((r["topic"], r["partition"], r["offset"], decoded(r["key"]), decoded(r["value"])) for r in ours)


def test_a_replacement_from_the_middle_of_a_decided_range_is_made_again_from_there(source, reading, monkeypatch):
    monkeypatch.setattr(archived_bytes, "TASK_BYTES", 1)
    orders = source.partition("orders-0")
    orders.append(10)
    orders.roll()
    orders.append(10)
    source.high_watermarks(orders_0=20)
    reading.turn(source.path)
    DeltaTable(str(reading.lake.path / "tables" / "records")).delete("offset >= 12")
    run(ReplaceConfig(str(reading.lake.path), "replace", AS_OF_MS, start_offset=10))
    report = reading.turn(source.path)
    assert (report.findings, report.metrics["uncommitted_records"]) == ((), 10)
    assert reading.states("orders") == dict.fromkeys(range(20), "committed")
    assert not reading.turn(source.path).used_executor
