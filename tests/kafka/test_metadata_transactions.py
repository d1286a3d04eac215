"""A transaction in the metadata log that a real controller aborts.

A controller writes such a transaction as one batch, from BeginTransaction to EndTransaction, unless it has more than
10,000 records. So a kill leaves all of it or nothing. The beginning is therefore packed by hand, after the last record
of a broker that was stopped. The next controller finds it open and aborts it.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.kafka import distribution
from tests.kafka.admin_answers import described_settings, described_topics
from tests.kafka.broker import Broker
from tests.kafka.dump_log_segments import dump_log_segments
from tests.kafka.operated_cluster import classes

pytestmark = [pytest.mark.kafka, pytest.mark.long]

Captured = pytest.CaptureFixture[str]

TOPIC_ID = bytes(range(16))


def compact(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


BEGIN = b"\1\x17\0" + b"\1\0" + bytes([len(compact("by hand"))]) + compact("by hand")
"""BeginTransactionRecord 0, with its name."""
TOPIC = b"\1\2\0" + compact("ghost") + TOPIC_ID + b"\0"
"""TopicRecord 0."""
PARTITION = (
    b"\1\3\0"
    + struct.pack(">i", 0)
    + TOPIC_ID
    + (b"\2" + struct.pack(">i", 1)) * 2
    + b"\1\1"
    + struct.pack(">iii", 1, 0, 0)
    + b"\0"
)
"""PartitionRecord 0: replica and in-sync replica 1, none that are removed or added, leader 1, epochs 0."""
SETTING = b"\1\4\0\2" + compact("kept") + compact("retention.ms") + compact("77") + b"\0"
"""ConfigRecord 0 of the topic `kept`."""


@pytest.fixture(scope="module")
def kafka_classes() -> Path:
    """Skips, with the reason, where Kafka cannot be run."""
    try:
        return classes()
    except distribution.Unavailable as missing:
        pytest.skip(f"Kafka cannot be run here: {missing}")


def answers(broker: Broker, file: Path, *topics: str) -> dict[str, Any]:
    """What the Admin API says; these topics are created first."""
    broker.run("DescribeCluster", str(file), *topics)
    return json.loads(file.read_text())


def end_of(log: Path) -> tuple[int, int]:
    """The offset after the last batch, and its leader epoch."""
    content, at, end, epoch = log.read_bytes(), 0, 0, 0
    while at + 61 <= len(content):
        base, length, epoch = struct.unpack_from(">qii", content, at)
        if length == 0:
            break
        end = base + struct.unpack_from(">i", content, at + 23)[0] + 1
        at += 12 + length
    assert at == len(content), "bytes after the last batch"
    return end, epoch


def printed(capsys: Captured, *arguments: str | Path) -> tuple[list[dict[str, Any]], str]:
    assert main([*map(str, arguments), "--format", "jsonl"]) == 0
    captured = capsys.readouterr()
    return [json.loads(line) for line in captured.out.splitlines()], captured.err


def test_a_transaction_that_a_controller_aborts_changes_nothing(
    kafka_classes: Path, tmp_path: Path, capsys: Captured
) -> None:
    folder, source = tmp_path / "broker", tmp_path / "broker" / "data"
    started = {"version": distribution.NEWEST_BROKER, "classes": kafka_classes}
    with Broker(folder, **started) as broker:
        before = answers(broker, tmp_path / "before.json", "kept")
    (log,) = (source / "__cluster_metadata-0").glob("*.log")
    end, epoch = end_of(log)
    rows = [(None, value) for value in (BEGIN, TOPIC, PARTITION, SETTING)]
    with log.open("ab") as file:
        file.write(handmade.simple_batch(end, rows, leader_epoch=epoch, base_timestamp=1_900_000_000_000))

    lines, err = printed(capsys, "topics", source)
    assert [line["topic"] for line in lines] == ["kept"]
    assert lines[0]["settings"] == {}
    assert "a transaction has begun and not ended" in err

    broker = Broker(folder, **started)
    try:
        after = answers(broker, tmp_path / "after.json", "later")
    finally:
        broker.kill()
    (dump,) = dump_log_segments([log], tmp_path, "--cluster-metadata-decoder", **started)
    begun, aborted = (dump.text.index(f'"{name}_TRANSACTION_RECORD"') for name in ("BEGIN", "ABORT"))
    assert begun < dump.text.index('"ghost"') < aborted

    lines, err = printed(capsys, "topics", source)
    fields = ("partition", "leader", "replicas", "isr", "eligible_leader_replicas", "last_known_elr")
    assert described_topics(lines, *fields) == after["topics"]
    assert set(after["topics"]) == set(before["topics"]) | {"later"}
    assert "transaction" not in err
    lines, _ = printed(capsys, "metadata", source)
    assert described_settings(lines) == after["settings"]
