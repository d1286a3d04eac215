"""A log directory gives the logs of its topic partitions, all or those that are chosen."""

from __future__ import annotations

from typing import Any

import pytest

import logcore
from tests import handmade
from tests.broker_directory import LogDirectory, Partition, topic_id_of
from tests.unit.logcore.library.conftest import Findings


@pytest.fixture
def shop(logdir: LogDirectory, orders: Partition) -> LogDirectory:
    """`orders-0` and `orders-1`, `payments-0`, and a directory that was queued for deletion."""
    for name, count in (("orders-1", 7), ("payments-0", 11), (f"gone-0.{'a' * 32}-delete", 3)):
        logdir.partition(name).append(count)
    (logdir.path / "replication-offset-checkpoint").write_text("0\n3\norders 0 60\norders 1 7\npayments 0 11\n")
    return logdir


def names(directory: logcore.LogDirectory) -> list[str]:
    return [f"{log.topic}-{log.partition}" for log in directory.logs]


def test_logs_come_by_topic_and_partition(shop: LogDirectory) -> None:
    directory = logcore.open_log_directory(shop.path)
    assert names(directory) == ["orders-0", "orders-1", "payments-0"]
    assert [finding.rule for finding in directory.findings] == ["delete-directory"]
    assert [log.topic_id for log in directory.logs] == ["BBBBBBBBBBBBBBBBBBBBBQ"] * 2 + [topic_id_of("payments-0")]
    assert directory.log("orders", 1).path == str(shop.path / "orders-1")
    assert sum(1 for _ in directory.log("payments", 0).records()) == 11


@pytest.mark.parametrize(
    ("choice", "chosen"),
    [
        ({"topics": ["orders"]}, ["orders-0", "orders-1"]),
        ({"topics": "orders"}, ["orders-0", "orders-1"]),
        ({"topics": ["pay*", "orders"], "partitions": [0]}, ["orders-0", "payments-0"]),
        ({"partitions": [1]}, ["orders-1"]),
    ],
)
def test_logs_are_chosen(shop: LogDirectory, choice: dict[str, Any], chosen: list[str]) -> None:
    assert names(logcore.open_log_directory(shop.path, **choice)) == chosen


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"topics": ["order"]}, "'order' matches no topic; the nearest names are orders"),
        ({"topics": ["orders", "x*"]}, r"'x\*' matches no topic; there are orders, payments"),
        ({"partitions": [7]}, "no chosen topic has a partition 7"),
        ({"topics": ["payments"], "partitions": [1]}, "no chosen topic has a partition 1"),
    ],
)
def test_a_choice_that_matches_nothing_is_an_error(shop: LogDirectory, choice: dict[str, Any], message: str) -> None:
    with pytest.raises(logcore.LogError, match=message):
        logcore.open_log_directory(shop.path, **choice)


def test_a_log_that_is_not_there_is_an_error(shop: LogDirectory) -> None:
    directory = logcore.open_log_directory(shop.path)
    with pytest.raises(logcore.LogError, match="'orderz' matches no topic; the nearest names are orders"):
        directory.log("orderz", 0)
    with pytest.raises(logcore.LogError, match="orders has no partition 2 there"):
        directory.log("orders", 2)


def test_an_empty_directory_is_no_log_directory(logdir: LogDirectory, tmp_path: Any) -> None:
    assert logcore.open_log_directory(logdir.path).logs == ()
    (tmp_path / "empty").mkdir()
    with pytest.raises(logcore.LogError, match="is empty"):
        logcore.open_log_directory(tmp_path / "empty")
    (tmp_path / "empty" / "notes.txt").write_text("notes")
    with pytest.raises(logcore.LogError, match="contains no file that a broker keeps"):
        logcore.open_log_directory(tmp_path / "empty")


def test_a_log_directory_without_logs_has_no_records(logdir: LogDirectory, findings: Findings) -> None:
    directory = logcore.open_log_directory(logdir.path)
    assert directory.record_batches(on_finding=findings).read_all().num_rows == 0
    assert directory.validate().totals.files == 0


def test_rules_apply_to_all_logs(shop: LogDirectory) -> None:
    directory = logcore.open_log_directory(shop.path, high_watermark=5)
    assert directory.record_batches(["offset"]).read_all().num_rows == 15
    assert [log.rules for log in directory.logs] == [directory.rules] * 3


def test_validation_counts_every_byte_and_reports_damage(shop: LogDirectory) -> None:
    path = shop.path / "orders-0" / "00000000000000000020.log"
    path.write_bytes(handmade.flip(path.read_bytes(), 70))
    whole = sum(each.stat().st_size for each in shop.path.glob("*-[0-9]/*.log"))
    report = logcore.open_log_directory(shop.path).validate()
    assert not report.is_sound
    errors = [finding for finding in report.findings if finding.severity is logcore.Severity.ERROR]
    assert [(finding.rule, finding.file, finding.position) for finding in errors] == [("corrupt-bytes", str(path), 0)]
    totals = report.totals
    assert (totals.files, totals.bytes, totals.records) == (5, whole, 55 + 7 + 11)
    assert totals.valid_bytes + totals.quarantined_bytes == whole
    assert totals.quarantined_bytes == errors[0].nbytes
