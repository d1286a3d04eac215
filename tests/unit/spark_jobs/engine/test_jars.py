"""Where the Delta jars come from, and that no other jar is ever handed to Spark."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from spark_jobs.engine import jars
from spark_jobs.engine.jars import LockedJar, delta_jars
from spark_jobs.engine.jars import locked_jars as locked_jars_of_the_repository
from spark_jobs.errors import JobError

CONTENT = {"one-1.jar": b"the first", "two_2.13-2.jar": b"the second"}
LOCK = (
    LockedJar("g:one:1", hashlib.sha256(b"the first").hexdigest()),
    LockedJar("g.h:two_2.13:2", hashlib.sha256(b"the second").hexdigest()),
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LOGLAKE_JARS_DIR", raising=False)
    monkeypatch.setattr(jars, "locked_jars", lambda: LOCK)
    return tmp_path / "home"


def fill(folder: Path, **changed: bytes) -> Path:
    folder.mkdir(parents=True)
    for name, content in CONTENT.items():
        (folder / name).write_bytes(changed.get(name.partition("-")[0], content))
    return folder


def forbid_fetching(monkeypatch) -> None:
    def fetch(folder):
        raise AssertionError("fetched although it need not be")

    monkeypatch.setattr(jars, "_fetch", fetch)


def test_the_lock_names_the_two_jars_of_the_pinned_delta():
    assert [jar.coordinate for jar in locked_jars_of_the_repository()] == [
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
    ]
    assert [jar.file_name for jar in locked_jars_of_the_repository()] == [
        "delta-spark_4.2_2.13-4.4.0.jar",
        "delta-storage-4.4.0.jar",
    ]


def test_a_folder_that_was_named_comes_first(tmp_path, home, monkeypatch):
    forbid_fetching(monkeypatch)
    fill(home / "jars")
    named = fill(tmp_path / "named")
    monkeypatch.setenv("LOGLAKE_JARS_DIR", str(named))
    assert delta_jars() == (named / "one-1.jar", named / "two_2.13-2.jar")


def test_what_was_fetched_before_is_not_fetched_again(home, monkeypatch):
    forbid_fetching(monkeypatch)
    folder = fill(home / "jars")
    assert delta_jars() == tuple(folder / name for name in CONTENT)


def test_an_incomplete_folder_is_fetched(home, monkeypatch):
    fill(home / "jars")
    (home / "jars" / "one-1.jar").unlink()
    monkeypatch.setattr(jars, "_fetch", lambda folder: (folder / "one-1.jar").write_bytes(b"the first"))
    assert [path.name for path in delta_jars()] == list(CONTENT)


def test_a_jar_that_is_not_the_locked_one_is_refused_by_name(home):
    fill(home / "jars", one=b"something else")
    with pytest.raises(JobError, match=r"one-1\.jar is not the jar.*g:one:1.*Delete the file"):
        delta_jars()


def test_a_named_folder_without_a_jar_is_refused_and_not_filled(tmp_path, monkeypatch):
    forbid_fetching(monkeypatch)
    named = fill(tmp_path / "named")
    (named / "two_2.13-2.jar").unlink()
    monkeypatch.setenv("LOGLAKE_JARS_DIR", str(named))
    with pytest.raises(JobError, match=r"two_2\.13-2\.jar is missing.*g\.h:two_2\.13:2"):
        delta_jars()
