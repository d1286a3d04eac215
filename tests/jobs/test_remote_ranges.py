"""Offsets that an earlier run left in remote storage: each is archived once, whatever fails or is killed."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from logcore.storage.remote_tier.chunked_segment import KEYS_VARIABLE
from spark_jobs import launch
from spark_jobs.contracts import CompactionConfig, IngestConfig
from spark_jobs.ingest import ingest_job as ingest
from spark_jobs.policies.policies_file import read_policies
from tests import remote_objects
from tests.broker_directory import LogDirectory
from tests.in_process import InProcessExecutor
from tests.jobs.tiered_lake import MODES, killed_before_rows, once, turn
from tests.remote_storage import RemoteStorage, batches, tiered
from tests.spark.cycle import AS_OF_MS, Lake


def moved_whole(source: LogDirectory, tmp_path: Path) -> RemoteStorage:
    """A log of ten offsets in remote storage and ten local ones."""
    orders = source.partition("orders-0")
    orders.append(10)
    orders.roll()
    orders.append(10)
    storage = RemoteStorage(tmp_path / "remote", orders)
    storage.take(source, 1)
    source.high_watermarks(orders_0=20)
    return storage


@pytest.mark.parametrize("is_away", [True, False], ids=["not-listed-once", "given-late"])
def test_offsets_that_were_remote_at_the_end_of_the_archive_are_archived_once(
    source: LogDirectory, lake: Lake, tmp_path: Path, is_away: bool
) -> None:
    storage = moved_whole(source, tmp_path)
    turn(lake, source, *([storage] if is_away else []))
    storage.partition.roll()
    storage.partition.append(10)
    storage.partition.roll()
    storage.take(source, 2)
    source.high_watermarks(orders_0=30)
    if is_away:
        away = storage.path.rename(tmp_path / "away")
        turn(lake, source, storage)
        away.rename(storage.path)
    else:
        turn(lake, source)
    storage.partition.append(5)
    source.high_watermarks(orders_0=35)
    for _ in range(2):
        turn(lake, source, storage)
    once(lake, storage)


def test_offsets_that_two_runs_called_remote_are_archived_once(
    source: LogDirectory, lake: Lake, tmp_path: Path
) -> None:
    orders = source.partition("orders-0")
    orders.append(10)
    source.high_watermarks(orders_0=10)
    storage = RemoteStorage(tmp_path / "remote", orders)
    turn(lake, source)
    for end in (20, 30):
        if end == 20:
            orders.roll()
        orders.append(10)
        orders.roll()
        storage.take(source, 2 if end == 20 else 1)
        source.high_watermarks(orders_0=end)
        if end == 20:
            turn(lake, source)
    orders.append(10)
    source.high_watermarks(orders_0=40)
    turn(lake, source)
    turn(lake, source, storage)
    once(lake, storage)


def test_a_run_that_died_before_it_wrote_the_row_is_completed_by_one_whose_growth_waits(
    source: LogDirectory, lake: Lake, tmp_path: Path
) -> None:
    storage = tiered(source, tmp_path / "remote")
    turn(lake, source)
    killed_before_rows(lake, source, storage)
    storage.partition.append(5)
    policies = tmp_path / "policies.yaml"
    policies.write_text("topics:\n  '*':\n    active.min.growth: 1 MiB\n    publish.max.delay: 1 h\n")
    turn(lake, source, storage, at_once=False, policies=str(policies))
    (row,) = lake.rows("logs")
    assert (row["log_start_offset"], row["next_offset"], row["gaps"]) == (0, 50, "[]")
    source.high_watermarks(orders_0=55)
    turn(lake, source, storage)
    once(lake, storage)


@pytest.mark.parametrize("is_remote", [True, False], ids=["remote", "local"])
def test_a_killed_first_run_publishes_no_offset_below_the_log_start(
    source: LogDirectory, lake: Lake, tmp_path: Path, is_remote: bool
) -> None:
    storages = [tiered(source, tmp_path / "remote")] if is_remote else []
    if not is_remote:
        source.partition("orders-0").append(20)
        source.high_watermarks(orders_0=20)
    source.checkpoint("log-start", orders_0=15)
    killed_before_rows(lake, source, *storages)
    turn(lake, source, *storages)
    assert min(lake.published("orders")) == 15


@pytest.mark.parametrize("mode", MODES)
def test_one_remote_segment_that_cannot_be_read_at_first_hinders_no_other(
    source: LogDirectory, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    (tmp_path / "key.pem").write_bytes(remote_objects.PRIVATE_KEY)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'key.pem'}")
    storage = tiered(source, tmp_path / "remote", layout="chunks", is_encrypted=True)
    damaged = storage.logs()[1]
    good = damaged.read_bytes()
    damaged.write_bytes(good[:40] + bytes([good[40] ^ 1]) + good[41:])
    turn(lake, source, storage, mode=mode)
    assert set(lake.published("orders")) == {*range(10), *range(20, 50)}
    assert lake.stopped() == {"orders-0": None}
    assert [each for each in lake.ledger("orders") if each[2] == "remote"] == [(10, 20, "remote")]
    damaged.write_bytes(good)
    turn(lake, source, storage, mode=mode)
    once(lake, storage)


def test_remote_segments_that_cannot_be_read_do_not_use_up_the_rounds_of_growth(
    source: LogDirectory, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key.pem").write_bytes(remote_objects.PRIVATE_KEY)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'key.pem'}")
    storage = tiered(source, tmp_path / "remote", layout="chunks", is_encrypted=True)
    turn(lake, source)
    monkeypatch.delenv(KEYS_VARIABLE)
    storage.partition.append(10)
    source.high_watermarks(orders_0=60)
    reports = [turn(lake, source, storage, max_bytes=1)["ingest"] for _ in range(2)]
    assert [report.metrics.get("segments", 0) for report in reports] == [1, 0]
    assert [report.left for report in reports] == [("orders-0",), ()]
    assert set(lake.published("orders")) == set(range(30, 60))


@pytest.mark.parametrize("mode", MODES)
def test_remote_segments_that_fail_do_not_hold_up_the_local_part(
    source: LogDirectory, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The first round of the first run has remote segments alone, and none of them can be read."""
    storage = tiered(source, tmp_path / "remote", layout="chunks", is_encrypted=True)
    reports = [turn(lake, source, storage, mode=mode, max_bytes=1)["ingest"] for _ in range(3)]
    assert [report.left for report in reports] == [("orders-0",), ("orders-0",), ("orders-0",)]
    turn(lake, source, storage, mode=mode)
    assert lake.stopped() == {"orders-0": None}
    assert set(lake.published("orders")) == set(range(30, 50))
    assert lake.ledger("orders") == [(0, 30, "remote"), (30, 50, "present")]
    versions = lake.versions()
    turn(lake, source, storage, mode=mode)
    assert lake.versions() == versions
    (tmp_path / "key.pem").write_bytes(remote_objects.PRIVATE_KEY)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'key.pem'}")
    turn(lake, source, storage, mode=mode)
    once(lake, storage)


