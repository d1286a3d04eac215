"""The unit for systemd is right, and names a command and options that exist."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests.conftest import REPOSITORY

UNIT = REPOSITORY / "deploy" / "loglake-watch.service"


def command() -> list[str]:
    (line,) = [line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart=")]
    return line.removeprefix("ExecStart=").split()


def test_its_command_is_one_of_ours(capsys):
    program, *arguments = command()
    assert program.endswith("/loglake")
    assert arguments[0] == "watch"
    assert main([*arguments, "--help"]) == 0
    assert "usage: loglake watch" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong(tmp_path: Path):
    """With a user and a program that exist here."""
    there = UNIT.read_text().replace(command()[0], sys.executable).replace("User=loglake", "User=root")
    unit = tmp_path / UNIT.name
    unit.write_text(there)
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
