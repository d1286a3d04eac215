"""A partition directory that somebody kept or renamed has the topic id of another topic; it is no topic of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.cli.main import main
from logcore.logs.model.sources import SegmentFile
from logcore.reading.chosen_logs import find_logs
from logcore.reading.compared_copies import ComparedCopies
from logcore.reading.read_options import Notes, ReadOptions
from logcore.records.batch import BatchHeader
from logcore.storage.discovery import discover
from logcore.storage.headers import HeaderReader
from tests.broker_directory import TOPIC_ID, LogDirectory, Partition
from tests.in_process import without_spark
from tests.metadata_log import MetadataLog, created, topic_id_text

Captured = pytest.CaptureFixture[str]
RULE = "copy-under-another-name"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    with without_spark():
        yield


def logs_of(tmp_path: Path) -> LogDirectory:
    """orders-0 with 10 records and its line in the broker's checkpoint."""
    source = LogDirectory(tmp_path / "logs")
    source.partition("orders-0").append(10)
    source.high_watermarks(orders_0=10)
    return source


def kept(source: LogDirectory, name: str) -> Path:
    place = source.path / name
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source.path / "orders-0", place)
    return place


def rows(lake: Path) -> list[tuple[str, int]]:
    table = DeltaTable(lake / "tables/records").to_pyarrow_table(columns=["topic", "offset"]).to_pylist()
    return sorted((row["topic"], row["offset"]) for row in table)


# The last one is in another source; "orders-0-1" is read as partition 1 of the topic orders-0.
NAMES = ["orders-0.orig-0", "orders-0-1", "a-orders-0", "../other/orders.bak-0"]


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_copy_never_hides_the_log_and_is_no_topic(tmp_path: Path, capsys: Captured, name: str) -> None:
    source, lake = logs_of(tmp_path), tmp_path / "lake"
    copy = kept(source, name).resolve()
    for _ in range(2):  # the other source has no checkpoint
        assert main(["run", str(source.path), str(copy.parent), "--lake", str(lake)]) == name.startswith("..")
        said = capsys.readouterr()
        assert RULE not in said.out + said.err
        assert "every_offset_accounted_for" not in said.out + said.err
        assert rows(lake) == [("orders", offset) for offset in range(10)]
    assert main(["verify", str(lake)]) == 0


def test_a_log_that_the_lake_has_is_not_read_on_from_a_renamed_directory(tmp_path: Path, capsys: Captured) -> None:
    source, lake = logs_of(tmp_path), tmp_path / "lake"
    assert main(["run", str(source.path), "--lake", str(lake)]) == 0
    (source.path / "orders-0").rename(source.path / "saved-0")
    capsys.readouterr()
    assert main(["run", str(source.path), "--lake", str(lake)]) != 0
    said = capsys.readouterr()
    assert f"{source.path / 'saved-0'} has the records of orders-0" in said.out + said.err
    assert rows(lake) == [("orders", offset) for offset in range(10)]


@pytest.mark.parametrize("name", ["orders-1", "saved-0"])
def test_a_renamed_directory_is_no_log_and_the_printed_command_gives_its_name_again(
    tmp_path: Path, capsys: Captured, name: str
) -> None:
    source, lake = logs_of(tmp_path), tmp_path / "lake"
    source.partition("payments-0").append(5)
    source.high_watermarks(orders_0=10, payments_0=5)
    (source.path / "orders-0").rename(source.path / name)
    for command in (["run", "--lake", str(lake)], ["verify"], ["ls"]):
        assert main([command[0], str(source.path), *command[1:]]) == 1
        said = capsys.readouterr()
        [line] = [each for each in (said.out + said.err).splitlines() if " has the records of orders-0" in each]
        assert f"{source.path / name} has the records of orders-0" in line
        assert "log-directory-missing" not in said.out + said.err
    assert rows(lake) == [("payments", offset) for offset in range(5)]
    [command_line] = re.findall(r"`(mv [^`]+)`", line)
    subprocess.run(command_line, shell=True, check=True)
    assert main(["run", str(source.path), "--lake", str(lake)]) == 0
    assert ("orders", 9) in rows(lake)


