"""A source lives on between runs: the archive grows, ignores or stops as the decisions on growth say."""

from __future__ import annotations

import shutil

import pytest

from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.spark.cycle import states


def test_what_was_appended_between_runs_is_added_once_and_a_run_without_news_writes_nothing(source, lake):
    orders = source.partition("orders-0")
    orders.append(20)
    source.high_watermarks(orders_0=20)
    before = source.fingerprint()
    lake.turn(source.path)
    assert source.fingerprint() == before
    assert lake.published("orders") == orders.rows

    versions = lake.versions()
    reports = lake.turn(source.path)
    assert not any(report.used_executor or report.changed for report in reports.values())
    assert lake.versions() == versions

    orders.append(7)
    orders.roll()
    orders.append(8)
    source.high_watermarks(orders_0=35)
    lake.turn(source.path)
    assert lake.published("orders") == orders.rows
    assert lake.ledger("orders")[-1][1] == 35
    assert states(lake.ledger("orders")) == {"present": 35}
    assert lake.archived_bytes("orders") == b"".join(path.read_bytes() for path in orders.segments())


def test_only_offsets_below_the_high_watermark_are_published_and_more_follow_when_only_it_moves(source, lake):
    orders = source.partition("orders-0")
    orders.append(20)
    source.high_watermarks(orders_0=10)
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(10))
    assert lake.ledger("orders") == [(0, 10, "present"), (10, 20, "open")]
    source.high_watermarks(orders_0=15)
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(15))
    source.high_watermarks(orders_0=5)
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(15))
    assert "high-watermark-fell" in lake.rules()


def test_a_transaction_open_in_one_run_is_published_by_the_run_that_sees_its_marker(source, lake):
    orders = source.partition("orders-0")
    transactional = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    orders.append(5)
    orders.append(5, **transactional)
    orders.append(5)
    source.high_watermarks(orders_0=15)
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(5))
    assert lake.ledger("orders") == [(0, 5, "present"), (5, 15, "open")]
    orders.marker(7, handmade.COMMIT)
    orders.append(5, **transactional | {"base_sequence": 5})
    orders.marker(7, handmade.ABORT)
    source.high_watermarks(orders_0=22)
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(15))
    assert states(lake.ledger("orders")) == {"present": 16, "control": 1, "aborted": 5}
    assert {(t["first_offset"], t["state"]) for t in lake.rows("transactions")} == {(5, "committed"), (16, "aborted")}


def test_half_a_batch_at_the_end_waits_until_it_is_whole(source, lake):
    orders = source.partition("orders-0")
    orders.append(10)
    whole = orders.append(5)
    active = orders.segments()[-1]
    content = active.read_bytes()
    active.write_bytes(content[: -len(whole) // 2])
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(10))
    assert "torn-tail" in lake.rules()
    versions = lake.versions()
    assert not lake.turn(source.path)["ingest"].used_executor
    assert lake.versions() == versions
    active.write_bytes(content)
    lake.turn(source.path)
    assert lake.published("orders") == orders.rows
    assert lake.archived_bytes("orders") == content


def test_a_flipped_bit_in_the_middle_is_quarantined_and_later_offsets_are_not_published(source, lake):
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    orders.append(15)
    payments.append(15)
    first = orders.segments()[0]
    data = first.read_bytes()
    size = handmade.size_of(data)
    first.write_bytes(handmade.flip(data, size + 80))
    orders.roll()
    orders.append(5)
    source.high_watermarks(orders_0=20, payments_0=15)
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(5))
    assert lake.published("payments") == payments.rows
    assert lake.ledger("orders") == [(0, 5, "present"), (5, 10, "corrupt"), (10, 20, "present")]
    quarantined = lake.rows("quarantine")
    assert (
        b"".join(row["bytes"] for row in quarantined) == first.read_bytes()[size : size + handmade.size_of(data, size)]
    )
    assert [row["quarantined_bytes"] for row in lake.rows("validations") if row["topic"] == "orders"].count(0) == 1
    for row in lake.rows("validations"):
        accounted = row["valid_bytes"] + row["quarantined_bytes"] + row["tail_bytes"] + row["padding_bytes"]
        assert accounted == row["file_bytes"]


