"""Copies of uploaded segments: kept during a run, and only where no other user can write."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from spark_jobs.lake.store import local_copies

LAKE = "s3://bucket/archive/lake"
URL = f"{LAKE}/archive/topic.0/0/id/00000000000000000000.log"


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def written(folder: Path, content: bytes = b"a segment") -> str:
    path = folder / "staged"
    path.write_bytes(content)
    return str(path)


def test_a_copy_lives_as_long_as_the_run(scratch: Path) -> None:
    with local_copies.keeping(LAKE):
        local_copies.keep(written(scratch), URL)
        kept = local_copies.kept(URL)
        assert kept is not None
        assert Path(kept).read_bytes() == b"a segment"
        assert local_copies.kept(f"{URL}2") is None
        assert local_copies.kept(URL.replace("lake", "other")) is None
    assert local_copies.kept(URL) is None
    assert [path for path in scratch.rglob("*") if path.is_file()] == []


def test_copies_of_an_earlier_process_with_the_same_id_are_not_used(scratch: Path) -> None:
    with local_copies.keeping(LAKE):
        local_copies.keep(written(scratch), URL)
        local_copies.keep_registered("s3://source/a.log", '"1"', memoryview(b"its bytes"))
        [folder] = scratch.glob("loglake-copies-*/*")
        left = folder.with_name(folder.name.rpartition(".")[0] + ".1")
        folder.rename(left)
        assert left.name.endswith(f"-{os.getpid()}.1")
        assert local_copies.kept(URL) is None
        assert local_copies.kept_registered("s3://source/a.log", '"1"', 1) is None
    with local_copies.keeping("s3://bucket/another"):
        assert not left.exists()


def test_a_task_on_a_cluster_leaves_the_copies_of_other_tasks_on_the_lake(scratch: Path) -> None:
    other = ["sleep", "60"]
    with subprocess.Popen(other) as process:
        with local_copies.keeping(LAKE, is_alone=False):
            [mine] = scratch.glob("loglake-copies-*/*")
            theirs = mine.with_name(mine.name.rpartition("-")[0] + f"-{local_copies._process(process.pid)}")
            theirs.mkdir()
            with local_copies.keeping("s3://bucket/another", is_alone=False):
                assert theirs.exists()
        with local_copies.keeping(LAKE, is_alone=False):
            assert theirs.exists()
        with local_copies.keeping(LAKE):
            assert not theirs.exists()
        process.kill()


def test_without_a_run_and_for_other_files_nothing_is_kept(scratch: Path) -> None:
    staged = written(scratch)
    local_copies.keep(staged, URL)
    assert os.path.exists(staged)
    with local_copies.keeping(LAKE):
        local_copies.keep(staged, f"{LAKE}/tables/records/part-1.parquet")
    assert os.path.exists(staged)


OBJECT = "s3://source/tier/orders/0/00000000000000000000-id.log"


def registered(url: str, etag: str, end: int) -> bytes | None:
    kept = local_copies.kept_registered(url, etag, end)
    return None if kept is None else Path(kept).read_bytes()


@pytest.mark.parametrize("lake", [LAKE, "/lakes/orders"])
def test_registered_bytes_are_kept_for_this_version_and_as_far_as_they_go(lake: str, scratch: Path) -> None:
    local_copies.keep_registered(OBJECT, '"1"', memoryview(b"before a run"))
    assert registered(OBJECT, '"1"', 1) is None
    with local_copies.keeping(lake):
        local_copies.keep_registered(OBJECT, '"1"', memoryview(b"its bytes"))
        assert registered(OBJECT, '"1"', 9) == b"its bytes"
        assert registered(OBJECT, '"1"', 10) is None
        assert registered(OBJECT, '"2"', 9) is None
        assert registered(f"{OBJECT}2", '"1"', 9) is None
    assert registered(OBJECT, '"1"', 9) is None
    assert [path for path in scratch.rglob("*") if path.is_file()] == []


def test_a_worker_uses_registered_bytes_and_another_process_does_not(scratch: Path) -> None:
    look = (
        "from spark_jobs.lake.store import local_copies;"
        f"""print(local_copies.kept_registered({OBJECT!r}, '"1"', 9) is not None)"""
    )
    with local_copies.keeping(LAKE):
        local_copies.keep_registered(OBJECT, '"1"', memoryview(b"its bytes"))
        assert seen_by_worker_and_other(look, scratch) == ["True\n", "False\n"]


def test_a_process_that_is_no_worker_of_the_run_uses_no_copy(scratch: Path) -> None:
    look = f"from spark_jobs.lake.store import local_copies; print(local_copies.kept({URL!r}) is not None)"
    with local_copies.keeping(LAKE):
        local_copies.keep(written(scratch), URL)
        assert seen_by_worker_and_other(look, scratch) == ["True\n", "False\n"]


def seen_by_worker_and_other(code: str, scratch: Path) -> list[str]:
    """What a child of this process prints, and a process whose parent is a shell."""
    worker = [sys.executable, "-c", code]
    other = ["sh", "-c", '"$@" & wait', "sh", *worker]
    environment = os.environ | {"TMPDIR": str(scratch)}
    return [
        subprocess.run(each, capture_output=True, text=True, check=True, env=environment).stdout
        for each in (worker, other)
    ]


def test_a_round_and_a_killed_run_leave_nothing_to_the_next(scratch: Path) -> None:
    with local_copies.keeping(LAKE):
        local_copies.keep(written(scratch), URL)
        local_copies.clear(LAKE)
        assert local_copies.kept(URL) is None
        local_copies.keep(written(scratch), URL)
        with local_copies.keeping(LAKE):  # the lease of the first one is lost
            assert local_copies.kept(URL) is None


def test_copies_of_a_killed_run_are_removed_by_a_run_of_another_lake(scratch: Path) -> None:
    """They may have been encrypted in remote storage, and the killed run's lake may get no run again."""
    killed = (
        "import os; from spark_jobs.lake.store import local_copies as copies;"
        """run = copies.keeping("/lakes/other"); run.__enter__();"""
        f"""copies.keep_registered({OBJECT!r}, "1", memoryview(b"secret"));"""
        "os._exit(9)"
    )
    environment = os.environ | {"TMPDIR": str(scratch)}
    assert subprocess.run([sys.executable, "-c", killed], env=environment, check=False).returncode == 9
    assert b"secret" in [path.read_bytes() for path in scratch.rglob("*") if path.is_file()]
    with local_copies.keeping("/lakes/third"), local_copies.keeping(LAKE):
        assert b"secret" not in [path.read_bytes() for path in scratch.rglob("*") if path.is_file()]
        assert len(list(scratch.glob("loglake-copies-*/*"))) == 2  # that of a living process stays


