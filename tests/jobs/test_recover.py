"""Archived logs as log directories that a broker starts on: first a plan, then all of it, the archive untouched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from logcore.exit_codes import ExitCode
from logcore.logs.model.partition_directory import Keep
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.recovery_plan import plan_recovery
from logcore.segments.filenames import TopicPartition
from logcore.segments.side_files.checkpoints import parse_offset_checkpoint
from logcore.storage.partition_directories import partition_directory
from spark_jobs import launch
from spark_jobs.contracts import JobReport, RecoverConfig, RetentionConfig
from spark_jobs.errors import UsageError
from spark_jobs.policies.policies_file import read_policies
from spark_jobs.recover import recover_job as recover
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID
from tests.conftest import REPOSITORY
from tests.spark.archived import append_segment, files
from tests.spark.cycle import AS_OF_MS, Lake


def recovered(lake: Lake, out: Path | None, **more: object) -> JobReport:
    settings = {"apply": out is not None} | more
    config = RecoverConfig(str(lake.path), "recover", AS_OF_MS, out=str(out) if out else None, **settings)
    return launch.run(config)


def stays_as_it_is(directory: Path) -> None:
    """What a broker's start would leave of a directory is the directory."""
    with partition_directory(str(directory), []) as read:
        plan = plan_recovery(read, TopicConfig(), as_of_ms=AS_OF_MS)
        assert plan.losses == ()
        assert plan.refusal is None
        assert {name for name, file in plan.files.items() if not isinstance(file, Keep)} <= set(read.files)
        assert set(plan.files) == set(read.files)


def test_a_plan_says_what_a_start_would_leave_and_writes_nothing(source, lake, tmp_path):
    orders = source.partition("orders-0")
    orders.append(10)
    orders.roll()
    orders.append(5)
    lake.turn(source.path)
    before = files(lake.path / "archive")
    report = recovered(lake, None)
    assert not report.used_executor
    [log] = report.plan.logs
    assert (log["topic_partition"], log["log_start_offset"], log["log_end_offset"]) == ("orders-0", 0, 15)
    assert log["losses"] == []
    assert report.metrics["written"] == 0
    assert files(lake.path / "archive") == before
    assert lake.rows("log_actions") == []


def test_the_directory_has_the_sources_segments_and_a_start_changes_nothing_in_it(source, lake, tmp_path):
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    for name in (orders, payments):
        name.append(10)
        name.roll()
        name.append(5)
    source.high_watermarks(orders_0=12, payments_0=15)
    lake.turn(source.path)
    before, out = files(lake.path / "archive"), tmp_path / "out"
    report = recovered(lake, out)
    assert report.metrics["written"] == 2
    for partition in (orders, payments):
        name = partition.path.name
        for segment in partition.segments():
            assert (out / name / segment.name).read_bytes() == segment.read_bytes()
        assert "partition.metadata" in os.listdir(out / name)
        stays_as_it_is(out / name)
    marks = parse_offset_checkpoint((out / "replication-offset-checkpoint").read_bytes())
    assert marks == {TopicPartition("orders", 0): 12, TopicPartition("payments", 0): 15}
    points = parse_offset_checkpoint((out / "recovery-point-offset-checkpoint").read_bytes())
    assert points == {TopicPartition("orders", 0): 15, TopicPartition("payments", 0): 15}
    assert files(lake.path / "archive") == before
    assert {row["action"] for row in lake.rows("log_actions")} == {"recovery"}
    assert len(lake.rows("log_actions")) == 2


