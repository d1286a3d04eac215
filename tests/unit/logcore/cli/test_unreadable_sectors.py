"""A sector that the disk fails to read ends neither the file nor the command: batches on both sides are used."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.storage import source_bytes
from tests import handmade

SECTOR = 4096
BATCHES = [handmade.simple_batch(offset, [(b"k", b"v" * 20)]) for offset in range(600)]
STARTS = [sum(map(len, BATCHES[:number])) for number in range(601)]
CONTENT = b"".join(BATCHES)

Captured = pytest.CaptureFixture[str]
Break = Callable[[Path, range], None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two logs of one sealed segment each, followed by an empty one."""
    for topic in ("orders", "payments"):
        directory = tmp_path / f"{topic}-0"
        directory.mkdir()
        (directory / f"{0:020d}.log").write_bytes(CONTENT)
        (directory / f"{600:020d}.log").touch()
        (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n2\norders 0 600\npayments 0 600\n")
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=0\n")
    return tmp_path


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Make reads of some bytes of a file fail as on a broken disk. A read still returns the bytes before them."""
    whole = os.preadv

    def break_sectors(path: Path, sectors: range) -> None:
        start, end, inode = sectors.start * SECTOR, sectors.stop * SECTOR, path.stat().st_ino

        def preadv(fd: int, buffers: list[memoryview], position: int) -> int:
            (target,) = buffers
            if os.fstat(fd).st_ino != inode or position >= end or position + len(target) <= start:
                return whole(fd, buffers, position)
            if position >= start:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return whole(fd, [target[: start - position]], position)

        monkeypatch.setattr(os, "preadv", preadv)

    return break_sectors


def lost(sectors: range) -> list[int]:
    """Offsets of the batches that have a byte in these sectors that is not zero: what cannot be read reads as zero, and
    a batch of which nothing else is missing is the one that was written, as its checksum says."""
    start, end = sectors.start * SECTOR, sectors.stop * SECTOR
    return [at for at in range(600) if any(CONTENT[max(start, STARTS[at]) : min(end, STARTS[at + 1])])]


@pytest.mark.parametrize("engine", ["kernels", "reference"])
@pytest.mark.parametrize("sectors", [range(3, 4), range(1), range(5, 8)], ids=str)
def test_verify_names_the_sectors_and_counts_the_batches_around_them(
    root: Path, broken: Break, engine: str, sectors: range, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", engine)
    broken(root / "orders-0" / f"{0:020d}.log", sectors)
    assert main(["verify", "--format", "jsonl", str(root)]) == 3
    *lines, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    summary, gone = last["summary"], lost(sectors)
    unreadable = [line for line in lines if line["rule"] == "unreadable"]
    assert {line["rule"] for line in lines if line["severity"] == "error"} == {"unreadable"}
    assert all(line["file"].endswith("orders-0/00000000000000000000.log") for line in unreadable)
    assert [(line["position"], line["nbytes"]) for line in unreadable] == [
        (STARTS[gone[0]], STARTS[gone[-1] + 1] - STARTS[gone[0]])
    ]
    first, behind = unreadable[0]["position"], unreadable[0]["position"] + unreadable[0]["nbytes"]
    failed = min(behind, sectors.stop * SECTOR) - max(first, sectors.start * SECTOR)
    assert failed >= len(sectors) * SECTOR - 8
    assert (summary["unreadable_bytes"], summary["quarantined_bytes"]) == (failed, behind - first - failed)
    parts = ("valid_bytes", "tail_bytes", "padding_bytes", "quarantined_bytes", "unreadable_bytes")
    assert sum(summary[part] for part in parts) == summary["bytes"] == 2 * len(CONTENT)
    assert summary["records"] == 1200 - len(gone)


def test_dump_shows_the_records_on_both_sides(root: Path, broken: Break, capsys: Captured) -> None:
    sectors = range(3, 4)
    broken(root / "orders-0" / f"{0:020d}.log", sectors)
    assert main(["dump", "--format", "jsonl", "--topic", "orders", str(root)]) == 3
    captured = capsys.readouterr()
    offsets = [json.loads(line)["offset"] for line in captured.out.splitlines()]
    assert offsets == sorted(set(range(600)) - set(lost(sectors)))
    assert "disk failed to read 4096" in captured.err


def test_a_file_of_which_nothing_can_be_read_is_given_up_after_some_sectors(
    root: Path, broken: Break, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Each failing read may take seconds."""
    monkeypatch.setattr(source_bytes, "MOST_SECTORS", 3)
    broken(root / "orders-0" / f"{0:020d}.log", range(1000))
    assert main(["verify", "--format", "jsonl", str(root)]) == 3
    *_, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert last["summary"]["records"] == 600