def test_a_folder_in_which_others_can_write_is_not_used(scratch: Path) -> None:
    with local_copies.keeping(LAKE):
        local_copies.keep(written(scratch), URL)
        kept = local_copies.kept(URL)
        assert kept is not None
        os.chmod(os.path.dirname(kept), 0o777)
        assert local_copies.kept(URL) is None
        staged = written(scratch)
        local_copies.keep(staged, f"{URL}2")
        assert os.path.exists(staged)
        os.chmod(os.path.dirname(kept), 0o700)


def test_room_is_bounded(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_copies, "MOST_BYTES", 3 * 4096)
    with local_copies.keeping(LAKE):
        local_copies.keep(written(scratch), URL)
        local_copies.keep_registered(OBJECT, '"1"', memoryview(bytes(4097)))
        local_copies.keep_registered(OBJECT, '"2"', memoryview(b"1"))
        local_copies.keep(written(scratch), f"{URL}2")
        assert local_copies.kept(URL) is not None
        assert registered(OBJECT, '"1"', 4097) == bytes(4097)
        assert registered(OBJECT, '"2"', 1) is None
        assert local_copies.kept(f"{URL}2") is None
        local_copies.clear(LAKE)
        local_copies.keep_registered(OBJECT, '"2"', memoryview(b"1"))
        assert registered(OBJECT, '"2"', 1) == b"1"
