"""The archive of Spark's classes: a JVM starts from it, and starts without it where it is damaged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.engine import class_archive
from spark_jobs.engine.jars import delta_jars
from tests.daemons import WAIT_SECONDS

pytestmark = pytest.mark.spark

SESSION = """
from spark_jobs.engine.session import get_session, stop_session
spark = get_session()
options = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
maps = open(f"/proc/{spark.sparkContext._gateway.proc.pid}/maps").read()
print(spark.range(3).count(), any("SharedArchiveFile" in option for option in options), ".jsa" in maps)
stop_session()
"""


@pytest.fixture(scope="module")
def archive() -> Path:
    """The machine's own, made now if there is none."""
    made = class_archive.make()
    if made is None:
        pytest.skip("this Java makes no archive of classes")
    return made


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    for jar in delta_jars():
        shutil.copy2(jar, folder)
    return folder


def session(jars: Path) -> tuple[list[str], str]:
    """The output of a session with these jars: rows, whether its JVM has the archive's option, whether it mapped it."""
    settings = os.environ | {"LOGLAKE_JARS_DIR": str(jars)}
    command = [sys.executable, "-c", SESSION]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


@pytest.mark.long
def test_a_session_starts_from_the_archive_beside_its_jars(jars, archive):
    shutil.copy2(archive, jars)
    assert session(jars) == (["3", "True", "True"], "")


@pytest.mark.long
def test_a_session_starts_without_an_archive(jars):
    assert session(jars)[0][:2] == ["3", "False"]


@pytest.mark.long
def test_an_archive_that_was_cut_is_not_given_to_the_jvm(jars, archive):
    (jars / archive.name).write_bytes(archive.read_bytes()[:9_000_000])
    assert class_archive.find(jars) is None
    assert session(jars)[0][:2] == ["3", "False"]


@pytest.mark.long
@pytest.mark.parametrize("at", [0, 50_000_000])
def test_a_session_starts_quietly_where_the_archive_has_wrong_bytes(jars, archive, at):
    content = bytearray(archive.read_bytes())
    content[at : at + (1 << 20)] = bytes(1 << 20)
    (jars / archive.name).write_bytes(content)
    answers, said = session(jars)
    assert (answers[:2], said) == (["3", "True"], "")


@pytest.mark.long
def test_the_archive_of_another_classpath_is_not_used(jars, archive, tmp_path, monkeypatch):
    shutil.copy2(archive, jars)
    more = tmp_path / "more.jar"
    shutil.copy2(next(iter(delta_jars())), more)
    monkeypatch.setenv("LOGLAKE_SPARK_CONF", json.dumps({"spark.driver.extraClassPath": str(more)}))
    rows, said = session(jars)
    assert rows[0] == "3"
    assert said == ""


def test_it_is_made_once(archive):
    before = archive.stat().st_mtime_ns
    assert class_archive.make() == archive
    assert archive.stat().st_mtime_ns == before