@pytest.mark.parametrize("is_given", [True, False], ids=["given", "not-given"])
def test_offsets_of_remote_segments_that_failed_in_the_first_run_are_remote_and_not_lost(
    source: LogDirectory, lake: Lake, tmp_path: Path, is_given: bool
) -> None:
    storage = tiered(source, tmp_path / "remote", layout="chunks", is_encrypted=True)
    turn(lake, source, storage, max_bytes=1)
    assert lake.stopped() == {"orders-0": "unreadable"}
    turn(lake, source, *([storage] if is_given else []))
    assert lake.stopped() == {"orders-0": None}
    assert set(lake.published("orders")) == set(range(30, 50))
    assert lake.ledger("orders") == [(0, 30, "remote"), (30, 50, "present")]


def test_a_cut_remote_segment_that_ends_in_damage_does_not_stop_its_log(
    source: LogDirectory, lake: Lake, tmp_path: Path
) -> None:
    storage = tiered(source, tmp_path / "remote")
    plain = [log.read_bytes() for log in storage.logs()]
    first = tmp_path / f"{0:020d}.log"
    first.write_bytes(plain[0][:-1] + bytes([plain[0][-1] ^ 1]) + next(batches(plain[1])))
    storage.store(first)
    for _ in range(6):
        turn(lake, source, storage, max_bytes=1)
        assert lake.stopped() == {"orders-0": None}
    (row,) = lake.rows("logs")
    assert row["next_offset"] == 50


