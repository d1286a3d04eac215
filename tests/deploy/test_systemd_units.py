"""The units for systemd are right; test_manifests.py checks their commands."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

UNITS = sorted((REPOSITORY / "deploy").glob("*.service"))


def verified(unit: Path, text: str) -> subprocess.CompletedProcess[str]:
    """What systemd says of a unit, with a user and a program that exist here."""
    (command,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    program = command.removeprefix("ExecStart=").split()[0]
    unit.write_text(text.replace(program, sys.executable).replace("User=loglake", "User=root"))
    return subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)


needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed: Debian's package systemd has it"
)


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_nothing_wrong(unit: Path, tmp_path: Path):
    done = verified(tmp_path / unit.name, unit.read_text())
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_a_setting_with_a_typing_error_is_seen(tmp_path: Path):
    text = UNITS[0].read_text()
    assert "NoNewPrivileges=true" in text
    done = verified(tmp_path / UNITS[0].name, text.replace("NoNewPrivileges=", "NoNewPrivilege="))
    assert "NoNewPrivilege" in done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_service_runs_as_its_own_user_and_cannot_write_to_the_source(unit: Path):
    lines = unit.read_text().splitlines()
    assert {
        "User=loglake",
        "NoNewPrivileges=true",
        "ProtectSystem=strict",
        "PrivateTmp=true",
        "ReadOnlyPaths=/var/kafka-logs",
        "EnvironmentFile=-/etc/loglake/environment",
    } < set(lines)
    assert [line for line in lines if line.startswith("ReadWritePaths=")] == ["ReadWritePaths=/srv/loglake"]


def test_there_is_one_for_the_pages_and_one_for_a_watch():
    assert [unit.name for unit in UNITS] == ["loglake-ui.service", "loglake-watch.service"]