@pytest.mark.parametrize(
    "case", ["metadata log", "empty", "shorter", "newer", "id of the stated partitions", "other partitions' id"]
)
def test_a_sound_log_is_not_called_the_directory_of_a_deleted_one(tmp_path: Path, capsys: Captured, case: str) -> None:
    """The line of a deleted log stays until the broker writes the file again."""
    source, lake = LogDirectory(tmp_path / "logs"), tmp_path / "lake"
    name = "__cluster_metadata-0" if case == "metadata log" else "payments-0"
    log, stated = source.partition(name), {"orders_0": 1000 if case == "shorter" else 10}
    if case == "empty":
        log.roll()
    else:
        log.append(20)
    other = {"id of the stated partitions": "payments-1", "other partitions' id": "orders-1"}.get(case)
    if other is not None:
        source.partition(other).append(5, tag=b"other")
        stated[other.replace("-", "_")] = 5
    source.high_watermarks(**stated)
    if case == "newer":
        segment, checkpoint = log.segments()[0], source.path / "replication-offset-checkpoint"
        at = segment.stat().st_mtime_ns - 1_000_000_000
        os.utime(checkpoint, ns=(at, at))
    main(["ls", str(source.path)])
    said = capsys.readouterr()
    assert RULE not in said.out + said.err
    assert f"names orders-0 (with offsets up to {stated['orders_0']}). There is no such directory." in said.err
    main(["run", str(source.path), "--lake", str(lake), "--high-watermark", "log-end"])
    said = capsys.readouterr()
    assert " mv " not in said.out + said.err
    if case not in ("metadata log", "empty"):
        assert rows(lake).count(("payments", 0)) == 1 + (other == "payments-1")


def test_the_first_batch_of_each_partition_is_read_once_to_find_a_renamed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = LogDirectory(tmp_path / "logs")
    for number in range(12):
        log = source.partition(f"orders-{number}")
        if number < 6:
            log.append(5, tag=b"%d-" % number)
        else:
            log.roll()
    source.high_watermarks(**{f"orders_{number}": 5 for number in range(6)})
    shutil.copytree(source.path / "orders-0", source.path / "orders-12")
    read: list[str] = []
    header_at = HeaderReader.header_at

    def counted(self: HeaderReader, segment: SegmentFile, position: int) -> BatchHeader | None:
        read.append(segment.path)
        return header_at(self, segment, position)

    logs = discover([str(source.path)]).logs
    monkeypatch.setattr(HeaderReader, "header_at", counted)
    assert list(ComparedCopies(logs).under_other_names(logs)) == [str(source.path / "orders-12")]
    assert len(read) == len(set(read)) <= 13


@pytest.mark.parametrize("name", ["orders-1", "saved-0"])
def test_the_right_directory_that_comes_back_is_not_called_the_copy_of_the_renamed_one(
    tmp_path: Path, capsys: Captured, name: str
) -> None:
    """Without checkpoints nothing showed that the first directory was renamed."""
    source, lake = logs_of(tmp_path), tmp_path / "lake"
    copy, checkpoint = kept(source, name), source.path / "replication-offset-checkpoint"
    away, text = tmp_path / "away", checkpoint.read_text()
    (source.path / "orders-0").rename(away)
    checkpoint.unlink()
    assert main(["run", str(source.path), "--lake", str(lake)]) == 1
    away.rename(source.path / "orders-0")
    checkpoint.write_text(text)
    for _ in range(2):
        capsys.readouterr()
        assert main(["run", str(source.path), "--lake", str(lake)]) == 1
        said = capsys.readouterr()
        [line] = [each for each in (said.out + said.err).splitlines() if each.startswith("warning: /")]
        if name == "saved-0":
            assert line.startswith(f"warning: {source.path / 'orders-0'} has the topic id that the lake knows as saved")
            assert line.endswith("read the topic orders into a new lake.")
        else:
            assert line.startswith(f"warning: {copy} has the records of orders-0 ({source.path / 'orders-0'})")
            read = DeltaTable(lake / "tables/records").to_pyarrow_table(columns=["partition"]).to_pylist()
            assert read.count({"partition": 0}) == 10


