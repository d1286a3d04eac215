"""Batches of old clients are published whole, each record once, however the log grows; the lake verifies clean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.spark.cycle import Lake, states

SHORT = (5, 5, 2, 7, 3, 1, 4)
"""Records of each batch whose last offset delta is 0; each begins at the offset of its last record."""


def short_batches() -> list[bytes]:
    made, end = [], 0
    for count in SHORT:
        records = [handmade.record(at, b"k%d" % (end + at), b"v%d" % (end + at)) for at in range(count)]
        made.append(handmade.batch(records, base_offset=end + count - 1, last_offset_delta=0))
        end += count
    return made


def message_sets() -> list[bytes]:
    """Sets of v1, of which every other one begins below the end of the one before (KAFKA-3919)."""
    spans = [(0, 10), (7, 16), (16, 20), (12, 27)]
    return [handmade.wrapper_v1(list(range(start, end))) for start, end in spans]


def gzip_with_junk() -> list[bytes]:
    made = []
    for base in (0, 3, 6):
        body = handmade.stored_gzip(b"".join(handmade.record(at, b"k", b"%d" % (base + at)) for at in range(3)))
        fields = {"count": 3, "last_offset_delta": 2, "attributes": handmade.GZIP}
        made.append(handmade.batch(body=body + bytes(3), base_offset=base, **fields))
    return made


LOGS = {
    "short": (short_batches(), "last-offset-delta-short"),
    "sets": (message_sets(), "messages-below-log-end"),
    "junk": (gzip_with_junk(), "ignored-bytes"),
}


@pytest.mark.parametrize("name", LOGS)
def test_each_record_is_published_once_although_the_log_grows_by_a_batch(
    name: str, source: LogDirectory, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    batches, rule = LOGS[name]
    partition = source.partition("old-0")
    path = partition.roll()
    end = 0
    for batch in batches:
        path.write_bytes(path.read_bytes() + batch)
        end = last_offset(batch) + 1
        source.high_watermarks(old_0=end)
        lake.turn(source.path)
        rows = sorted(row["offset"] for row in lake.rows("records"))
        assert rows == list(range(end))
    assert states(lake.ledger("old")) == {"present": end}
    assert lake.rules() == {rule}
    values = {row["offset"]: row["value"] for row in lake.rows("records")}
    assert values == {at: b"v%d" % at if name == "short" else b"%d" % at for at in range(end)}
    assert main(["verify", str(lake.path)]) == 0
    assert main(["verify", str(source.path)]) == 1
    capsys.readouterr()


def last_offset(batch: bytes) -> int:
    delta = int.from_bytes(batch[23:27], "big") if batch[16] == 2 else 0
    return int.from_bytes(batch[:8], "big") + delta


def test_dump_shows_the_offsets_of_kafkas_reader_and_hides_no_record(
    source: LogDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = source.partition("old-0")
    partition.roll().write_bytes(b"".join(short_batches()))
    source.high_watermarks(old_0=sum(SHORT))
    assert main(["dump", str(source.path), "--format", "jsonl"]) == 0
    shown = [json.loads(line)["offset"] for line in capsys.readouterr().out.splitlines()]
    end, right = 0, []
    for count in SHORT:
        right += range(end + count - 1, end + 2 * count - 1)
        end += count
    assert shown == right
    assert len(shown) == 27
    assert main(["dump", str(source.path), "--format", "jsonl", "--offsets", "10..12"]) == 0
    assert [json.loads(line)["offset"] for line in capsys.readouterr().out.splitlines()] == [11, 12]


@pytest.mark.parametrize("name", LOGS)
def test_a_recovery_keeps_every_byte(name: str, source: LogDirectory, tmp_path: Path) -> None:
    data = b"".join(LOGS[name][0])
    partition = source.partition("old-0")
    partition.roll().write_bytes(data)
    source.high_watermarks(old_0=last_offset(LOGS[name][0][-1]) + 1)
    assert main(["recover", str(source.path), "--out", str(tmp_path / "out"), "--salvage"]) in (0, 1)
    assert (tmp_path / "out" / "old-0" / f"{0:020d}.log").read_bytes() == data
