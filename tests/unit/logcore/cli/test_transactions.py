"""`transactions` lists what the markers below the high watermark decided."""

import json
import struct
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.unit.logcore.cli import conftest as made

Captured = pytest.CaptureFixture[str]


def reported(capsys: Captured, *arguments: str, code: int = 0) -> tuple[list[tuple], dict]:
    """Rows of transactions, and the log's summary."""
    assert main(["transactions", "--format", "jsonl", *arguments]) == code
    *lines, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    names = ("producer_id", "first_offset", "last_offset", "marker_offset", "state")
    return [tuple(line[name] for name in names) for line in lines], last["summary"]


def snapshot(path: Path, *entries: tuple[int, int, int]) -> None:
    """A producer snapshot of (producer id, last offset, first offset of its open transaction or -1)."""
    body = struct.pack(">i", len(entries))
    for producer, last, first in entries:
        body += struct.pack(">qhiqiqiq", producer, 0, 5, last, 0, 1000, 0, first)
    path.write_bytes(struct.pack(">hI", 1, handmade.crc32c(body)) + body)


def test_transactions_come_with_their_outcome_and_then_their_number(root: Path, capsys: Captured) -> None:
    rows, summary = reported(capsys, str(root))
    assert rows == [(9, 3, 3, 4, "aborted"), (9, 5, 5, 6, "committed")]
    assert summary == {
        "committed": 1,
        "aborted": 1,
        "open": 0,
        "unknown": 0,
        "high_watermark": 8,
        "last_stable_offset": 8,
        "log_end_offset": 8,
    }


def test_a_marker_above_the_high_watermark_decides_nothing(root: Path, capsys: Captured) -> None:
    rows, summary = reported(capsys, str(root), "--high-watermark", "6")
    assert rows == [(9, 3, 3, 4, "aborted"), (9, 5, 5, None, "open")]
    assert summary["last_stable_offset"] == 5


def test_an_open_transaction_shows_its_age_at_the_requested_time(root: Path, capsys: Captured) -> None:
    arguments = ["transactions", str(root), "--high-watermark", "6", "--as-of", "2023-11-14T22:14:20.300Z"]
    assert main([*arguments, "--format", "jsonl"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["since"], line["age_ms"]) for line in lines[:2]] == [(None, None), (1_700_000_000_300, 60_000)]
    assert main(arguments) == 0
    text = capsys.readouterr().out.splitlines()
    assert text[1] == ("orders-0  producer 9 epoch 0  offsets [5, 6)  open since 2023-11-14T22:13:20.300Z, 60 s")


def test_only_requested_states_are_listed_and_all_are_counted(root: Path, capsys: Captured) -> None:
    rows, summary = reported(capsys, str(root), "--state", "committed")
    assert rows == [(9, 5, 5, 6, "committed")]
    assert summary["aborted"] == 1


def test_a_lost_marker_makes_the_outcome_unknown_and_is_damage(root: Path, capsys: Captured) -> None:
    content = bytearray(made.SEALED)
    content[len(made.FIRST) + len(made.ABORTED) + 40] ^= 1
    (root / "orders-0" / f"{0:020d}.log").write_bytes(bytes(content))
    assert main(["transactions", "--format", "jsonl", str(root)]) == 2
    captured = capsys.readouterr()
    assert '"state":"unknown"' in captured.out
    assert "but not how" in captured.err


@pytest.fixture
def rolled(root: Path) -> Path:
    """The same log without its first segment: it begins inside of producer 7's transaction."""
    for file in (root / "orders-0").glob(f"{0:020d}.*"):
        file.unlink()
    (root / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\n3 5\n")  # a broker cuts the epochs too
    return root


def test_a_transaction_begun_before_the_first_segment_is_known_from_the_snapshot_there(
    rolled: Path, capsys: Captured
) -> None:
    assert reported(capsys, str(rolled))[0] == [(9, 5, 5, 6, "committed")]
    snapshot(rolled / "orders-0" / f"{5:020d}.snapshot", (9, 3, -1), (7, 4, 2))
    rows, summary = reported(capsys, str(rolled))
    assert rows == [(7, 2, 4, None, "open"), (9, 5, 5, 6, "committed")]
    assert summary["last_stable_offset"] == 5


def test_a_snapshot_that_cannot_be_used_is_reported_and_left_out(rolled: Path, capsys: Captured) -> None:
    path = rolled / "orders-0" / f"{5:020d}.snapshot"
    snapshot(path, (7, 4, 2))
    path.write_bytes(handmade.flip(path.read_bytes(), 20))
    rows, _ = reported(capsys, str(rolled), code=1)
    assert rows == [(9, 5, 5, 6, "committed")]


def test_what_ended_below_the_log_start_is_not_shown(root: Path, capsys: Captured) -> None:
    made.write_checkpoint(root, "log-start-offset-checkpoint", orders=5)
    assert reported(capsys, str(root))[0] == [(9, 5, 5, 6, "committed")]


def test_an_open_transaction_below_the_log_start_holds_the_last_stable_offset_there(
    root: Path, capsys: Captured
) -> None:
    (root / "orders-0" / f"{5:020d}.log").write_bytes(made.COMMITTED + handmade.simple_batch(6, [(b"k", b"v")] * 2))
    made.write_checkpoint(root, "log-start-offset-checkpoint", orders=7)
    rows, summary = reported(capsys, str(root))
    assert rows == [(9, 5, 5, None, "open")]
    assert summary["last_stable_offset"] == 7


def test_a_log_of_old_messages_has_no_transactions(tmp_path: Path, capsys: Captured) -> None:
    old = tmp_path / "old-0"
    old.mkdir()
    (old / f"{0:020d}.log").write_bytes(handmade.message_v0(0, b"k", b"v") + handmade.message_v1(1, 5, b"k", b"v"))
    rows, summary = reported(capsys, str(old), "--high-watermark", "log-end")
    assert (rows, summary["last_stable_offset"]) == ([], 2)