@pytest.mark.parametrize("command", [["verify"], ["ls"], ["ledger"], ["dump"], ["recover"]], ids=lambda words: words[0])
def test_each_command_that_sees_both_says_it_once(tmp_path: Path, capsys: Captured, command: list[str]) -> None:
    source = logs_of(tmp_path)
    copy = kept(source, "orders-0.orig-0")
    words = [*command, "--out", str(tmp_path / "new")] if command == ["recover"] else command
    main([*words, str(source.path)])
    said = capsys.readouterr()
    (line,) = [line for line in (said.out + said.err).splitlines() if RULE in line and "What to do" not in line]
    assert f"{copy} has the topic id of orders" in line


def test_recover_writes_no_kept_copy_unless_it_is_named(tmp_path: Path) -> None:
    source = logs_of(tmp_path)
    copy = kept(source, "orders-0.orig-0")
    assert main(["recover", str(source.path), "--out", str(tmp_path / "new")]) == 0
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["orders-0"]
    assert main(["recover", str(copy), "--out", str(tmp_path / "named")]) == 0


def test_a_kept_copy_that_has_more_than_the_log_is_a_warning(tmp_path: Path, capsys: Captured) -> None:
    source = logs_of(tmp_path)
    kept(source, "orders-0.orig-0")
    Partition(source.path / "orders-0", next_offset=10).truncate(5)
    source.high_watermarks(orders_0=5)
    assert main(["verify", str(source.path)]) == 1
    assert f"warning {RULE}: " in capsys.readouterr().out


def test_recover_writes_no_renamed_directory_under_its_wrong_name(tmp_path: Path, capsys: Captured) -> None:
    source = logs_of(tmp_path)
    source.partition("payments-0").append(5)
    source.high_watermarks(orders_0=10, payments_0=5)
    (source.path / "orders-0").rename(source.path / "saved-0")
    assert main(["recover", str(source.path), "--out", str(tmp_path / "new")]) == 1
    assert "saved-0 has the records of orders-0" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["payments-0"]


def test_the_cluster_metadata_decides_which_name_is_the_topics(tmp_path: Path) -> None:
    """By the checkpoint it would be the other one."""
    source = LogDirectory(tmp_path / "logs")
    for name in ("orders-0", "orders.new-0"):
        source.partition(name, topic_id_text("orders.new")).append(10)
    source.high_watermarks(orders_0=10)
    MetadataLog(source.path).say(created("orders.new"))
    notes = Notes()
    found = find_logs(ReadOptions(paths=(str(source.path),)), notes, is_one_copy=True)
    assert [str(log.topic_partition) for log in found] == ["__cluster_metadata-0", "orders.new-0"]


def test_of_names_without_evidence_none_is_read_until_one_is_named(tmp_path: Path, capsys: Captured) -> None:
    source = LogDirectory(tmp_path / "logs")
    for name in ("orders-0", "saved-0"):
        source.partition(name, TOPIC_ID).append(10)
    assert main(["run", str(source.path), "--lake", str(tmp_path / "lake")]) == 3
    said = capsys.readouterr()
    assert f"Name only the one to use: {source.path / 'orders-0'} or {source.path / 'saved-0'}" in said.out + said.err
    assert main(["run", str(source.path / "orders-0"), "--lake", str(tmp_path / "lake")]) in (0, 1)
    assert rows(tmp_path / "lake") == [("orders", offset) for offset in range(10)]
    # The lake knows the topic's name from now on.
    assert main(["run", str(source.path), "--lake", str(tmp_path / "lake")]) == 1


