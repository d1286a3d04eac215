"""A message names what is wrong, not what stumbled over it."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from logcore.storage.objects.answers import said
from spark_jobs.engine import java
from spark_jobs.errors import JobError
from tests.broker_directory import LogDirectory
from tests.daemons import WAIT_SECONDS

pytestmark = [pytest.mark.dagster, pytest.mark.usefixtures("signals_act")]


@pytest.fixture
def source(tmp_path: Path) -> LogDirectory:
    made = LogDirectory(tmp_path / "kafka-logs")
    made.partition("orders-0").append(3)
    return made


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A folder on a small disk of its own that has no room left."""
    folder = tmp_path / "full"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], check=False).returncode:
        pytest.skip("no right to mount a small disk")
    try:
        with (folder / "filler").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(512))
            except OSError:
                pass
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def start(source: LogDirectory, tmp_path: Path, **environment: str) -> subprocess.Popen[str]:
    given = os.environ | {"LOGLAKE_HOME": str(tmp_path / "home"), "DAGSTER_HOME": str(tmp_path / "history")}
    command = [sys.executable, "-m", "logcore.cli.main", "run", str(source.path), "--lake", str(tmp_path / "lake")]
    return subprocess.Popen(command, env=given | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(source: LogDirectory, tmp_path: Path, **environment: str) -> tuple[int, str]:
    process = start(source, tmp_path, **environment)
    err = process.communicate(timeout=WAIT_SECONDS)[1]
    return process.returncode, err


def test_a_full_home_of_dagster_is_named(source, tmp_path, full):
    code, err = run(source, tmp_path, DAGSTER_HOME=str(full))
    assert code == 3
    assert str(full) in err
    assert "DAGSTER_HOME" in err
    assert "mistake in Loglake" not in err
    assert "deploy" not in err


@pytest.mark.long
def test_a_home_of_dagster_that_becomes_full_is_named(source, tmp_path, full):
    """The settings fit, the history does not."""
    (full / "filler").write_bytes(bytes(24 << 10))
    code, err = run(source, tmp_path, DAGSTER_HOME=str(full))
    assert code == 3
    assert str(full) in err
    assert "DAGSTER_HOME" in err
    assert "mistake in Loglake" not in err


def test_a_full_home_of_loglake_is_named_and_the_lake_is_not_blamed(source, tmp_path, full):
    folder = full / "home"
    code, err = run(source, tmp_path, LOGLAKE_HOME=str(folder))
    assert code == 3
    assert str(folder) in err
    assert "LOGLAKE_HOME" in err
    assert "in the lake" not in err


@pytest.mark.long
@pytest.mark.spark
def test_an_interrupt_ends_with_130_and_says_what_to_type(source, tmp_path):
    process = start(source, tmp_path, LOGLAKE_JOB_ENGINE="spark")
    # Its first commit: the run is in its middle. On a busy machine Dagster's history may open after Spark's last job.
    commits = tmp_path / "lake" / "tables" / "segments" / "_delta_log"
    assert until(lambda: list(commits.glob("*.json")), within_s=120)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, out) == (130, "")
    assert "interrupted" in err
    assert "same command again" in err
    assert "Traceback" not in err


def jvms_of(folder: Path) -> list[int]:
    """Process ids of the JVMs that Spark started and that have a path of this folder on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdecimal() else b""
        except OSError:  # it has ended
            continue
        if b"SparkSubmit" in command and os.fsencode(folder) in command:
            found.append(int(entry.name))
    return found


@pytest.fixture
def jvms(tmp_path: Path) -> Iterator[Callable[[], list[int]]]:
    yield lambda: jvms_of(tmp_path)
    for process_id in jvms_of(tmp_path):
        os.kill(process_id, signal.SIGKILL)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("delay_s", [0.0, 0.4])
def test_an_interrupt_while_spark_starts_leaves_no_jvm(source, tmp_path, jvms, delay_s):
    process = start(source, tmp_path, LOGLAKE_JOB_ENGINE="spark")
    assert until(jvms, within_s=120)
    time.sleep(delay_s)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=WAIT_SECONDS)[1]
    assert process.returncode == 130
    assert "same command again" in err
    assert until(lambda: not jvms(), within_s=30)


def until(holds: Callable[[], object], *, within_s: float) -> bool:
    """Whether something became true in time."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.skipif(shutil.which("java") is None, reason="needs a Java of this machine")
@pytest.mark.parametrize("limit", [1 << 29, 1 << 30, 2 << 30])
def test_java_that_lacks_memory_is_not_taken_for_missing(monkeypatch, limit):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    real = subprocess.run

    def limited(*args, **kwargs):
        return real(*args, **kwargs, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))

    monkeypatch.setattr(java.subprocess, "run", limited)
    with pytest.raises(JobError, match="not given enough memory") as raised:
        java.find_java()
    assert "ulimit -v" in str(raised.value)
    assert "found none" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "Kernel error: bad\nstack backtrace:\n   0: std::backtrace\n   1: main",
        "bad thing\x1b[31m happened\x1b[0m\n  0: deltalake::open\n             at src/x.rs:1",
        "bad <?xml version='1.0'?><Error/>",
        "bad\n\nDebug source:\nGeneric { store: S3 }",
    ],
)
def test_a_native_stack_is_left_out_of_a_message(text):
    line = said(ValueError(text))
    assert "bad" in line
    assert "\n" not in line
    assert not any(trace in line for trace in ("::", "backtrace", "\x1b", "<?xml", "Generic {"))
