"""Files that are no segments: what is said about them, and the printed commands."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import shutil
import subprocess

import pytest

from tests import handmade
from tests.jobs.advice.advised_lake import (
    Lake,
    said,
)


def test_a_table_that_a_killed_run_began_and_never_made_is_not_called_gone(lake: Lake) -> None:
    assert lake.run()[0] == 0
    folder = lake.path / "tables" / "records_uncommitted" / "topic=orders"
    folder.mkdir(parents=True)
    shutil.copy(next((lake.path / "tables" / "records").rglob("*.parquet")), folder / "part-1.parquet")
    code, printed = lake.verify()
    assert (code, "is gone" in printed) == (0, False), printed
    assert "info table-not-complete: The table records_uncommitted was never made" in printed
    assert lake.run()[0] == said(lake.capsys, "status", lake.path)[0] == 0
    assert lake.run("--isolation.level", "read_uncommitted")[0] == 0
    assert lake.verify()[0] == 0


PACKERS = {
    "gzip": lambda data: gzip.compress(data),
    "bzip2": lambda data: bz2.compress(data),
    "xz": lambda data: lzma.compress(data),
}


@pytest.mark.parametrize(
    ("kind", "segment", "mode"), [("gzip", 2, "copy"), ("xz", 1, "copy"), ("bzip2", 0, "reference")]
)
def test_a_packed_segment_is_said_and_read_after_the_printed_command(
    lake: Lake, kind: str, segment: int, mode: str
) -> None:
    path = lake.log.segments()[segment]
    path.write_bytes(PACKERS[kind](path.read_bytes()))
    for _ in range(2):
        code, printed = lake.run("--mode", mode)
        assert code == 2
        assert not (lake.path / "tables/records").exists() or lake.offsets() == {*range(10 * segment)}
        assert "salvage" not in printed
    assert said(lake.capsys, "status", lake.path)[0] == 2
    code, of_files = said(lake.capsys, "verify", lake.source.path)
    assert code == 2
    for text in (printed, of_files):
        assert "salvage" not in text
        assert f" is {'an' if kind == 'xz' else 'a'} {kind} file" in text
    [command] = {line for text in (printed, of_files) for line in re.findall(r"`([^`]+ && mv [^`]+)`", text)}
    subprocess.run(command, shell=True, check=True)
    assert lake.run("--mode", mode)[0] == 0
    assert lake.offsets() == {*range(30)}
    assert said(lake.capsys, "status", lake.path)[0] == 0


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("kind", ["link", "directory"])
def test_a_segment_that_is_no_file_is_said_once_by_each_run(lake: Lake, kind: str, number: int) -> None:
    segment = lake.log.segments()[number]
    segment.unlink()
    segment.mkdir() if kind == "directory" else segment.symlink_to("/nowhere/segment.log")
    for _ in range(2):
        code, printed = lake.run()
        assert code == 3
        about = [line for line in printed.splitlines() if str(segment) in line or "cannot be read" in line]
        assert len(about) == 1, printed
        assert about[0].startswith(f"error: {segment} is ")
        assert "1 stopped log" in printed
    assert "the segment at offset" in said(lake.capsys, "status", lake.path)[1]


def test_bytes_with_the_offsets_of_a_segment_that_is_no_file_are_said_too(lake: Lake) -> None:
    first, second, _ = lake.log.segments()
    first.write_bytes(first.read_bytes() + handmade.flip(second.read_bytes(), 80))
    second.unlink()
    second.mkdir()
    code, printed = lake.run()
    assert code == 3
    damage = [line for line in printed.splitlines() if line.startswith("damage: ")]
    assert [f"file {first}, position " in line for line in damage] == [True], printed
    assert f"error: {second} is " in printed
