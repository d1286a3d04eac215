"""Where commands end a log whose high watermark lies outside of it, and where they differ in that.

The log has offsets 0 to 7 in two segments that begin at 0 and 5; its log start is 5.
"""

import json
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.unit.logcore.cli import conftest as made

Captured = pytest.CaptureFixture[str]

LOG_START = 5


@pytest.fixture
def trimmed(root: Path) -> Path:
    """The log directory, with the log start before the second segment."""
    made.write_checkpoint(root, "log-start-offset-checkpoint", orders=LOG_START)
    return root


def lines(capsys: Captured, code: int, *arguments: str) -> list[dict]:
    assert main([arguments[0], "--format", "jsonl", *arguments[1:]]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def ends(capsys: Captured, code: int, *arguments: str) -> tuple[int, int, int]:
    """High watermark, last stable offset and log end that `transactions` reports."""
    summary = lines(capsys, code, "transactions", *arguments)[-1]["summary"]
    return summary["high_watermark"], summary["last_stable_offset"], summary["log_end_offset"]


def latest(capsys: Captured, *arguments: str, code: int = 0) -> int:
    (line,) = lines(capsys, code, "offsets", "--at", "latest", *arguments)
    return line["offset"]


def planned(capsys: Captured, *arguments: str, code: int = 0) -> dict:
    assert main([*arguments, "--plan", "--as-of", "1700000001000"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_checkpoint_below_the_log_start_is_moved_up_to_it(trimmed: Path, capsys: Captured) -> None:
    made.write_checkpoint(trimmed, "replication-offset-checkpoint", orders=3)
    assert ends(capsys, 0, str(trimmed)) == (LOG_START, LOG_START, 8)
    assert latest(capsys, str(trimmed)) == LOG_START
    assert lines(capsys, 0, "dump", str(trimmed)) == []
    assert planned(capsys, "retain", str(trimmed / "orders-0"))["high_watermark"] == LOG_START


def test_a_checkpoint_beyond_the_log_end_is_moved_down_to_it(trimmed: Path, capsys: Captured) -> None:
    made.write_checkpoint(trimmed, "replication-offset-checkpoint", orders=99)
    assert ends(capsys, 2, str(trimmed)) == (8, 8, 8)
    assert latest(capsys, str(trimmed), code=2) == 8
    assert [line["offset"] for line in lines(capsys, 2, "dump", str(trimmed))] == [5, 7]


def test_retention_leaves_a_high_watermark_beyond_an_end_that_it_cannot_know(trimmed: Path, capsys: Captured) -> None:
    made.write_checkpoint(trimmed, "replication-offset-checkpoint", orders=99)
    plan = planned(capsys, "retain", str(trimmed / "orders-0"), code=2)
    assert (plan["high_watermark"], plan["log_end_offset"]) == (99, None)


def test_a_number_below_the_log_start_counts_as_given_for_transactions_and_the_ledger(
    trimmed: Path, capsys: Captured
) -> None:
    asked = (str(trimmed), "--high-watermark", "3")
    assert ends(capsys, 0, *asked) == (3, 3, 8)
    ranges = lines(capsys, 0, "ledger", *asked)
    assert [(each["start_offset"], each["end_offset"], each["state"]) for each in ranges] == [
        (0, 3, "trimmed"),
        (3, 5, "trimmed"),
        (5, 8, "open"),
    ]


def test_a_number_below_the_log_start_is_moved_up_to_it_for_offsets_and_maintenance(
    trimmed: Path, capsys: Captured
) -> None:
    assert latest(capsys, str(trimmed), "--high-watermark", "3") == LOG_START
    plan = planned(capsys, "retain", str(trimmed / "orders-0"), "--high-watermark", "3")
    assert plan["high_watermark"] == LOG_START


def test_the_metadata_log_is_shown_to_its_end_and_committed_up_to_its_latest_snapshot(
    tmp_path: Path, capsys: Captured
) -> None:
    log = tmp_path / "metadata" / "__cluster_metadata-0"
    log.mkdir(parents=True)
    batches = [handmade.simple_batch(at, [(None, b"m")] * 2, leader_epoch=1) for at in (0, 2, 4)]
    (log / f"{0:020d}.log").write_bytes(b"".join(batches))
    (log / f"{4:020d}-{1:010d}.checkpoint").write_bytes(b"")
    shown = lines(capsys, 0, "dump", str(log))
    assert [(line["offset"], line["committed"]) for line in shown] == [(n, n < 4) for n in range(6)]
    assert [line["offset"] for line in lines(capsys, 0, "offsets", "--at", "latest", str(log))] == [4, 6]
    assert ends(capsys, 0, str(log)) == (4, 4, 6)


def test_a_named_file_ends_at_its_end_unless_a_number_is_given(trimmed: Path, capsys: Captured) -> None:
    made.write_checkpoint(trimmed, "replication-offset-checkpoint", orders=6)
    file = str(trimmed / "orders-0" / f"{5:020d}.log")
    assert ends(capsys, 0, file) == (8, 8, 8)
    assert ends(capsys, 0, file, "--high-watermark", "6") == (6, 5, 8)
    assert [line["offset"] for line in lines(capsys, 0, "dump", file)] == [5, 7]
    assert [line["offset"] for line in lines(capsys, 0, "dump", file, "--high-watermark", "6")] == [5]


def test_recovery_writes_the_moved_high_watermark_and_retention_the_stated_one(trimmed: Path, capsys: Captured) -> None:
    made.write_checkpoint(trimmed, "replication-offset-checkpoint", orders=3)
    written = {}
    for command in ("recover", "retain"):
        out = trimmed.parent / command
        arguments = ["--out", str(out), "--checkpoints-out", str(trimmed.parent / f"{command}-root")]
        assert main([command, str(trimmed / "orders-0"), *arguments, "--as-of", "1700000001000"]) == 0
        text = (trimmed.parent / f"{command}-root" / "replication-offset-checkpoint").read_text()
        written[command] = text.splitlines()[2]
    assert written == {"recover": "orders 0 5", "retain": "orders 0 3"}
