"""The start of the processes of the pages, where one of them does not do its part."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from logcore.cli.main import main
from pipelines.ui import services
from tests.pages import free_port


def test_a_code_server_that_never_listens_is_given_up_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sleeping = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LOGLAKE_UI_ADDRESS", "")  # restored at the end; the command sets it
    monkeypatch.setattr(services, "set_dagster_home", lambda: None)
    monkeypatch.setattr(services, "start_code_server", lambda *_: services.Service("code server", sleeping))
    monkeypatch.setattr(services, "START_SECONDS", 0.5)

    assert main(["ui", "--port", str(free_port())]) == 3

    assert "did not answer" in capsys.readouterr().err
    assert sleeping.returncode is not None
