"""A log whose leader epochs begin above its stated log start: whether its checkpoint lost the line, or has none yet."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.storage.discovery import discover
from tests.broker_directory import LogDirectory

NOW = 1_700_000_000


def cut_log(path: Path) -> LogDirectory:
    """`orders-0` of 30 records. deleteRecords cut its leader epochs at offset 17."""
    source = LogDirectory(path)
    log = source.partition("orders-0")
    log.append(30)
    log.epochs([(0, 17)])
    os.utime(log.path / "leader-epoch-checkpoint", (NOW, NOW))
    source.high_watermarks(orders_0=30)
    return source


def checkpoint(source: LogDirectory, name: str, after_s: int, **offsets: int) -> None:
    source.checkpoint(name, **offsets)
    os.utime(source.path / f"{name}-offset-checkpoint", (NOW + after_s, NOW + after_s))


@pytest.mark.parametrize("case", ["an older file", "an empty file", "a first minute", "an older broker's state"])
def test_a_log_start_that_its_broker_has_not_yet_written_is_no_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    """The broker cuts the epochs at once and writes the log start once a minute."""
    source = cut_log(tmp_path / "logs")
    if case == "an older file":
        checkpoint(source, "log-start", -40, orders_0=5)
        checkpoint(source, "recovery-point", 20, orders_0=30)
    elif case == "an empty file":
        (source.path / "log-start-offset-checkpoint").touch()
        os.utime(source.path / "log-start-offset-checkpoint", (NOW - 40, NOW - 40))
        checkpoint(source, "recovery-point", 20, orders_0=30)
    elif case == "an older broker's state":
        checkpoint(source, "recovery-point", -40, orders_0=30)
    assert [log.lost_start for log in discover([str(source.path)]).logs] == [None]
    for command in ("ls", "verify"):
        assert main([command, str(source.path)]) == 0
        printed = capsys.readouterr()
        assert "warning" not in printed.err


@pytest.mark.parametrize("case", ["a lost line", "a lower line", "a lost file"])
def test_a_log_start_that_a_later_checkpoint_does_not_state_is_lost(tmp_path: Path, case: str) -> None:
    source = cut_log(tmp_path / "logs")
    checkpoint(source, "recovery-point", 20, orders_0=30)
    if case != "a lost file":
        checkpoint(source, "log-start", 20, **({"orders_0": 5} if case == "a lower line" else {"payments_0": 5}))
    assert [log.lost_start for log in discover([str(source.path)]).logs] == [17]
