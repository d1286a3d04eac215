"""The plain wheel with the lowest versions that its requirements allow: it says what the locked versions say."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.repository import wheels
from tests.repository.wheels import Environment

pytestmark = pytest.mark.long

NEWEST_IS_NOT_NEEDED = ("numpy", "numba", "pyarrow")
SAMPLES = ("codecs-v2-4.3.1", "damaged", "transactions-4.4.0")


def uv(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("uv")), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def lowest(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel with what a resolver finds that prefers old versions of what we name."""
    root = tmp_path_factory.mktemp("lowest")
    wheel = wheels.built(root)
    venv.create(root / "venv", symlinks=True)
    made = Environment(root / "venv")
    done = uv("pip", "install", "-q", "--resolution", "lowest-direct", "--python", made.python, wheel)
    if done.returncode != 0 and ("error sending request" in done.stderr or "dns error" in done.stderr):
        pytest.skip("no package registry can be reached from here")
    assert done.returncode == 0, done.stderr
    return made


def versions(python: Path | str) -> dict[str, str]:
    lines = uv("pip", "list", "--python", python, "--format", "freeze").stdout.splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def test_floors_are_below_the_versions_of_the_lock(lowest: Environment) -> None:
    old, locked = versions(lowest.python), versions(sys.executable)
    assert [name for name in NEWEST_IS_NOT_NEEDED if old[name] == locked[name]] == []


@pytest.mark.parametrize("engine", ["kernels", "reference"])
def test_commands_print_what_they_print_with_the_locked_versions(
    lowest: Environment, sample, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGLAKE_ENGINE", engine)
    ours = str(Path(sys.executable).with_name("loglake"))
    for name in SAMPLES:
        logdir = sample(name).logdir
        for command in (("verify",), ("ledger",), ("dump", "--format", "jsonl"), ("transactions",)):
            here = subprocess.run([ours, *command, logdir], capture_output=True, text=True, env=os.environ, check=False)
            there = lowest.loglake(*command, logdir)
            assert (there.returncode, there.stdout) == (here.returncode, here.stdout), (name, command)
            assert here.stdout


def test_compaction_writes_the_same_bytes(lowest: Environment, sample, tmp_path: Path) -> None:
    ours = str(Path(sys.executable).with_name("loglake"))
    source = sample("codecs-v2-4.3.1").logdir / "codec-lz4-0"
    options = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")
    subprocess.run([ours, "compact", source, "--out", tmp_path / "here" / "codec-lz4-0", *options], check=True)
    done = lowest.loglake("compact", source, "--out", tmp_path / "there" / "codec-lz4-0", *options)
    assert done.returncode == 0, done.stderr
    here = {path.name: path.read_bytes() for path in (tmp_path / "here" / "codec-lz4-0").iterdir()}
    assert here == {path.name: path.read_bytes() for path in (tmp_path / "there" / "codec-lz4-0").iterdir()}
    assert len(here) > 2
