"""Side files of the archive: a broker's own bytes, written once, and never beside what can't be trusted."""

from __future__ import annotations

from pathlib import Path

from logcore.segments.side_files.producer_state import parse
from spark_jobs import launch
from spark_jobs.contracts import JobReport, RebuildIndexesConfig
from spark_jobs.policies.policies_file import read_policies
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.spark.archived import files
from tests.spark.cycle import AS_OF_MS, Lake

# The sample's topics were created with these.
INTERVALS = 'topics: {"lat-*": {cleanup.policy: delete, index.interval.bytes: 400}, \
mixed: {cleanup.policy: delete, index.interval.bytes: 300}, \
"*": {cleanup.policy: delete, index.interval.bytes: 200}}'


def rebuild(lake: Lake, policies: Path | None = None, apply: bool = True) -> JobReport:
    named = str(policies) if policies else None
    config = RebuildIndexesConfig(str(lake.path), "rebuild", AS_OF_MS, policies=read_policies(named), apply=apply)
    return launch.run(config)


def test_side_files_of_closed_segments_are_the_brokers_bytes_and_are_written_once(sample, tmp_path):
    lake, policies = Lake(tmp_path / "lake"), tmp_path / "policies.yaml"
    policies.write_text(INTERVALS)
    logdir = sample("timestamps-v2-4.4.0").logdir
    lake.turn(logdir)
    only_planned = rebuild(lake, policies, apply=False)
    assert not only_planned.used_executor
    assert len(only_planned.plan.segments) == len(lake.rows("segments"))
    assert not list((lake.path / "archive").rglob("*.index"))
    assert rebuild(lake, policies).used_executor
    compared = 0
    for row in lake.rows("segments"):
        if not row["sealed"]:
            continue  # how a broker indexes its active segment depends on its restarts
        for suffix in (".index", ".timeindex"):
            ours = (lake.path / row["path"]).with_suffix(suffix)
            brokers = Path(row["origin_file"]).with_suffix(suffix)
            assert ours.read_bytes() == brokers.read_bytes(), brokers
            compared += 1
    assert compared >= 30
    before = {path: path.stat().st_mtime_ns for path in (lake.path / "archive").rglob("*") if path.is_file()}
    assert len([path for path in before if path.suffix != ".snapshot"]) == 3 * len(lake.rows("segments"))
    again = rebuild(lake, policies)
    assert not again.used_executor
    assert again.plan.segments == ()
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_transaction_indexes_and_snapshots_of_closed_segments_are_the_brokers(sample, tmp_path):
    lake = Lake(tmp_path / "lake")
    lake.turn(sample("transactions-4.4.0").logdir)
    policies = tmp_path / "policies.yaml"
    policies.write_text('topics: {"*": {cleanup.policy: delete}}')
    config = RebuildIndexesConfig(
        str(lake.path), "rebuild", 1, policies=read_policies(str(policies))
    )  # long before any producer expires
    launch.run(config)
    indexes = snapshots = 0
    for row in lake.rows("segments"):
        ours, brokers = lake.path / row["path"], Path(row["origin_file"])
        if row["sealed"]:
            assert ours.with_suffix(".txnindex").exists() == (_size(brokers.with_suffix(".txnindex")) > 0), brokers
            if ours.with_suffix(".txnindex").exists():
                assert ours.with_suffix(".txnindex").read_bytes() == brokers.with_suffix(".txnindex").read_bytes()
                indexes += 1
        if ours.with_suffix(".snapshot").exists() and brokers.with_suffix(".snapshot").exists():
            said, found = (
                {entry.producer_id: entry for entry in parse(path.with_suffix(".snapshot").read_bytes())}
                for path in (brokers, ours)
            )
            assert found == said, brokers
            snapshots += 1
    print(f"{indexes} transaction indexes, {snapshots} snapshots")
    assert indexes
    assert snapshots


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_damaged_segments_and_those_at_the_source_get_none_and_lost_ones_are_written_again(tmp_path):
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    orders.append(10)
    damaged = orders.segments()[0]
    damaged.write_bytes(handmade.flip(damaged.read_bytes(), 80))
    orders.roll()
    orders.append(5)
    payments.append(10)
    lake.turn(source.path)
    report = rebuild(lake)
    assert [(skipped.base_offset, skipped.reason) for skipped in report.plan.skipped] == [(0, "it is corrupt")]
    assert report.metrics["files"] == 4
    written = files(lake.path / "archive")
    lost = next((lake.path / "archive").rglob("*.timeindex"))
    lost.unlink()
    assert rebuild(lake).metrics["files"] == 1
    assert files(lake.path / "archive") == written

    lost.unlink()
    segment = lost.with_suffix(".log")
    segment.write_bytes(handmade.flip(segment.read_bytes(), 80))
    report = rebuild(lake)
    [placed] = report.findings
    assert (placed.finding.rule, placed.finding.severity) == ("index-not-rebuilt", "warning")
    assert "crc does not match" in str(placed.finding.message)
    assert not lost.exists()
    segment.write_bytes(handmade.cut(segment.read_bytes(), 100))
    assert "has 100 bytes" in str(rebuild(lake).findings[0].finding.message)

    before = source.fingerprint()
    in_place = Lake(tmp_path / "in-place")
    in_place.turn(source.path, mode="reference")
    report = rebuild(in_place)
    assert not report.used_executor
    assert {skipped.reason for skipped in report.plan.skipped} == {"it is at its source, where nothing is ever written"}
    assert source.fingerprint() == before
