"""What `LogWriter` writes is a partition directory that reads back record for record."""

from __future__ import annotations

from pathlib import Path

import pytest

import logcore
from logcore import BrokerLine, Codec, LogWriter, Record, TimestampType, TopicConfig, TopicPartition
from tests import handmade
from tests.unit.logcore.library.conftest import T

ORDERS = TopicPartition("orders", 0)


def rows(start: int, count: int) -> list[Record]:
    return [
        Record(offset, T + offset, TimestampType.CREATE_TIME, b"k%d" % (offset % 3), b"v%d" % offset, ((b"h", None),))
        for offset in range(start, start + count)
    ]


@pytest.fixture
def writer() -> LogWriter:
    """A log with segments of at most 1000 bytes."""
    return LogWriter(ORDERS, TopicConfig(segment_bytes=1000), BrokerLine.V4_4, as_of_ms=T)


def test_records_read_back_as_they_were_written(tmp_path: Path, writer: LogWriter) -> None:
    written: list[Record] = []
    for number in range(20):
        records = rows(writer.log_end_offset, 5)
        codec = Codec.GZIP if number % 2 else Codec.NONE
        writer.append(logcore.build_batch(records, codec=codec, leader_epoch=0), as_of_ms=T + number)
        written += records
    assert writer.recovery_point < writer.log_end_offset
    writer.flush(as_of_ms=T + 50)
    assert writer.recovery_point == writer.log_end_offset == 100
    rolled = len(writer.base_offsets)
    assert rolled == 3
    assert writer.roll(as_of_ms=T + 60) == 100
    assert len(writer.base_offsets) == rolled + 1
    path = logcore.write_partition(writer.close(as_of_ms=T + 70), tmp_path / "logs")
    assert path == str(tmp_path / "logs" / "orders-0")
    log = logcore.open_partition(path)
    assert list(log.records()) == written
    assert (log.log_start_offset, log.high_watermark, log.end_offset()) == (0, 100, 100)
    assert len(log.segment_paths) == rolled + 1
    report = log.validate()
    assert [finding for finding in report.findings if finding.severity is not logcore.Severity.INFO] == []


def test_written_bytes_are_those_that_were_packed_by_hand(tmp_path: Path, writer: LogWriter) -> None:
    records = [
        Record(0, T, TimestampType.CREATE_TIME, b"k", b"v"),
        Record(1, T + 7, TimestampType.CREATE_TIME, None, b""),
    ]
    writer.append(logcore.build_batch(records, leader_epoch=4), as_of_ms=T)
    path = Path(logcore.write_partition(writer.close(as_of_ms=T), tmp_path))
    assert (path / "00000000000000000000.log").read_bytes() == handmade.batch(
        [handmade.record(0, b"k", b"v"), handmade.record(1, None, b"", timestamp_delta=7)],
        base_timestamp=T,
        max_timestamp=T + 7,
        leader_epoch=4,
    )
    assert (path / "leader-epoch-checkpoint").read_text() == "0\n1\n4 0\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\norders 0 2\n"


def test_lines_of_other_partitions_stay(tmp_path: Path, writer: LogWriter) -> None:
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\npayments 3 17\n")
    writer.append(logcore.build_batch(rows(0, 2)), as_of_ms=T)
    logcore.write_partition(writer.close(as_of_ms=T), tmp_path)
    lines = (tmp_path / "replication-offset-checkpoint").read_text().splitlines()
    assert sorted(lines[2:]) == ["orders 0 2", "payments 3 17"]


def test_nothing_is_written_over(tmp_path: Path, writer: LogWriter) -> None:
    writer.append(logcore.build_batch(rows(0, 2)), as_of_ms=T)
    closed = writer.close(as_of_ms=T)
    path = Path(logcore.write_partition(closed, tmp_path))
    before = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    with pytest.raises(logcore.LogError, match="exists already"):
        logcore.write_partition(closed, tmp_path)
    assert {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()} == before
    assert path.is_dir()


def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    writer = LogWriter(TopicPartition("../x", 0), TopicConfig(), BrokerLine.V4_4, as_of_ms=T)
    with pytest.raises(ValueError, match="is not the name of a partition directory"):
        logcore.write_partition(writer.close(as_of_ms=T), tmp_path / "logs")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_no_partition_directory(tmp_path: Path, writer: LogWriter) -> None:
    writer.append(logcore.build_batch(rows(0, 2)), as_of_ms=T)
    (tmp_path / "replication-offset-checkpoint").write_text("not a checkpoint")
    with pytest.raises(logcore.LogError):
        logcore.write_partition(writer.close(as_of_ms=T), tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["replication-offset-checkpoint"]


def test_a_log_of_a_killed_broker_has_its_records_too(tmp_path: Path, writer: LogWriter) -> None:
    writer.append(logcore.build_batch(rows(0, 5)), as_of_ms=T)
    writer.checkpoint()
    writer.append(logcore.build_batch(rows(5, 5)), as_of_ms=T)
    path = logcore.write_partition(writer.kill(), tmp_path)
    assert len(list(logcore.open_partition(path).records())) == 5
    assert len(list(logcore.open_partition(path, high_watermark="log-end").records())) == 10
