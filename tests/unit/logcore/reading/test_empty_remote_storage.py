"""Remote storage in which nothing is found, although the metadata names segments: perhaps a volume is not mounted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.tiered_log import DELETE_FINISHED, TieredLog, run

CHOSEN = ("--topic", "orders")


@pytest.fixture
def log(tmp_path: Path) -> TieredLog:
    """Offsets 0 to 19 in two remote segments, 20 to 29 local."""
    log = TieredLog(tmp_path)
    log.append(5, 5, 5, 5, 5, 5)
    log.copy(0, 10)
    log.copy(10, 20)
    log.write(20)
    return log


def emptied(log: TieredLog) -> Path:
    """The storage as an empty directory."""
    shutil.rmtree(log.remote)
    log.remote.mkdir()
    return log.remote


def test_an_empty_directory_is_not_called_a_storage_that_lost_its_segments(log: TieredLog) -> None:
    root = emptied(log)
    said = run("remote", log)
    assert said.code == 3
    assert [line for line in said.errors.splitlines() if line.startswith("error")] == [
        f"error remote-storage-empty: {root} has no object of a segment, and the metadata says that 2 segments of "
        "orders-0 were copied. They are not counted as lost. "
        "Is the storage not mounted, or is its directory or prefix another one?"
    ]
    *segments, summary = said.lines
    assert [(each["status"], each["orphaned"], each["missing"]) for each in segments] == [
        ("storage-empty", False, [])
    ] * 2
    assert summary["summary"]["orphaned_segments"] == 0  # type: ignore[index]


@pytest.mark.parametrize("command", ["dump", "ledger", "verify"])
def test_the_local_part_is_read_without_an_empty_storage(log: TieredLog, command: str) -> None:
    emptied(log)
    said = run(command, log, *CHOSEN)
    assert said.code == 3
    assert "were copied. They are not counted as lost" in f"{said.errors} {said.lines}"
    assert "objects are missing" not in f"{said.errors} {said.lines}"
    if command == "dump":
        assert said.rows == log.expected(20)
    if command == "ledger":
        assert said.ranges == [("remote", 0, 20), ("present", 20, 30)]


def test_other_files_make_no_storage_of_a_directory(log: TieredLog) -> None:
    root = emptied(log)
    (root / "lost+found").mkdir()
    (root / "readme.txt").write_text("another volume")
    said = run("remote", log)
    assert said.code == 3
    assert "objects are missing" not in said.errors


def test_one_object_of_a_segment_shows_that_the_storage_is_there(log: TieredLog) -> None:
    first, second = log.copied
    for path in log.remote.rglob(f"*{first.text}*"):
        path.unlink()
    for path in log.remote.rglob(f"*{second.text}*"):
        if path.suffix != ".index":
            path.unlink()
    said = run("remote", log)
    assert said.code == 2
    assert "objects are missing: all" in said.errors
    assert [each["status"] for each in said.lines[:-1]] == ["objects-missing"] * 2


def test_an_empty_storage_beside_one_that_has_every_segment_is_no_finding(log: TieredLog, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    remotes = [log.remote, tmp_path / "second"]
    assert run("remote", log, remotes=remotes).code == 0
    assert run("dump", log, *CHOSEN, remotes=remotes).rows == log.expected(0)


def test_segments_that_one_storage_lacks_may_be_in_the_empty_one(log: TieredLog, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    for path in log.remote.rglob(f"*{log.copied[0].text}*"):
        path.unlink()
    said = run("remote", log, remotes=[log.remote, tmp_path / "second"])
    assert said.code == 3
    assert f"{tmp_path / 'second'} has no object of a segment" in said.errors
    assert "1 segment of orders-0 was copied" in said.errors
    assert [each["status"] for each in said.lines[:-1]] == ["storage-empty", "counts"]
    said = run("dump", log, *CHOSEN, remotes=[log.remote, tmp_path / "second"])
    assert (said.code, said.rows) == (3, log.expected(10))


def test_an_empty_storage_is_in_order_where_nothing_must_be_there(log: TieredLog) -> None:
    for copied in log.copied:
        log.update(copied, DELETE_FINISHED)
    log.write(20, log_start=20)
    emptied(log)
    said = run("remote", log)
    assert (said.code, "were copied" in said.errors) == (0, False)


@pytest.mark.parametrize("suffix", [".log", ".timeindex"])
def test_the_object_that_is_missing_is_the_file_of_the_finding(log: TieredLog, suffix: str) -> None:
    path = log.copied[0].log.with_suffix(suffix)
    path.unlink()
    (said,) = (each for each in run("verify", log).lines if each.get("rule") == "remote-segment-missing")
    assert said["file"] == str(path)


def test_a_short_log_is_the_file_of_the_finding(log: TieredLog) -> None:
    path = log.copied[1].log
    path.write_bytes(path.read_bytes()[:-1])
    (said,) = (each for each in run("verify", log).lines if each.get("rule") == "remote-segment-unreadable")
    assert said["file"] == str(path)
