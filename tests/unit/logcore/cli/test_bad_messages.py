"""Messages that are damaged or unknown are reported with their place, their bytes are kept, and the rest counts."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests import handmade

PARTITION_0_ALONE = (
    "info group-partitions-unknown: Of __consumer_offsets the paths have partition 0. Whether the topic has more, with "
    "more groups, is not known without __cluster_metadata.\n"
)
Captured = pytest.CaptureFixture[str]


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def compact(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


def commit_key(group: str) -> bytes:
    return struct.pack(">h", 1) + text(group) + text("orders") + struct.pack(">i", 0)


def commit_value(offset: int) -> bytes:
    return struct.pack(">hqi", 3, offset, -1) + text("") + struct.pack(">q", 1000)


def group_value(protocol: str, subscription: bytes, assignment: bytes) -> bytes:
    """GroupMetadataValue 0 of one member."""
    member = text("m1") + text("client") + text("/host") + struct.pack(">i", 100)
    member += b"".join(struct.pack(">i", len(part)) + part for part in (subscription, assignment))
    start = struct.pack(">h", 0) + text(protocol) + struct.pack(">i", 1) + text("range") + text("m1")
    return start + struct.pack(">i", 1) + member


GROUP_KEY = struct.pack(">h", 2) + text("g")
SUBSCRIPTION = struct.pack(">hi", 0, 1) + text("orders") + struct.pack(">i", -1)
ASSIGNMENT = struct.pack(">hi", 0, 1) + text("orders") + struct.pack(">ii", 1, 3) + struct.pack(">i", -1)
WHOLE = group_value("consumer", SUBSCRIPTION, ASSIGNMENT)
CONNECT = group_value("connect", b"\xff\xfe\xfd", b"\0\1connect")
UNKNOWN_TAG = struct.pack(">hqi", 4, 7, -1) + compact("") + struct.pack(">q", 1000) + b"\1\x09\3abc"


def written(folder: Path, *records: tuple[bytes | None, bytes | None]) -> Path:
    """A log of `__consumer_offsets` with these records, and commits of offset 5 before and after them."""
    log = folder / "__consumer_offsets-0"
    log.mkdir()
    rows = [(commit_key("before"), commit_value(5)), *records, (commit_key("after"), commit_value(5))]
    (log / f"{0:020d}.log").write_bytes(handmade.simple_batch(0, rows))
    return log


def printed(capsys: Captured, *arguments: str | Path) -> tuple[int, list[dict[str, Any]], str]:
    code = main([*map(str, arguments), "--format", "jsonl"])
    captured = capsys.readouterr()
    return code, [json.loads(line) for line in captured.out.splitlines()], captured.err


@pytest.mark.parametrize(
    ("key", "value", "part", "reason"),
    [
        (commit_key("g"), struct.pack(">h", 99) + commit_value(1)[2:], "value", "UNKNOWN_VERSION"),
        (GROUP_KEY, struct.pack(">h", 99), "value", "UNKNOWN_VERSION"),
        (GROUP_KEY, WHOLE[: len(WHOLE) // 2], "value", "TRUNCATED"),
        (struct.pack(">h", 9) + text("g"), b"value", "key", "UNKNOWN_TYPE"),
        (b"\0", None, "key", "FRAME"),
        (None, commit_value(1), "key", "FRAME"),
    ],
)
def test_a_message_that_cannot_be_read_is_reported_kept_and_passed(
    key: bytes | None, value: bytes | None, part: str, reason: str, tmp_path: Path, capsys: Captured
) -> None:
    log = written(tmp_path, (key, value))
    code, lines, err = printed(capsys, "groups", "--high-watermark", "log-end", log)
    assert code == 1
    assert {line["group"]: line["offsets"][0]["offset"] for line in lines} == {"before": 5, "after": 5}
    assert "__consumer_offsets-0, offset 1: " in err
    code, lines, err = printed(capsys, "dump", "--decode", "--all", log)
    assert code == 1
    assert [line["offset"] for line in lines] == [0, 1, 2]
    unread = lines[1][part]["unread"]
    assert (unread["reason"], base64.b64decode(unread["raw"])) == (reason, (key if part == "key" else value) or b"")
    assert "__consumer_offsets-0, offset 1: " in err
    assert "unread" not in json.dumps([lines[0], lines[2]])


def test_members_of_another_protocol_have_no_assignment_and_their_bytes_are_kept(
    tmp_path: Path, capsys: Captured
) -> None:
    log = written(tmp_path, (GROUP_KEY, CONNECT))
    code, lines, err = printed(capsys, "groups", "--group", "g", "--high-watermark", "log-end", log)
    assert (code, err) == (0, PARTITION_0_ALONE)
    assert (lines[0]["protocol_type"], lines[0]["state"], lines[0]["members"][0]["assignment"]) == (
        "connect",
        "Stable",
        [],
    )
    code, lines, _ = printed(capsys, "dump", "--decode", "--all", log)
    member = lines[1]["value"]["data"]["members"][0]
    assert code == 0
    assert base64.b64decode(member["subscription"]) == b"\xff\xfe\xfd"
    assert base64.b64decode(member["assignment"]) == b"\0\1connect"


@pytest.mark.parametrize("damaged", [b"", b"\0", ASSIGNMENT[:-6], b"\0\0\x7f\xff\xff\xff" + ASSIGNMENT])
def test_a_damaged_assignment_of_a_consumer_is_kept_and_the_group_counts(
    damaged: bytes, tmp_path: Path, capsys: Captured
) -> None:
    log = written(tmp_path, (GROUP_KEY, group_value("consumer", SUBSCRIPTION, damaged)))
    code, lines, _ = printed(capsys, "groups", "--group", "g", "--high-watermark", "log-end", log)
    assert code == 0
    assert (lines[0]["state"], lines[0]["members"][0]["assignment"]) == ("Stable", [])
    _, lines, _ = printed(capsys, "dump", "--decode", "--all", log)
    member = lines[1]["value"]["data"]["members"][0]
    assert base64.b64decode(member["assignment"]) == damaged
    assert member["subscription"] == {"topics": ["orders"], "userData": None}


def test_a_commit_with_unknown_tagged_fields_counts(tmp_path: Path, capsys: Captured) -> None:
    log = written(tmp_path, (commit_key("g"), UNKNOWN_TAG))
    code, lines, err = printed(capsys, "groups", "--group", "g", "--high-watermark", "log-end", log)
    assert (code, err) == (0, PARTITION_0_ALONE)
    assert lines[0]["offsets"][0]["offset"] == 7


def topic(name: str) -> tuple[None, bytes]:
    """TopicRecord 0."""
    return None, b"\1\2\0" + compact(name) + name.encode().ljust(16, b"-") + b"\0"


def control(base_offset: int, kind: int, value: bytes) -> bytes:
    return handmade.control_batch(base_offset, struct.pack(">hh", 0, kind), value, leader_epoch=1)


def snapshot_of(*names: str) -> bytes:
    """A snapshot with its header and footer."""
    records = handmade.simple_batch(1, [topic(name) for name in names], leader_epoch=1)
    header = control(0, 3, struct.pack(">hq", 0, 5) + b"\0")
    return header + records + control(1 + len(names), 4, b"\0\0\0")


@pytest.fixture
def metadata(tmp_path: Path) -> Path:
    """Topics c and d at offsets 2 and 3, after a snapshot of a and b."""
    log = tmp_path / "__cluster_metadata-0"
    log.mkdir()
    batches = [handmade.simple_batch(at, [topic(name)], leader_epoch=1) for at, name in ((2, "c"), (3, "d"))]
    (log / f"{2:020d}.log").write_bytes(b"".join(batches))
    (log / f"{2:020d}-{1:010d}.checkpoint").write_bytes(snapshot_of("a", "b"))
    return log


def topics(capsys: Captured, log: Path) -> tuple[int, str, str]:
    code, lines, err = printed(capsys, "topics", log)
    return code, "".join(line["topic"] for line in lines), err


def test_of_two_snapshots_at_one_offset_the_one_of_the_highest_epoch_counts(metadata: Path, capsys: Captured) -> None:
    assert topics(capsys, metadata) == (0, "abcd", "")
    (metadata / f"{2:020d}-{3:010d}.checkpoint").write_bytes(snapshot_of("x", "y"))
    code, names, err = topics(capsys, metadata)
    assert (code, names) == (1, "cdxy")
    assert "2 snapshots end at offset 2" in err
    (metadata / f"{2:020d}-{3:010d}.checkpoint").write_bytes(snapshot_of("x", "y")[:-20])
    code, names, err = topics(capsys, metadata)
    assert (code, names) == (2, "abcd")
    assert "does not end with a snapshot's footer" in err


@pytest.mark.parametrize("cut", [1, 20, 70])
def test_a_torn_last_record_of_the_metadata_does_not_count(metadata: Path, capsys: Captured, cut: int) -> None:
    path = metadata / f"{2:020d}.log"
    path.write_bytes(path.read_bytes()[:-cut])
    code, names, err = topics(capsys, metadata)
    assert (code, names) == (0, "abc")
    assert f"{path.name}: {90 - cut} bytes from position 90 are a batch that was being written" in err


def test_a_metadata_record_that_is_cut_inside_its_batch_does_not_count(metadata: Path, capsys: Captured) -> None:
    rows = [topic("e"), (None, topic("f")[1][:-5]), topic("g")]
    with (metadata / f"{2:020d}.log").open("ab") as file:
        file.write(handmade.simple_batch(4, rows, leader_epoch=1))
    code, names, err = topics(capsys, metadata)
    assert (code, names) == (1, "abcdeg")
    assert "offset 5: TopicRecord version 0, byte " in err
