"""Ingest of a log whose beginning lies in the remote tier. Copies run in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.contracts import IngestConfig, JobReport
from spark_jobs.ingest import ingest_job as ingest
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow
from tests.broker_directory import LogDirectory, Partition
from tests.in_process import InProcessExecutor


@pytest.fixture
def source(tmp_path: Path) -> LogDirectory:
    source = LogDirectory(tmp_path / "kafka-logs")
    source.high_watermarks(orders_0=5)
    (source.path / "remote-log-index-cache").mkdir()
    return source


@pytest.fixture
def orders(source: LogDirectory) -> Partition:
    """Offsets 30 to 39 are local, those from 10 on remote."""
    orders = source.partition("orders-0")
    orders.next_offset = 30
    orders.append(10)
    source.checkpoint("log-start", orders_0=10)
    return orders


def turn(lake: Path, source: LogDirectory) -> JobReport:
    config = IngestConfig(lake=str(lake), run_id="run", as_of_ms=0, sources=(str(source.path),))
    return ingest.apply(ingest.plan(config), config, InProcessExecutor())


def row_of(lake: Path) -> LogRow:
    (row,) = archive.read_logs(str(lake)).values()
    return row


def test_remote_offsets_are_kept_with_the_log_and_reported_once(
    source: LogDirectory, orders: Partition, tmp_path: Path
) -> None:
    said = turn(tmp_path / "lake", source).findings
    assert [(f.finding.rule, f.finding.start_offset, f.finding.end_offset) for f in said] == [("remote-tier", 10, 30)]
    row = row_of(tmp_path / "lake")
    assert row.gap_evidence == ((10, 30, "remote-tier"),)
    assert (row.log_start_offset, row.source_log_start_offset, row.next_offset) == (30, 10, 40)
    assert row.stopped is None
    orders.append(5)
    assert turn(tmp_path / "lake", source).findings == ()
    assert row_of(tmp_path / "lake").gap_evidence == ((10, 30, "remote-tier"),)


def test_a_stale_line_after_retention_is_kept_as_such_and_no_finding(
    source: LogDirectory, orders: Partition, tmp_path: Path
) -> None:
    orders.epochs([(0, 30)])
    assert turn(tmp_path / "lake", source).findings == ()
    assert row_of(tmp_path / "lake").gap_evidence == ((10, 30, "stale-log-start"),)


def test_segments_that_left_for_the_remote_tier_after_they_were_taken_are_no_news(
    source: LogDirectory, tmp_path: Path
) -> None:
    orders = source.partition("orders-0")
    orders.append(20)
    orders.roll()
    orders.append(10)
    turn(tmp_path / "lake", source)
    orders.segments()[0].unlink()
    source.checkpoint("log-start", orders_0=0)
    orders.append(10)
    assert turn(tmp_path / "lake", source).findings == ()
    row = row_of(tmp_path / "lake")
    assert (row.gap_evidence, row.next_offset, row.source_log_start_offset) == ((), 40, 0)


def test_segments_that_left_for_the_remote_tier_before_they_were_taken_are_remote(
    source: LogDirectory, tmp_path: Path
) -> None:
    orders = source.partition("orders-0")
    orders.append(10)
    turn(tmp_path / "lake", source)
    orders.append(10)
    orders.roll()
    orders.append(10)
    orders.segments()[0].unlink()
    source.checkpoint("log-start", orders_0=0)
    said = turn(tmp_path / "lake", source).findings
    assert [(f.finding.rule, f.finding.start_offset, f.finding.end_offset) for f in said] == [("remote-tier", 10, 20)]
    row = row_of(tmp_path / "lake")
    assert (row.gap_evidence, row.next_offset, row.stopped) == (((10, 20, "remote-tier"),), 30, None)
