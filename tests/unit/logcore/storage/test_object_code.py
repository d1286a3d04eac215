"""Compiled code kept between processes: made once, never run if it is not what was written, and never needed."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import sys
import time
from pathlib import Path

import pytest

from logcore.storage.machine.object_code import cached_object_code, find_object_code

CODE = b"\x7fELF and so on" * 100


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the code is kept in."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "kernels"


def refused() -> bytes:
    raise AssertionError("made although it is there")


def test_code_is_made_once_and_found_afterwards(home: Path) -> None:
    assert cached_object_code("x-1", lambda: CODE) == CODE
    assert cached_object_code("x-1", refused) == CODE
    assert (home / "x-1").read_bytes() == hashlib.sha256(CODE).digest() + CODE


def test_what_is_not_there_is_not_found(home: Path) -> None:
    assert find_object_code("x-1") is None
    cached_object_code("x-1", lambda: CODE)
    assert find_object_code("x-1") == CODE
    (home / "x-1").write_bytes(b"torn")
    assert find_object_code("x-1") is None


def test_each_name_has_its_own_code(home: Path) -> None:
    assert cached_object_code("x-1", lambda: b"one") == b"one"
    assert cached_object_code("x-2", lambda: b"two") == b"two"
    assert cached_object_code("x-1", refused) == b"one"


def test_no_unfinished_file_remains(home: Path) -> None:
    cached_object_code("x-1", lambda: CODE)
    assert sorted(path.name for path in home.iterdir()) == ["x-1", "x-1.lock"]


def _slowly(folder: str, started: float) -> None:
    """In a process of its own: request the code. To make it takes a while, and each time is counted."""
    os.environ["LOGLAKE_HOME"] = folder

    def make() -> bytes:
        with Path(folder, "made").open("a") as stream:
            stream.write(f"{os.getpid()}\n")
        time.sleep(1.5)
        return CODE

    if cached_object_code("x-1", make) != CODE:
        sys.exit(1)


@pytest.mark.slow
def test_of_processes_that_ask_at_once_one_makes_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_slowly, args=(str(tmp_path), time.time())) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert len((tmp_path / "made").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 31,
        hashlib.sha256(CODE).digest(),
        hashlib.sha256(CODE).digest() + CODE[:-1],
        hashlib.sha256(CODE).digest() + CODE + b"\0",
        b"\0" * 32 + CODE,
        b"#!/bin/sh\n" * 50,
    ],
    ids=["empty", "short", "no code", "torn", "longer", "wrong digest", "foreign"],
)
def test_a_torn_or_foreign_file_is_replaced(home: Path, content: bytes) -> None:
    home.mkdir(parents=True)
    (home / "x-1").write_bytes(content)
    assert cached_object_code("x-1", lambda: CODE) == CODE
    assert cached_object_code("x-1", refused) == CODE


def test_where_nothing_can_be_written_it_is_made_and_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "file"))
    made = []

    def make() -> bytes:
        made.append(1)
        return CODE

    assert cached_object_code("x-1", make) == CODE
    assert cached_object_code("x-1", make) == CODE
    assert len(made) == 2


def test_code_is_read_from_a_read_only_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached_object_code("x-1", lambda: CODE)
    (home / "x-1.lock").unlink()
    home.chmod(0o500)
    try:
        assert cached_object_code("x-1", refused) == CODE
    finally:
        home.chmod(0o700)


def test_what_fails_while_it_is_made_reaches_the_caller_and_keeps_nothing(home: Path) -> None:
    def fails() -> bytes:
        raise ValueError("no compiler")

    with pytest.raises(ValueError, match="no compiler"):
        cached_object_code("x-1", fails)
    assert not (home / "x-1").exists()
    assert cached_object_code("x-1", lambda: CODE) == CODE


def test_without_a_home_it_is_kept_in_the_environment_or_among_the_users_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOGLAKE_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    cached_object_code("x-1", lambda: CODE)
    environment = tmp_path / "environment" / "share" / "loglake" / "kernels"
    assert (environment / "x-1").exists()
    # Where the nearer folder cannot be written, the farther one is used.
    (environment / "x-3.lock").mkdir()
    cached_object_code("x-3", lambda: CODE)
    assert (tmp_path / "caches" / "loglake" / "kernels" / "x-3").exists()
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert cached_object_code("x-3", refused) == CODE


def test_nothing_is_taken_from_the_working_directory(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached_object_code("x-1", lambda: b"planted")
    planted = tmp_path / "dump" / ".loglake" / "kernels"
    planted.mkdir(parents=True)
    (planted / "x-1").write_bytes((home / "x-1").read_bytes())
    monkeypatch.chdir(tmp_path / "dump")
    monkeypatch.delenv("LOGLAKE_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert cached_object_code("x-1", lambda: CODE) == CODE


def test_a_file_that_others_may_write_is_replaced(home: Path) -> None:
    cached_object_code("x-1", lambda: b"anyone's")
    (home / "x-1").chmod(0o666)
    assert cached_object_code("x-1", lambda: CODE) == CODE


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path, home: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("kept")
    home.mkdir(parents=True, exist_ok=True)
    (home / "x-1.lock").symlink_to(target)
    (home / "x-2.lock").symlink_to(tmp_path / "nowhere")
    assert cached_object_code("x-1", lambda: CODE) == CODE
    assert cached_object_code("x-2", lambda: CODE) == CODE
    assert target.read_text() == "kept"
    assert not (tmp_path / "nowhere").exists()


def test_a_lock_that_is_there_is_not_emptied(home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "x-1.lock").write_text("kept")
    assert cached_object_code("x-1", lambda: CODE) == CODE
    assert (home / "x-1.lock").read_text() == "kept"


def test_a_lock_that_is_a_pipe_is_not_waited_for(home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    os.mkfifo(home / "x-1.lock")
    assert cached_object_code("x-1", lambda: CODE) == CODE


def test_a_link_in_the_place_of_what_is_being_written_is_not_followed(tmp_path: Path, home: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("kept")
    home.mkdir(parents=True, exist_ok=True)
    (home / f"x-1.{os.getpid()}.tmp").symlink_to(target)
    assert cached_object_code("x-1", lambda: CODE) == CODE
    assert target.read_text() == "kept"
    assert not (home / "x-1").is_symlink()
