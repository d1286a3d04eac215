"""Bytes after the last offset of a closed segment: zeros, rubbish, batches that the next segment has too.

A cleaner's copy, files of two replicas in one directory and a batch twice are of this kind.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import logcore
from logcore.cli.main import main
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.spark.cycle import Lake

Harm = Callable[[Path, Path], None]
"""Changes the first of two segments."""
WARNING, ERROR = "bytes-after-segment", "segments-differ"


def add(*parts: bytes) -> Harm:
    def harm(first: Path, _: Path) -> None:
        first.write_bytes(first.read_bytes() + b"".join(parts))

    return harm


def add_next(first: Path, second: Path) -> None:
    first.write_bytes(first.read_bytes() + second.read_bytes())


def add_part_of_next(first: Path, second: Path) -> None:
    first.write_bytes(first.read_bytes() + second.read_bytes()[:100])


def add_damaged_next(first: Path, second: Path) -> None:
    first.write_bytes(first.read_bytes() + handmade.flip(second.read_bytes(), 70))


def add_next_and_zeros(first: Path, second: Path) -> None:
    first.write_bytes(first.read_bytes() + second.read_bytes() + bytes(50))


def last_batch_again(first: Path, _: Path) -> None:
    data, at = first.read_bytes(), 0
    while at + handmade.size_of(data, at) < len(data):
        at += handmade.size_of(data, at)
    base = int.from_bytes(data[at : at + 8], "big")
    first.with_name(f"{base:020d}.log").write_bytes(data[at:])


def add_uncleaned_next(first: Path, second: Path) -> None:
    """The cleaner removed records from the second segment, and the first is an older copy that has them."""
    add_next(first, second)
    second.write_bytes(handmade.batch([handmade.record(0), handmade.record(4)], base_offset=7, last_offset_delta=4))


HARMLESS: dict[str, Harm] = {
    "zeros": add(bytes(5000)),
    "rubbish": add(b"\x17" * 100),
    "the next segment": add_next,
    "a part of the next segment": add_part_of_next,
    "the next segment, damaged": add_damaged_next,
    "the next segment and zeros": add_next_and_zeros,
    "the last batch again": last_batch_again,
    "the next segment before it was cleaned": add_uncleaned_next,
}


def log_of_two(source: LogDirectory) -> Partition:
    log = source.partition("a-0")
    log.append(4)
    log.append(3)
    log.roll()
    log.append(5)
    source.high_watermarks(a_0=12)
    return log


def of_lake(lake: Lake) -> tuple[object, ...]:
    """What a lake says of the log, but its history."""
    counted = ("verdict", "batches", "records", "quarantined_bytes", "padding_bytes", "file_bytes", "digest")
    validations = sorted(tuple(row[name] for name in counted) for row in lake.rows("validations"))
    return lake.published("a"), lake.ledger("a"), validations


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.parametrize("mode", ["copy", "reference"])
@pytest.mark.parametrize("name", HARMLESS)
def test_bytes_after_the_last_offset_of_a_closed_segment_are_a_warning_and_leave_no_trace(
    name: str, mode: str, source: LogDirectory, lake: Lake, tmp_path: Path
) -> None:
    log = log_of_two(source)
    whole = Lake(tmp_path / "whole")
    whole.turn(source.path, mode=mode)
    HARMLESS[name](*log.segments())
    report = logcore.open_partition(log.path).validate()
    said = [(each.rule, str(each.severity)) for each in report.findings if each.severity != "info"]
    assert said == [(WARNING, "warning")]
    lake.turn(source.path, mode=mode)
    assert [(row["rule"], row["severity"]) for row in lake.rows("findings")] == [(WARNING, "warning")]
    assert lake.rows("quarantine") == []
    if name not in ("the last batch again", "the next segment before it was cleaned"):  # these have other segments
        assert of_lake(lake) == of_lake(whole)


@pytest.mark.parametrize("name", ["zeros", "the next segment"])
def test_one_run_after_a_warning_about_such_bytes_everything_is_in_order(
    name: str, source: LogDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, lake = log_of_two(source), tmp_path / "lake"
    whole = log.segments()[0].read_bytes()
    HARMLESS[name](*log.segments())
    assert said(capsys, "verify", log.path)[0] == 1
    code, printed = said(capsys, "run", source.path, "--lake", lake)
    assert code == 1
    assert "follow the last batch of the segment" in printed
    log.segments()[0].write_bytes(whole)
    for command in (("run", source.path, "--lake", lake), ("status", lake), ("verify", lake), ("verify", log.path)):
        assert said(capsys, *command)[0] == 0, command


@pytest.mark.parametrize("name", [name for name in HARMLESS if name != "the last batch again"])
def test_such_bytes_are_left_out_where_a_segment_grew_before_it_was_closed(
    name: str, source: LogDirectory, lake: Lake
) -> None:
    log = source.partition("a-0")
    log.append(4)
    source.high_watermarks(a_0=4)
    lake.turn(source.path)
    log.append(3)
    source.high_watermarks(a_0=7)
    lake.turn(source.path)
    log.roll()
    log.append(5)
    HARMLESS[name](*log.segments())
    source.high_watermarks(a_0=12)
    lake.turn(source.path)
    lake.turn(source.path)
    assert [row["message"] for row in lake.rows("findings") if row["severity"] == "error"] == []
    assert set(lake.published("a")) >= set(range(8)) | {11}
    assert lake.rows("quarantine") == []
    assert set(lake.stopped().values()) == {None}


@pytest.mark.parametrize("epoch", [0, 3])
def test_batches_of_another_history_after_a_closed_segment_are_an_error_until_they_are_gone(
    epoch: int, source: LogDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = log_of_two(source)
    first, _ = log.segments()
    whole = first.read_bytes()
    add(handmade.simple_batch(7, [(b"other", b"value")] * 5, leader_epoch=epoch))(*log.segments())
    code, printed = said(capsys, "verify", log.path)
    assert (code, printed.count(f" {ERROR}: ")) == (2, 1)
    for _ in range(2):
        code, printed = said(capsys, "run", source.path, "--lake", tmp_path / "lake")
        assert code == 2
        assert f"{first} and the next segment have different batches at offset 7" in printed
    first.write_bytes(whole)
    code, printed = said(capsys, "run", source.path, "--lake", tmp_path / "lake")
    assert code == 0, printed


@pytest.mark.parametrize("name", [0, 4, 7])
def test_of_a_segment_of_another_log_with_the_same_offsets_nothing_is_published(
    name: int, source: LogDirectory, lake: Lake
) -> None:
    """In place of a segment or beside it. The log stops until the file is gone, and then has its own rows alone."""
    log = log_of_two(source)
    own = {path: path.read_bytes() for path in log.segments()}
    rows = dict(log.rows)
    place = log.path / f"{name:020d}.log"
    foreign = [handmade.simple_batch(offset, [(b"k", b"foreign")]) for offset in range(name, 12)]
    place.write_bytes(b"".join(foreign))
    if name == 7:  # in place of the second one, which the first repeats
        add(own[place])(*log.segments())
    for _ in range(2):
        lake.turn(source.path)
        assert b"foreign" not in {value for _, value in lake.published("a").values()}
        assert lake.stopped() == {"a-0": ERROR}
    for path in log.segments():
        path.unlink()
    for path, content in own.items():
        path.write_bytes(content)
    lake.turn(source.path)
    assert lake.published("a") == rows
    assert lake.stopped() == {"a-0": None}


def test_a_batch_of_a_lower_offset_after_the_last_one_is_damage(source: LogDirectory) -> None:
    """The last offset may be a flipped bit: then the offsets before it are lost."""
    log = log_of_two(source)
    first, _ = log.segments()
    data = first.read_bytes()
    first.write_bytes(data + data[: handmade.size_of(data, 0)])
    report = logcore.open_partition(log.path).validate()
    assert [each.rule for each in report.findings if each.severity == "error"] == ["corrupt-bytes"]
