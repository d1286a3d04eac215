"""`dump --decode` prints records of Kafka's own topics as its decoders do."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade

Captured = pytest.CaptureFixture[str]


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


KEY = struct.pack(">h", 1) + text("g") + text("orders") + struct.pack(">i", 3)
VALUE = struct.pack(">hqi", 3, 42, -1) + text("") + struct.pack(">q", 1000)
RECORDS = [(KEY, VALUE), (KEY, struct.pack(">h", 99)), (KEY, None)]
SHOWN_KEY = '{"type":"1","data":{"group":"g","topic":"orders","partition":3}}'


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name in ("__consumer_offsets-0", "orders-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").write_bytes(handmade.simple_batch(0, RECORDS))
    return tmp_path


def test_a_line_has_these_keys_in_this_order(directory: Path, capsys: Captured) -> None:
    assert main(["dump", "--decode", "--format", "jsonl", "--high-watermark", "log-end", str(directory)]) == 1
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert len(lines) == 3
    begin = (
        '{"topic":"__consumer_offsets","partition":0,"offset":%d,"timestamp":%d,"timestamp_type":"CreateTime","key":'
    )
    timestamp = json.loads(lines[0])["timestamp"]
    value = '{"version":"3","data":{"offset":42,"leaderEpoch":-1,"metadata":"","commitTimestamp":1000}}'
    assert lines[0].startswith(begin % (0, timestamp) + SHOWN_KEY + ',"value":' + value + ',"leader_epoch":')
    assert json.loads(lines[1])["value"]["unread"]["reason"] == "UNKNOWN_VERSION"
    assert json.loads(lines[2])["value"] is None
    assert "offset 1: OffsetCommitValue has versions 0 to 4, and this is 99" in captured.err


def test_a_line_for_people_has_key_and_value_as_json(directory: Path, capsys: Captured) -> None:
    assert main(["dump", "--decode", "--limit", "1", "--high-watermark", "log-end", str(directory)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("__consumer_offsets-0 offset 0  ")
    assert '"data": {"offset": 42, ' in line


def test_a_directory_without_an_internal_topic_is_reported(directory: Path, capsys: Captured) -> None:
    assert main(["dump", "--decode", "--high-watermark", "log-end", str(directory / "orders-0")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "None of the 1 chosen logs is of an internal topic." in captured.err


@pytest.mark.parametrize("other", [["--format", "csv"], ["--text", "--format", "jsonl"], ["--batches"]])
def test_decoded_lines_have_no_other_form(directory: Path, other: list[str]) -> None:
    assert main(["dump", "--decode", *other, str(directory)]) == 64


def test_control_records_have_their_type(directory: Path, capsys: Captured) -> None:
    log = directory / "__consumer_offsets-0" / "00000000000000000000.log"
    with log.open("ab") as file:
        file.write(handmade.marker(3, handmade.COMMIT, producer_id=7))
    main(["dump", "--decode", "--control", "--format", "jsonl", "--offsets", "3..", "--all", str(directory)])
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["key"], line["value"], line["control_type"]) == (None, None, "COMMIT")
