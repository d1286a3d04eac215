"""Files of desktops, editors, file systems, rsync and servers beside a log's files change no answer about the log."""

from __future__ import annotations

import random
import shutil
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade, sampling
from tests.broker_directory import LogDirectory

SEGMENT = f"{0:020d}.log"
APPLE_DOUBLE = b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X" + bytes(60)
BESIDE_SEGMENTS = (
    *("._{}", ".{}.Xq3f9Z", ".{}.swp", "{}~", "#{}#", ".#{}", "{}.orig", "{}.tmp", "{}.part", "{}.bak", "{}.gz"),
    *(".nfs0000000000a1b2c300000001", ".DS_Store", "._.DS_Store", "Thumbs.db", "desktop.ini", ".fuse_hidden0000001"),
    *("Copy of {}", "{stem} (1).log", "{stem} copy.log", "{stem} - Copy.log", "{stem}.tierstate", ".~lock.{}#"),
    *("{}.sha256", ".directory", "remote_log_snapshot"),
)
BESIDE_PARTITIONS = (
    *(".DS_Store", "._orders-0", "._meta.properties", ".Trash-1000/", ".Trash-0/", ".Trashes/", "lost+found/"),
    *("@eaDir/", ".snapshot/", "#recycle/", "$RECYCLE.BIN/", "System Volume Information/", ".Spotlight-V100/"),
    *("orders-0.bak/", "orders-0 (copy)/", "orders-0_old/", ".orders-0.Xq3f9Z/", "meta.properties~", ".nfs00000001"),
    *("README", "backup.tar.gz", ".fseventsd/", "Thumbs.db", ".rsync-partial/", ".zfs/"),
)


def said(*words: str) -> tuple[int, list[str]]:
    out = TextIOWrapper(BytesIO(), "utf-8")
    with redirect_stdout(out), redirect_stderr(out):
        code = main(list(words))
    out.seek(0)
    return code, [line for line in out.read().splitlines() if not line.startswith(("info", "findings"))]


def packed(folder: Path) -> Path:
    root = LogDirectory(folder)
    orders = root.partition("orders-0")
    for _ in range(2):
        orders.append(10)
        orders.roll()
    orders.append(5)
    root.high_watermarks(orders_0=25)
    return orders.path


def add_strangers(partition: Path, chance: random.Random) -> None:
    """Put some files of others beside the log's files, and beside its directory."""
    content = [b"", APPLE_DOUBLE, bytes(100), handmade.simple_batch(0, [(b"k", b"of another log")])]
    for form in chance.sample(BESIDE_SEGMENTS, chance.randint(0, 5)):
        name = form.format(SEGMENT, stem=SEGMENT.removesuffix(".log"))
        (partition / name).write_bytes(chance.choice(content))
    for name in chance.sample(BESIDE_PARTITIONS, chance.randint(1, 5)):
        path = partition.parent / name
        if not name.endswith("/"):
            path.write_bytes(chance.choice(content))
            continue
        path.mkdir()
        if chance.random() < 0.7:
            shutil.copytree(partition, path / "files" / "orders-0" if name.startswith(".T") else path / "orders-0")


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.long)])
def test_strangers_change_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    commands = [("verify",), ("ledger",), ("dump",), ("ls",), ("offsets", "--at", "earliest"), ("transactions",)]
    (tmp_path / "alone").mkdir()
    monkeypatch.chdir(tmp_path / "alone")
    packed(Path("logs"))
    alone = [said(*words, "logs") for words in commands]
    assert {code for code, _ in alone} == {0}
    for number in range(count):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        add_strangers(packed(Path("logs")), sampling.chance(f"strangers {number}"))
        assert [said(*words, "logs") for words in commands] == alone, sorted(Path("logs").rglob("*"))


@pytest.mark.parametrize("name", ["7.log", f"{7:019d}.log", "orders.log"])
def test_a_file_that_may_be_a_segment_of_the_log_is_still_an_error(tmp_path: Path, name: str) -> None:
    partition = packed(tmp_path / "logs")
    (partition / name).write_bytes(handmade.simple_batch(0, [(b"k", b"v")]))
    code, lines = said("verify", str(tmp_path / "logs"))
    assert code == 3
    assert any("not-a-segment" in line and name in line for line in lines)


def test_a_topic_whose_name_begins_with_a_dot_is_read(tmp_path: Path) -> None:
    partition = packed(tmp_path / "logs")
    partition.rename(partition.parent / ".Trash-1000")
    assert any(line.startswith(".Trash-1000 ") for line in said("ls", str(tmp_path / "logs"))[1])
