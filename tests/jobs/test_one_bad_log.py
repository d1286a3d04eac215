"""One bad log, file or option is reported in one line. Nothing of it is lost, and everything else continues."""

from __future__ import annotations

import pytest

from logcore.storage import files, opened_source
from spark_jobs.contracts import IngestConfig
from spark_jobs.ingest import ingest_job as ingest
from spark_jobs.lake.segments import archive
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory, Partition
from tests.spark.cycle import AS_OF_MS, states


@pytest.fixture
def orders(source: LogDirectory) -> Partition:
    """Three segments of ten records each."""
    orders = source.partition("orders-0")
    for last in (False, False, True):
        orders.append(10)
        if not last:
            orders.roll()
    source.high_watermarks(orders_0=30, payments_0=10)
    return orders


@pytest.fixture
def payments(source: LogDirectory) -> Partition:
    """The log that has nothing wrong with it."""
    payments = source.partition("payments-0", OTHER_TOPIC_ID)
    payments.append(10)
    return payments


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Files that the operating system refuses to open. Root may read everything, so the refusal is simulated."""
    refused: set[str] = set()
    opened = files.open_readonly

    def open_readonly(path: str):
        if path in refused:
            raise files.SourceUnreadable("permission denied", file=path)
        return opened(path)

    for module in (files, opened_source):
        monkeypatch.setattr(module, "open_readonly", open_readonly)
    return refused


def test_a_last_batch_of_a_closed_segment_that_claims_offsets_of_the_next_is_damage_of_its_log_only(
    source, lake, orders, payments
):
    first = orders.segments()[0]
    data = first.read_bytes()
    first.write_bytes(handmade.flip(data, handmade.size_of(data) + 6, 4))  # a bit of its base offset: 4096 too many
    lake.turn(source.path)
    assert lake.published("payments") == payments.rows
    assert set(lake.published("orders")) == set(range(5))
    assert lake.ledger("orders") == [(0, 5, "present"), (5, 10, "corrupt"), (10, 30, "present")]


def test_one_named_segment_is_taken_and_the_directory_continues_after_it(source, lake, orders):
    lake.turn(orders.segments()[0])
    assert set(lake.published("orders")) == set(range(10))
    lake.turn(orders.path)
    assert lake.published("orders") == orders.rows
    assert states(lake.ledger("orders")) == {"present": 30}


def test_nothing_after_a_segment_that_was_not_named_is_taken_so_that_it_can_still_come(source, lake, orders):
    lake.turn(orders.segments()[0], orders.segments()[2])
    assert set(lake.published("orders")) == set(range(10))
    assert lake.stopped() == {"orders-0": "segments-not-named"}
    lake.turn(orders.path)
    assert lake.published("orders") == orders.rows
    assert lake.stopped() == {"orders-0": None}


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_segment_that_can_be_read_again_is_taken_where_the_log_stopped(
    source, lake, orders, payments, unreadable, at
):
    unreadable.add(str(orders.segments()[at]))
    lake.turn(source.path, publish=False)
    assert lake.stopped()["orders-0"] == "unreadable"
    assert lake.stopped()["payments-0"] is None
    unreadable.clear()
    lake.turn(source.path)
    assert lake.published("orders") == orders.rows
    assert lake.published("payments") == payments.rows
    assert states(lake.ledger("orders")) == {"present": 30}


def test_a_run_that_died_between_its_two_commits_is_repaired_though_the_topic_is_gone_meanwhile(
    source, lake, orders, payments, monkeypatch
):
    lake.turn(source.path)
    orders.append(5)
    source.high_watermarks(orders_0=35, payments_0=10)
    commit = archive.commit_logs
    monkeypatch.setattr(archive, "commit_logs", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        lake.turn(source.path)
    monkeypatch.setattr(archive, "commit_logs", commit)
    (orders.path / "partition.metadata").write_text("version: 0\ntopic_id: DDDDDDDDDDDDDDDDDDDDDA")
    payments.append(5)
    source.high_watermarks(orders_0=35, payments_0=15)
    lake.turn(source.path)
    assert lake.stopped() == {"orders-0": "topic-recreated", "payments-0": None}
    assert lake.published("payments") == payments.rows
    assert lake.ledger("orders")[-1][1] == 35


def test_a_lake_of_internal_topics_alone_publishes_nothing_and_is_no_fault(source, lake):
    offsets = source.partition("__consumer_offsets-0")
    offsets.append(10)
    source.high_watermarks(__consumer_offsets_0=10)
    lake.turn(source.path)
    assert states(lake.ledger("__consumer_offsets")) == {"present": 10}
    assert lake.published("__consumer_offsets") == {}


def test_a_batch_with_a_right_crc_and_a_wrong_record_holds_back_only_later_offsets(source, lake, payments):
    orders = source.partition("orders-0")
    orders.append(5)
    liar = handmade.batch([handmade.record(length=3)], base_offset=5, leader_epoch=0)
    orders.write(liar)
    orders.next_offset = 6
    orders.append(5)
    source.high_watermarks(orders_0=11, payments_0=10)
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(5))
    assert lake.ledger("orders") == [(0, 5, "present"), (5, 6, "corrupt"), (6, 11, "present")]
    assert "output-mismatch" not in lake.rules()
    assert not any(report.used_executor for report in lake.turn(source.path).values())


def test_a_cluster_id_that_is_a_path_leads_nowhere(tmp_path, lake):
    source = LogDirectory(tmp_path / "source", cluster="x/../../escape")
    source.partition("orders-0", topic_id=None).append(5)
    lake.turn(source.path)
    assert len(lake.rows("records")) == 5
    named = list(tmp_path.rglob("*escape*"))
    assert named
    assert all(path.is_relative_to(lake.path) and "=2f..=2f" in str(path) for path in named)


def test_a_missing_archived_file_stops_the_validation_of_its_log_and_of_no_other(source, lake, orders, payments):
    config = IngestConfig(str(lake.path), (str(source.path),), "run", AS_OF_MS)
    from spark_jobs.launch import run

    run(config)
    lost = next(row for row in lake.rows("segments") if row["topic"] == "orders")
    (lake.path / lost["path"]).unlink()
    lake.turn(source.path)
    assert lake.published("payments") == payments.rows
    assert lake.published("orders") == {}
    assert "archive-unreadable" in lake.rules()


def test_a_plan_of_ingest_writes_nothing(source, lake, orders):
    plan = ingest.plan(IngestConfig(str(lake.path), (str(source.path),), "run", AS_OF_MS))
    assert plan.task_bytes
    assert not lake.path.exists()
