"""A watch of a growing source, killed again and again at any moment, loses nothing and doubles nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.broker_directory import LogDirectory
from tests.crash import visible
from tests.crash.sampling import EVERY_KILL
from tests.daemons import WAIT_SECONDS
from tests.sampling import chance

FAST = ("--interval", "0.05")
KILLS = 50 if EVERY_KILL else 4


def start(source: LogDirectory, tmp_path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "logcore.cli.main", "watch", str(source.path), "--lake", f"{tmp_path}/lake", *FAST],
        env=os.environ | {"LOGLAKE_HOME": str(tmp_path / "home"), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def offsets(tmp_path: Path) -> list[int]:
    return sorted(row["offset"] for row in visible.rows(tmp_path / "lake", "records"))


@pytest.mark.long
def test_a_watch_that_is_killed_again_and_again_loses_and_doubles_nothing(tmp_path):
    source = LogDirectory(tmp_path / "kafka-logs")
    orders = source.partition("orders-0")
    random = chance("watch")
    for kill in range(KILLS):
        process = start(source, tmp_path)
        end = time.monotonic() + random.uniform(0.5, 4.0)
        while time.monotonic() < end:
            orders.append(5)
            if random.random() < 0.1:
                orders.roll()
            source.high_watermarks(orders_0=orders.next_offset)
            time.sleep(0.1)
        process.kill()
        process.communicate(timeout=WAIT_SECONDS)
        visible.check(tmp_path / "lake")
        published = offsets(tmp_path)
        assert published == list(range(len(published))), f"after kill {kill + 1}"
    process = start(source, tmp_path)
    deadline = time.monotonic() + 60
    while len(offsets(tmp_path)) < orders.next_offset and time.monotonic() < deadline:
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, err) == (0, ""), err
    assert "published" in out
    assert offsets(tmp_path) == list(range(orders.next_offset))
