"""Decoded lines of long logs of commits equal those that are written record by record."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.reading import segment_reading
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.unit.logcore.topics.offset_commits import key, text, value

NAMES = ("g", "group-1", 'a "quoted" name', "back\\slash", "größe", "tab\t", "")
TOPIC_ID = b"\x01\x00\x10" + bytes(range(16))
NO_TOPIC_ID = b"\x01\x00\x10" + bytes(16)


def row(chance: random.Random) -> tuple[bytes | None, bytes | None]:
    kind = chance.randrange(12)
    of_key = key(chance.choice(NAMES), chance.choice(NAMES), chance.randrange(300))
    if kind == 0:
        return of_key, None
    if kind == 1:
        return of_key, struct.pack(">hq", 1, 7) + text("old") + struct.pack(">qq", 5, 6)
    if kind == 2:
        return struct.pack(">h", 2) + text("g"), chance.randbytes(12)
    if kind == 3:
        return chance.choice((None, b"", b"\0", b"\0\x63x")), b"x"
    if kind == 4:  # bytes after the value, and text that is not UTF-8
        whole = value(3, 5, 1, "m", 9)
        return of_key, chance.choice((whole + b"x", whole[:16] + b"\xff" + whole[17:]))
    version, tags = chance.choice((3, 4)), chance.choice((b"\0", TOPIC_ID, NO_TOPIC_ID))
    metadata = chance.choice((*NAMES, "{}"))
    return of_key, value(version, chance.randrange(1 << 40), chance.randrange(-1, 5), metadata, 1_700_000_000_123, tags)


@pytest.fixture
def commits(tmp_path: Path) -> Path:
    chance = random.Random(5)
    partition = LogDirectory(tmp_path / "logs").partition("__consumer_offsets-0")
    content, offset = b"", 0
    for number in range(60):
        rows = [row(chance) for _ in range(chance.randint(1, 20))]
        time = chance.choice((1_700_000_000_000 + number, 0, -1, 253_402_300_800_000)) if number % 9 == 0 else 10**12
        kind = handmade.LOG_APPEND_TIME if number % 10 == 3 else 0
        fields = {"base_timestamp": time, "max_timestamp": time, "attributes": kind, "leader_epoch": number % 3 - 1}
        content += handmade.simple_batch(offset, rows, **fields)
        offset += len(rows)
        if number % 20 == 10:
            content += handmade.marker(offset, handmade.COMMIT, producer_id=4)
            offset += 1
    partition.roll()
    partition.write(handmade.flip(content, len(content) // 2, 3))
    return tmp_path / "logs"


@pytest.mark.parametrize(
    "options",
    [
        ("--format", "jsonl"),
        (),
        ("--format", "jsonl", "--offsets", "100..300"),
        ("--isolation.level", "read_committed", "--high-watermark", "log-end"),
    ],
    ids=" ".join,
)
def test_lines_and_findings_are_those_of_the_plain_way(
    commits: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    printed = []
    for least_bytes in (1 << 40, 0):
        monkeypatch.setattr(segment_reading, "LEAST_BULK_BYTES", least_bytes)
        code = main(["dump", "--decode", str(commits), *options])
        captured = capfdbinary.readouterr()
        findings = [line for line in captured.err.splitlines() if line.startswith((b"error", b"warning"))]
        printed.append((captured.out.splitlines(), sorted(findings), code))
    assert printed[1] == printed[0]
    assert printed[0][2] in (1, 2)  # records that cannot be read, and a damaged batch
    assert len(printed[0][0]) > 150


def test_a_line_of_json_has_what_was_packed(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_reading, "LEAST_BULK_BYTES", 0)
    partition = LogDirectory(tmp_path).partition("__consumer_offsets-0")
    partition.roll()
    packed = [(key("g", "t", 7), value(version, 5, -1, "m", 9, TOPIC_ID)) for version in (3, 4)]
    partition.write(handmade.simple_batch(0, packed, base_timestamp=1000, leader_epoch=3))
    assert main(["dump", "--decode", "--format", "jsonl", "--high-watermark", "log-end", str(tmp_path)]) == 0
    first, second = map(json.loads, capfdbinary.readouterr().out.splitlines())
    data = {"offset": 5, "leaderEpoch": -1, "metadata": "m", "commitTimestamp": 9}
    assert first == {
        "topic": "__consumer_offsets",
        "partition": 0,
        "offset": 0,
        "timestamp": 1000,
        "timestamp_type": "CreateTime",
        "key": {"type": "1", "data": {"group": "g", "topic": "t", "partition": 7}},
        "value": {"version": "3", "data": data},
        "leader_epoch": 3,
    }
    assert second["value"] == {"version": "4", "data": data | {"topicId": "AAECAwQFBgcICQoLDA0ODw"}}
