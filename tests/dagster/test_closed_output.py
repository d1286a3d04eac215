"""``loglake run`` with an output that is closed early."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import handmade
from tests.broker_directory import LogDirectory

pytestmark = [pytest.mark.dagster, pytest.mark.long]


@pytest.mark.parametrize(("is_damaged", "code"), [(False, 0), (True, 2)])
def test_a_closed_pipe_keeps_the_exit_code_of_the_run(tmp_path: Path, is_damaged: bool, code: int) -> None:
    source = LogDirectory(tmp_path / "logs")
    source.partition("orders-0").append(4)
    source.high_watermarks(orders_0=4)
    if is_damaged:
        (file,) = source.path.rglob("*.log")
        file.write_bytes(handmade.flip(file.read_bytes(), 70))
    called = [sys.executable, "-m", "logcore.cli.main", "run", source.path, "--lake", tmp_path / "lake"]
    environment = os.environ | {"LOGLAKE_HOME": str(tmp_path / "home")}
    environment.pop("DAGSTER_HOME", None)
    with subprocess.Popen(
        list(map(str, called)), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # the command begins to print later
        said = process.stderr.read()
    assert process.returncode == code, said
    assert "pipe" not in said.lower()