def test_cleaning_and_retention_at_the_source_below_what_we_hold_change_nothing_here(source, lake):
    orders = source.partition("orders-0")
    orders.append(10)
    orders.roll()
    orders.append(10)
    source.high_watermarks(orders_0=20)
    lake.turn(source.path)
    held = lake.archived_bytes("orders")
    orders.segments()[0].unlink()
    source.checkpoint("log-start", orders_0=10)
    orders.append(5)
    source.high_watermarks(orders_0=25)
    lake.turn(source.path)
    assert lake.published("orders") == orders.rows
    assert lake.archived_bytes("orders").startswith(held)
    assert states(lake.ledger("orders")) == {"present": 25}
    assert lake.stopped() == {"orders-0": None}


def test_offsets_trimmed_at_the_source_before_they_were_taken_are_missing_and_stop_publishing(source, lake):
    orders = source.partition("orders-0")
    orders.append(10)
    source.high_watermarks(orders_0=10)
    lake.turn(source.path)
    orders.append(10)
    orders.segments()[0].unlink()
    orders.roll()
    orders.append(5)
    source.checkpoint("log-start", orders_0=20)
    source.high_watermarks(orders_0=25)
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(10))
    assert lake.ledger("orders") == [(0, 10, "present"), (10, 20, "missing"), (20, 25, "present")]
    assert "trimmed-before-ingest" in lake.rules()


def test_a_merged_and_compacted_source_is_followed_at_its_end(source, lake):
    orders = source.partition("orders-0")
    orders.append(10)
    source.high_watermarks(orders_0=10)
    lake.turn(source.path)
    orders.append(5)
    orders.roll()
    orders.append(5)
    # The broker cleaned the first segment up to offset 10: offsets 7 to 9 are left, and its batch keeps its bounds.
    first = orders.segments()[0]
    cleaned = handmade.batch(
        [handmade.record(delta, *orders.rows[5 + delta]) for delta in (2, 3, 4)],
        base_offset=5,
        last_offset_delta=4,
        base_timestamp=1_700_000_000_000,
        leader_epoch=0,
    )
    tail = first.read_bytes()
    batches, position = [], 0
    while position < len(tail):
        batches.append(tail[position : position + handmade.size_of(tail, position)])
        position += len(batches[-1])
    first.write_bytes(cleaned + batches[2])
    source.checkpoint("cleaner", orders_0=10)
    source.high_watermarks(orders_0=20)
    lake.turn(source.path)
    assert lake.published("orders") == orders.rows
    assert lake.stopped() == {"orders-0": None}
    assert states(lake.ledger("orders")) == {"present": 20}


def test_a_source_that_ends_inside_the_archive_stops_its_log_and_the_rest_continues(source, lake):
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    orders.append(10)
    payments.append(10)
    source.high_watermarks(orders_0=10, payments_0=10)
    lake.turn(source.path)
    active = orders.segments()[0]
    active.write_bytes(active.read_bytes()[: handmade.size_of(active.read_bytes())])
    payments.append(5)
    source.high_watermarks(orders_0=5, payments_0=15)
    lake.turn(source.path)
    assert lake.stopped() == {"orders-0": "source-behind", "payments-0": None}
    assert lake.published("orders") == orders.rows
    assert lake.published("payments") == payments.rows


def test_another_history_at_the_same_offsets_stops_the_log(source, lake):
    orders = source.partition("orders-0")
    orders.append(10)
    lake.turn(source.path)
    rows = dict(orders.rows)
    orders.segments()[0].unlink()
    orders.next_offset = 0
    orders.append(20, tag=b"other", leader_epoch=1)
    orders.epochs([(1, 0)])
    lake.turn(source.path)
    assert lake.stopped() == {"orders-0": "source-diverged"}
    assert lake.published("orders") == rows


