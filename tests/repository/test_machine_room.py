"""The targets of `make` and the definitions of Dagster in this repository do what their descriptions say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.daemons import WAIT_SECONDS


def run_setup(python: Path) -> subprocess.CompletedProcess[str]:
    """`deploy/setup.sh` with another Python; it stops before it touches anything."""
    return subprocess.run(
        [REPOSITORY / "deploy" / "setup.sh"],
        env=os.environ | {"PYTHON": str(python)},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


def test_setup_names_the_python_that_is_too_old(tmp_path):
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\nif [ "$1" = -V ]; then echo Python 3.10.12; else exit 1; fi\n')
    old.chmod(0o755)
    done = run_setup(old)
    assert done.returncode == 3
    assert "is Python 3.10.12; Loglake needs 3.11 or later" in done.stderr


def test_setup_says_when_there_is_no_python(tmp_path):
    done = run_setup(tmp_path / "python3")
    assert done.returncode == 3
    assert "there is no" in done.stderr
    assert "3.11 or later" in done.stderr


def test_continuous_integration_runs_the_one_command():
    lines = (REPOSITORY / ".ci" / "run").read_text().splitlines()
    assert [line for line in lines if line.startswith("make")] == ["make test"]
    assert os.access(REPOSITORY / ".ci" / "run", os.X_OK)


def commands_of(target: str) -> str:
    """The lines of a target of the Makefile."""
    makefile = (REPOSITORY / "Makefile").read_text()
    return re.split(r"\n(?=\S)", makefile.split(f"\n{target}: ", 1)[1])[0]


def test_slow_tests_are_left_out_of_make_quick_alone():
    assert '-m "not slow"' in commands_of("quick")
    everything = commands_of("test")
    assert "pytest" in everything
    assert '-m "' not in everything


@pytest.mark.dagster
def test_the_workspace_loads_from_any_directory(tmp_path):
    command = [
        str(Path(sys.executable).with_name("dagster")),
        "definitions",
        "validate",
        "-w",
        REPOSITORY / "workspace.yaml",
    ]
    settings = os.environ | {"DAGSTER_HOME": str(tmp_path), "LOGLAKE_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        command, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Validation successful for code location loglake" in done.stderr + done.stdout


@pytest.mark.dagster
def test_the_instance_settings_are_ones_that_dagster_takes(tmp_path, monkeypatch):
    import dagster as dg

    (tmp_path / "dagster.yaml").write_text((REPOSITORY / "deploy" / "dagster.yaml").read_text())
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert instance.telemetry_enabled is False
        assert instance.nux_enabled is False
        assert instance.run_monitoring_enabled
        assert instance.run_monitoring_settings["free_slots_after_run_end_seconds"] == 60
        assert instance.get_concurrency_config().pool_config.default_pool_limit == 1
