"""Files of a log: what `verify` says about each kind of harm is a command that mends a copy of the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.advice.advised_lake import (
    OF_LOGS,
    Captured,
    log_of_segments,
    pasted,
    said,
)


@pytest.mark.parametrize("rule", OF_LOGS)
def test_what_verify_says_about_files_of_a_log_mends_a_copy_of_it(
    rule: str, tmp_path: Path, here: Path, capsys: Captured
) -> None:
    harm, command = OF_LOGS[rule]
    log = log_of_segments(tmp_path / "logs").path
    harm(log)
    before = {path.name: path.read_bytes() for path in log.iterdir()}
    _, printed = said(capsys, "verify", log)
    assert f" {rule}: " in printed
    pasted(capsys, printed, f"loglake {command} ", str(log))
    [copy] = filter(Path.is_dir, (here / "new").iterdir())
    _, after = said(capsys, "verify", copy)
    assert rule not in after
    assert ("no-high-watermark" in after) == (command != "recover")
    assert "not checked" not in after
    assert {path.name: path.read_bytes() for path in log.iterdir()} == before
