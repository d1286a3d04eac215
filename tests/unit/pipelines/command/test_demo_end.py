"""What `loglake demo` says at its end, without a run of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.command.demo import how_to_call


def test_the_demo_says_how_to_paste_advice_if_the_shell_does_not_find_loglake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "loglake").write_text("#!/bin/sh\n")
    (scripts / "loglake").chmod(0o755)
    monkeypatch.setenv("PATH", "/usr/bin")
    said = how_to_call(f"{scripts}/python")
    assert f"In this shell that is {scripts}/loglake, or first: source {scripts}/activate" in said
    monkeypatch.setenv("PATH", f"/usr/bin:{scripts}")
    assert how_to_call(f"{scripts}/python") == ""
