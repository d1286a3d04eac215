"""`groups`, `topics` and `metadata` on directories that are small, damaged or without the topic."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests import handmade

Captured = pytest.CaptureFixture[str]

KRAFT_HEADER, KRAFT_FOOTER = 3, 4


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def compact(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


def commit(offset: int) -> tuple[bytes, bytes]:
    key = struct.pack(">h", 1) + text("g") + text("orders") + struct.pack(">i", 0)
    return key, struct.pack(">hqi", 3, offset, -1) + text("") + struct.pack(">q", 1000)


def topic(name: str) -> tuple[None, bytes]:
    return None, b"\1\2\0" + compact(name) + name.encode().ljust(16, b"-") + b"\0"


def control(base_offset: int, kind: int, value: bytes = b"\0\0\0") -> bytes:
    return handmade.control_batch(base_offset, struct.pack(">hh", 0, kind), value, leader_epoch=1)


def snapshot_of(*names: str, time_ms: int = 5) -> bytes:
    header = control(0, KRAFT_HEADER, struct.pack(">hq", 0, time_ms) + b"\0")
    records = handmade.simple_batch(1, [topic(name) for name in names], leader_epoch=1)
    return header + records + control(1 + len(names), KRAFT_FOOTER)


@pytest.fixture
def brokers_directory(tmp_path: Path) -> Path:
    """A log of `orders` with 10 records, and commits of offset 3, and of 8 in a transaction that commits."""
    (tmp_path / "orders-0").mkdir()
    orders = handmade.simple_batch(0, [(b"k", b"v")] * 10)
    (tmp_path / "orders-0" / f"{0:020d}.log").write_bytes(orders)
    (tmp_path / "__consumer_offsets-0").mkdir()
    batches = [
        handmade.simple_batch(0, [commit(3)]),
        handmade.simple_batch(1, [commit(8)], attributes=handmade.TRANSACTIONAL, producer_id=7, producer_epoch=0),
        handmade.marker(2, handmade.COMMIT, producer_id=7),
    ]
    (tmp_path / "__consumer_offsets-0" / f"{0:020d}.log").write_bytes(b"".join(batches))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n2\norders 0 10\n__consumer_offsets 0 3\n")
    return tmp_path


@pytest.fixture
def metadata(tmp_path: Path) -> Path:
    """Topics a to d at offsets 0 to 3; snapshots at 2 and at 3."""
    log = tmp_path / "__cluster_metadata-0"
    log.mkdir()
    (log / f"{0:020d}.log").write_bytes(
        b"".join(handmade.simple_batch(at, [topic(name)], base_timestamp=10 * at) for at, name in enumerate("abcd"))
    )
    (log / f"{2:020d}-{1:010d}.checkpoint").write_bytes(snapshot_of("a", "b", time_ms=10))
    (log / f"{3:020d}-{1:010d}.checkpoint").write_bytes(snapshot_of("a", "b", "c", time_ms=20))
    return log


def printed(capsys: Captured, *arguments: str | Path, code: int = 0) -> list[dict[str, Any]]:
    assert main([*map(str, arguments), "--format", "jsonl"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def names(capsys: Captured, *arguments: str | Path, code: int = 0) -> str:
    return "".join(line["topic"] for line in printed(capsys, "topics", *arguments, code=code))


def test_a_line_of_a_group_has_these_keys_and_the_lag(brokers_directory: Path, capsys: Captured) -> None:
    (line,) = printed(capsys, "groups", brokers_directory)
    assert line == {
        "group": "g",
        "type": "Classic",
        "state": "Empty",
        "epoch": None,
        "protocol_type": None,
        "assignor": None,
        "coordinator_partition": 0,
        "members": [],
        "offsets": [
            {
                "topic": "orders",
                "partition": 0,
                "offset": 8,
                "leader_epoch": None,
                "metadata": "",
                "commit_time": 1000,
                "high_watermark": 10,
                "lag": 2,
                "out_of_range": False,
            }
        ],
    }


@pytest.mark.parametrize(("end", "offset"), [("1", 3), ("2", 3), ("3", 8)])
def test_a_commit_of_a_transaction_counts_from_its_marker_on(
    brokers_directory: Path, capsys: Captured, end: str, offset: int
) -> None:
    for option in ("--at", "--high-watermark"):
        (line,) = printed(capsys, "groups", option, end, brokers_directory)
        assert line["offsets"][0]["offset"] == offset


def test_groups_are_chosen_by_name_and_printed_for_people(brokers_directory: Path, capsys: Captured) -> None:
    assert printed(capsys, "groups", "--group", "other", brokers_directory) == []
    assert main(["groups", "--group", "g", str(brokers_directory)]) == 0
    assert capsys.readouterr().out == "g  Classic  Empty  0 members\n  orders-0  offset 8  lag 2\n"


def test_a_record_that_cannot_be_read_is_reported_with_its_offset(brokers_directory: Path, capsys: Captured) -> None:
    log = brokers_directory / "__consumer_offsets-0" / f"{0:020d}.log"
    log.write_bytes(handmade.simple_batch(0, [commit(3), (commit(4)[0], b"\0\x63"), commit(3)]))
    assert main(["groups", str(brokers_directory)]) == 1
    captured = capsys.readouterr()
    assert "orders-0  offset 3" in captured.out
    assert "__consumer_offsets-0, offset 1: OffsetCommitValue has versions 0 to 4, and this is 99" in captured.err


@pytest.mark.parametrize("command", ["groups", "topics", "metadata"])
def test_a_directory_without_the_topic_is_reported(command: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").write_bytes(handmade.simple_batch(0, [(b"k", b"v")]))
    assert main([command, str(tmp_path / "orders-0")]) == 1
    assert "None of the 1 chosen logs is of the topic __c" in capsys.readouterr().err


def test_what_the_latest_snapshot_covers_is_committed(metadata: Path, capsys: Captured) -> None:
    lines = printed(capsys, "topics", metadata)
    assert {line["topic"]: line["committed"] for line in lines} == {"a": True, "b": True, "c": True, "d": False}
    assert names(capsys, "--committed", metadata) == "abc"
    assert names(capsys, "--name", "[bd]", metadata) == "bd"


@pytest.mark.parametrize(("at", "expected"), [("0", ""), ("1", "a"), ("2", "ab"), ("3", "abc"), ("9", "abcd")])
def test_a_state_at_an_offset_has_the_records_before_it(
    metadata: Path, capsys: Captured, at: str, expected: str
) -> None:
    assert names(capsys, "--at", at, metadata) == expected


@pytest.mark.parametrize(
    ("at", "expected"), [("-5ms", ""), ("5ms", "a"), ("10ms", "ab"), ("20ms", "abc"), ("30ms", "abcd")]
)
def test_a_state_at_a_time_has_the_records_up_to_it(metadata: Path, capsys: Captured, at: str, expected: str) -> None:
    assert names(capsys, "--at", at, metadata) == expected


def test_a_snapshot_without_a_footer_is_reported_and_an_earlier_one_used(metadata: Path, capsys: Captured) -> None:
    path = metadata / f"{3:020d}-{1:010d}.checkpoint"
    path.write_bytes(snapshot_of("a", "b", "wrong")[: -len(control(4, KRAFT_FOOTER))])
    assert main(["topics", "--format", "jsonl", str(metadata)]) == 2
    captured = capsys.readouterr()
    assert [json.loads(line)["topic"] for line in captured.out.splitlines()] == ["a", "b", "c", "d"]
    assert "an earlier one is used" in captured.err


def test_a_log_that_begins_after_all_snapshots_is_an_error(metadata: Path, capsys: Captured) -> None:
    (metadata / f"{0:020d}.log").unlink()
    (metadata / f"{5:020d}.log").write_bytes(handmade.simple_batch(5, [topic("e")]))
    assert main(["topics", "--format", "jsonl", str(metadata)]) == 2
    captured = capsys.readouterr()
    assert [json.loads(line)["topic"] for line in captured.out.splitlines()] == ["a", "b", "c", "e"]
    assert "begins at offset 5, and no usable snapshot ends there or after it" in captured.err


def test_a_pattern_that_matches_no_topic_of_the_metadata_is_reported(metadata: Path, capsys: Captured) -> None:
    assert names(capsys, metadata, "--name", "[ab]") == "ab"
    assert main(["topics", str(metadata), "--name", "x*", "--name", "a"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("a  ")
    assert captured.err == "info nothing-chosen: --name 'x*' matches no topic; there are a, b, c and 1 more.\n"


def test_an_open_transaction_is_reported_and_does_not_count(metadata: Path, capsys: Captured) -> None:
    with (metadata / f"{0:020d}.log").open("ab") as file:
        file.write(handmade.simple_batch(4, [(None, b"\1\x17\0\0"), topic("e")]))
    assert main(["metadata", str(metadata)]) == 0
    captured = capsys.readouterr()
    assert "topic e" not in captured.out
    assert "a transaction has begun and not ended" in captured.err


def test_a_metadata_record_that_cannot_be_read_is_reported_with_its_offset(metadata: Path, capsys: Captured) -> None:
    with (metadata / f"{0:020d}.log").open("ab") as file:
        file.write(handmade.simple_batch(4, [(None, b"\1\2\x63secret"), topic("e")]))
    assert main(["topics", "--format", "jsonl", str(metadata)]) == 1
    captured = capsys.readouterr()
    assert [json.loads(line)["topic"] for line in captured.out.splitlines()] == ["a", "b", "c", "d", "e"]
    assert "offset 4: TopicRecord has versions 0 to 0, and this is 99" in captured.err
    assert "secret" not in captured.err


@pytest.mark.parametrize("at", ["yesterday", "-5", "12:00"])
def test_a_moment_is_an_offset_or_a_time(metadata: Path, at: str) -> None:
    assert main(["topics", f"--at={at}", str(metadata)]) == 64