EXCHANGED = {
    "two": {"orders-0": (10, 10), "orders-1": (25, 25), "orders-2": (5, 5)},
    "three": {"orders-0": (10, 10), "orders-1": (25, 25), "orders-2": (40, 40)},
    "of a running broker": {"orders-0": (105, 100), "orders-1": (255, 250)},
    "one is empty": {"orders-0": (0, 0), "orders-1": (20, 20)},
    "of two topics": {"orders-0": (10, 10), "payments-0": (25, 25)},
}
"""Records and high watermark of each."""


def exchanged(tmp_path: Path, case: str) -> tuple[LogDirectory, list[str]]:
    source, logs = LogDirectory(tmp_path / "logs"), EXCHANGED[case]
    for name, (count, _) in logs.items():
        log = source.partition(name)
        log.roll()
        log.append(count, tag=name.encode())
    lines = {name.replace("-", "_"): high_watermark for name, (_, high_watermark) in logs.items()}
    source.high_watermarks(**lines)
    source.checkpoint("recovery-point", **lines)
    moved = list(logs)[: 2 if case == "two" else None]
    for name, to in zip(moved, [*moved[1:], moved[0]], strict=True):
        (source.path / name).rename(source.path / f"{to}.new")
    for name in moved:
        (source.path / f"{name}.new").rename(source.path / name)
    return source, moved


@pytest.mark.parametrize("case", EXCHANGED)
def test_exchanged_directories_are_no_logs_and_the_printed_command_gives_their_names_again(
    tmp_path: Path, capsys: Captured, case: str
) -> None:
    source, moved = exchanged(tmp_path, case)
    lake = tmp_path / "lake"
    for command in (["run", "--lake", str(lake)], ["ls"], ["recover", "--out", str(tmp_path / "new")]):
        main([command[0], str(source.path), *command[1:]])
        said = capsys.readouterr()
        lines = [each for each in (said.out + said.err).splitlines() if " has the records of " in each]
        assert len(lines) == len(moved), command
        [command_line] = re.findall(r"`(mv [^`]+)`", "".join(lines))
    left = [name for name in EXCHANGED[case] if name not in moved]
    published = rows(lake) if (lake / "tables/records").exists() else []
    assert published == [("orders", offset) for _ in left for offset in range(5)]
    assert not (tmp_path / "new").exists() or [path.name for path in (tmp_path / "new").iterdir()] == left
    subprocess.run(command_line, shell=True, check=True)
    main(["run", str(source.path), "--lake", str(lake)])
    table = DeltaTable(lake / "tables/records").to_pyarrow_table(columns=["topic", "partition", "offset", "value"])
    values = {(f"{row['topic']}-{row['partition']}", row["offset"]): row["value"] for row in table.to_pylist()}
    assert values == {
        (name, offset): b"%s%d" % (name.encode(), offset)
        for name, (_, high_watermark) in EXCHANGED[case].items()
        for offset in range(high_watermark)
    }


@pytest.mark.parametrize("case", ["the end is lost", "the log is lost", "two logs fit", "other partitions' ids"])
def test_logs_that_lost_records_are_not_called_exchanged(tmp_path: Path, capsys: Captured, case: str) -> None:
    source = LogDirectory(tmp_path / "logs")
    counts = {
        "the end is lost": {"orders-0": (10, 25), "orders-1": (40, 38)},
        "the log is lost": {"orders-0": (0, 25), "orders-1": (25, 25)},
        "two logs fit": {"orders-0": (10, 25), "orders-1": (25, 10), "orders-2": (25, 10)},
        "other partitions' ids": {"orders-0": (10, 25), "orders-1": (5, 5), "payments-0": (25, 10)},
    }[case]
    for name, (count, _) in counts.items():
        log = source.partition(name)
        log.roll()
        log.append(count)
    source.high_watermarks(**{name.replace("-", "_"): line for name, (_, line) in counts.items()})
    main(["ls", str(source.path)])
    said = capsys.readouterr()
    assert RULE not in said.out + said.err