def test_a_topic_made_again_under_its_old_name_stops_the_log(source, lake):
    orders = source.partition("orders-0")
    orders.append(10)
    source.high_watermarks(orders_0=5)
    lake.turn(source.path)
    rows = dict(list(orders.rows.items())[:5])
    shutil.rmtree(orders.path)
    again = source.partition("orders-0", OTHER_TOPIC_ID)
    again.append(30, tag=b"again")
    # Checkpoints name a topic, not its id: these are of the new one.
    source.high_watermarks(orders_0=30)
    source.checkpoint("cleaner", orders_0=30)
    source.checkpoint("log-start", orders_0=3)
    lake.turn(source.path)
    assert lake.stopped() == {"orders-0": "topic-recreated"}
    assert lake.published("orders") == rows
    row = lake.rows("logs")[0]
    assert (row["high_watermark"], row["cleaner_checkpoint"], row["source_log_start_offset"]) == (5, None, 0)
    versions = lake.versions()
    assert not any(report.used_executor or report.changed for report in lake.turn(source.path).values())
    assert lake.versions() == versions


def test_a_log_stays_with_its_first_source_and_the_other_is_reported(source, lake, tmp_path):
    other = LogDirectory(tmp_path / "other")
    orders, replica = source.partition("orders-0"), other.partition("orders-0")
    orders.append(10)
    replica.append(15)
    lake.turn(source.path)
    lake.turn(source.path, other.path)
    assert lake.published("orders") == orders.rows
    assert "second-source" in lake.rules()
    again = lake.turn(other.path, source.path)["ingest"].plan
    assert lake.published("orders") == orders.rows
    assert again.findings == ()
    assert [f.file for f in again.of_paths if f.rule == "second-source"] == [str(replica.path)]


@pytest.mark.parametrize("is_first", [True, False])
def test_the_first_run_takes_the_copy_with_the_history_and_names_the_others(source, lake, tmp_path, is_first):
    other = LogDirectory(tmp_path / "other")
    zombie, leader = source.partition("orders-0"), other.partition("orders-0")
    for copy in (zombie, leader):
        copy.append(10, leader_epoch=4)
    zombie.append(20, leader_epoch=4, tag=b"dropped")
    leader.append(5, leader_epoch=5, tag=b"kept")
    zombie.epochs([(4, 0)])
    leader.epochs([(4, 0), (5, 10)])
    paths = (source.path, other.path) if is_first else (other.path, source.path)
    lake.turn(*paths)
    assert lake.published("orders") == leader.rows
    (said,) = [f["message"] for f in lake.rows("findings") if f["rule"] == "several-copies"]
    assert str(zombie.path) in said
    assert str(leader.path) in said
    assert "the copies part at offset 10" in said
    leader.append(5, leader_epoch=5)
    lake.turn(*paths)
    assert lake.published("orders") == leader.rows


def test_a_log_of_which_no_evidence_names_the_history_waits_until_a_copy_is_named(source, lake, tmp_path):
    other = LogDirectory(tmp_path / "other")
    one, two = source.partition("orders-0"), other.partition("orders-0")
    one.append(10)
    two.append(15, tag=b"other")
    lake.turn(source.path, other.path)
    assert lake.rows("logs") == []
    (said,) = [f["message"] for f in lake.rows("findings") if f["rule"] == "copies-undecided"]
    assert str(one.path) in said
    assert str(two.path) in said
    lake.turn(two.path)
    assert lake.published("orders") == two.rows
    lake.turn(source.path, other.path)
    assert lake.published("orders") == two.rows