def test_damage_is_cut_as_a_broker_cuts_it_and_reported_or_salvaged(source, lake, tmp_path):
    orders = source.partition("orders-0")
    orders.append(15)
    first = orders.segments()[0]
    at = handmade.size_of(first.read_bytes())
    first.write_bytes(handmade.flip(first.read_bytes(), at + 80))
    orders.roll()
    orders.append(5)
    lake.turn(source.path)
    dry = recovered(lake, None).plan
    [log] = dry.logs
    assert (log["log_end_offset"], dry.exit_code) == (5, ExitCode.DAMAGE)
    assert {loss["kind"] for loss in log["losses"]} >= {"cut", "dropped-segment"}
    cut, kept = tmp_path / "cut", tmp_path / "kept"
    for _ in range(2):  # the second run finds the directory, and its losses in the records
        assert recovered(lake, cut).plan.exit_code is ExitCode.DAMAGE
    assert (cut / "orders-0/00000000000000000000.log").read_bytes() == first.read_bytes()[:at]
    stays_as_it_is(cut / "orders-0")
    told = {row["rule"] for row in lake.rows("log_actions")}
    assert told >= {"start", "cut", "dropped-segment"}
    [log] = recovered(lake, kept, salvage=True).plan.logs
    assert log["log_end_offset"] == 20
    stays_as_it_is(kept / "orders-0")


def test_run_again_it_takes_its_own_directory_for_done_and_leaves_anothers_alone(source, lake, tmp_path):
    orders = source.partition("orders-0")
    orders.append(10)
    lake.turn(source.path)
    out = tmp_path / "out"
    recovered(lake, out)
    (out / "recovery-point-offset-checkpoint").unlink()  # as if the run had been killed before it
    before, told = files(out / "orders-0"), lake.rows("log_actions")
    again = recovered(lake, out)
    assert (again.metrics["written"], again.findings) == (1, ())
    assert (out / "recovery-point-offset-checkpoint").exists()
    assert lake.rows("log_actions") == told
    (out / "orders-0" / "mine").write_bytes(b"")
    report = recovered(lake, out)
    [placed] = report.findings
    assert placed.finding.rule == "recovery-refused"
    assert "it exists already" in str(placed.finding.message)
    (out / "orders-0" / "mine").unlink()
    assert files(out / "orders-0") == before


def test_one_log_whose_file_is_gone_keeps_no_other_from_being_recovered(source, lake, tmp_path):
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    orders.append(10)
    payments.append(10)
    lake.turn(source.path)
    [row] = [row for row in lake.rows("segments") if row["topic"] == "orders"]
    (lake.path / row["path"]).unlink()
    report = recovered(lake, tmp_path / "out")
    assert ([placed.topic for placed in report.findings], report.plan.exit_code) == (["orders"], ExitCode.NOT_CHECKED)
    assert not (tmp_path / "out/orders-0").exists()
    stays_as_it_is(tmp_path / "out/payments-0")


def test_a_log_that_retention_took_whole_goes_on_at_its_end(source, lake, tmp_path):
    orders = source.partition("orders-0")
    append_segment(orders, [(b"k", b"v")] * 10, 1_700_000_001_000)
    lake.turn(source.path)
    policies = tmp_path / "policies.yaml"
    policies.write_text('topics: {orders: {cleanup.policy: delete, retention.ms: "0"}}')
    launch.run(RetentionConfig(str(lake.path), "retain", AS_OF_MS, read_policies(str(policies)), apply=True))
    [log] = recovered(lake, tmp_path / "out").plan.logs
    assert (log["log_start_offset"], log["log_end_offset"]) == (10, 10)
    assert (tmp_path / "out/orders-0/00000000000000000010.log").read_bytes() == b""


def test_nothing_is_written_into_the_lake_or_where_no_broker_starts(source, lake, tmp_path):
    source.partition("orders-0").append(5)
    lake.turn(source.path)
    inside = tmp_path / "link"
    inside.symlink_to(lake.path)
    for out in (lake.path / "archive", inside / "new", "s3://bucket/logs"):
        with pytest.raises(UsageError):
            recover.plan(RecoverConfig(str(lake.path), "recover", AS_OF_MS, out=str(out), apply=True))
    with pytest.raises(UsageError, match="out"):
        recover.plan(RecoverConfig(str(lake.path), "recover", AS_OF_MS, apply=True))


def test_it_is_a_command_of_its_own(source, lake, tmp_path):
    source.partition("orders-0").append(5)
    lake.turn(source.path)
    config = tmp_path / "config.json"
    out = tmp_path / "out"
    config.write_text(RecoverConfig(str(lake.path), "recover", AS_OF_MS, out=str(out), apply=True).to_json())
    command = [sys.executable, "-m", "spark_jobs", "recover", "--config", str(config)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    stays_as_it_is(out / "orders-0")
