"""A watched command has a peak of memory of its own process, and its failure is a failure of the measurement."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.bench.totals import Differ
from tests.bench.watched import watched

HOLDS = "import time; held = b'x' * (64 << 20); time.sleep(0.5); print(len(held))"


def test_the_peak_of_the_command_is_reported(tmp_path: Path):
    found = watched([sys.executable, "-c", HOLDS], tmp_path, os.environ)
    assert 64 << 20 <= found.driver < 128 << 20
    assert (found.jvm, found.worker) == (0, 0)
    assert found.stdout == f"{64 << 20}\n"
    assert found.seconds >= 0.5


def test_a_command_that_fails_is_no_measurement(tmp_path: Path):
    with pytest.raises(Differ, match=r"exit code 7: what it said"):
        watched([sys.executable, "-c", "import sys; sys.stderr.write('what it said'); sys.exit(7)"], tmp_path, {})
