"""Segments that a power cut emptied, and a log whose newest segments are gone: every command says what is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests.broker_directory import LogDirectory

Captured = pytest.CaptureFixture[str]


def ranges(capsys: Captured, path: Path) -> tuple[int, list[tuple[int, int, str]]]:
    code = main(["ledger", "--format", "jsonl", str(path)])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return code, [(row["start_offset"], row["end_offset"], row["state"]) for row in rows]


@pytest.mark.parametrize(("emptied", "lost"), [(1, (10, 20)), (2, (20, 30))])
def test_an_emptied_segment_is_a_loss(tmp_path: Path, capsys: Captured, emptied: int, lost: tuple[int, int]) -> None:
    root = LogDirectory(tmp_path / "logs")
    orders = root.partition("orders-0")
    for _ in range(3):
        orders.roll()
        orders.append(10)
    orders.segments()[emptied].write_bytes(b"")
    root.high_watermarks(orders_0=30)
    code, found = ranges(capsys, root.path)
    assert code == 2
    assert [each[:2] for each in found if each[2] == "missing"] == [lost]
    assert sum(end - start for start, end, state in found if state == "present") == 20
    assert main(["verify", str(root.path)]) == 2
    assert main(["recover", "--plan", "--out", str(tmp_path / "new"), str(orders.path)]) == 2


def test_a_log_that_ends_below_its_log_start_is_a_loss(tmp_path: Path, capsys: Captured) -> None:
    root = LogDirectory(tmp_path / "logs")
    orders = root.partition("orders-0")
    orders.append(20)
    root.checkpoint("log-start", orders_0=40)
    root.high_watermarks(orders_0=60)
    assert ranges(capsys, root.path) == (2, [(0, 20, "trimmed"), (20, 60, "missing")])
    assert main(["verify", str(root.path)]) == 2
    capsys.readouterr()
    assert main(["dump", str(root.path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "shows offsets none of [0, 20) (log start 40, high watermark 20)" in captured.err
