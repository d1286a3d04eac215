"""`metadata --format text` is for people: no value is written as Python writes it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests.metadata_log import MetadataLog, Record, compact, created, setting, topic_id, topic_id_text

Captured = pytest.CaptureFixture[str]

UUID = bytes(range(16))
UUID_TEXT = "AAECAwQFBgcICQoLDA0ODw"
TIME = "timestamp 1970-01-01T00:00:01.000Z"


def numbers(*values: int) -> bytes:
    return bytes([len(values) + 1]) + struct.pack(f">{len(values)}i", *values)


def feature(name: str, level: int) -> Record:
    """By FeatureLevelRecord 0."""
    return None, b"\1\x0c\0" + compact(name) + struct.pack(">h", level) + b"\0"


def broker(number: int, ports: tuple[int, ...], rack: str | None) -> Record:
    """By RegisterBrokerRecord 3, fenced, with a log directory."""
    points = b"".join(compact(f"L{port}") + compact("kafka-1") + struct.pack(">Hh", port, 0) + b"\0" for port in ports)
    fields = struct.pack(">i?", number, False) + UUID + struct.pack(">q", 9)
    log_dirs = b"\1\0\x11\2" + UUID
    return None, b"\1\0\3" + fields + bytes([len(ports) + 1]) + points + b"\1" + compact(rack) + b"\1\0" + log_dirs


def partition(topic: str, number: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> Record:
    """By PartitionRecord 0, with leader 1 and epochs 0."""
    lists = numbers(*replicas) + numbers(*isr) + numbers() * 2
    return None, b"\1\3\0" + struct.pack(">i", number) + topic_id(topic) + lists + struct.pack(">3i", 1, 0, 0) + b"\0"


@pytest.fixture
def log(tmp_path: Path) -> MetadataLog:
    made = MetadataLog(tmp_path)
    made.say(
        feature("group.version", 1),
        broker(1, (9092, 9093), None),
        broker(2, (9092,), "b"),
        created("orders"),
        partition("orders", 0, (1, 2), (1,)),
        setting("orders", "cleanup.policy", "compact,delete"),
        setting("orders", "compression.type", ""),
        created("plain"),
    )
    return made


def lines(log: MetadataLog, capsys: Captured) -> list[str]:
    assert main(["metadata", str(log.path)]) == 0
    return capsys.readouterr().out.splitlines()


def test_what_the_snapshot_says_that_a_cluster_begins_with_has_no_offset(tmp_path: Path, capsys: Captured) -> None:
    log = MetadataLog(tmp_path)
    log.snapshot(0, feature("group.version", 1), time_ms=1000)
    log.say(created("orders"))
    assert lines(log, capsys)[0] == f"feature  name group.version  level 1  offset bootstrap  {TIME}  committed"
    assert main(["metadata", str(log.path), "--format", "jsonl"]) == 0
    assert '"offset":-1' in capsys.readouterr().out.splitlines()[0]


def test_each_thing_is_a_line_for_people(log: MetadataLog, capsys: Captured) -> None:
    unassigned = "A" * 22
    assert lines(log, capsys) == [
        f"feature  name group.version  level 1  offset 0  {TIME}  tentative",
        f"broker 1  epoch 9  incarnation_id {UUID_TEXT}  end_points L9092://kafka-1:9092,L9093://kafka-1:9093  "
        f"is_fenced true  is_in_controlled_shutdown false  log_dirs {UUID_TEXT}  offset 1  {TIME}  tentative",
        f"broker 2  epoch 9  incarnation_id {UUID_TEXT}  end_points L9092://kafka-1:9092  rack b  "
        f"is_fenced true  is_in_controlled_shutdown false  log_dirs {UUID_TEXT}  offset 2  {TIME}  tentative",
        f"setting  resource_type topic  resource orders  name cleanup.policy  value compact,delete  offset 5  {TIME}  "
        "tentative",
        f'setting  resource_type topic  resource orders  name compression.type  value ""  offset 6  {TIME}  tentative',
        f"topic orders  topic_id {topic_id_text('orders')}  settings cleanup.policy=compact,delete "
        f'compression.type=""  offset 3  {TIME}  tentative',
        "  partition 0  leader 1  leader_epoch 0  partition_epoch 0  replicas 1,2  isr 1  removing_replicas -  "
        f"adding_replicas -  directories {unassigned},{unassigned}  leader_recovery_state 0  "
        "eligible_leader_replicas -  last_known_elr -  tentative",
        f"topic plain  topic_id {topic_id_text('plain')}  settings -  offset 7  {TIME}  tentative",
        "summary  end_offset 8  committed_end 0  topics 2  partitions 1  not_interpreted -",
    ]


def test_what_a_snapshot_covers_is_committed(log: MetadataLog, capsys: Captured) -> None:
    log.snapshot(1, feature("group.version", 1))
    assert lines(log, capsys)[0] == f"feature  name group.version  level 1  offset 0  {TIME}  committed"


def test_records_that_are_not_interpreted_are_counted_by_name(log: MetadataLog, capsys: Captured) -> None:
    quota = b"\1\x0e\0" + b"\2" + compact("user") + compact("u") + b"\0" + compact("k") + struct.pack(">d?", 1, False)
    log.say((None, quota + b"\0"), (None, quota + b"\0"))
    assert lines(log, capsys)[-1].endswith("  partitions 1  not_interpreted ClientQuotaRecord=2")
