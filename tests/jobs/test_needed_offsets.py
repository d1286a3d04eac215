"""What is still needed stays: late offsets, offsets that may come, room in indexes, and files not yet reported."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark_jobs import launch
from spark_jobs.contracts import CompactionConfig, JobReport, ReplaceConfig, RetentionConfig, TidyArchiveConfig
from spark_jobs.lake.segments import removals
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.spark.archived import append_segment, archived_records, ledger, spans
from tests.spark.cycle import AS_OF_MS, Lake

OLD = 1_700_000_000_000


def policies(lake: Lake, *settings: str) -> str:
    path = lake.path.parent / "policies.yaml"
    path.write_text(f"topics: {{orders: {{{', '.join(settings)}}}}}")
    return str(path)


def compact(lake: Lake, *settings: str, as_of_ms: int = AS_OF_MS) -> JobReport:
    stated = policies(lake, "cleanup.policy: compact", "salvage: permissive", *settings)
    return launch.run(CompactionConfig(str(lake.path), "compact", as_of_ms, read_policies(stated), apply=True))


def retain(lake: Lake) -> JobReport:
    stated = policies(lake, "cleanup.policy: delete", "retention.ms: 1", "salvage: permissive")
    return launch.run(RetentionConfig(str(lake.path), "retain", AS_OF_MS, read_policies(stated), apply=True))


@pytest.fixture
def orders(source: LogDirectory) -> Partition:
    """Four segments of five; the keys of the first three come again and again."""
    partition = source.partition("orders-0")
    for number in range(4):
        append_segment(partition, [(b"k%d" % n, b"v%d" % number) for n in range(5)], OLD + number)
    return partition


@pytest.fixture
def with_a_gap(source: LogDirectory, lake: Lake, orders: Partition, tmp_path: Path) -> Path:
    """A lake in which offsets 5 to 9 are missing, and the file that holds them."""
    hidden = tmp_path / orders.segments()[1].name
    shutil.move(orders.segments()[1], hidden)
    lake.turn(source.path, policies=policies(lake, "salvage: permissive"))
    assert set(lake.published("orders")) == {*range(5), *range(10, 20)}
    return hidden


def come_late(source: LogDirectory, lake: Lake, orders: Partition, hidden: Path) -> None:
    shutil.move(hidden, orders.path / hidden.name)
    lake.turn(source.path, policies=policies(lake, "salvage: permissive"))
    assert [row["start_offset"] for row in lake.rows("offset_ledger") if not row["published"]] == [5]


def test_what_came_late_is_not_cleaned_before_it_is_published(source, lake, orders, with_a_gap):
    come_late(source, lake, orders, with_a_gap)
    compact(lake, "segment.bytes: 1000000")
    assert set(archived_records(lake, "orders")) >= set(range(5, 20))
    report = launch.run(ReplaceConfig(str(lake.path), "late", AS_OF_MS))
    assert report.findings == ()
    assert lake.published("orders") == orders.rows
    compact(lake, "segment.bytes: 1000000")
    assert set(archived_records(lake, "orders")) == set(range(10, 20)), "then it is"
    assert lake.published("orders") == orders.rows


def test_what_came_late_is_not_retained_away_before_it_is_published(source, lake, orders, with_a_gap):
    come_late(source, lake, orders, with_a_gap)
    retain(lake)
    assert spans(lake, "orders") == [(5, 10), (10, 15), (15, 20)]
    launch.run(ReplaceConfig(str(lake.path), "late", AS_OF_MS))
    assert lake.published("orders") == orders.rows
    retain(lake)
    assert spans(lake, "orders") == []
    assert {archived for *_, archived in ledger(lake, "orders")} == {"retained-away"}


def test_nothing_is_cleaned_from_where_offsets_may_come_late(source, lake, tmp_path):
    """A tombstone that had gone would not be there for the value that comes late."""
    orders = source.partition("orders-0")
    append_segment(orders, [(b"other", b"v")] * 5, OLD)
    append_segment(orders, [(b"gone", b"back from the dead")] * 5, OLD)
    append_segment(orders, [(b"gone", None)] * 5, OLD)
    append_segment(orders, [(b"new", b"v")] * 5, OLD)
    hidden = tmp_path / orders.segments()[1].name
    shutil.move(orders.segments()[1], hidden)
    lake.turn(source.path, policies=policies(lake, "salvage: permissive"))
    for round in range(3):
        report = compact(lake, "delete.retention.ms: 0", as_of_ms=AS_OF_MS + round)
    assert "from offset 5 on some are missing and may come yet" in report.plan.passed[0].reason
    assert set(archived_records(lake, "orders")) == {*range(5), *range(10, 20)}
    come_late(source, lake, orders, hidden)
    launch.run(ReplaceConfig(str(lake.path), "late", AS_OF_MS))
    assert lake.published("orders") == orders.rows
    for round in range(3):
        compact(lake, "delete.retention.ms: 0", as_of_ms=AS_OF_MS + 10 + round)
    assert set(archived_records(lake, "orders").values()) == {(b"other", b"v"), (b"gone", None), (b"new", b"v")}


@pytest.mark.parametrize("spread_bytes", [0, 1 << 30])
def test_where_a_brokers_indexes_would_not_hold_what_is_cleaned_nothing_is_swapped(source, lake, spread_bytes):
    orders = source.partition("orders-0")
    orders.roll(0)
    for at in range(10):
        orders.write(handmade.simple_batch(at, [(b"k%d" % at, b"v")], base_timestamp=OLD + at, leader_epoch=0))
    orders.next_offset = 10
    append_segment(orders, [(b"k1", b"last")], OLD + 10)
    lake.turn(source.path)
    before = spans(lake, "orders")
    narrow = ("index.interval.bytes: 0", "segment.index.bytes: 12", f"compaction.spread.bytes: {spread_bytes}")
    report = compact(lake, *narrow)
    assert [placed.finding.rule for placed in report.findings] == ["compaction-refused"]
    assert "segment.index.bytes 12" in report.findings[0].finding.message
    assert spans(lake, "orders") == before


def test_a_file_that_shows_what_compaction_kept_stays_until_it_is_reported(source, lake, orders, monkeypatch):
    """Two runs in a row die after their swap. The third run needs the files of the first one's segment."""
    lake.turn(source.path)
    finish = removals.finish
    dirty = ("segment.bytes: 1000000", "min.cleanable.dirty.ratio: 0")

    def die(*_: object, **__: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(removals, "finish", die)
    for number in (1, 2):
        with pytest.raises(RuntimeError, match="killed"):
            compact(lake, *dirty, as_of_ms=AS_OF_MS + number)
        append_segment(orders, [(b"k1", b"again")] * 5, OLD + 10 + number)
        lake.turn(source.path)
    monkeypatch.setattr(removals, "finish", finish)
    tidied = ("cleanup.policy: compact", "file.delete.delay.ms: 0", "segment.bytes: 1000000")
    alone = {"apply": True, "force": True, "orphan_after_ms": 1 << 50}
    tidy = TidyArchiveConfig(str(lake.path), "tidy", AS_OF_MS + 10, read_policies(policies(lake, *tidied)), **alone)
    report = launch.run(tidy)
    assert "log_actions does not report yet" in str(report.plan.kept)
    compact(lake, *dirty, as_of_ms=AS_OF_MS + 20)
    told = [row for row in lake.rows("log_actions") if row["action"] == "compaction"]
    assert len(told) == len({row["segment_id"] for row in told}) >= 5
    policies(lake, *tidied)
    launch.run(tidy)
    retired = [row for row in lake.rows("segments") if (row["retired_ms"] or 0) in range(1, AS_OF_MS + 10)]
    assert len(retired) == 5
    assert all(row["deleted_ms"] for row in retired)
