"""`groups` and the ends of logs: lag, commits beyond an end, and names that match nothing."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests import handmade

Captured = pytest.CaptureFixture[str]
SEGMENT = f"{0:020d}.log"
PARTITION_0_ALONE = (
    "info group-partitions-unknown: Of __consumer_offsets the paths have partition 0. Whether the topic has more, with "
    "more groups, is not known without __cluster_metadata.\n"
)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def commit(offset: int, group: str = "billing", topic: str = "orders") -> tuple[bytes, bytes]:
    """By OffsetCommitKey 1 and OffsetCommitValue 3."""
    key = struct.pack(">h", 1) + text(group) + text(topic) + struct.pack(">i", 0)
    return key, struct.pack(">hqi", 3, offset, -1) + text("") + struct.pack(">q", 1000)


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """`orders-0` with 10 records, of which 8 are committed, and the group `billing` at offset 3."""
    for name, batch in (
        ("orders-0", handmade.simple_batch(0, [(b"k", b"v")] * 10)),
        ("__consumer_offsets-0", handmade.simple_batch(0, [commit(3)])),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / SEGMENT).write_bytes(batch)
    stated(tmp_path, 8)
    return tmp_path


def stated(broker: Path, high_watermark: int) -> None:
    lines = f"0\n2\norders 0 {high_watermark}\n__consumer_offsets 0 1\n"
    (broker / "replication-offset-checkpoint").write_text(lines)


def commits(broker: Path, offset: int) -> None:
    (broker / "__consumer_offsets-0" / SEGMENT).write_bytes(handmade.simple_batch(0, [commit(offset)]))


def unreadable(path: Path) -> None:
    """Put a link to itself in the place of a file: not even root can read it."""
    path.unlink(missing_ok=True)
    path.symlink_to(path)


def lag(capsys: Captured, *arguments: str | Path, code: int = 0) -> tuple[int | None, int | None]:
    """High watermark and lag of the one commit that is printed."""
    assert main(["groups", *map(str, arguments), "--format", "jsonl"]) == code
    (line,) = capsys.readouterr().out.splitlines()
    (offset,) = json.loads(line)["offsets"]
    found: dict[str, Any] = offset
    return found["high_watermark"], found["lag"]


def test_lag_is_up_to_the_high_watermark(broker: Path, capsys: Captured) -> None:
    assert lag(capsys, broker) == (8, 5)


def test_a_high_watermark_outside_of_its_log_is_moved_into_it(broker: Path, capsys: Captured) -> None:
    stated(broker, 12)
    assert lag(capsys, broker) == (10, 7)


def test_without_a_high_watermark_lag_is_up_to_the_log_end(broker: Path, capsys: Captured) -> None:
    (broker / "replication-offset-checkpoint").unlink()
    assert lag(capsys, broker, code=1) == (10, 7)


def test_lag_is_up_to_the_log_end_if_that_is_chosen(broker: Path, capsys: Captured) -> None:
    assert lag(capsys, broker, "--high-watermark", "log-end") == (10, 7)


def test_a_chosen_offset_ends_the_commits_and_not_the_other_logs(broker: Path, capsys: Captured) -> None:
    assert lag(capsys, broker, "--high-watermark", "1") == (8, 5)


@pytest.mark.parametrize("name", ["orders-0", f"orders-0/{SEGMENT}"])
def test_of_a_log_that_is_not_at_the_path_or_is_not_whole_there_lag_is_not_known(
    broker: Path, name: str, capsys: Captured
) -> None:
    commits(broker, 11)
    (broker / "orders-0" / f"{10:020d}.log").touch()
    group = broker / "__consumer_offsets-0"
    paths = [group] if name == "orders-0" else [group, broker / name]
    assert lag(capsys, *paths) == (None, None)


def test_a_commit_beyond_the_end_of_its_log_is_reported(broker: Path, capsys: Captured) -> None:
    commits(broker, 11)
    assert lag(capsys, broker, code=1) == (8, -3)
    main(["groups", str(broker)])
    message = "warning commit-beyond-log-end: Group billing has committed offset 11 of orders-0, whose log ends at 10."
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("offset", "is_outside"), [(2, True), (3, False), (10, False), (11, True)])
def test_a_commit_outside_of_its_log_is_out_of_range_on_both_sides(
    broker: Path, offset: int, is_outside: bool, capsys: Captured
) -> None:
    """The log has [3, 10). A consumer whose position is 10 waits for the next record."""
    commits(broker, offset)
    (broker / "log-start-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    code = 1 if offset == 11 else 0
    assert main(["groups", str(broker)]) == code
    printed = capsys.readouterr()
    assert f"  orders-0  offset {offset}  lag {8 - offset}{'  out of range' if is_outside else ''}\n" in printed.out
    below = "info commit-below-log-start: Group billing has committed offset 2 of orders-0, whose log starts at 3: "
    assert (f"{below}[2, 3) are deleted." in printed.err) == (offset == 2)
    assert main(["groups", str(broker), "--format", "jsonl"]) == code
    (line,) = capsys.readouterr().out.splitlines()
    assert [each["out_of_range"] for each in json.loads(line)["offsets"]] == [is_outside]


def test_a_commit_above_the_high_watermark_is_within_its_log(broker: Path, capsys: Captured) -> None:
    commits(broker, 10)
    assert lag(capsys, broker) == (8, -2)


def test_a_group_that_is_not_chosen_is_not_reported(broker: Path, capsys: Captured) -> None:
    rows = [commit(11, group="audit"), commit(3)]
    (broker / "__consumer_offsets-0" / SEGMENT).write_bytes(handmade.simple_batch(0, rows))
    (broker / "replication-offset-checkpoint").write_text("0\n2\norders 0 8\n__consumer_offsets 0 2\n")
    assert lag(capsys, broker, "--group", "billing") == (8, 5)


@pytest.mark.parametrize("base", [0, 10])
def test_a_log_whose_last_segment_cannot_be_read_may_reach_the_commit(
    broker: Path, base: int, capsys: Captured
) -> None:
    commits(broker, 11)
    stated(broker, 15)
    unreadable(broker / "orders-0" / f"{base:020d}.log")
    main(["groups", str(broker), "--format", "jsonl"])
    captured = capsys.readouterr()
    (line,) = captured.out.splitlines()
    (offset,) = json.loads(line)["offsets"]
    assert (offset["high_watermark"], offset["lag"]) == (15, 4)
    assert "has committed" not in captured.err


def test_a_name_that_no_group_has_is_reported_with_the_nearest(broker: Path, capsys: Captured) -> None:
    assert main(["groups", str(broker), "--group", "biling", "--group", "billing", "--group", "b*"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("billing  ")
    assert captured.err == PARTITION_0_ALONE + "".join(
        f"info nothing-chosen: --group '{name}' matches no group; the nearest names are billing.\n"
        for name in ("biling", "b*")
    )
