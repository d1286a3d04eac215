"""Deleting below a folder: what was seen there goes, and nothing that a link or a path leads to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_jobs.errors import UsageError
from spark_jobs.lake.store import deletion, storage

LATER = 2**62


def made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"bytes")
    return path


def test_a_file_goes_with_the_folders_that_it_leaves_empty_up_to_the_outermost(tmp_path):
    made(tmp_path / "archive/log/0/one/a.log")
    made(tmp_path / "archive/log/1/two/b.log")
    assert deletion.delete_below(str(tmp_path), "archive/log/0/one/a.log", placed_before_ms=LATER)
    assert sorted(p.name for p in (tmp_path / "archive/log").iterdir()) == ["1"]
    assert deletion.delete_below(str(tmp_path), "archive/log/1/two/b.log", placed_before_ms=LATER)
    assert list((tmp_path / "archive").iterdir()) == []
    assert not deletion.delete_below(str(tmp_path), "archive/log/1/two/b.log", placed_before_ms=LATER)


@pytest.mark.parametrize("path", ["../b.log", "archive/../../b.log", "/b.log", "archive//b.log", "archive/./b.log", ""])
def test_a_path_that_could_lead_elsewhere_is_refused(tmp_path, path):
    outside = made(tmp_path / "b.log")
    made(tmp_path / "lake/archive/x/b.log")
    with pytest.raises(UsageError):
        deletion.delete_below(str(tmp_path / "lake"), path, placed_before_ms=LATER)
    assert outside.exists()


@pytest.mark.parametrize("linked", ["archive", "archive/log", "archive/log/0"])
def test_a_link_in_the_path_is_never_followed(tmp_path, linked):
    outside = made(tmp_path / "outside/log/0/a.log")
    link = tmp_path / "lake" / linked
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "outside" / Path(linked).relative_to("archive"))
    with pytest.raises(NotADirectoryError):
        deletion.delete_below(str(tmp_path / "lake"), "archive/log/0/a.log", placed_before_ms=LATER)
    assert outside.exists()
    assert link.is_symlink()


def test_a_link_in_the_place_of_a_file_stays_and_is_no_file_of_ours(tmp_path):
    outside = made(tmp_path / "outside")
    link = tmp_path / "archive/log/a.log"
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    os.mkfifo(tmp_path / "archive/log/pipe")
    assert list(deletion.own_files_below(str(tmp_path / "archive"))) == []
    assert not deletion.delete_below(str(tmp_path), "archive/log/a.log", placed_before_ms=LATER)
    assert link.is_symlink()


def test_a_file_that_was_put_there_since_is_anothers(tmp_path):
    path = made(tmp_path / "archive/a.log")
    os.utime(path, (0, 0))
    placed = storage.stat(str(path)).placed_ms
    assert storage.stat(str(path)).modified_ms == 0
    assert not deletion.delete_below(str(tmp_path), "archive/a.log", placed_before_ms=placed - 1)
    assert path.exists()


def test_empty_folders_are_found_innermost_first_and_those_around_a_link_or_a_file_are_not(tmp_path):
    (tmp_path / "archive/a/b/c").mkdir(parents=True)
    (tmp_path / "archive/linked").mkdir()
    (tmp_path / "archive/linked/there").symlink_to(tmp_path, target_is_directory=True)
    made(tmp_path / "archive/full/x")
    found = deletion.empty_folders(str(tmp_path), "archive", unchanged_since_ms=LATER)
    assert found == ["archive/a/b/c", "archive/a/b", "archive/a"]
    assert deletion.empty_folders(str(tmp_path), "archive", unchanged_since_ms=0) == []
    assert deletion.empty_folders(str(tmp_path), "nothing", unchanged_since_ms=LATER) == []
    assert [deletion.remove_folder(str(tmp_path), each) for each in [*found, "archive/full"]] == [True] * 3 + [False]
