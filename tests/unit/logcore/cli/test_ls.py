"""`ls` lists logs from names and the batches that can be trusted."""

import json
import os
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.unit.logcore.cli import conftest as made

Captured = pytest.CaptureFixture[str]


def listed(capsys: Captured, *arguments: str, code: int = 0) -> list[dict[str, object]]:
    assert main(["ls", "--format", "jsonl", *arguments]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_log_is_one_line_with_all_that_its_batches_say(root: Path, capsys: Captured) -> None:
    (line,) = listed(capsys, str(root))
    assert line == {
        "topic": "orders",
        "partition": 0,
        "directory": f"{root}/orders-0",
        "kind": "live",
        "topic_id": made.TOPIC_ID,
        "segments": 2,
        "bytes": len(made.SEALED) + len(made.ACTIVE),
        "log_start_offset": 0,
        "high_watermark": 8,
        "log_end_offset": 8,
        "batches": 6,
        "records": 6,
        "formats": ["v2"],
        "codecs": ["none"],
        "first_timestamp": 1_700_000_000_000,
        "max_timestamp": 1_700_000_000_500,
    }


def test_the_table_is_for_people(root: Path, capsys: Captured) -> None:
    assert main(["ls", str(root)]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["TOPIC", "PARTITION", "SEGMENTS"]
    size = len(made.SEALED) + len(made.ACTIVE)
    times = ["2023-11-14T22:13:20.000Z", "2023-11-14T22:13:20.500Z"]
    assert line.split() == ["orders-0", "2", "0", "8", "8", str(size), "v2", "none", *times]


def test_nothing_found_is_no_table(tmp_path: Path, capsys: Captured) -> None:
    assert main(["ls", str(tmp_path)]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "is empty" in captured.err


def test_logs_come_by_topic_and_partition_number(root: Path, capsys: Captured) -> None:
    for name in ("orders-10", "orders-9", "Zebra-0"):
        (root / name).mkdir()
        (root / name / "00000000000000000000.log").touch()
    names = [f"{line['topic']}-{line['partition']}" for line in listed(capsys, str(root))]
    assert names == ["Zebra-0", "orders-0", "orders-9", "orders-10"]


def test_topics_and_partitions_can_be_chosen(root: Path, capsys: Captured) -> None:
    for name in ("orders-1", "payments-0"):
        (root / name).mkdir()
        (root / name / "00000000000000000000.log").touch()
    assert len(listed(capsys, str(root), "--topic", "ord*")) == 2
    assert len(listed(capsys, str(root), "--topic", "ord*", "--partition", "1")) == 1
    assert len(listed(capsys, str(root), "--topic", "ord*", "--topic", "pay*", "--partition", "0")) == 2


def test_directories_out_of_use_are_listed_last_with_their_kind(root: Path, capsys: Captured) -> None:
    aside = root / "aside-0.478272f0a33c41a18c274462e3ef6713-stray"
    aside.mkdir()
    (aside / "00000000000000000000.log").write_bytes(made.FIRST)
    lines = listed(capsys, str(root))
    assert [(line["topic"], line["kind"]) for line in lines] == [("orders", "live"), ("aside", "stray")]


def test_an_unknown_high_watermark_is_null_and_a_warning(root: Path, capsys: Captured) -> None:
    (root / "replication-offset-checkpoint").unlink()
    (line,) = listed(capsys, str(root), code=1)
    assert line["high_watermark"] is None


def test_a_torn_tail_is_information(root: Path, capsys: Captured) -> None:
    with (root / "orders-0" / "00000000000000000005.log").open("ab") as file:
        file.write(made.UNDER_WAY)
    (line,) = listed(capsys, str(root))
    assert line["log_end_offset"] == 8


@pytest.mark.parametrize("injury", [b"\xff" * 70, made.FIRST[:-1]])
def test_headers_that_cannot_be_followed_in_a_sealed_segment_are_damage(
    root: Path, capsys: Captured, injury: bytes
) -> None:
    sealed = root / "orders-0" / "00000000000000000000.log"
    sealed.write_bytes(made.FIRST + injury)  # the last batch is not there
    assert main(["ls", str(root)]) == 2
    assert f"position {len(made.FIRST)}" in capsys.readouterr().err


@pytest.mark.parametrize("rest", [b"\xff" * 70, made.FIRST[:-1]])
def test_bytes_after_the_last_offset_of_a_sealed_segment_are_a_warning(
    root: Path, capsys: Captured, rest: bytes
) -> None:
    with (root / "orders-0" / "00000000000000000000.log").open("ab") as file:
        file.write(rest)
    assert main(["ls", str(root)]) == 1
    assert f"{len(rest)} bytes follow the last batch of the segment" in capsys.readouterr().err


def test_zeros_are_padding_in_an_active_segment_and_a_warning_in_a_sealed_one(root: Path, capsys: Captured) -> None:
    with (root / "orders-0" / "00000000000000000005.log").open("ab") as file:
        file.write(bytes(100))
    assert main(["ls", str(root)]) == 0
    with (root / "orders-0" / "00000000000000000000.log").open("ab") as file:
        file.write(bytes(100))
    assert main(["ls", str(root)]) == 1
    assert "zeros" in capsys.readouterr().err


def test_old_formats_are_counted_as_what_is_inside(root: Path, capsys: Captured) -> None:
    segment = root / "orders-0" / "00000000000000000005.log"
    (before,) = listed(capsys, str(root))
    made.write_checkpoint(root, "replication-offset-checkpoint", orders=6)
    segment.write_bytes(handmade.message_v0(5, b"k", b"v"))
    (one,) = listed(capsys, str(root))
    segment.write_bytes(handmade.message_v0(5, b"k", b"v") + handmade.wrapper_v1([6, 7, 9]))
    (line,) = listed(capsys, str(root))
    assert line["formats"] == ["v0", "v1", "v2"]
    assert line["records"] == one["records"] + 3
    assert line["log_end_offset"] == 10
    assert set(line["codecs"]) == {*before["codecs"], "gzip"}


def test_the_worst_outcome_decides_the_exit_code(root: Path, tmp_path: Path, capsys: Captured) -> None:
    (root / "replication-offset-checkpoint").unlink()
    assert main(["ls", str(root)]) == 1
    sealed = root / "orders-0" / "00000000000000000000.log"
    sealed.write_bytes(sealed.read_bytes()[:-10])
    assert main(["ls", str(root)]) == 2
    assert main(["ls", str(root), str(tmp_path / "missing")]) == 3
    assert "orders-0" in capsys.readouterr().out


def test_a_path_from_a_hostile_disk_reaches_no_terminal_unescaped(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "a-0").mkdir()
    (tmp_path / "a-0" / "00000000000000000000.log").touch()
    os.mkdir(os.fsencode(tmp_path) + b"/\x1b[31m\xff\n-0")
    assert main(["ls", str(tmp_path)]) == 3
    captured = capsys.readouterr()
    assert "\x1b" not in captured.err + captured.out
    assert "\\x1b" in captured.err
