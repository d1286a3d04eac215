"""A source went back to an earlier offset, above all that is published, and on with other batches: so do we."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, PublishConfig
from spark_jobs.errors import ConcurrentChange
from spark_jobs.ingest import ingest_job as ingest
from spark_jobs.lake.delta.files.row_counts import recorded_as
from spark_jobs.lake.segments import archive
from spark_jobs.publish import publish_job as publish
from tests import handmade
from tests.broker_directory import Partition
from tests.spark.cycle import AS_OF_MS, OF_OURS, Lake, states

BATCH = 5


def archived(lake: Lake) -> list[tuple[int, int, str | None]]:
    """(first offset, offset after the last, why retired) of every segment, live ones first."""
    rows = [(s["base_offset"], s["next_offset"], s["retired_because"]) for s in lake.rows("segments")]
    return sorted(rows, key=lambda row: (row[2] is not None, row[:2]))


def feeding_bytes(lake: Lake) -> bytes:
    rows = [s for s in lake.rows("segments") if s["generation"] == 0 and s["retired_ms"] is None]
    return b"".join((lake.path / s["path"]).read_bytes() for s in sorted(rows, key=lambda s: s["base_offset"]))


def source_bytes(partition: Partition) -> bytes:
    return b"".join(path.read_bytes() for path in partition.segments())


def test_a_tail_above_the_frontier_is_cut_inside_of_its_segment_and_grows_on_with_the_new_leaders_batches(source, lake):
    orders = source.partition("orders-0")
    orders.append(30)
    source.high_watermarks(orders_0=10)
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(10))

    orders.truncate(20)
    orders.append(15, tag=b"other", leader_epoch=1)
    orders.epochs([(0, 0), (1, 20)])
    source.high_watermarks(orders_0=35)
    report = lake.turn(source.path)["ingest"]
    assert archived(lake) == [(0, 20, None), (20, 35, None), (0, 30, "cut-back")]
    assert feeding_bytes(lake) == source_bytes(orders)
    assert lake.published("orders") == orders.rows
    assert lake.ledger("orders") == [(0, 10, "present"), (10, 35, "present")] or states(lake.ledger("orders")) == {
        "present": 35
    }
    assert lake.stopped() == {"orders-0": None}
    cut = next(f for f in report.findings if f.finding.rule == "tail-cut-back")
    assert (cut.finding.start_offset, cut.finding.end_offset, cut.finding.severity) == (20, 30, "info")
    live = next(s for s in lake.rows("segments") if s["base_offset"] == 0 and s["retired_ms"] is None)
    gone = next(s for s in lake.rows("segments") if s["retired_ms"] is not None)
    assert (gone["replaced_by"], gone["retired_ms"]) == (live["segment_id"], AS_OF_MS)
    assert (live["origin_file"], live["origin_position"]) == (gone["origin_file"], 0)

    versions = lake.versions()
    reports = lake.turn(source.path)
    assert not any(report.used_executor or report.changed for report in reports.values())
    assert lake.versions() == versions


def test_whole_segments_are_retired_where_the_fork_lies_between_two_and_nothing_is_copied_of_ours(source, lake):
    orders = source.partition("orders-0")
    orders.append(10)
    orders.roll()
    orders.append(10)
    orders.roll()
    orders.append(10)
    source.high_watermarks(orders_0=5)
    lake.turn(source.path)
    orders.truncate(10)
    orders.roll()
    orders.append(5, tag=b"other", leader_epoch=1)
    orders.epochs([(0, 0), (1, 10)])
    source.high_watermarks(orders_0=15)
    lake.turn(source.path)
    assert archived(lake) == [(0, 10, None), (10, 15, None), (10, 20, "cut-back"), (20, 30, "cut-back")]
    assert lake.published("orders") == orders.rows
    assert states(lake.ledger("orders")) == {"present": 15}


def test_a_log_nothing_of_which_is_published_is_cut_back_too_and_its_high_watermark_stays(source, lake):
    orders = source.partition("orders-0")
    orders.append(20)
    source.high_watermarks(orders_0=20)
    lake.turn(source.path, publish=False)
    orders.truncate(10)
    orders.append(5, tag=b"other", leader_epoch=1)
    orders.epochs([(0, 0), (1, 10)])
    source.high_watermarks(orders_0=15)
    lake.turn(source.path)
    assert lake.published("orders") == orders.rows
    assert [row["high_watermark"] for row in lake.rows("logs")] == [20]
    assert {"tail-cut-back", "high-watermark-fell", "high-watermark-beyond-log-end"} <= lake.rules()


def test_a_transaction_decided_by_a_marker_that_was_cut_away_is_open_again(source, lake):
    orders = source.partition("orders-0")
    transactional = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    orders.append(5)
    orders.append(5, **transactional)
    orders.append(5)
    orders.marker(7, handmade.COMMIT)
    source.high_watermarks(orders_0=5)
    lake.turn(source.path)
    orders.truncate(15)
    orders.append(5, tag=b"other", leader_epoch=1)
    orders.epochs([(0, 0), (1, 15)])
    source.high_watermarks(orders_0=20)
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(5))
    assert lake.ledger("orders")[0] == (0, 5, "present")
    assert states(lake.ledger("orders")) == {"present": 5, "open": 15}
    assert [t["state"] for t in lake.rows("transactions")] == ["open"]
    orders.write(handmade.marker(20, handmade.ABORT, producer_id=7, leader_epoch=1))
    source.high_watermarks(orders_0=21)
    lake.turn(source.path)
    assert states(lake.ledger("orders")) == {"present": 15, "aborted": 5, "control": 1}
    assert set(lake.published("orders")) == {*range(5), *range(10, 20)}


def test_a_difference_below_the_frontier_is_never_cut_back(source, lake):
    orders = source.partition("orders-0")
    orders.append(20)
    source.high_watermarks(orders_0=15)
    lake.turn(source.path)
    rows = dict(list(orders.rows.items())[:15])
    orders.truncate(10)
    orders.append(20, tag=b"other", leader_epoch=1)
    orders.epochs([(0, 0), (1, 10)])
    source.high_watermarks(orders_0=30)
    lake.turn(source.path)
    assert lake.stopped() == {"orders-0": "source-diverged"}
    assert lake.published("orders") == rows
    assert archived(lake) == [(0, 20, None)]


def test_a_source_that_only_ends_earlier_stops_its_log_and_cuts_nothing(source, lake):
    orders = source.partition("orders-0")
    orders.append(20)
    source.high_watermarks(orders_0=5)
    lake.turn(source.path)
    orders.truncate(10)
    lake.turn(source.path)
    assert lake.stopped() == {"orders-0": "source-behind"}
    assert archived(lake) == [(0, 20, None)]
    orders.append(20)  # the same batches again: the snapshot was an old one
    source.high_watermarks(orders_0=30)
    lake.turn(source.path)
    assert lake.stopped() == {"orders-0": None}
    assert lake.published("orders") == orders.rows


def test_damage_at_the_source_is_no_reason_to_give_up_good_bytes(source, lake):
    orders = source.partition("orders-0")
    orders.append(20)
    source.high_watermarks(orders_0=5)
    lake.turn(source.path)
    active = orders.segments()[0]
    good = active.read_bytes()
    size = handmade.size_of(good)
    for position in (3 * size + 7, 3 * size + 15, 3 * size + 18):  # base offset, leader epoch, crc of the last batch
        active.write_bytes(handmade.flip(good, position))
        lake.turn(source.path)
        assert lake.stopped()["orders-0"] in ("source-diverged", "source-behind"), position
        assert archived(lake) == [(0, 20, None)]
    active.write_bytes(good)
    lake.turn(source.path)
    assert lake.stopped() == {"orders-0": None}


def test_a_run_that_died_after_the_cut_is_completed_to_the_same_tables(source, lake):
    orders = source.partition("orders-0")
    orders.append(30)
    source.high_watermarks(orders_0=10)
    lake.turn(source.path)
    before = next(row for row in lake.rows("logs"))
    orders.truncate(20)
    orders.append(5, tag=b"other", leader_epoch=1)
    orders.epochs([(0, 0), (1, 20)])
    source.high_watermarks(orders_0=25)
    lake.turn(source.path, publish=False)
    after = lake.rows("logs")
    segments = sorted(lake.rows("segments"), key=lambda row: row["segment_id"])

    put_back(lake, before)  # as if the run had died between its two commits
    again = launch.run(IngestConfig(str(lake.path), (str(source.path),), "again", AS_OF_MS))
    assert not again.used_executor
    assert lake.rows("logs") == after
    assert sorted(lake.rows("segments"), key=lambda row: row["segment_id"]) == segments
    lake.turn(source.path)
    assert lake.published("orders") == orders.rows


def test_bytes_that_were_cut_back_and_come_again_are_one_segment_once(source, lake):
    orders = source.partition("orders-0")
    orders.append(10)
    orders.roll()
    ours = orders.append(5)
    source.high_watermarks(orders_0=5)
    lake.turn(source.path)
    orders.truncate(10)
    orders.roll()
    orders.append(5, tag=b"other", leader_epoch=1)
    orders.epochs([(0, 0), (1, 10)])
    lake.turn(source.path)
    orders.truncate(10)
    orders.roll().write_bytes(ours)
    orders.epochs([(0, 0)])
    source.high_watermarks(orders_0=15)
    lake.turn(source.path)
    identities = [s["segment_id"] for s in lake.rows("segments")]
    assert len(identities) == len(set(identities))
    assert feeding_bytes(lake) == source_bytes(orders)
    assert len(lake.published("orders")) == 15


def put_back(lake: Lake, row: dict[str, object]) -> None:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    table = DeltaTable(str(lake.path / "tables" / "logs"))
    schema = table.to_pyarrow_table().schema
    recorded = CommitProperties(OF_OURS, app_transactions=[Transaction(recorded_as("logs"), 1)])
    rows = pa.Table.from_pylist([row], schema=schema)
    write_deltalake(table, rows, mode="overwrite", commit_properties=recorded)


def test_what_is_published_between_plan_and_commit_is_not_cut_back(source, lake):
    orders = source.partition("orders-0")
    orders.append(30)
    source.high_watermarks(orders_0=30)
    lake.turn(source.path, publish=False)
    orders.truncate(20)
    orders.append(5, tag=b"other", leader_epoch=1)
    orders.epochs([(0, 0), (1, 20)])
    config = IngestConfig(str(lake.path), (str(source.path),), "cut", AS_OF_MS)
    plan = ingest.plan(config)
    assert [swap.because for log in plan.outline.logs for swap in log.swaps] == ["cut-back"]
    launch.run(PublishConfig(str(lake.path), "meanwhile", AS_OF_MS))
    with pytest.raises(ConcurrentChange, match="was published up to 30"):
        ingest.apply(plan, config, launch.start_executor(str(lake.path)))
    assert archived(lake) == [(0, 30, None)]
    lake.turn(source.path)
    assert lake.stopped() == {"orders-0": "source-diverged"}


def test_bytes_that_the_source_changed_where_they_were_registered_are_not_compared_with_themselves(source, lake):
    orders = source.partition("orders-0")
    orders.append(10)
    orders.roll()
    orders.append(20)
    source.high_watermarks(orders_0=15)
    lake.turn(source.path, mode="reference")
    rows = {offset: orders.rows[offset] for offset in range(15)}
    orders.truncate(20)
    orders.append(15, tag=b"other", leader_epoch=1)
    orders.epochs([(0, 0), (1, 20)])
    source.high_watermarks(orders_0=35)
    lake.turn(source.path, mode="reference", publish=False)
    assert lake.stopped() == {"orders-0": "source-diverged"}
    assert archived(lake) == [(0, 10, None), (10, 30, None)]
    assert lake.published("orders") == rows


def test_a_plan_made_while_another_run_moved_the_log_is_refused(source, lake, monkeypatch):
    orders = source.partition("orders-0")
    orders.append(10)
    lake.turn(source.path, publish=False)
    orders.append(5)
    known = archive.read_segments(str(lake.path))[0]
    planned_versions = archive.planned_versions

    def meanwhile(path, logs):
        monkeypatch.undo()
        taken = replace(known, segment_id="another", base_offset=10, next_offset=15)
        archive.commit_segments(path, [taken], planned_versions(path, [known.log]), "meanwhile", AS_OF_MS)
        return planned_versions(path, logs)

    monkeypatch.setattr(archive, "planned_versions", meanwhile)
    with pytest.raises(ConcurrentChange, match="were changed while its growth was planned"):
        ingest.plan(IngestConfig(str(lake.path), (str(source.path),), "late", AS_OF_MS))


def test_rows_of_a_tail_that_was_cut_back_leave_the_uncommitted_table(source, lake):
    orders = source.partition("orders-0")
    transactional = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    orders.append(10)
    orders.append(5, **transactional)
    orders.append(15)
    source.high_watermarks(orders_0=30)
    uncommitted = partial(PublishConfig, str(lake.path), isolation_level="read_uncommitted", as_of_ms=AS_OF_MS)
    lake.turn(source.path, publish=False)
    launch.run(uncommitted(run_id="first"))
    assert {r["offset"]: r["value"] for r in lake.rows("records_uncommitted")} == values(orders)
    orders.truncate(20)
    orders.append(5, tag=b"other", leader_epoch=1)
    orders.epochs([(0, 0), (1, 20)])
    source.high_watermarks(orders_0=25)
    lake.turn(source.path, publish=False)
    launch.run(uncommitted(run_id="second"))
    assert lake.stopped() == {"orders-0": None}
    assert set(lake.published("orders")) == set(range(10))
    rows = lake.rows("records_uncommitted")
    assert sorted((r["offset"], r["value"]) for r in rows) == sorted(values(orders).items())


def values(partition: Partition) -> dict[int, bytes | None]:
    return {offset: value for offset, (_, value) in partition.rows.items()}


def test_bytes_that_replaced_a_tail_are_published_only_as_validation_classified_them(source, lake):
    orders = source.partition("orders-0")
    orders.append(30)
    source.high_watermarks(orders_0=30)
    lake.turn(source.path, publish=False)
    orders.truncate(20)
    transactional = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    orders.append(10, leader_epoch=1, **transactional)
    orders.epochs([(0, 0), (1, 20)])
    config = IngestConfig(str(lake.path), (str(source.path),), "cut", AS_OF_MS)
    assert launch.run(config).changed
    # The ledger still says that all thirty offsets are visible.
    for level in ("read_committed", "read_uncommitted"):
        config = PublishConfig(str(lake.path), f"early-{level}", AS_OF_MS, isolation_level=level)
        early = launch.run(config)
        assert not early.used_executor
        assert early.findings == ()
    assert lake.published("orders") == {}
    assert lake.rows("records_uncommitted") == []
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(20))
    assert states(lake.ledger("orders")) == {"present": 20, "open": 10}


def test_bytes_that_come_again_are_validated_again(source, lake):
    orders = source.partition("orders-0")
    orders.append(10)
    orders.roll()
    ours = orders.append(4, producer_id=7, producer_epoch=0, attributes=handmade.TRANSACTIONAL, base_sequence=0)
    ours += handmade.marker(14, handmade.ABORT, producer_id=7, leader_epoch=0)
    orders.segments()[-1].write_bytes(ours)
    source.high_watermarks(orders_0=15)
    lake.turn(source.path, publish=False)
    orders.truncate(10)
    orders.roll()
    orders.append(5, tag=b"other", leader_epoch=1)
    orders.epochs([(0, 0), (1, 10)])
    lake.turn(source.path, publish=False)
    assert states(lake.ledger("orders")) == {"present": 15}
    orders.truncate(10)
    orders.roll().write_bytes(ours)
    orders.epochs([(0, 0)])
    lake.turn(source.path)
    assert states(lake.ledger("orders")) == {"present": 10, "aborted": 4, "control": 1}
    assert set(lake.published("orders")) == set(range(10))
    assert "output-mismatch" not in lake.rules()
    versions = lake.versions()
    assert not any(report.used_executor or report.changed for report in lake.turn(source.path).values())
    assert lake.versions() == versions


def test_a_tail_of_which_nothing_agrees_is_cut_back_whole_where_nothing_is_published(source, lake):
    orders = source.partition("orders-0")
    orders.append(5)
    source.high_watermarks(orders_0=0)
    lake.turn(source.path)
    # The leader failed before its first batch was anywhere else: a follower truncates to 0 (KIP-101).
    orders.truncate(0)
    orders.append(15, tag=b"other", leader_epoch=1)
    orders.epochs([(1, 0)])
    source.high_watermarks(orders_0=10)
    lake.turn(source.path)
    assert lake.stopped() == {"orders-0": None}
    assert lake.published("orders") == dict(list(orders.rows.items())[:10])
    assert archived(lake) == [(0, 15, None), (0, 5, "cut-back")]
    assert feeding_bytes(lake) == source_bytes(orders)
    versions = lake.versions()
    assert not any(report.used_executor or report.changed for report in lake.turn(source.path).values())
    assert lake.versions() == versions


def test_another_log_with_the_same_leader_epoch_is_not_cut_back_whole(source, lake):
    orders = source.partition("orders-0")
    orders.append(5)
    source.high_watermarks(orders_0=0)
    lake.turn(source.path)
    orders.truncate(0)
    orders.append(15, tag=b"other")
    lake.turn(source.path)
    assert lake.stopped() == {"orders-0": "source-diverged"}
    assert archived(lake) == [(0, 5, None)]


def test_a_publish_planned_before_a_cut_does_not_commit_what_was_cut(source, lake):
    orders = source.partition("orders-0")
    orders.append(30)
    source.high_watermarks(orders_0=30)
    lake.turn(source.path, publish=False)
    config = PublishConfig(str(lake.path), "overtaken", AS_OF_MS)
    overtaken = publish.plan(config)
    orders.truncate(20)
    orders.append(10, tag=b"other", leader_epoch=1)
    orders.epochs([(0, 0), (1, 20)])
    assert launch.run(IngestConfig(str(lake.path), (str(source.path),), "cut", AS_OF_MS)).changed
    publish.apply(overtaken, config, launch.start_executor(str(lake.path)))
    assert lake.published("orders") == {}
    lake.turn(source.path)
    assert lake.published("orders") == orders.rows