def test_a_log_is_not_moved_to_a_copy_that_lacks_its_last_leader_epoch(source, lake, tmp_path):
    zombie = LogDirectory(tmp_path / "zombie")
    orders, copy = source.partition("orders-0"), zombie.partition("orders-0")
    orders.append(10, leader_epoch=4)
    orders.epochs([(4, 0), (5, 10)])
    lake.turn(source.path)
    copy.append(10, leader_epoch=4)
    copy.append(10, leader_epoch=4, tag=b"dropped")
    copy.epochs([(4, 0)])
    lake.turn(zombie.path, move_source=True)
    assert [row["source"] for row in lake.rows("logs")] == [str(orders.path)]
    assert lake.published("orders") == orders.rows
    (said,) = [f["message"] for f in lake.rows("findings") if f["rule"] == "several-copies"]
    assert "its batch at offset 10 is of leader epoch 4, and the log was in epoch 5 there before" in said


def test_a_log_moves_to_another_directory_only_on_request_and_if_it_agrees(source, lake, tmp_path):
    other, wrong = LogDirectory(tmp_path / "other"), LogDirectory(tmp_path / "wrong")
    orders = source.partition("orders-0")
    orders.append(10)
    lake.turn(source.path)
    replica = other.partition("orders-0")
    replica.append(15)
    wrong.partition("orders-0").append(15, tag=b"wrong")

    lake.turn(wrong.path, move_source=True)
    assert [row["source"] for row in lake.rows("logs")] == [str(orders.path)]
    said = [f["message"] for f in lake.rows("findings") if f["rule"] == "several-copies"]
    assert len(said) == 1
    assert (
        f"the copy in {wrong.path / 'orders-0'} is left alone: it cannot be taken: another batch is at offset"
        in said[0]
    )
    lake.turn(other.path, source.path, move_source=True)
    assert [row["source"] for row in lake.rows("logs")] == [str(orders.path)], "its own source was named too"
    assert lake.published("orders") == orders.rows

    lake.turn(other.path, move_source=True)
    assert [row["source"] for row in lake.rows("logs")] == [str(replica.path)]
    assert lake.published("orders") == replica.rows
    assert "source-moved" in lake.rules()
    versions = lake.versions()
    assert not any(report.changed for report in lake.turn(other.path, move_source=True).values())
    assert lake.versions() == versions
    replica.append(5)
    lake.turn(other.path)
    assert lake.published("orders") == replica.rows


def test_a_copy_that_ends_before_us_does_not_become_the_source(source, lake, tmp_path):
    orders = source.partition("orders-0")
    orders.append(10)
    lake.turn(source.path)
    other = LogDirectory(tmp_path / "other")
    other.partition("orders-0").append(5)
    lake.turn(other.path, move_source=True)
    assert [(row["source"], row["stopped"]) for row in lake.rows("logs")] == [(str(orders.path), None)]


def test_an_unreadable_segment_ends_the_growth_of_its_log_only(source, lake):
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    orders.append(10)
    payments.append(10)
    lost = orders.roll()
    lost.unlink()
    lost.mkdir()  # root reads whatever its mode says, but never a directory
    orders.next_offset = 20
    orders.roll()
    orders.append(5)
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(10))
    assert lake.published("payments") == payments.rows
    assert "not-a-segment" in lake.rules()


def test_a_lake_refuses_another_cluster(source, lake, tmp_path):
    from spark_jobs.errors import LakeRefused

    source.partition("orders-0").append(5)
    lake.turn(source.path)
    other = LogDirectory(tmp_path / "other", cluster="DDDDDDDDDDDDDDDDDDDDDD")
    other.partition("clicks-0", OTHER_TOPIC_ID).append(5)
    with pytest.raises(LakeRefused, match="holds cluster"):
        lake.turn(other.path)


def test_bytes_registered_in_place_are_published_without_a_copy(source, lake):
    orders = source.partition("orders-0")
    orders.append(10)
    orders.roll()
    orders.append(5)
    lake.turn(source.path, mode="reference")
    assert lake.published("orders") == orders.rows
    assert list((lake.path / "archive").rglob("*.log")) == []
    orders.append(5)
    lake.turn(source.path, mode="reference")
    assert lake.published("orders") == orders.rows