def test_offsets_that_a_compacted_segment_spans_are_not_archived_again(
    source: LogDirectory, lake: Lake, tmp_path: Path
) -> None:
    orders = source.partition("orders-0")
    orders.append(10)
    source.high_watermarks(orders_0=10)
    storage = RemoteStorage(tmp_path / "remote", orders)
    turn(lake, source)
    for _ in range(3):
        orders.roll()
        orders.append(10)
    storage.take(source, 2)
    source.high_watermarks(orders_0=40)
    turn(lake, source)
    policies = tmp_path / "policies.yaml"
    policies.write_text("topics:\n  '*':\n    cleanup.policy: compact\n    min.cleanable.dirty.ratio: 0\n")
    config = CompactionConfig(str(lake.path), "compaction", AS_OF_MS, policies=read_policies(str(policies)), apply=True)
    launch.run(config)
    reports = turn(lake, source, storage, policies=str(policies))
    said = [each for each in reports["ingest"].findings if each.finding.rule == "remote-range-left-out"]
    assert [(each.finding.start_offset, each.finding.end_offset) for each in said] == [(10, 20)]
    assert "the compacted segment 0 to" in said[0].finding.message
    again = turn(lake, source, storage, policies=str(policies))["ingest"].findings
    assert "remote-range-left-out" not in {each.finding.rule for each in again}, "it is recorded once"
    live = [row for row in lake.rows("segments") if row["retired_ms"] is None]
    spans = sorted((row["base_offset"], row["next_offset"]) for row in live)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans)), spans


def test_a_part_of_a_remote_file_that_fills_a_gap_is_registered_with_its_version(
    source: LogDirectory, lake: Lake, tmp_path: Path
) -> None:
    orders = source.partition("orders-0")
    for number in range(4):
        if number:
            orders.roll()
        orders.append(40)
    source.high_watermarks(orders_0=160)
    damaged = orders.segments()[1]
    good = damaged.read_bytes()
    damaged.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    turn(lake, source)
    damaged.write_bytes(good)
    storage = RemoteStorage(tmp_path / "remote", orders)
    storage.take(source, 2)
    turn(lake, source, storage, mode="reference")
    registered = [row for row in lake.rows("segments") if row["path"].startswith(str(storage.path))]
    assert [bool(row["etag"]) for row in registered] == [True]


@pytest.mark.parametrize("mode", MODES)
def test_a_file_that_is_replaced_between_plan_and_copy_is_not_archived(
    source: LogDirectory, lake: Lake, tmp_path: Path, mode: str
) -> None:
    storage = tiered(source, tmp_path / "remote")
    config = IngestConfig(str(lake.path), (str(source.path),), "run", AS_OF_MS, remote=(str(storage.path),), mode=mode)
    planned = ingest.plan(config)
    replaced = storage.replace(tmp_path / "others")
    report = ingest.apply(planned, config, InProcessExecutor())
    said = [(each.finding.rule, each.finding.file) for each in report.findings if each.finding.file == str(replaced)]
    assert sorted(said) == [("remote-range-left-out", str(replaced)), ("source-changed", str(replaced))]
    assert str(replaced) not in {row["origin_file"] for row in lake.rows("segments")}
