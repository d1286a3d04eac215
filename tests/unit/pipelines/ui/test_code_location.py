"""The options of the code location as a service, and the calls that are refused at once."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pipelines.ui import code_location


def test_it_listens_on_loopback_unless_another_address_is_named() -> None:
    assert code_location.build_parser().parse_args([]).host == "127.0.0.1"


def test_a_port_that_is_in_use_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_HOME", "")  # restored at the end; the command sets it
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert code_location.main(["--port", str(port)]) == 64
    assert capsys.readouterr().err.startswith(f"error: 127.0.0.1, port {port}, cannot be used: ")


def test_a_home_inside_of_a_lake_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lake.json").write_text('{"layout": 1, "cluster_id": null}')
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_HOME", "")
    assert code_location.main([]) == 64
    assert "lies inside the lake" in capsys.readouterr().err
